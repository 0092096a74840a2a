"""The bucket that may owe: how much of a limit is used, and that no minute has more than its share."""

from __future__ import annotations

import heapq
import random
from collections import deque
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onward.policy.pace import BURST_SECONDS, DebtBucket

MINUTES = 5
PER_MINUTE = 3_000
Calls = list[tuple[float, float]]


def simulated(
    bucket: DebtBucket, size: Callable[[], tuple[float, float]], step: float, latency: float
) -> tuple[Calls, float]:
    """Calls as (when, truly used) of somebody who always has one more and looks every `step` seconds; the largest."""
    begun: Calls = []
    ending: list[tuple[float, float]] = []
    now, largest, (estimate, true) = 0.0, 0.0, size()
    while now < MINUTES * 60.0:
        while ending and ending[0][0] <= now:
            bucket.correct(heapq.heappop(ending)[1])
        while bucket.next_at(now, estimate) <= now:
            bucket.take(estimate)
            begun.append((now, true))
            largest = max(largest, estimate, true)
            heapq.heappush(ending, (now + latency, true - estimate))
            estimate, true = size()
        now = round(now + step, 6)
    return begun, largest


def fullest_minute(begun: Calls) -> float:
    """The most that any sixty seconds have, wherever they begin."""
    inside: deque[tuple[float, float]] = deque()
    used = fullest = 0.0
    for at, number in begun:
        inside.append((at, number))
        used += number
        while inside[0][0] <= at - 60.0:
            used -= inside.popleft()[1]
        fullest = max(fullest, used)
    return fullest


@pytest.mark.parametrize("step", [0.005, 0.09])
@pytest.mark.parametrize("number", [1, 5])
def test_small_takes_use_the_whole_limit_and_no_minute_has_more(number: int, step: float) -> None:
    begun, _ = simulated(DebtBucket(PER_MINUTE), lambda: (number, number), step, 0.0)
    used = sum(one for _, one in begun)
    assert used >= 0.99 * PER_MINUTE * MINUTES
    assert fullest_minute(begun) <= PER_MINUTE * (1 + BURST_SECONDS / 60.0) + 1e-6


@pytest.mark.parametrize("per_minute", [3_000, 90_000])
@pytest.mark.parametrize("step", [0.005, 0.05])
def test_large_takes_of_all_sizes(per_minute: int, step: float) -> None:
    chance = random.Random(1)

    def size() -> tuple[float, float]:
        number = chance.uniform(1, per_minute / 30)
        return number, number

    bucket = DebtBucket(per_minute)
    begun, largest = simulated(bucket, size, step, 0.0)
    assert sum(one for _, one in begun) >= 0.99 * per_minute * MINUTES
    assert fullest_minute(begun) <= per_minute + bucket.holds + largest - bucket.holds / 2


@pytest.mark.parametrize(("wrong_by", "share"), [(0.5, 0.99), (1.0, 0.99), (3.0, 0.96)])
def test_what_was_estimated_wrongly_is_made_up_for(wrong_by: float, share: float) -> None:
    """Once the first answers are in, what counts is what calls truly used."""
    chance = random.Random(2)

    def size() -> tuple[float, float]:
        true = chance.uniform(100, 1_000)
        return true * wrong_by, true

    per_minute, latency = 90_000, 2.0
    begun, largest = simulated(DebtBucket(per_minute), size, 0.01, latency)
    settled = [(at, one) for at, one in begun if at >= 60.0]
    assert sum(one for _, one in settled) >= share * per_minute * (MINUTES - 1)
    under_way = latency * per_minute / 60.0 * abs(1 / wrong_by - 1)
    assert fullest_minute(begun) <= per_minute + largest + BURST_SECONDS / 60.0 * per_minute + under_way


def test_what_is_owed_is_waited_for() -> None:
    bucket = DebtBucket(600)  # ten a second; it holds two
    assert bucket.next_at(0.0, 50) == 0.0
    bucket.take(50)
    assert bucket.available(0.0) == -49.0
    assert bucket.next_at(0.0, 50) == pytest.approx(5.0)
    bucket.correct(-20)
    assert bucket.next_at(0.0, 0.5) == pytest.approx(2.95)
    assert bucket.next_at(4.0, 50) == 4.0


def test_nothing_is_saved_up() -> None:
    bucket = DebtBucket(600)
    assert bucket.available(0.0) == 1.0
    assert bucket.available(100.0) == bucket.holds == 2.0
    assert bucket.available(90.0) == 2.0  # the clock was set back
    bucket.correct(-50)
    assert bucket.available(92.0) == 32.0
    assert bucket.available(97.0) == bucket.available(99.0) == 2.0


@given(
    st.floats(1, 1e6),
    st.lists(st.tuples(st.floats(0, 10), st.floats(0, 1e5), st.floats(-1e5, 1e5)), max_size=20),
    st.floats(0, 1e5),
)
def test_the_told_moment_is_the_right_one(
    per_minute: float, calls: list[tuple[float, float, float]], number: float
) -> None:
    bucket, now = DebtBucket(per_minute), 0.0
    for later, taken, more in calls:
        now += later
        bucket.available(now)
        bucket.take(taken)
        bucket.correct(more)
    at = bucket.next_at(now, number)
    assert at >= now
    assert bucket.next_at(at, number) <= at + 1e-6 * max(1.0, at)
