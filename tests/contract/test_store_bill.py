"""What a store keeps of costs: sums over records that are through with a step, and who has it still to come."""

from __future__ import annotations

from dataclasses import replace

import pytest
from store_conformance import Bench, advanced, failed, failure, finished, quarantined, retried

from onward.model import Claimed, Fact, Kind, Spending, Spent
from onward.ports.bill import CostSums, Pace
from onward.ports.work import Reservation, Work

STEPS = ("a", "b")
AT_B = replace(failure(), step="b")


def costing(fact: Fact, *microdollars: int, **given: int) -> Fact:
    fact.spending = [
        Spending(Spent("small", requests=1, tokens_in=10, picodollars=cost * 10**6, **given)) for cost in microdollars
    ]
    return fact


def of(bench: Bench, step: str) -> CostSums:
    (found,) = [one for one in bench.store.bill(1, STEPS).sums if one.step == step]
    return found


def claimed(bench: Bench, run: int) -> list[Claimed]:
    return sorted(bench.claim(run), key=lambda one: one.position)


def test_sums_are_those_of_the_first_three_powers(bench: Bench) -> None:
    run = bench.start("x", "y")
    for one, cost in zip(claimed(bench, run), (2, 3), strict=True):
        bench.state(run, costing(advanced(one), cost))
    found = of(bench, "a")
    assert (found.version, found.count, found.unknown) == ("1", 2, 0)
    assert (found.total, found.squares, found.cubes) == (5, 4 + 9, 8 + 27)


def test_what_failed_attempts_cost_belongs_to_the_record(bench: Bench) -> None:
    run = bench.start("x")
    (one,) = claimed(bench, run)
    bench.state(run, costing(retried(one, 0.0), 5))
    assert bench.store.bill(1, STEPS).sums == []
    (again,) = claimed(bench, run)
    bench.state(run, costing(advanced(again), 2))
    assert of(bench, "a").total == 7
    assert of(bench, "a").squares == 49


@pytest.mark.parametrize("lost", [0, 1])
def test_what_was_spent_a_moment_ago_stands_against_the_budget(bench: Bench, lost: int) -> None:
    run = bench.start("x", "y")
    asked = Reservation("small", 60, 6, 150, 15)
    assert bench.write(run, reservations=[asked]).reserved[0].granted
    one, other = claimed(bench, run)
    told = [Spending(Spent("small", 1, 6 - 6 * lost, 0, 0, 60 - 60 * lost, lost=lost), 60, 6)]
    again = bench.write(run, facts=[advanced(one)], spending=told, reservations=[asked, asked]).reserved
    assert [found.granted for found in again] == [True, False]
    ended = advanced(other)
    ended.spending = told
    assert [found.granted for found in bench.write(run, facts=[ended], reservations=[asked]).reserved] == [False]
    assert not bench.write(run, reservations=[asked]).reserved[0].granted
    assert bench.write(run, reservations=[replace(asked, picodollars=30, tokens=3)]).reserved[0].granted


def test_records_that_ended_without_an_answer_cost_all_the_same(bench: Bench) -> None:
    run = bench.start("x")
    (one,) = claimed(bench, run)
    bench.state(run, costing(quarantined(one, Kind.INVALID), 4))
    assert (of(bench, "a").count, of(bench, "a").total) == (1, 4)


def test_an_answer_that_another_record_had_paid_for_costs_nothing(bench: Bench) -> None:
    run = bench.start("x", "y")
    first, second = claimed(bench, run)
    bench.state(run, costing(advanced(first), 4), costing(advanced(second)))
    assert (of(bench, "a").count, of(bench, "a").total) == (2, 4)


def test_an_unknown_cost_is_counted_apart(bench: Bench) -> None:
    run = bench.start("x")
    (one,) = claimed(bench, run)
    bench.state(run, costing(advanced(one), 0, unpriced=1))
    found = of(bench, "a")
    assert (found.count, found.unknown, found.total) == (0, 1, 0)


def test_what_a_record_had_cost_before_is_kept_with_what_it_costs(bench: Bench) -> None:
    run = bench.start("x", "y")
    for one, cost in zip(claimed(bench, run), (2, 3), strict=True):
        bench.state(run, costing(advanced(one), cost))
        bench.state(run, costing(finished(one), 10 * cost))
    found = of(bench, "b")
    assert (found.earlier, found.earlier_squares, found.crossed) == (5, 13, 20 * 2 + 30 * 3)
    assert of(bench, "a").earlier == 0


def test_who_has_a_step_still_to_come(bench: Bench) -> None:
    run = bench.start(*"uvwxyz")
    u, v, w, x, *_ = claimed(bench, run)
    bench.state(run, advanced(u), advanced(v), advanced(w))
    bench.state(run, finished(u), quarantined(v, step="b", failure=AT_B), quarantined(x))
    found = bench.store.bill(1, STEPS)
    assert found.to_go == {"a": 2, "b": 3}
    desk = bench.stores.desk()
    assert desk.bill(1, STEPS, again=True) == found


def test_what_failed_is_to_come_where_it_is_tried_again(bench: Bench) -> None:
    run = bench.start(*"xyz")
    x, y, _ = claimed(bench, run)
    bench.state(run, advanced(x))
    bench.state(run, failed(x, step="b", failure=AT_B), failed(y))
    desk = bench.stores.desk()
    assert desk.bill(1, STEPS, again=False).to_go == {"a": 1, "b": 1}
    assert desk.bill(1, STEPS, again=True).failed == {"a": 1, "b": 2}


def test_steps_behind_an_early_end_are_reached_by_fewer(bench: Bench) -> None:
    run = bench.start(*"wxyz")
    w, x, *_ = claimed(bench, run)
    bench.state(run, advanced(w))
    bench.state(run, finished(w))
    early = finished(x, lineage=(("a", "1"),), skipped="a", done_step=None, checkpoint=None)
    bench.state(run, early)
    assert bench.store.bill(1, STEPS).reached == pytest.approx({"a": 1.0, "b": 0.5})


def test_the_pace_is_told_by_the_last_run_that_has_one(bench: Bench) -> None:
    run = bench.start("x")
    desk = bench.stores.desk()
    assert desk.pace(1) is None
    pace = Pace(2.0, 6, 30.0, 170.0)
    bench.store.note_work(run, Work(5, 1.5, 32, pace))
    bench.store.note_work(run, Work(6, 1.5, 32))
    bench.store.end_run(run, 0, "all done")
    bench.store.note_work(run, Work(7, 1.5, 32, Pace(1.0, 1, 1.0, 1.0)))
    first, second = bench.begin().run, bench.begin().run
    assert desk.pace(1) == pace
    bench.store.note_work(second, Work(3, 1.5, 32, Pace(4.0, 6, 30.0, 170.0)))
    bench.stores.clock.pass_time(1)
    bench.store.note_work(first, Work(4, 1.5, 32, Pace(8.0, 6, 30.0, 170.0)))
    assert desk.pace(1) == Pace(8.0, 6, 30.0, 170.0), "the one that began last has said nothing since"
