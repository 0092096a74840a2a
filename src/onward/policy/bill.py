"""What asking models is still going to cost: the forecasts of all steps that ask them, as one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from onward.policy.forecast import FEWEST, Moments, Range, forecast

Why = Literal["", "price", "samples"]


@dataclass(frozen=True, slots=True)
class Sample:
    """What records that are through with a step have cost there. `unknown`: how many more there were whose cost is not
    known; `correlation`: of their cost there with what they had cost before, at other steps."""

    moments: Moments
    unknown: int = 0
    correlation: float = 0.0


class Part(NamedTuple):
    """One step: what is known of its cost, and how many records have it still to come. `priced`: False where the price
    of a model that it asks is not known."""

    step: str
    sample: Sample | None
    to_go: int
    priced: bool = True


class Outlook(NamedTuple):
    """What is to come. `range` is None where that cannot be told: `why` not, because of which `step`."""

    range: Range | None
    why: Why = ""
    step: str = ""

    @property
    def reason(self) -> str | None:
        """Why it cannot be told, in words."""
        if self.why == "price":
            return f"the price of a model that {self.step} asks is not known"
        if self.why == "samples":
            return f"fewer than {FEWEST} records are through with {self.step} as it is now"
        return None


NOTHING = Outlook(Range(0.0, 0.0, 0.0))


def outlook(parts: Sequence[Part]) -> Outlook:
    """The sum over the steps, in step order; in the unit of the samples."""
    together = NOTHING.range
    assert together is not None
    for part in parts:
        sample = part.sample or Sample(Moments())
        range_ = forecast(sample.moments, part.to_go)
        if part.to_go > 0 and (not part.priced or (sample.unknown and not sample.moments.count)):
            return Outlook(None, "price", part.step)
        if range_ is None:
            return Outlook(None, "samples", part.step)
        together = added(together, range_, sample.correlation)
    return Outlook(together)


def added(first: Range, second: Range, correlation: float) -> Range:
    """The range of a sum. Ends lie as far from what is expected as the square root of the sum of the squares of both
    distances, and of twice their product times the correlation: long records are long at every step."""
    expected = first.expected + second.expected
    below = _together(first.expected - first.p10, second.expected - second.p10, correlation)
    above = _together(first.p90 - first.expected, second.p90 - second.expected, correlation)
    return Range(max(expected - below, 0.0), expected, expected + above)


def _together(first: float, second: float, correlation: float) -> float:
    return math.sqrt(max(first**2 + second**2 + 2 * correlation * first * second, 0.0))


def correlation(count: int, first: tuple[float, float], second: tuple[float, float], crossed: float) -> float:
    """Of two values, from their sums and those of their squares, and the sum of their products; 0 where it cannot be
    told, or where it is below that by chance."""
    if count < 2:
        return 0.0
    spreads = [squares / count - (total / count) ** 2 for total, squares in (first, second)]
    if min(spreads) <= 0:
        return 0.0
    shared = crossed / count - first[0] / count * second[0] / count
    return min(max(shared / math.sqrt(spreads[0] * spreads[1]), 0.0), 1.0)


def scaled(found: Outlook, factor: float) -> Outlook:
    """The same in another unit."""
    if found.range is None:
        return found
    return found._replace(range=Range(*(value * factor for value in found.range)))
