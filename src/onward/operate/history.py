"""The history of decisions: its entries, and whether they are what was written."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from onward.codec import loads
from onward.errors import UsageError
from onward.operate.questions import Subject, choose_instance, moment
from onward.ports.desk import Desk
from onward.ports.facts import LogEntry, Verified


def log(desk: Desk, subject: Subject, since: float | None, payloads: bool = False) -> Iterator[dict[str, Any]]:
    """Every decision about an instance and its reason, oldest first; `since` in UTC seconds.

    An entry that tells of an effect has its idempotency key; with `payloads` an intent has what it is to send.
    """
    return (_entry(subject, one, payloads) for one in desk.log(subject.number, since, payloads))


def _entry(subject: Subject, one: LogEntry, payloads: bool) -> dict[str, Any]:
    detail = _plain(one.detail)
    said = {
        "event": one.event,
        "time": moment(one.at),
        "job": subject.job,
        "instance": subject.instance,
        "run": None if one.run is None else str(one.run),
        "seq": one.seq,
        "key": _plain(one.key),
        "step": one.step,
        "idempotency_key": detail.get("idempotency_key") if isinstance(detail, dict) else None,
        "reason": one.reason,
        "actor": one.actor,
        "detail": detail,
        "hash": one.hash,
    }
    return said | {"payload": _plain(one.payload)} if payloads else said


def _plain(text: str | None) -> Any:
    """What JSON text says; the text itself where somebody has edited it to be none."""
    try:
        return None if text is None else loads(text)
    except ValueError:
        return text


def verify(desk: Desk, job: str | None, instance: str | None, expected: str | None) -> dict[str, Any]:
    """Recompute the chains of an instance, of all of a job, or (without a job) of the whole store.

    `fits`, how many `chains` and `entries`, `heads` to be noted (the newest run's, and, of a single instance, without a
    run, that of what people decided), and `misfit`: the first entry that does not fit, its time and event None where it
    is missing.
    """
    numbers = None
    if job is not None:
        known = desk.instances(job)
        one = choose_instance(desk, job, instance) if instance is not None or not known else None
        numbers = [one.number] if one is not None else [each.number for each in known]
    found = desk.verify(numbers, expected)
    return {
        "fits": found.misfit is None,
        "chains": found.chains,
        "entries": found.entries,
        "heads": [{"run": None if run is None else str(run), "hash": head} for run, head in found.heads],
        "misfit": _misfit(desk, found),
    }


def _misfit(desk: Desk, found: Verified) -> dict[str, Any] | None:
    misfit = found.misfit
    if misfit is None:
        return None
    names = {one.number: (job, one.name) for job in desk.jobs() for one in desk.instances(job)}
    job, instance = names.get(misfit.instance, (None, None)) if misfit.instance is not None else (None, None)
    return {
        "job": job,
        "instance": instance,
        "run": None if misfit.run is None else str(misfit.run),
        "seq": misfit.seq,
        "time": moment(misfit.at),
        "event": misfit.event,
        "why": misfit.why,
    }


def since_moment(given: str, now: float, seconds: float | None) -> float:
    """UTC seconds of an ISO time (UTC unless it says otherwise), or of a span of `seconds` before now."""
    if seconds is not None:
        return now - seconds
    try:
        told = datetime.fromisoformat(given.strip())
    except ValueError:
        raise UsageError(f"{given!r} is neither a time (2026-11-30, 2026-11-30T09:00Z) nor a span (2h, 30m)") from None
    return (told if told.tzinfo is not None else told.replace(tzinfo=UTC)).timestamp()
