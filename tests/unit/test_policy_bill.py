"""Cost to come: the forecasts of several steps together, and when it is not known."""

from __future__ import annotations

import math
import random

import pytest

from onward.engine.spending.bill import cost_to_come
from onward.policy.bill import NOTHING, Outlook, Part, Sample, added, correlation, outlook
from onward.policy.forecast import Moments, Range, forecast
from onward.ports.bill import Bill, CostSums

TODAY = {"a": "1", "b": "1"}


def of(values: list[float]) -> Moments:
    moments = Moments()
    for value in values:
        moments = moments.add(value)
    return moments


def sums(step: str, values: list[float], version: str = "1", **more: float) -> CostSums:
    first, second, third = (sum(value**power for value in values) for power in (1, 2, 3))
    rest = {"unknown": 0, "earlier": 0.0, "earlier_squares": 0.0, "crossed": 0.0, **more}
    return CostSums(step, version, len(values), total=first, squares=second, cubes=third, **rest)  # type: ignore[arg-type]


def test_one_step_is_its_forecast() -> None:
    sample = Sample(of([1, 2, 3, 4, 5]))
    assert outlook([Part("a", sample, 10)]).range == pytest.approx(forecast(sample.moments, 10))


def test_nothing_to_go_costs_nothing_whatever_is_known() -> None:
    assert outlook([Part("a", None, 0, False)]) == NOTHING
    assert outlook([]) == NOTHING


def test_a_price_that_is_not_known_is_not_zero() -> None:
    assert outlook([Part("a", Sample(of([1] * 9)), 3), Part("b", Sample(of([1] * 9)), 3, False)]) == Outlook(
        None, "price", "b"
    )
    assert outlook([Part("a", Sample(Moments(), unknown=9), 3)]) == Outlook(None, "price", "a")


def test_before_five_are_through_nothing_can_be_told() -> None:
    assert outlook([Part("a", Sample(of([1.0] * 4)), 3)]) == Outlook(None, "samples", "a")
    assert outlook([Part("a", None, 3)]) == Outlook(None, "samples", "a")


def test_independent_steps_spread_less_than_correlated_ones() -> None:
    one = Range(8, 10, 13)
    assert added(one, one, 0.0) == pytest.approx((20 - math.sqrt(8), 20, 20 + math.sqrt(18)))
    assert added(one, one, 1.0) == pytest.approx((16, 20, 26))


def test_correlation_is_that_of_the_values() -> None:
    first, second = [1.0, 2.0, 3.0, 4.0], [2.0, 4.0, 6.0, 8.0]
    told = [(sum(values), sum(value**2 for value in values)) for values in (first, second)]
    crossed = sum(a * b for a, b in zip(first, second, strict=True))
    assert correlation(4, told[0], told[1], crossed) == pytest.approx(1.0)
    against = sum(a * b for a, b in zip(first, reversed(second), strict=True))
    assert correlation(4, told[0], told[1], against) == 0.0
    assert correlation(4, (4.0, 4.0), told[1], 20.0) == 0.0


def test_ranges_of_two_steps_hold_as_often_as_they_say() -> None:
    """The same text is asked about twice: both costs grow with its length."""
    inside, runs = 0, 400
    for run in range(runs):
        draw = random.Random(run)
        lengths = [draw.lognormvariate(0, 0.8) for _ in range(460)]
        costs = [(length * draw.lognormvariate(0, 0.2), length * draw.lognormvariate(0, 0.2)) for length in lengths]
        seen, rest = costs[:60], costs[60:]
        first, second = ([pair[n] for pair in seen] for n in (0, 1))
        crossed = sum(a * b for a, b in seen)
        together = correlation(
            60, (sum(first), sum(v * v for v in first)), (sum(second), sum(v * v for v in second)), crossed
        )
        found = outlook([Part("a", Sample(of(first)), 400), Part("b", Sample(of(second), correlation=together), 400)])
        assert found.range is not None
        inside += found.range.p10 <= sum(a + b for a, b in rest) <= found.range.p90
    assert 0.72 <= inside / runs <= 0.90


def test_the_bill_counts_who_has_the_step_to_come() -> None:
    values = [1e6] * 10
    bill = Bill([sums("a", values), sums("b", values)], {"a": 5, "b": 9}, {"a": 1, "b": 1})
    found = cost_to_come(bill, TODAY, {"a": True, "b": True})
    assert found.range == pytest.approx((16, 16, 16))
    assert cost_to_come(bill, TODAY, {"a": True, "b": True}, most=4).range == pytest.approx((8, 8, 8))
    assert cost_to_come(bill, TODAY, {"a": True, "b": True}, unread=10).range == pytest.approx((36, 36, 36))


def test_samples_of_an_older_version_are_not_those_of_the_newest() -> None:
    bill = Bill([sums("a", [1e6] * 10, version="0")], {"a": 5})
    assert cost_to_come(bill, TODAY, {"a": True}).why == "samples"


def test_a_step_that_few_records_reach_is_asked_less_often() -> None:
    bill = Bill([sums("b", [1e6] * 10)], {"b": 100}, {}, {"a": 1.0, "b": 0.1})
    assert cost_to_come(bill, TODAY, {"b": True}).range == pytest.approx((10, 10, 10))


def test_a_step_that_has_cost_before_is_in_the_bill_without_the_job() -> None:
    bill = Bill([sums("a", [1e6] * 10)], {"a": 2, "b": 2})
    assert cost_to_come(bill, TODAY, {}).range == pytest.approx((2, 2, 2))
