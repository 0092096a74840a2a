"""Records that wait at a gate: choosing among them by what each gate has room for, and what is said of the gates."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from onward.codec import dumps, loads
from onward.policy.suspects import SUSPECT
from onward.ports.work import ClaimWish, GateStanding, GateWish, Pause
from onward.store.sql import chain
from onward.store.sql.change import Change, storable
from onward.store.sql.transaction import Transaction

MOST_WOKEN = 5000


def pick(change: Change, wish: ClaimWish, among: dict[str, Any], limit: int) -> list[int]:
    """Up to `limit` records that wait at gates with room, each gate's own in the order of admission."""
    gates = wish.gates
    assert gates is not None
    rooms = {gate: _room(gates, gate, limit) for gate in _waited_at(change, among["hold"])}
    rooms = {gate: room for gate, room in rooms.items() if room > 0}
    if not rooms:
        return []
    change.execute("wake_due", list(rooms), hold=among["hold"], most=MOST_WOKEN)
    later = dumps([record for gate in rooms for record in gates.last.get(gate, ())])
    return _at_gates(change, among, rooms, limit, later)


def pick_last(change: Change, wish: ClaimWish, among: dict[str, Any], limit: int, chosen: list[int]) -> list[int]:
    """Those that come last at their gates, one for each gate that has given none."""
    gates = wish.gates
    assert gates is not None
    given = set(change.array("gates_of", chosen)) if chosen else set()
    if gates.first is not None and None in given:
        given.add(gates.first)
    rooms = {gate: min(_room(gates, gate, limit), 1) for gate in gates.last if gate not in given}
    rooms = {gate: room for gate, room in rooms.items() if room > 0}
    return _at_gates(change, among, rooms, limit, "[]") if rooms else []


def _at_gates(change: Change, among: dict[str, Any], rooms: dict[str, int], limit: int, later: str) -> list[int]:
    rows = [list(one) for one in rooms.items()]
    return change.array("pick_at_gates", rows, **among, most=max(rooms.values()), limit=limit, later=later)


def wake_ranked(change: Change, among: dict[str, Any]) -> None:
    """Where a priority decides, one whose back-off is over takes its place among the others."""
    change.execute("wake_due", [None], hold=among["hold"], most=MOST_WOKEN)


def next_due(change: Change, gates: GateWish) -> float | None:
    """When the first back-off at a gate that lets somebody in ends: whoever waits at another is not taken up then."""
    open_to_some = [gate for gate in _waited_at(change, None) if _room(gates, gate, 1) > 0]
    due: float | None = change.rows("next_due_at_gates", open_to_some)[0][0]
    return due


def _waited_at(change: Change, hold: str | None) -> list[str]:
    return change.array("gates_waited_at", hold=hold)


def _room(gates: GateWish, gate: str, limit: int) -> int:
    return 0 if gate in gates.shut else min(gates.rooms.get(gate, gates.room), limit)


def forget_others(change: Change, names: Sequence[str]) -> None:
    """Records wait no longer at gates that today's job does not have: whoever takes them up knows where they belong."""
    for hold in (None, SUSPECT):
        others = [gate for gate in _waited_at(change, hold) if loads(gate)[0] not in names]
        if others:
            change.execute("forget_gates", others, hold=hold)


def pauses(transaction: Transaction, instance: int) -> list[Pause]:
    return [Pause(name or None, *rest) for name, *rest in transaction.rows("pauses", {"instance": instance})]


def note(change: Change, standings: Sequence[GateStanding], told: Sequence[tuple[str, str]]) -> None:
    """What of this run's gates stands now replaces what was said before; `told`: (event, reason) for the history."""
    change.execute("drop_standings")
    rows = [[one.gate, int(one.whole), storable(one.reason), one.until] for one in standings]
    if rows:
        change.execute("insert_standings", rows)
    chain.tell(change, [(None, event, None, reason) for event, reason in told])
