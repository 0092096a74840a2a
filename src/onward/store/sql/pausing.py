"""A person's word that nothing is to begin, and that it may again."""

from __future__ import annotations

from onward.store.sql import chain
from onward.store.sql.change import Change, storable


def pause(change: Change, group: str | None, actor: str, reason: str | None) -> bool:
    """False where it is paused already."""
    name, who, why = storable(group or ""), storable(actor), reason and storable(reason)
    if change.execute("pause", name=name, actor=who, reason=why) == 0:
        return False
    _tell(change, "run_paused", group, actor, reason)
    return True


def resume(change: Change, group: str | None, actor: str, reason: str | None) -> bool:
    """False where it is not paused."""
    if change.execute("resume", name=storable(group or "")) == 0:
        return False
    _tell(change, "run_resumed", group, actor, reason)
    return True


def _tell(change: Change, event: str, group: str | None, actor: str, reason: str | None) -> None:
    what = "the job" if group is None else f"group {group}"
    chain.tell(change, [(None, event, None, f"{what}: {reason}" if reason else what)], actor=actor)
