"""`onward log`."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from itertools import islice
from typing import Any, Unpack

from onward.cli import streams
from onward.cli.flags import seconds
from onward.cli.target import About, find
from onward.cli.words import brief, key_text
from onward.errors import UsageError

PAGE = 200
A_CHECK_FOUND_SOMETHING = 1


def log(
    job: str | None,
    as_json: bool,
    since: str | None,
    payloads: bool,
    verify: bool,
    expect: str | None,
    **about: Unpack[About],
) -> int:
    """Every decision and its reason, oldest first; or whether they are what was written."""
    if verify or expect is not None:
        if since is not None:
            raise UsageError("--since chooses entries to be shown; chains are verified from their beginning")
        return _verify(job, as_json, expect, **about)
    from onward import api
    from onward.codec import dumps

    begin = None if since is None else _since(since)
    target = find(job, **about)
    entries = api.log(target.job, **target.asked, since=begin, payloads=payloads)
    lines = map(dumps if as_json else _line, entries)
    while page := list(islice(lines, PAGE)):
        streams.answer("\n".join(page))
    return 0


def _since(given: str) -> float:
    from onward.operate.history import since_moment

    try:
        span = None if given.strip().replace(".", "").isdigit() else seconds(given)  # a run's number, a year: no span
    except ValueError:
        span = None
    return since_moment(given, time.time(), span)


def _line(entry: Mapping[str, Any]) -> str:
    """`2026-11-30 01:41:19  run 3  k-17  record_retrying at call: transient, back-off  (by ada)`."""
    at = entry["time"][:19].replace("T", " ")
    whose = f"run {entry['run']}" if entry["run"] is not None else "people"
    said = f"{entry['event']} at {entry['step']}" if entry["step"] else entry["event"]
    kind = entry["detail"].get("kind") if isinstance(entry["detail"], dict) else None
    why = ", ".join(brief(str(part)) for part in (kind, entry["reason"]) if part)
    reason = f": {why}" if why else ""
    actor = f"  (by {brief(entry['actor'])})" if entry["actor"] else ""
    key = f"  {key_text(entry['key'])}" if entry["key"] is not None else ""
    return f"{at}  {whose}{key}  {brief(said)}{reason}{actor}{_more(entry)}"


def _more(entry: Mapping[str, Any]) -> str:
    """An effect's key, and what was asked for besides."""
    from onward.codec import dumps

    key = f"  {brief(entry['idempotency_key'])}" if entry["idempotency_key"] else ""
    payload = f"  payload {brief(dumps(entry['payload']))}" if entry.get("payload") is not None else ""
    return key + payload


def _verify(job: str | None, as_json: bool, expect: str | None, **about: Unpack[About]) -> int:
    from onward import api
    from onward.codec import dumps

    if job is None and about["job_name"] is None and about["store"] is not None and about["instance"] is None:
        found = api.verify_log(None, store=about["store"], expected=expect)
    else:
        target = find(job, **about)
        found = api.verify_log(target.job, **target.asked, expected=expect)
    streams.answer(dumps(found) if as_json else "\n".join(_told(found)))
    return 0 if found["fits"] else A_CHECK_FOUND_SOMETHING


def _told(found: Mapping[str, Any]) -> Iterator[str]:
    misfit = found["misfit"]
    if misfit is not None:
        yield f"the history does not fit: {_place(misfit)}{misfit['why']}"
        return
    yield f"the history fits: {found['entries']:,} entries in {found['chains']:,} chains"
    for head in found["heads"]:
        yield f"head of {_chain(head)}: {head['hash']}"


def _chain(one: Mapping[str, Any]) -> str:
    return "what people decided" if one["run"] is None else f"run {one['run']}"


def _place(misfit: Mapping[str, Any]) -> str:
    """`entry 5 of run 3 of filings (2026-11-30 01:41:19 UTC, record_failed): `."""
    if misfit["job"] is None and not misfit["seq"]:
        return ""
    job = "" if misfit["job"] is None else f" of {brief(misfit['job'])}"
    instance = f" ({brief(misfit['instance'])})" if misfit["instance"] else ""
    what = ""
    if misfit["time"] is not None:
        what = f" ({misfit['time'][:19].replace('T', ' ')} UTC, {brief(misfit['event'])})"
    return f"entry {misfit['seq']} of {_chain(misfit)}{job}{instance}{what}: "
