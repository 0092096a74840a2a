"""How much is still to be spent: a range for the sum of what is to come, from the moments of what has come.

The mean of the rest lies around the mean of the sample with a spread of `s·sqrt(1/n + 1/m)`, for a sample of n and a
rest of m: the rest is a sample, too. Costs are skewed, and then this studentised difference is: a sample that has seen
too few of the big ones has too small a mean and too small a spread at once. The first-order correction of both ends is
the Edgeworth expansion of Student's t (Johnson, "Modified t Tests and Confidence Intervals for Asymmetrical
Populations", JASA 73, 1978; Hall, "On the Removal of Skewness by Transformation", JRSS B 54, 1992), carried over from
the mean of a population to that of a finite rest. It is too little for small samples with long tails, for it uses the
sample's own skewness, which is at most sqrt(n): the far end gets as much again and more, by constants that were fitted
to lognormal, gamma and Pareto costs and mixtures of them (`benchmarks/forecast.py` prints how often they hold).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

FEWEST = 5
"""Of fewer values nothing can be told."""
_Z = 1.2815515655446004
"""The ninetieth percentile of the normal distribution."""
_MOST_NEAR = 0.18
_MOST_FAR = 0.72
_FAR = 1.0
_FAR_SMALL = 20.0
_ROUNDING = 1e-12
_LARGEST = 1e90


class Range(NamedTuple):
    """Ten in a hundred lie below `p10` and ten above `p90`; in the unit of what was counted."""

    p10: float
    expected: float
    p90: float


@dataclass(frozen=True, slots=True)
class Moments:
    """Running sums over values: their number, their sum, that of their squares and of their cubes.

    Sums can be kept as counters and added up, whoever made them.
    """

    count: int = 0
    total: float = 0.0
    squares: float = 0.0
    cubes: float = 0.0

    def add(self, value: float) -> Moments:
        """With one more value, from 0 to 1e90 (else ValueError)."""
        if not 0 <= value <= _LARGEST:
            raise ValueError("a value is a number from 0 to 1e90")
        value = float(value)
        return self.merge(Moments(1, value, value * value, value * value * value))

    def merge(self, other: Moments) -> Moments:
        """Those of both together."""
        return Moments(
            self.count + other.count, self.total + other.total, self.squares + other.squares, self.cubes + other.cubes
        )

    @property
    def mean(self) -> float:
        return self.total / self.count if self.count else 0.0

    @property
    def variance(self) -> float:
        """The unbiased estimate; 0 where the values differ by no more than rounding."""
        if self.count < 2:
            return 0.0
        spread = self.squares / self.count - self.mean**2
        return spread * self.count / (self.count - 1) if spread > _ROUNDING * self.mean**2 else 0.0

    @property
    def skewness(self) -> float:
        """The third central moment over the third power of the deviation; within what so many values can have."""
        cubed = math.sqrt(self.variance) ** 3
        if cubed == 0.0:
            return 0.0
        third = self.cubes / self.count - 3 * self.mean * self.squares / self.count + 2 * self.mean**3
        most = math.sqrt(self.count)
        return min(max(third / cubed, -most), most)


def forecast(moments: Moments, remaining: int) -> Range | None:
    """The sum of `remaining` more values like those counted; None where fewer than five were."""
    if remaining <= 0:
        return Range(0.0, 0.0, 0.0)
    if moments.count < FEWEST:
        return None
    expected = moments.mean * remaining
    spread = math.sqrt(moments.variance * (1 / moments.count + 1 / remaining)) * remaining
    below, above = _ends(moments.count, remaining, moments.skewness)
    return Range(max(expected - spread * below, 0.0), expected, expected + spread * above)


def _ends(count: int, remaining: int, skewness: float) -> tuple[float, float]:
    """How many spreads P10 lies below what is expected, and P90 above it."""
    scale = math.sqrt(1 / count + 1 / remaining)
    lean = abs(skewness) / (count * scale)
    third = abs(skewness) * (1 / remaining**2 - 1 / count**2) / scale**3 + 3 * lean
    shift = max(lean / 2 + third * (_Z**2 - 1) / 6, 0.0)
    middle = _student(count - 1)
    near = middle - min(shift, _MOST_NEAR)
    far = middle + min(shift, _MOST_FAR) + lean * (_FAR + _FAR_SMALL / count)
    return (near, far) if skewness >= 0 else (far, near)


def time_left(windows: Moments, seconds: float, remaining: int) -> Range | None:
    """Seconds until `remaining` more records have ended; None before five windows, or while none has ended.

    `windows`: how many records ended in each of the equal stretches of `seconds` that were watched, without those in
    which nothing was meant to happen. The logarithm of their mean is taken to have Student's distribution, with the
    spread of the windows to come in it as well, so that no end is negative.
    """
    if remaining <= 0:
        return Range(0.0, 0.0, 0.0)
    if windows.count < FEWEST or windows.mean <= 0:
        return None
    to_come = remaining / windows.mean
    relative = math.sqrt(windows.variance * (1 / windows.count + 1 / max(to_come, 1.0))) / windows.mean
    factor = math.exp(_student(windows.count - 1) * relative)
    expected = to_come * seconds
    return Range(expected / factor, expected, expected * factor)


def _student(freedom: int) -> float:
    """The ninetieth percentile of Student's distribution (Abramowitz and Stegun 26.7.5)."""
    z = _Z
    return (
        z
        + (z**3 + z) / (4 * freedom)
        + (5 * z**5 + 16 * z**3 + 3 * z) / (96 * freedom**2)
        + (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / (384 * freedom**3)
    )
