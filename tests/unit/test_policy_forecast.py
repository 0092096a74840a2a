"""Forecasts hold as often as they say, for skewed costs and small samples."""

from __future__ import annotations

import math
import operator
import random
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onward.policy.forecast import Moments, Range, forecast, time_left

RUNS = 1_000
LEAST, MOST = 0.76, 0.92


def of(values: list[float]) -> Moments:
    moments = Moments()
    for value in values:
        moments = moments.add(value)
    return moments


def at_once(values: list[float]) -> Moments:
    squares = [value * value for value in values]
    return Moments(len(values), sum(values), sum(squares), sum(map(operator.mul, values, squares)))


def coverage(
    seen: int,
    remaining: int,
    draw: Callable[[random.Random], float],
    rest: Callable[[random.Random], float],
    runs: int = RUNS,
) -> float:
    inside = 0
    for run in range(runs):
        chance = random.Random(run)
        told = forecast(at_once([draw(chance) for _ in range(seen)]), remaining)
        assert told is not None
        inside += told.p10 <= rest(chance) <= told.p90
    return inside / runs


def of_lognormal(sigma: float, seen: int, remaining: int) -> float:
    def draw(chance: random.Random) -> float:
        return math.exp(sigma * chance.gauss())

    def rest(chance: random.Random) -> float:
        gauss, exp = chance.gauss, math.exp
        return math.fsum([exp(sigma * gauss()) for _ in range(remaining)])

    return coverage(seen, remaining, draw, rest, runs=RUNS if sigma > 1 else 400)


def of_gamma(shape: float, seen: int, remaining: int) -> float:
    """A sum of gamma values is a gamma value itself, so that large jobs take no longer."""
    return coverage(
        seen,
        remaining,
        lambda chance: chance.gammavariate(shape, 1.0),
        lambda chance: chance.gammavariate(shape * remaining, 1.0),
        runs=500,
    )


def of_two_sorts(share: float, factor: float, seen: int, remaining: int) -> float:
    """Gamma values, of which some are several times as large: how many of the rest are is near enough to normal."""

    def rest(chance: random.Random) -> float:
        large = round(remaining * share + math.sqrt(remaining * share * (1 - share)) * chance.gauss())
        return chance.gammavariate(2.0 * large, factor) + chance.gammavariate(2.0 * (remaining - large), 1.0)

    def draw(chance: random.Random) -> float:
        return chance.gammavariate(2.0, factor if chance.random() < share else 1.0)

    return coverage(seen, remaining, draw, rest, runs=500)


@pytest.mark.parametrize("sigma", [0.5, 1.5])
def test_lognormal_costs_after_two_percent_of_a_small_job(sigma: float) -> None:
    assert LEAST <= of_lognormal(sigma, 40, 1_960) <= MOST


@pytest.mark.parametrize("shape", [0.3, 1.0, 5.0])
@pytest.mark.parametrize(("seen", "remaining"), [(40, 1_960), (200, 50)])
def test_gamma_costs(shape: float, seen: int, remaining: int) -> None:
    assert LEAST <= of_gamma(shape, seen, remaining) <= 0.86


@pytest.mark.parametrize(("share", "factor"), [(0.1, 10.0), (0.3, 4.0)])
@pytest.mark.parametrize(("seen", "remaining"), [(40, 1_960), (200, 9_800)])
def test_two_sorts_of_records(share: float, factor: float, seen: int, remaining: int) -> None:
    assert LEAST <= of_two_sorts(share, factor, seen, remaining) <= 0.86


VALUES = st.lists(st.just(0.0) | st.floats(1e-6, 1e6), min_size=5, max_size=50)


@given(VALUES, st.integers(1, 10**6))
def test_a_range_is_in_order_and_scales_with_the_unit(values: list[float], remaining: int) -> None:
    told = forecast(of(values), remaining)
    assert told is not None
    assert 0 <= told.p10 <= told.expected <= told.p90 < math.inf
    assert told.expected == pytest.approx(math.fsum(values) / len(values) * remaining)
    times = forecast(of([value * 1e9 for value in values]), remaining)
    assert times is not None
    assert times.p90 == pytest.approx(told.p90 * 1e9, rel=1e-3)


@given(VALUES, VALUES, st.integers(1, 10**6))
def test_counters_of_several_stores_add_up(one: list[float], other: list[float], remaining: int) -> None:
    together, apart = forecast(of(one + other), remaining), forecast(of(one).merge(of(other)), remaining)
    assert together is not None
    assert apart is not None
    assert apart == pytest.approx(together, rel=1e-3, abs=1e-3)


def test_moments_are_those_of_the_values() -> None:
    moments = of([1.0, 2.0, 3.0, 10.0])
    assert moments.mean == 4.0
    assert moments.variance == pytest.approx(50 / 3)
    assert moments.skewness == pytest.approx(180 / 4 / (50 / 3) ** 1.5)
    assert of([0.0] * 9 + [1e-117]).skewness == 0.0  # whose cube is none any more
    assert Moments() == Moments().merge(Moments())
    assert Moments().mean == Moments().variance == Moments().skewness == 0.0


@pytest.mark.parametrize("value", [0.1, 1e10, 1e-9])
def test_equal_costs_leave_no_doubt(value: float) -> None:
    told = forecast(of([value] * 1000), 100)
    assert told is not None
    assert told == pytest.approx(Range(*[100 * value] * 3))


def test_the_end_of_costs_that_lean_to_the_right_is_further_up() -> None:
    right = forecast(of([1.0] * 30 + [10.0] * 3), 10_000)
    left = forecast(of([10.0] * 30 + [1.0] * 3), 10_000)
    assert right is not None
    assert left is not None
    assert right.p90 - right.expected > 1.3 * (right.expected - right.p10)
    assert left.expected - left.p10 == pytest.approx(right.p90 - right.expected)


def test_the_doubt_of_the_rest_itself_counts_too() -> None:
    values = [float(1 + n % 7) for n in range(700)]
    few, many = forecast(of(values), 10), forecast(of(values), 1_000_000)
    assert few is not None
    assert many is not None
    assert (few.p90 - few.p10) / few.expected > 5 * (many.p90 - many.p10) / many.expected


def test_nothing_is_told_from_few() -> None:
    assert forecast(of([1.0, 2.0, 3.0, 4.0]), 10) is None
    assert forecast(of([1.0, 2.0, 3.0, 4.0, 5.0]), 10) is not None
    assert forecast(Moments(), 0) == Range(0.0, 0.0, 0.0)


@pytest.mark.parametrize("value", [-1.0, math.nan, math.inf, 1e91])
def test_what_is_no_cost_is_refused(value: float) -> None:
    with pytest.raises(ValueError, match="from 0 to"):
        Moments().add(value)


@pytest.mark.parametrize("windows", [5, 30])
def test_time_left_holds_as_often_as_it_says(windows: int) -> None:
    """Records that end one after the other, each after a gamma-distributed time."""
    inside = 0
    for run in range(400):
        chance = random.Random(run)
        counts, at = [0] * windows, 0.0
        while (at := at + chance.gammavariate(0.5, 2.0)) < windows * 20:
            counts[int(at // 20)] += 1
        told = time_left(of([float(count) for count in counts]), 20.0, 5_000)
        assert told is not None
        inside += told.p10 <= chance.gammavariate(0.5 * 5_000, 2.0) <= told.p90
    assert LEAST <= inside / 400 <= 0.86


def test_time_left_is_unknown_without_progress() -> None:
    assert time_left(of([3.0] * 4), 10.0, 5) is None
    assert time_left(of([0.0] * 9), 10.0, 5) is None
    assert time_left(of([0.0] * 9), 10.0, 0) == Range(0.0, 0.0, 0.0)
    assert time_left(of([3.0] * 5), 10.0, 6) == Range(20.0, 20.0, 20.0)
    slow = time_left(of([0.0, 0.0, 9.0, 0.0, 0.0]), 10.0, 900)
    assert slow is not None
    assert 0 < slow.p10 < slow.expected == 5_000.0 < slow.p90
