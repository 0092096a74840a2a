"""Claiming: choosing, taking and starting records is one conditional change, and only what it returns is worked on."""

from __future__ import annotations

from typing import Any

from onward.codec import loads
from onward.model import Claimed, State, StoredOutput
from onward.policy.failures import LONGEST_WAIT
from onward.policy.suspects import SUSPECT
from onward.ports import ClaimWish
from onward.store.sqlite.change import Change


def claim(change: Change, wish: ClaimWish) -> list[Claimed]:
    """Take up to `wish.limit` records that are due, waits that ended first, then in source order."""
    among: dict[str, Any] = {
        "hold": SUSPECT if wish.suspects else None,
        "only": None if wish.only is None else "[" + ",".join(map(str, wish.only)) + "]",
    }
    due = change.array("pick_due", **among, limit=wish.limit)
    chosen = _within_bytes(due, wish.max_bytes)
    if len(chosen) == len(due) < wish.limit:
        fresh = change.array("pick_fresh", **among, limit=wish.limit - len(chosen))
        chosen = _within_bytes([*chosen, *fresh], wish.max_bytes)
    if not chosen:
        return []
    ids = "[" + ",".join(str(record) for record, _ in chosen) + "]"
    taken = change.execute("claim", ids=ids, start=int(wish.start))
    change.move(State.PENDING, State.IN_PROGRESS, taken)
    return [_claimed(row) for row in change.array("claimed", ids=ids)]


def next_due(change: Change) -> float | None:
    """When the next back-off ends. A clock that was set back must not keep records waiting for years."""
    due: float | None = change.one("next_due")
    if due is not None and due > change.now + LONGEST_WAIT + 60.0:
        change.execute("clamp_waits", cap=60.0, longest=LONGEST_WAIT + 60.0)
        due = change.one("next_due")
    return due


def _within_bytes(rows: list[list[int]], max_bytes: int) -> list[list[int]]:
    """As many of the first rows as fit, and at least one."""
    total = 0
    for number, (_, size) in enumerate(rows):
        total += size or 0
        if total > max_bytes and number:
            return rows[:number]
    return rows


def _claimed(row: list[object]) -> Claimed:
    claimed = Claimed(*row[:11])  # type: ignore[arg-type]
    stored = row[11]
    if stored != "[]" and isinstance(stored, str):
        claimed.checkpoints = {step: StoredOutput(version, output) for step, version, output in loads(stored)}
    elif isinstance(stored, list) and stored:
        claimed.checkpoints = {step: StoredOutput(version, output) for step, version, output in stored}
    return claimed
