"""Ledger names: what a job's obligations are known by, held against what it declares now."""

from __future__ import annotations

from collections.abc import Callable

import orjson

from onward.errors import UsageError
from onward.policy.identity import at_odds, dropped, unrelated
from onward.ports.work import OtherKey, RunStart
from onward.store.sql.change import Change
from onward.store.sql.ledger import fields_text


def check(change: Change, start: RunStart, is_alive: Callable[[int, str, float], bool]) -> None:
    """Raises UsageError where obligations of the job stand under names that it no longer declares, and it is not said
    which of today's effects they belong to; and beside a run that knows an effect by another name than this one."""
    declared = dict(start.effects)
    for run, boot, lease_until, effects, job in change.rows("declared_at_work"):
        if is_alive(run, boot, lease_until) and (name := at_odds(declared, orjson.loads(effects))) is not None:
            raise UsageError(
                f"run {run} of job {job} is at work, by code that gives the effect {name!r} another name than this "
                "job's does: the same obligation could be sent by both; start again when it has ended"
            )
    used = [name for (name,) in change.rows("names_of_job", job=start.job)]
    known = {name for name, former in start.effects for name in (name, *former)}
    gone = [name for name in used if name not in known]
    if not gone:
        return
    said = [orjson.loads(effects) for (effects,) in change.rows("declared_by_job", job=start.job)]
    is_open = {name: int(change.one("open_under_name", job=start.job, name=name)) for name in gone}
    told = dropped(declared, said, gone) or unrelated(declared, used, is_open)
    if told is not None:
        raise UsageError(told)


def other_keys(change: Change, start: RunStart) -> list[OtherKey]:
    """Obligations of the job under keys of other fields than it declares now. The ledger is read for them only where
    the job's counters say that there may be some."""
    used: dict[str, set[tuple[str, ...]]] = {}
    for (name,) in change.rows("keys_of_job", job=start.job):
        effect, fields = orjson.loads(name)
        used.setdefault(effect, set()).add(tuple(fields))
    found = []
    for effect, now in start.key_fields.items():
        if used.get(effect, {now}) <= {now}:
            continue
        for fields, number in change.rows("under_other_fields", job=start.job, name=effect, fields=fields_text(now)):
            found.append(OtherKey(effect, tuple(orjson.loads(fields)), now, number))
    return found
