"""Claiming: choosing, taking and starting records is one conditional change, and only what it returns is worked on."""

from __future__ import annotations

from collections import Counter
from typing import Any

from onward.codec import dumps, loads
from onward.model import Claimed, State, StoredOutput
from onward.policy import transitions
from onward.policy.pace import LONGEST_WAIT
from onward.policy.suspects import SUSPECT
from onward.ports.work import ClaimWish
from onward.store.sql import gates, ledger
from onward.store.sql.change import Change

INPUT = 5
STATE = 12


def claim(change: Change, wish: ClaimWish) -> list[Claimed]:
    """Take up to `wish.limit` records that are due; without a priority those whose wait has ended come first."""
    among: dict[str, Any] = {
        "hold": SUSPECT if wish.suspects else None,
        "only": None if wish.only is None else "[" + ",".join(map(str, wish.only)) + "]",
    }
    chosen = _choose(change, wish, among)
    if not chosen:
        return []
    # What is large stays where it is until it is known to fit: only its size is told here.
    candidates = change.array("candidates", chosen, whole=wish.max_bytes // wish.limit)
    rows = _within_bytes(change, candidates, wish.max_bytes)
    ids = [row[0] for row in rows]
    change.send("claim", ids, start=int(wish.start))
    for (state, vanished), taken in Counter([(row[STATE], row[STATE + 1]) for row in rows]).items():
        transitions.require(State(state), State.IN_PROGRESS)
        change.move(State(state), State.IN_PROGRESS, taken, gone=bool(vanished))
    claimed = [_claimed(row, wish.start) for row in rows]
    if wish.effects:
        entries = ledger.entries_of(change, ids)
        for one in claimed:
            one.entries = {entry.name: entry for entry in entries.get(one.id, []) if entry.generation == one.generation}
    return claimed


def _choose(change: Change, wish: ClaimWish, among: dict[str, Any]) -> list[int]:
    limit, chosen = wish.limit, []
    if wish.effects:
        unconfirmed = "pick_asked" if wish.asked else "pick_unconfirmed"
        chosen = change.array(unconfirmed, **among, limit=limit, shut=_shut(wish))
    if wish.gates is not None and len(chosen) < limit:
        chosen += gates.pick(change, wish, among, limit - len(chosen))
    if wish.ranked:
        gates.wake_ranked(change, among)
    fresh = limit - len(chosen)
    if wish.gates is not None and wish.gates.fresh is not None:
        fresh = min(fresh, wish.gates.fresh)
    for block in ("pick_due", "pick_fresh"):
        if fresh > 0 and (found := change.array(block, **among, limit=fresh)):
            chosen += found
            fresh -= len(found)
    if wish.gates is not None and wish.gates.last and len(chosen) < limit:
        chosen += gates.pick_last(change, wish, among, limit - len(chosen), chosen)
    return chosen


def _shut(wish: ClaimWish) -> str | None:
    return None if wish.gates is None else dumps(sorted(wish.gates.shut))


def next_due(change: Change, wish: ClaimWish) -> float | None:
    """When the next back-off ends, but for those at shut gates. A clock that was set back must not keep records waiting
    for years."""
    due = _next_due(change, wish)
    if due is not None and due > change.now + LONGEST_WAIT + 60.0:
        change.execute("clamp_waits", cap=60.0, longest=LONGEST_WAIT + 60.0)
        due = _next_due(change, wish)
    return due


def _next_due(change: Change, wish: ClaimWish) -> float | None:
    fresh = wish.gates is None or wish.gates.fresh != 0  # else those that wait nowhere would be due, and not taken
    due: float | None = change.one("next_due", shut=_shut(wish), fresh=int(fresh))
    if wish.gates is None:
        return due
    return min((one for one in (due, gates.next_due(change, wish.gates)) if one is not None), default=None)


def _within_bytes(change: Change, rows: list[list[Any]], max_bytes: int) -> list[list[Any]]:
    """As many of the first rows as fit, and at least one, with their inputs."""
    total = 0
    for number, row in enumerate(rows):
        total += _size(row[INPUT])
        if total > max_bytes and number:
            return rows[:number]
        if isinstance(row[INPUT], int):
            row[INPUT] = change.one("input", record=row[0], generation=row[2])
    return rows


def _size(value: str | int | None) -> int:
    """UTF-8 bytes of an input, or what stands for them."""
    if isinstance(value, str):
        return len(value) if value.isascii() else len(value.encode("utf-8", "surrogatepass"))
    return value or 0


def _claimed(row: list[Any], start: bool) -> Claimed:
    """The record as it will be once the claim is durable."""
    record, fence, generation, key, position, value, step, attempts, *harm, stored, _, _ = row
    claimed = Claimed(record, fence + 1, generation, key, position, value, step, attempts + start, *harm)
    if stored is not None and stored != "[]":
        outputs = loads(stored) if isinstance(stored, str) else stored
        claimed.checkpoints = {step: StoredOutput(version, output) for step, version, output in outputs}
    return claimed
