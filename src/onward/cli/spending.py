"""Money as a run shows it while it works, and when it has ended."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from onward.cli import amounts

if TYPE_CHECKING:
    from onward.engine.spending.bill import AtModel, Money

SAID_FOR = 60.0


def parts(money: Money, goes_on: bool, is_read: bool) -> list[str]:
    """`$3.21 spent`, `about $31 to finish (27–36)`, tokens; `is_read`: the input is known to its end."""
    spent, range_ = money.spent, money.to_come.range
    found = ["cost not known" if spent["spent_usd"] is None else f"{amounts.dollars(spent['spent_usd'])} spent"]
    if goes_on and is_read and range_ is not None and range_.expected:
        found.append(amounts.about(range_.expected, range_.p10, range_.p90, " to finish"))
    return [*found, amounts.tokens(spent)]


def throttled(model: AtModel, now: float) -> str:
    """Empty where it was not, lately."""
    if model.throttled is None or now - model.throttled > SAID_FOR:
        return ""
    return f"throttled {max(now - model.throttled, 0.0):.0f} s ago"


def closing(finished: Mapping[str, Any]) -> Iterator[str]:
    """What the run cost, and all runs together. `finished`: the last event."""
    here, total = finished.get("cost_here"), finished.get("cost")
    if here is None or total is None or not total["requests"]:
        return
    if here == total:
        yield f"cost: {amounts.spent(here)}"
    else:
        yield f"cost of this run: {amounts.spent(here)}; in all: {amounts.spent(total)}"
    if shared := finished.get("shared"):
        were = "request was" if shared == 1 else "requests were"
        yield f"{shared:,} {were} answered by what an equal one had brought"
