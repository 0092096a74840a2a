"""How runs share a ceiling: evenly among those that want some of it, and in turns where there is not one for each."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

TURN = 4.0
"""Seconds for which whoever has got some of a ceiling keeps it while others that have none wait."""
STALE = 5.0
"""Seconds after which a wish that was not said again does not count any more; what a run holds does."""


@dataclass(frozen=True, slots=True)
class Claimant:
    """What a run holds of a ceiling and what it wants. `since`: since when it holds some, or holds none."""

    run: int
    held: float
    want: float
    since: float


def in_order(claimants: Sequence[Claimant], now: float) -> list[Claimant]:
    """Who is first where not all can have the same: whoever has some for less than its turn, then whoever has waited
    the longest, and at last whoever has had its turn."""

    def place(one: Claimant) -> tuple[int, float, int]:
        if not one.held:
            return 1, one.since, one.run
        return 0 if now - one.since < TURN else 2, one.since, one.run

    return sorted(claimants, key=place)


def fair(size: float, claimants: Sequence[Claimant], whole: bool) -> dict[int, float]:
    """What each run is to have: none more than another that wants more, and what nobody wants is spread.

    `whole`: only whole numbers; what is over goes to the first. Their sum is `size`, if anybody wants anything.
    """
    wants = {one.run: one.want for one in claimants if one.want > 0}
    given = {one.run: 0.0 for one in claimants}
    left, eager = float(size), list(wants)
    while eager:
        level = left / len(eager)
        modest = [run for run in eager if wants[run] <= level]
        if not modest:
            break
        for run in modest:
            given[run] = wants[run]
            left -= wants[run]
        eager = [run for run in eager if run not in modest]
    takers = eager or list(wants)
    for place, run in enumerate(takers):
        given[run] += _part(left, place, len(takers), whole)
    return given


def _part(left: float, place: int, takers: int, whole: bool) -> float:
    if not whole:
        return left / takers
    each, over = divmod(math.floor(left), takers)
    return float(each + (place < over))
