"""Questions about an instance: thin over `ports.desk.Desk`, they give its answers words and shapes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import Any

from onward.codec import loads
from onward.engine.spending.bill import cost
from onward.errors import UsageError
from onward.model import Kind, Result, State
from onward.operate.costs import spent, time_to_finish, to_finish, to_go
from onward.policy.versions import ResultVersions, first_stale
from onward.ports.desk import Desk, ExportWish
from onward.ports.facts import EntryFacts, GenerationFacts, InFlight, InstanceFacts, RecordFacts, RunFacts, Waiting
from onward.ports.moving import Closed
from onward.ports.sink import ExportRow
from onward.ports.work import Pause

FAILED_STATES = (State.FAILED, State.QUARANTINED, State.UNCONFIRMED)
VANISHED = "vanished"
OLD = 30.0
"""Seconds after which what a run said of its rate is not true any more."""


@dataclass(frozen=True, slots=True)
class Subject:
    """One instance of a job. `today`: versions by step, in step order, of the job as it is now. `asks`: the steps that
    ask models, and whether the prices of these are known (True where the job is not at hand). `effects`: the ledger
    names of today's effects by step (none where the job is not at hand)."""

    job: str
    instance: str
    number: int
    today: Mapping[str, str]
    asks: Mapping[str, bool] = field(default_factory=dict)
    effects: Mapping[str, str] = field(default_factory=dict)


def about(subject: Subject) -> str:
    """The job and its instance, as people are told."""
    return f"job {subject.job}" + (f", instance {subject.instance}" if subject.instance else "")


def choose_instance(desk: Desk, job: str, named: str | None) -> InstanceFacts:
    """The instance called `named`, or the only one there is. Raises UsageError that lists the choices."""
    found = desk.instances(job)
    if not found:
        jobs = ", ".join(desk.jobs()) or "none"
        raise UsageError(f"{desk.store} knows no job '{job}' yet (jobs there: {jobs}); run it first, or check --store")
    if named is None and len(found) == 1:
        return found[0]
    listed = ", ".join(repr(one.name) for one in found)
    if named is None:
        raise UsageError(f"job '{job}' has several instances: {listed}; say which with --instance or its params")
    for one in found:
        if one.name == named:
            return one
    raise UsageError(f"job '{job}' has no instance {named!r} (there are: {listed})")


def instances(desk: Desk, job: str) -> list[dict[str, Any]]:
    """A job's instances, oldest first: name, counts, last run."""
    return [
        {
            "instance": one.name,
            "total": one.counts.total,
            "source_complete": one.counts.source_complete,
            "counts": {str(state): one.counts.of(state) for state in State},
            "vanished": one.counts.vanished,
            "last_run": None if one.last_run is None else _run(one.last_run),
        }
        for one in desk.instances(job)
    ]


def status(desk: Desk, subject: Subject) -> dict[str, Any]:
    """How an instance stands, as the contract has it."""
    standing = desk.standing(subject.number, subject.today)
    counts, results = standing.counts, ResultVersions(standing.results)
    again = not any(run.alive for run in standing.runs)
    bill = desk.bill(subject.number, list(subject.today), again)
    left = to_go(counts, again)
    return {
        "job": subject.job,
        "instance": subject.instance,
        "store": desk.store,
        "moved": _moved(desk, subject),
        "total": counts.total,
        "source_complete": counts.source_complete,
        "counts": {str(state): counts.of(state) for state in State},
        "waiting": [_waiting(one) for one in standing.waiting],
        "vanished": counts.vanished,
        "vanished_open": counts.vanished_open,
        "stale": results.stale(subject.today),
        "older_versions": results.older(subject.today),
        "unfinished_older": standing.older.records,
        "unfinished_older_versions": {step: dict(versions) for step, versions in standing.older.steps.items()},
        "unfinished_removed": dict(standing.older.removed),
        "unfinished_passed_over": dict(standing.older.passed_over),
        "skipped": counts.skipped,
        "cost": {**cost(counts.spent.values()), "to_finish": to_finish(bill, counts, subject.today, subject.asks)},
        "time_to_finish": time_to_finish(desk.pace(subject.number), left, counts.source_complete),
        "models": [spent(one) for one in counts.spent.values()],
        "steps": [
            {"name": step, "version": version, "succeeded": counts.steps.get(step, 0)}
            for step, version in subject.today.items()
        ],
        "failures": [
            {"step": step, "kind": kind, "count": number} for (step, kind), number in counts.failures.items() if number
        ],
        "paused": [_pause(one) for one in desk.pauses(subject.number)],
        "concurrency": standing.concurrency,
        "runs": [_run(one, standing.now) for one in standing.runs],
        "in_flight": [_in_flight(one, subject.today) for one in standing.in_flight],
    }


def _pause(one: Pause) -> dict[str, Any]:
    """`group` is null where all of the instance is paused."""
    return {"group": one.group, "by": one.actor, "reason": one.reason, "since": moment(one.at)}


def _moved(desk: Desk, subject: Subject) -> dict[str, Any] | None:
    """Where an instance has gone, or, as long as it is not `whole` here, comes from; None where it is at home."""
    one = next((one for one in desk.movable(subject.job) if one.number == subject.number), None)
    if one is None or one.closed is Closed.NO or one.moved is None:
        return None
    return {"store": one.moved.place, "at": moment(one.moved.at), "whole": one.closed is Closed.MOVED}


def failures(
    desk: Desk, subject: Subject, kind: str | None = None, state: str | None = None
) -> Iterator[dict[str, Any]]:
    """Failed, quarantined and unconfirmed records in source order; of those that vanished, the unconfirmed ones.

    Raises UsageError at once for a wrong word.
    """
    states = failed_states(state)
    check_kind(kind)
    return (
        {
            "key": loads(one.key),
            "state": str(one.state),
            "step": one.step,
            "kind": one.kind,
            "error": one.error,
            "error_type": one.error_type,
            "attempts": one.attempts,
            "deaths": one.deaths,
            "failed_runs": one.failed_runs,
            "at": moment(one.at),
            "waiting": None if one.waiting is None else _waiting(one.waiting),
            "vanished": one.vanished,
            "received": one.received,
        }
        for one in desk.failures(subject.number, states, kind)
    )


def causes(desk: Desk, subject: Subject, kind: str | None = None, state: str | None = None) -> list[dict[str, Any]]:
    """The same records, those alike in step, kind and type of error put together, most frequent first."""
    check_kind(kind)
    return [
        {
            "step": one.step,
            "kind": one.kind,
            "error_type": one.error_type,
            "count": sum(one.states.values()),
            "counts": {str(state): number for state, number in one.states.items()},
            "key": loads(one.key),
            "error": one.error,
        }
        for one in desk.causes(subject.number, failed_states(state), kind)
    ]


def show(desk: Desk, subject: Subject, record: int, payloads: bool = False) -> dict[str, Any]:
    """All that is known of a record (its number in the store), oldest first. `payloads`: also what its effects send."""
    facts = desk.record(record)
    failure = facts.failure
    return {
        "key": loads(facts.key),
        "state": str(facts.state),
        "vanished": facts.vanished,
        "stale": _is_stale(facts, subject.today),
        "input_waits": facts.input_changed and facts.state is not State.SUCCEEDED,
        "waiting": None if facts.waiting is None else _waiting(facts.waiting),
        "generation": facts.generation,
        "step": facts.step,
        "attempts": facts.attempts,
        "deaths": facts.deaths,
        "failed_runs": facts.failed_runs,
        "run": _name(facts.run),
        "generations": [_generation(one) for one in facts.generations],
        "failure": None
        if failure is None
        else {
            "step": failure.step,
            "version": failure.version,
            "kind": failure.kind,
            "error": failure.error,
            "error_type": failure.error_type,
            "attempts": failure.attempts,
            "at": moment(failure.at),
            "run": _name(failure.run),
            "received": failure.received,
        },
        "held_by": None
        if facts.held_by is None
        else {
            "key": loads(facts.held_by.key),
            "job": facts.held_by.job,
            "instance": facts.held_by.instance,
            "effect": facts.held_by.effect,
            "idempotency_key": facts.held_by.idempotency_key,
        },
        "effects": [_entry(one, payloads) for one in facts.entries],
        "history": [
            {
                "at": moment(one.at),
                "event": one.event,
                "step": one.step,
                "reason": one.reason,
                "actor": one.actor,
                "run": _name(one.run),
                "detail": None if one.detail is None else loads(one.detail),
            }
            for one in facts.history
        ],
    }


def rows(
    desk: Desk,
    subject: Subject,
    state: str = "succeeded",
    generation: str = "last",
    steps: Sequence[str] = (),
) -> Iterator[ExportRow]:
    """What an export writes, in source order.

    `succeeded`: every record that has a result, with its newest one, even while a newer generation is under way or
    has failed; `generation="all"` adds the older ones, oldest first. Another state: the records that are in it, with
    the outputs that they have so far. Vanished records are left out, as in `total`; `state="vanished"` has them alone.
    `steps`: only these steps' outputs. Raises UsageError at once.
    """
    if generation not in ("last", "all"):
        raise UsageError(f"generation is last or all, not {generation!r}")
    if state not in (VANISHED, *State):
        raise UsageError(f"there is no state {state!r} (choices: {', '.join([*State, VANISHED])})")
    if generation == "all" and state != State.SUCCEEDED:
        raise UsageError("only finished records have several generations; leave out the state or the generation")
    unknown = [step for step in steps if step not in subject.today]
    if unknown:
        raise UsageError(f"there is no step {unknown[0]!r} (steps: {', '.join(subject.today)})")
    wish = ExportWish(
        None if state == VANISHED else State(state),
        tuple(subject.today),
        "all" if generation == "all" else "last",
        vanished=state == VANISHED,
    )
    found = desk.export(subject.number, wish)
    return _with_outputs_of(steps, found) if steps else found


def _with_outputs_of(steps: Sequence[str], found: Iterator[ExportRow]) -> Iterator[ExportRow]:
    for row in found:
        yield replace(row, outputs={step: row.outputs[step] for step in steps if step in row.outputs})


def results(desk: Desk, subject: Subject, state: str = "succeeded") -> Iterator[Result]:
    """The same as plain values."""
    return map(result_of, rows(desk, subject, state))


def result_of(row: ExportRow) -> Result:
    return Result(
        key=loads(row.key),
        input=None if row.input is None else loads(row.input),
        outputs={step: loads(output) for step, output in row.outputs.items()},
        state=str(row.state),
        versions=row.versions,
        generation=row.generation,
    )


def failed_states(state: str | None) -> tuple[State, ...]:
    if state is None:
        return FAILED_STATES
    if state not in FAILED_STATES:
        raise UsageError(f"{state!r} is no state of a failure (choices: {', '.join(FAILED_STATES)})")
    return (State(state),)


def check_kind(kind: str | None) -> None:
    if kind is not None and kind not in list(Kind):
        raise UsageError(f"there is no kind {kind!r} (choices: {', '.join(Kind)})")


def moment(seconds: float | None) -> str | None:
    """A moment as ISO 8601 text in UTC."""
    if seconds is None:
        return None
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def _name(run: int | None) -> str | None:
    return None if run is None else str(run)


def _waiting(one: Waiting) -> dict[str, Any]:
    return {"reason": one.reason, "count": one.count, "until": moment(one.until), "since": moment(one.since)}


def _entry(one: EntryFacts, payloads: bool) -> dict[str, Any]:
    """An obligation as the ledger has it; what is sent may be confidential, and is shown only where it is asked for."""
    told = {
        "effect": one.effect,
        "idempotency_key": one.key,
        "state": str(one.state),
        "generation": one.generation,
        "receipt": None if one.receipt is None else loads(one.receipt),
        "first_intended": moment(one.first_at),
        "intended": moment(one.intended_at),
        "sent": moment(one.sent_at),
        "asked_again": moment(one.ask_at),
        "asks": one.asks,
        "run": str(one.run),
        "payload_hash": one.payload_hash,
    }
    return {**told, "payload": loads(one.payload)} if payloads else told


def _run(one: RunFacts, now: float | None = None) -> dict[str, Any]:
    """A run; one that ended without saying so is told from a living one by its reason. Of one whose end is not known it
    is told what it does, where the moment is given."""
    reason = one.reason
    if one.ended is None and not one.alive:
        reason = "died" if one.told is None else f"stopped: {one.told}"
    at_work = {} if now is None or one.ended is not None else _at_work(one, now)
    return {
        "run": str(one.run),
        "started": moment(one.started),
        "ended": moment(one.ended),
        "exit_code": one.exit_code,
        "host": one.host,
        "reason": reason,
        "head": one.head,
        **at_work,
    }


def _at_work(one: RunFacts, now: float) -> dict[str, Any]:
    """A rate that is old is none: who works says how much every few seconds."""
    is_old = one.noted is None or bool(one.rate and now - one.noted > OLD)
    return {
        "pid": one.pid,
        "lease": None if one.lease is None else round(one.lease, 1),
        "done": one.done,
        "rate": None if is_old else one.rate,
        "concurrency": one.concurrency,
        "draining": one.drain is not None,
        "told": one.drain or one.told,
        "noted": moment(one.noted),
    }


def _in_flight(one: InFlight, today: Mapping[str, str]) -> dict[str, Any]:
    step = one.step if one.step is not None else next((step for step in today if step not in one.done), None)
    return {"key": loads(one.key), "step": step, "since": moment(one.since), "run": str(one.run)}


def _is_stale(facts: RecordFacts, today: Mapping[str, str]) -> bool:
    if facts.state is not State.SUCCEEDED:
        return False
    current = next(one for one in facts.generations if one.generation == facts.generation)
    return facts.input_changed or first_stale(current.made_by or {}, current.skipped, today) is not None


def _generation(one: GenerationFacts) -> dict[str, Any]:
    return {
        "generation": one.generation,
        "succeeded": one.succeeded,
        "input": None if one.input is None else loads(one.input),
        "input_hash": one.input_hash,
        "versions": one.made_by,
        "skipped": one.skipped,
        "checkpoints": [
            {
                "step": checkpoint.step,
                "version": checkpoint.version,
                "output": loads(checkpoint.output),
                "at": moment(checkpoint.at),
                "run": _name(checkpoint.run),
            }
            for checkpoint in one.checkpoints
        ],
        "usage": [
            {"step": used.step, "version": used.version, **spent(used.spent), "seconds": round(used.spent.seconds, 3)}
            for used in one.usage
        ],
    }
