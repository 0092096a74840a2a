"""Who of a crew is waited for, when all have to stop, and what the whole comes to: on a cluster of words, with a clock
of the test's own."""

from __future__ import annotations

import signal
from collections.abc import Callable, Iterable
from itertools import permutations

import pytest

from onward.cluster.crew import GONE, SILENT, Crew, Heard
from onward.cluster.endings import joint
from onward.cluster.hand import Ended

GRACE = 10.0
LOOK = {"host": "a", "run": "1", "runs": 1, "progress": None, "events": [], "lost": 0}


class Words:
    """A cluster whose workers say what the test has written down, one entry a second."""

    def __init__(self, *said: Iterable[Heard]):
        self.said = list(said)
        self.now = 0.0
        self.stopped: list[tuple[float, int, int]] = []
        self.killed: list[int] = []

    def hear(self, seconds: float) -> Iterable[Heard]:
        self.now += 1.0
        return self.said.pop(0) if self.said else []

    def stop(self, worker: int, number: int) -> None:
        self.stopped.append((self.now, worker, number))

    def end(self, worker: int) -> None:
        self.killed.append(worker)


def here(*workers: int) -> list[Heard]:
    return [Heard(worker, look=LOOK) for worker in workers]


def end(worker: int, code: int, reason: str = "") -> Heard:
    return Heard(worker, ended=Ended(code, reason))


def work(words: Words, workers: int, to_stop: Callable[[], int | None] = lambda: None) -> Ended:
    return Crew(words, workers, GRACE, lambda heard: None, to_stop, lambda: words.now).work()


def test_all_are_waited_for() -> None:
    words = Words(here(1, 2), [end(1, 0, "all done")], here(2), here(2), [end(2, 0)])
    assert work(words, 2) == Ended(0, "")
    assert (words.now, words.stopped, words.killed) == (5.0, [], [])


def test_one_that_is_away_is_not_waited_for_once_the_work_is_done() -> None:
    words = Words(here(1), [end(1, 0, "all done")])
    assert work(words, 2) == Ended(0, "all done")
    assert (words.killed, words.stopped) == ([2], [])
    assert words.now > SILENT


def test_one_that_is_away_is_waited_for_while_there_is_work() -> None:
    words = Words(here(1, 2), *[here(1)] * 60, [end(1, 3, "an outage")], *[[]] * 60, here(2), [end(2, 0, "all done")])
    assert work(words, 2) == Ended(0, "all done")
    assert words.killed == []


def test_told_to_stop_all_are_and_those_begun_anew_again() -> None:
    signals = iter([None, signal.SIGINT])
    words = Words(here(1, 2), here(1, 2), *[here(1, 2)] * 7, [end(1, 3), end(2, 3)])
    assert work(words, 2, lambda: next(signals, None)).code == 3
    assert {(worker, number) for _, worker, number in words.stopped} == {(1, signal.SIGINT), (2, signal.SIGINT)}
    assert [worker for moment, worker, _ in words.stopped if moment > 3] == [1, 2]


def test_told_to_stop_those_that_wait_for_room_are_ended_at_once() -> None:
    signals = iter([None, signal.SIGINT])
    words = Words(here(1), here(1), [end(1, 3, "SIGINT")])
    assert work(words, 3, lambda: next(signals, None)) == Ended(3, "SIGINT")
    assert words.killed == [2, 3]
    assert words.now == 3


def test_one_that_does_not_end_within_the_grace_is_ended() -> None:
    signals = iter([signal.SIGTERM])
    words = Words(*[here(1)] * 500)
    ended = work(words, 1, lambda: next(signals, None))
    assert (ended.code, ended.reason, words.killed) == (3, GONE, [1])
    assert GRACE < words.now < 100


@pytest.mark.parametrize("code", [4, 70])
def test_what_needs_a_person_stops_the_others(code: int) -> None:
    words = Words(here(1, 2), [end(1, code, "no credit")], here(2), [end(2, 3, "SIGTERM")])
    assert work(words, 2) == Ended(code, "no credit")
    assert [worker for _, worker, _ in words.stopped] == [2]


def test_one_that_cannot_begin_does_not_stop_the_others() -> None:
    words = Words(here(1, 2), [end(1, 2, "no such file")], here(2), [end(2, 1, "some failed")])
    assert work(words, 2) == Ended(1, "some failed")
    assert words.stopped == []
    assert work(Words([end(1, 2, "no such file"), end(2, 2, "no such file")]), 2) == Ended(2, "no such file")


@pytest.mark.parametrize(
    ("codes", "joined"),
    [
        ((0, 0), 0),
        ((0, 1), 0),
        ((1, 3), 1),
        ((0, 3), 0),
        ((0, 4, 3), 0),
        ((1, 4), 4),
        ((3, 4), 4),
        ((2, 3), 3),
        ((0, 2), 0),
        ((0, 70), 70),
        ((2, 2), 2),
        ((3, 3), 3),
    ],
)
def test_one_code_of_many(codes: tuple[int, ...], joined: int) -> None:
    for order in permutations(codes):
        assert joint([Ended(code, str(code)) for code in order]).code == joined
