"""Ledger names: what a job's obligations are known by, held against what it declares now."""

from __future__ import annotations

import orjson

from onward.errors import UsageError
from onward.policy.identity import unrelated
from onward.ports.work import OtherKey, RunStart
from onward.store.sql.change import Change
from onward.store.sql.ledger import fields_text


def check(change: Change, start: RunStart) -> None:
    """Raises UsageError where obligations of the job stand under names that it no longer declares, and it is not said
    which of today's effects they belong to."""
    used = [name for (name,) in change.rows("names_of_job", job=start.job)]
    declared = {name for name, former in start.effects for name in (name, *former)}
    gone = [name for name in used if name not in declared]
    if not gone:
        return
    is_open = {name: int(change.one("open_under_name", job=start.job, name=name)) for name in gone}
    told = unrelated(dict(start.effects), used, is_open)
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
