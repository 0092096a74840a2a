"""What asking models has cost and is to cost, in the words of the contract."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from onward.engine.spending.bill import cost, cost_to_come
from onward.model import Counts, Spent, State
from onward.policy.bill import Outlook
from onward.policy.forecast import Moments, Range, time_left
from onward.ports.bill import Bill, Pace

UNREAD = "the input is not read to its end"


def spent(one: Spent) -> dict[str, Any]:
    return {"model": one.model, **cost([one]), "repairs": one.repairs}


def to_finish(
    bill: Bill,
    counts: Counts,
    today: Mapping[str, str],
    asks: Mapping[str, bool],
    unread: int | None = None,
) -> dict[str, Any]:
    """What is still to be spent. `unread`: how many records more the source has, None where nobody has counted them."""
    found = cost_to_come(bill, today, asks, unread or 0)
    if unread is None and not counts.source_complete and (asks or bill.sums):
        return told(Outlook(None), UNREAD)
    return told(found)


def told(found: Outlook, why: str | None = None) -> dict[str, Any]:
    """`usd`, `p10` and `p90`, null where it cannot be told, and then `why` not."""
    usd, p10, p90 = (None, None, None) if found.range is None else _money(found.range)
    return {"usd": usd, "p10": p10, "p90": p90, "why": why or found.reason}


def _money(found: Range) -> tuple[float, float, float]:
    return round(found.expected, 6), round(found.p10, 6), round(found.p90, 6)


def time_to_finish(pace: Pace | None, to_go: int, is_complete: bool) -> dict[str, Any]:
    """`seconds`, `p10` and `p90`, null where they cannot be told: at the pace of all runs of the instance
    together, as the run has it that was the last to tell. The spread is that of how many records ended in equal
    stretches of the time that it was at work."""
    found = Range(0.0, 0.0, 0.0) if not to_go and is_complete else None
    if pace is not None and is_complete and to_go:
        found = time_left(Moments(pace.count, pace.total, pace.squares), pace.seconds, to_go)
    seconds, p10, p90 = (None, None, None) if found is None else (found.expected, found.p10, found.p90)
    return {"seconds": _tenths(seconds), "p10": _tenths(p10), "p90": _tenths(p90)}


def _tenths(seconds: float | None) -> float | None:
    return None if seconds is None else round(seconds, 1)


def to_go(counts: Counts, again: bool) -> int:
    """Records that a run is to work on; `again`: also those that failed, as the next run tries them again."""
    found = counts.of(State.PENDING) + counts.of(State.IN_PROGRESS)
    return found + counts.of(State.FAILED) if again else found
