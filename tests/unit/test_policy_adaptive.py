"""Adaptive concurrency: bounds that always hold, and what it finds with servers of several kinds."""

from __future__ import annotations

import heapq
import itertools
import math
import random
from collections import deque

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onward.policy.adaptive import FIRST, Adaptive

ROUND_TRIP = 1.0
REFUSAL = 0.02
PAUSE = 1.0


class Server:
    """Answers `capacity` calls at once after a second or so; refuses more at once, or lets them wait their turn.

    The client always has one more call. After a refusal it begins none for a second. `limits`: (time, limit) at each
    answer and refusal.
    """

    def __init__(self, policy: Adaptive, capacity: int, noise: float = 0.0, queues: bool = False, seed: int = 1):
        self.policy, self.capacity, self.noise, self.queues = policy, capacity, noise, queues
        self.chance = random.Random(seed)
        self.now = self.closed_until = 0.0
        self.serving = self.in_progress = self.answers = self.refusals = 0
        self.numbers = itertools.count()
        self.waiting: deque[float] = deque()
        self.events: list[tuple[float, int, float | None, bool]] = []
        self.limits: list[tuple[float, int]] = []

    def run(self, until: float) -> None:
        self._begin_all()
        while self.events and self.events[0][0] <= until:
            self.now, _, began, answered = heapq.heappop(self.events)
            if began is not None:
                self._answer(began) if answered else self._refuse(began)
                self.in_progress -= 1
                self.limits.append((self.now, self.policy.limit))
            self._begin_all()

    def _begin_all(self) -> None:
        while self.in_progress < self.policy.limit and self.now >= self.closed_until:
            self.in_progress += 1
            if self.serving < self.capacity:
                self._serve(self.now)
            elif self.queues:
                self.waiting.append(self.now)
            else:
                self._at(self.now + REFUSAL, self.now, False)

    def _serve(self, began: float) -> None:
        self.serving += 1
        seconds = ROUND_TRIP * math.exp(self.noise * self.chance.gauss() - self.noise**2 / 2)
        self._at(self.now + seconds, began, True)

    def _answer(self, began: float) -> None:
        self.serving -= 1
        self.answers += 1
        self.policy.answered(self.now, began, self.in_progress)
        if self.waiting and self.serving < self.capacity:
            self._serve(self.waiting.popleft())

    def _refuse(self, began: float) -> None:
        self.refusals += 1
        self.policy.throttled(self.now, began)
        self.closed_until = self.now + PAUSE
        self._at(self.closed_until, None, False)

    def _at(self, when: float, began: float | None, answered: bool) -> None:
        heapq.heappush(self.events, (when, next(self.numbers), began, answered))

    def between(self, begin: float, end: float) -> list[int]:
        return [limit for at, limit in self.limits if begin <= at < end]


@pytest.mark.parametrize("noise", [0.0, 0.5, 1.0])
def test_where_nothing_throttles_all_that_is_allowed_is_in_use_after_a_few_round_trips(noise: float) -> None:
    server = Server(Adaptive(256), capacity=1_000, noise=noise)
    server.run(7 * ROUND_TRIP)
    assert server.policy.limit == 256
    server.run(60 * ROUND_TRIP)
    assert min(server.between(10, 60)) == 256


@pytest.mark.parametrize("capacity", [5, 20, 60, 150])
@pytest.mark.parametrize("noise", [0.0, 0.8])
def test_a_server_that_throttles_is_kept_busy_and_seldom_asked_for_too_much(capacity: int, noise: float) -> None:
    server = Server(Adaptive(256), capacity, noise)
    server.run(200.0)
    settled = server.between(60.0, 200.0)
    assert capacity // 2 - 1 <= min(settled)
    assert max(settled) <= 1.1 * capacity + 1
    assert sum(settled) / len(settled) >= 0.75 * capacity
    assert server.answers >= 0.65 * capacity * 200
    early = server.refusals
    server.run(300.0)
    assert server.refusals - early <= 0.02 * capacity * 100 + 40


@pytest.mark.parametrize("capacity", [5, 20, 60])
@pytest.mark.parametrize("noise", [0.0, 0.8])
def test_a_server_that_lets_calls_wait_is_not_buried_under_them(capacity: int, noise: float) -> None:
    server = Server(Adaptive(256), capacity, noise, queues=True)
    server.run(200.0)
    assert max(server.between(60.0, 200.0)) <= 3.5 * capacity
    assert server.answers >= 0.9 * capacity * 200


@pytest.mark.parametrize("queues", [False, True])
def test_more_capacity_is_found(queues: bool) -> None:
    server = Server(Adaptive(256), 40, noise=0.5, queues=queues)
    server.run(60.0)
    assert max(server.between(50.0, 60.0)) < 110
    server.capacity = 150
    server.run(160.0)
    assert max(server.between(100.0, 160.0)) >= 130


def test_less_capacity_is_found() -> None:
    server = Server(Adaptive(256), 100)
    server.run(60.0)
    server.capacity = 40
    server.run(160.0)
    assert max(server.between(80.0, 160.0)) <= 45


def grown(most: int = 256) -> Adaptive:
    server = Server(Adaptive(most), capacity=1_000)
    server.run(10 * ROUND_TRIP)
    assert server.policy.limit == most
    return server.policy


def test_a_burst_of_refusals_halves_once_and_a_later_call_halves_again() -> None:
    policy = grown()
    for n in range(20):
        policy.throttled(now=100.0 + n, began=99.0)
    assert policy.limit == 128
    policy.throttled(now=130.0, began=99.9)
    assert policy.limit == 128
    policy.throttled(now=131.0, began=130.5)
    assert policy.limit == 64


def test_after_throttling_it_grows_by_small_steps_smaller_near_what_was_too_much() -> None:
    policy = grown()
    policy.throttled(now=100.0, began=99.0)
    limits, now = [policy.limit], 100.0
    while policy.limit < 240:
        now += ROUND_TRIP
        for _ in range(limits[-1]):
            policy.answered(now, now - ROUND_TRIP, policy.limit)
        limits.append(policy.limit)
    steps = [after - before for before, after in itertools.pairwise(limits)]
    assert limits[0] == 128
    assert max(steps) == 16
    assert [step for step, limit in zip(steps, limits, strict=False) if limit >= 230] == [1] * 10


def one_round(policy: Adaptive, now: float, in_progress: int) -> float:
    for _ in range(policy.limit):
        policy.answered(now + ROUND_TRIP, now, in_progress)
    return now + ROUND_TRIP


def test_a_limit_that_is_not_used_up_does_not_grow() -> None:
    policy, now = Adaptive(256), 0.0
    for _ in range(50):
        now = one_round(policy, now, in_progress=3)
    assert policy.limit == FIRST
    one_round(policy, now, in_progress=FIRST)
    assert policy.limit > FIRST


def test_it_does_not_grow_in_a_round_trip_with_faults() -> None:
    policy = Adaptive(256)
    now = one_round(policy, 0.0, FIRST)
    before = policy.limit
    for _ in range(5):
        policy.failed()
        for _ in range(before):
            policy.answered(now := now + 0.1, now - ROUND_TRIP, before)
            policy.failed()
    assert policy.limit == before


@given(
    st.integers(1, 40),
    st.integers(0, 300),
    st.lists(
        st.tuples(
            st.sampled_from(["answered", "failed", "throttled"]),
            st.floats(0, 20),
            st.floats(-1, 50),
            st.integers(0, 400),
            st.integers(1, 60),
        ),
        max_size=60,
    ),
)
def test_the_limit_stays_between_its_bounds_whatever_happens(
    least: int, more: int, happenings: list[tuple[str, float, float, int, int]]
) -> None:
    policy, now = Adaptive(least + more, least), 0.0
    for what, later, took, in_progress, times in happenings:
        now += later
        before = policy.limit
        for _ in range(times):
            if what == "answered":
                policy.answered(now, now - took, in_progress)
            elif what == "failed":
                policy.failed()
            else:
                policy.throttled(now, now - took)
            assert least <= policy.limit <= least + more
        if what == "throttled":
            assert policy.limit <= before


@pytest.mark.parametrize(("most", "least"), [(0, 0), (3, 4), (5, 0), (-1, -1)])
def test_bounds_that_make_no_sense_are_refused(most: int, least: int) -> None:
    with pytest.raises(ValueError, match="least"):
        Adaptive(most, least)


def test_the_first_limit_is_within_the_bounds() -> None:
    assert Adaptive(3).limit == 3
    assert Adaptive(100, 20).limit == 20
    assert Adaptive(100).limit == FIRST
