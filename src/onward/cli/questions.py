"""`onward status`, `instances`, `failures` and `show`."""

from __future__ import annotations

from itertools import islice
from typing import Any, Unpack

from onward.cli import streams
from onward.cli.target import About, Target, find, split
from onward.errors import UsageError

LISTED = 20


def status(job: str | None, as_json: bool, **about: Unpack[About]) -> int:
    """Counts by state and step, runs, what is waiting and why."""
    from onward import api

    target = find(job, **about)
    found = api.status(target.job, **target.asked)
    if as_json:
        return _json(found)
    from onward.cli import tables

    return tables.show(tables.status(found, target))


def instances(job: str | None, as_json: bool, **about: Unpack[About]) -> int:
    """The job's instances, oldest first."""
    from onward import api

    target = find(job, **about)
    found = [one for one in api.instances(target.job, store=target.store) if target.instance in (None, one["instance"])]
    if as_json:
        return _json(*found)
    from onward.cli import tables

    return tables.show(tables.instances(found))


def failures(
    job: str | None,
    as_json: bool,
    kind: str | None,
    state: str | None,
    **about: Unpack[About],
) -> int:
    """Failed, quarantined and unconfirmed records, those alike counted together first."""
    from onward import api

    target = find(job, **about)
    chosen = {"kind": kind, "state": state}
    found = api.failures(target.job, **target.asked, **chosen)
    if as_json:
        for one in found:
            _json(one)
        return 0
    from onward.cli import tables

    causes = api.causes(target.job, **target.asked, **chosen)
    if not causes:
        return tables.show(tables.no_failures(api.status(target.job, **target.asked), target))
    return tables.show(tables.failures(causes, list(islice(found, LISTED)), target))


def show(words: list[str] | None, as_json: bool, payloads: bool, **about: Unpack[About]) -> int:
    """One record's whole history and the reasons."""
    from onward import api
    from onward.operate.choices import Typed

    job, keys = split(words, about["job_name"])
    target: Target = find(job, **about)
    if len(keys) != 1:
        raise UsageError(f"show takes one key, not {len(keys) or 'none'}; a key of several fields is JSON")
    found = api.show(target.job, Typed(keys[0]), **target.asked, payloads=payloads)
    if as_json:
        return _json(found)
    from onward.cli import tables

    return tables.show(tables.record(found))


def _json(*values: Any) -> int:
    from onward.codec import dumps

    for value in values:
        streams.answer(dumps(value))
    return 0
