"""Ledger names: what a job's obligations are known by, held against what it declares now."""

from __future__ import annotations

from onward.errors import UsageError
from onward.policy.identity import unrelated
from onward.ports.work import RunStart
from onward.store.sqlite.change import Change


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
