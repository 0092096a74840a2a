"""Ceilings that the runs of an instance share: never more than there is, and a part for everybody that wants some."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
from store_conformance import Bench

from onward.policy.sharing import STALE, TURN
from onward.ports.work import Offer, Portion

CEILING = "calls at a gate"
EVERY = 1.0
NOTHING = Portion(0, 0)


@dataclass
class Run:
    """A run as it is to behave: it stops using what it does not keep before it says so."""

    bench: Bench
    number: int
    size: float
    whole: bool
    alone: bool
    wants: float = 0.0
    in_use: int = 0
    portion: Portion = field(default=NOTHING)

    @property
    def held(self) -> float:
        return self.size if self.alone else self.portion.held

    @property
    def may_use(self) -> float:
        return self.size if self.alone else min(self.portion.held, self.portion.target)

    def share(self) -> None:
        kept = max(self.in_use, self.may_use if self.wants else 0.0)
        offer = Offer(CEILING, self.size, kept, max(self.wants, self.in_use), self.whole)
        shared = self.bench.store.store.share(self.number, [offer])
        self.alone, self.portion = shared.alone, shared.portions.get(CEILING, NOTHING)

    def hears(self) -> None:
        if self.alone and self.bench.store.store.orders(self.number).others:
            self.share()

    def begins(self) -> bool:
        if self.in_use + 1 > self.may_use or self.in_use >= self.wants:
            return False
        self.in_use += 1
        return True


def joins(bench: Bench, size: float = 4, whole: bool = True, wants: float = 0.0, **start: object) -> Run:
    begun = bench.begin(ceilings=True, **start)
    return Run(bench, begun.run, size, whole, begun.alone, wants)


def leaves(run: Run) -> None:
    run.bench.store.store.end_run(run.number, 0, "done")


def dies(run: Run) -> None:
    run.bench.die(run.number)


def rows(bench: Bench) -> int:
    return int(bench.stores.query("SELECT count(*) AS n FROM shares")[0]["n"])  # type: ignore[attr-defined]


def settled(runs: list[Run], rounds: int = 4) -> list[float]:
    """What each holds after some rounds."""
    for _ in range(rounds):
        for one in runs:
            one.hears()
            if not one.alone:
                one.share()
    return [one.held for one in runs]


def pass_time(bench: Bench, runs: list[Run], seconds: float) -> None:
    bench.clock.pass_time(seconds)
    for one in runs:
        assert bench.store.store.renew(one.number)


def test_who_is_alone_has_everything_and_writes_nothing(bench: Bench) -> None:
    run = joins(bench, wants=4)
    assert run.alone
    assert not bench.store.orders(run.number).others
    run.share()
    assert run.alone
    assert rows(bench) == 0


def test_who_comes_later_has_nothing_before_the_first_has_shared(bench: Bench) -> None:
    first, second = joins(bench, wants=4), joins(bench, wants=4)
    assert (first.alone, second.alone) == (True, False)
    for _ in range(5):
        second.share()
        assert second.held == 0
    assert bench.store.orders(first.number).others
    first.in_use = 3
    first.hears()
    second.share()
    assert (first.held, second.held) == (4, 0)  # it keeps what it says that it keeps
    assert settled([first, second]) == [3, 1]
    first.in_use = 0
    assert settled([first, second]) == [2, 2]


def test_who_comes_later_has_everything_once_the_first_is_known_to_be_dead(bench: Bench) -> None:
    first, second = joins(bench, wants=4), joins(bench, wants=4)
    dies(first)
    second.share()
    assert second.held == 0
    assert [dead.run for dead in bench.store.take_over(second.number)] == [first.number]
    second.share()
    assert (second.alone, second.held) == (True, 4)


def test_what_a_dead_run_held_is_used_again_once_it_is_buried(bench: Bench) -> None:
    first, second, third = (joins(bench, wants=4) for _ in range(3))
    assert settled([first, second, third]) == [2, 1, 1]
    dies(second)
    assert settled([first, third]) == [2, 1]
    bench.store.take_over(third.number)
    assert settled([first, third]) == [2, 2]


def test_what_a_run_held_that_has_ended_is_used_again_at_once(bench: Bench) -> None:
    first, second, third = (joins(bench, wants=4) for _ in range(3))
    assert settled([first, second, third]) == [2, 1, 1]
    leaves(second)
    assert settled([first, third]) == [2, 2]
    leaves(first)
    assert settled([third]) == [4]
    assert third.alone
    assert rows(bench) == 0


def test_what_nobody_else_wants_is_for_who_wants_it(bench: Bench) -> None:
    runs = [joins(bench, 10, wants=wants) for wants in (10.0, 1.0, 0.0)]
    assert settled(runs) == [9, 1, 0]
    runs[2].wants = 10
    assert settled(runs) == [5, 1, 4]


def test_a_rate_is_divided_evenly(bench: Bench) -> None:
    runs = [joins(bench, 100.0, whole=False, wants=wants) for wants in (100.0, 10.0, 100.0)]
    assert settled(runs) == pytest.approx([45, 10, 45])
    runs[0].wants = runs[2].wants = 15.0  # what is over is spread
    assert sum(settled(runs)) == pytest.approx(100)


def test_a_run_that_is_under_no_ceilings_is_nobody_to_share_with(bench: Bench) -> None:
    bench.begin()
    first = joins(bench)
    bench.begin()
    assert first.alone
    assert not bench.store.orders(first.number).others


def test_other_instances_share_nothing_with_it(bench: Bench) -> None:
    assert joins(bench, wants=4).alone
    assert joins(bench, wants=4, instance="b").alone


def test_a_wish_that_is_not_said_again_is_forgotten_and_what_is_held_is_not(bench: Bench) -> None:
    first, second = joins(bench, wants=4), joins(bench, wants=4)
    assert settled([first, second]) == [2, 2]
    leaves(first)
    second.share()
    third = joins(bench, wants=4)
    assert settled([second, third]) == [2, 2]
    fourth = joins(bench, 1, wants=1)
    fourth.share()
    pass_time(bench, [second, third, fourth], STALE + 1)
    assert settled([second])[0] == 2  # the third holds two of the four, whether or not it is heard of
    assert settled([third])[0] == 2


@pytest.mark.parametrize("seconds", [1.0, 2 * TURN, 11.0])
def test_where_there_is_one_for_five_each_has_its_turn(bench: Bench, seconds: float) -> None:
    """Whoever has it is never idle, and always wants it; calls take as long as a turn, or two, or less."""
    runs = [joins(bench, 1, wants=1) for _ in range(5)]
    settled(runs)
    began: dict[int, int] = dict.fromkeys((one.number for one in runs), 0)
    ends: dict[int, float] = {}
    elapsed = idle = 0.0
    while elapsed < 5 * (2 * max(seconds, TURN) + 3):
        for one in runs:
            if one.in_use and elapsed >= ends[one.number]:
                one.in_use = 0
                one.share()
            while one.begins():
                began[one.number] += 1
                ends[one.number] = elapsed + seconds
            one.share()
        assert sum(one.held for one in runs) <= 1
        assert sum(one.in_use for one in runs) <= 1
        idle += 0.0 if any(one.in_use for one in runs) else EVERY
        pass_time(bench, runs, EVERY)
        elapsed += EVERY
    assert min(began.values()) >= 1, began
    assert idle < elapsed / 3


@pytest.mark.parametrize("whole", [True, False], ids=["calls", "rate"])
@pytest.mark.parametrize("seed", range(4))
def test_whatever_happens_no_more_is_held_than_there_is(bench: Bench, seed: int, whole: bool) -> None:
    draw = random.Random(seed)
    size = draw.choice([1, 2, 3, 7])
    runs: list[Run] = [joins(bench, size, whole)]
    dead: list[Run] = []

    def join() -> None:
        if len(runs) < 6:
            runs.append(joins(bench, size, whole))
            dead[:] = [one for one in dead if not is_buried(one)]

    def leave() -> None:
        if len(runs) > 1:
            leaves(runs.pop(draw.randrange(len(runs))))

    def die() -> None:
        if len(runs) > 1:
            dead.append(runs.pop(draw.randrange(len(runs))))
            dies(dead[-1])

    def bury() -> None:
        bench.store.store.take_over(draw.choice(runs).number)
        dead.clear()

    def is_buried(one: Run) -> bool:
        return bool(bench.stores.run_row(one.number)["ended"])

    def want() -> None:
        draw.choice(runs).wants = draw.choice([0, 1, size / 2 if not whole else 1, size])

    def call() -> None:
        draw.choice(runs).begins()

    def end() -> None:
        one = draw.choice(runs)
        one.in_use = max(one.in_use - 1, 0)

    def ask() -> None:
        one = draw.choice(runs)
        if not one.alone:
            one.share()

    acts: list[Callable[[], object]] = [join, leave, die, bury, want, want, call, call, call, end, end]
    acts += [ask] * 6 + [lambda: draw.choice(runs).hears()] * 3
    for _ in range(120):
        draw.choice(acts)()
        assert sum(one.held for one in [*runs, *dead]) <= size * (1 + 1e-9)
        assert all(one.in_use <= one.held for one in runs)
        if draw.random() < 0.2:
            pass_time(bench, runs, draw.choice([0.3, 3.0]))
    bury()
    for one in runs:
        one.in_use = 0
    runs[-1].wants = size
    assert sum(settled(runs, 8)) == pytest.approx(size)
