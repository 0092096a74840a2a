"""What people say to runs at work: to finish and end, and how many calls they may have in progress; what runs say."""

from __future__ import annotations

from typing import Any

import pytest
from store_conformance import LEASE, Bench, advanced

from onward.errors import LeaseLost
from onward.ports.bill import Pace
from onward.ports.facts import RunFacts
from onward.ports.work import Work

TODAY: dict[str, str] = {}


def facts(bench: Bench, run: int) -> RunFacts:
    return next(one for one in bench.stores.desk().standing(1, TODAY).runs if one.run == run)


def acts(bench: Bench) -> list[Any]:
    return [(one.event, one.actor, one.reason) for one in bench.stores.desk().log(1, None) if one.actor is not None]


# Draining.


def test_runs_at_work_are_told_and_those_that_begin_later_are_not(bench: Bench) -> None:
    one, two = bench.start("k"), bench.begin().run
    other = bench.begin(instance="other").run
    assert bench.store.orders(one).drain is None
    drained = bench.stores.desk().drain(1, None, "anna", "a deploy")
    assert [(each.run, each.host, each.alive, each.before) for each in drained] == [
        (one, "here", True, False),
        (two, "here", True, False),
    ]
    assert [bench.store.orders(run).drain for run in (one, two)] == ["drained by anna: a deploy"] * 2
    assert bench.store.orders(other).drain is None
    later = bench.begin().run
    assert bench.store.orders(later).drain is None
    assert acts(bench) == [("run_drained", "anna", f"runs {one}, {two}: a deploy")]
    assert (facts(bench, one).drain, facts(bench, one).alive) == ("drained by anna: a deploy", True)
    assert facts(bench, later).drain is None


def test_one_run_alone_is_told_and_only_once(bench: Bench) -> None:
    one, two = bench.start("k"), bench.begin().run
    desk = bench.stores.desk()
    assert [each.run for each in desk.drain(1, two, "anna", None)] == [two]
    assert [(each.run, each.before) for each in desk.drain(1, None, "ben", "again")] == [(one, False), (two, True)]
    assert bench.store.orders(two).drain == "drained by anna"
    assert [act[2] for act in acts(bench)] == [f"run {two}", f"run {one}: again"]


def test_a_run_that_has_ended_or_is_another_instances_is_not_told(bench: Bench) -> None:
    one = bench.start("k")
    other = bench.begin(instance="other").run
    bench.store.end_run(one, 0, "all done")
    desk = bench.stores.desk()
    assert desk.drain(1, None, "anna", None) == []
    assert desk.drain(1, other, "anna", None) == []
    assert bench.store.orders(other).drain is None
    assert acts(bench) == []


def test_who_was_told_and_dies_makes_nobody_a_suspect(bench: Bench) -> None:
    run = bench.start("k")
    bench.claim(run)
    bench.stores.desk().drain(1, None, "anna", None)
    bench.die(run)
    (dead,) = bench.begin(bench.another()).dead_runs
    assert (dead.told_to_stop, dead.put_back) == (True, 1)
    assert bench.row("k")["deaths"] == 0


def test_who_had_died_before_the_word_has_died_all_the_same(bench: Bench) -> None:
    """Else a crash would hide behind a drain that comes after it."""
    run = bench.start("k")
    bench.claim(run)
    bench.die(run)
    desk = bench.stores.desk()
    assert [each.alive for each in desk.drain(1, None, "anna", None)] == [False]
    (dead,) = bench.begin(bench.another()).dead_runs
    assert dead.told_to_stop is False
    assert bench.row("k")["deaths"] == 1


def test_who_wakes_after_its_lease_hears_of_it(bench: Bench) -> None:
    run = bench.start("k")
    (one,) = bench.claim(run)
    bench.clock.pass_time(LEASE + 1)
    (drained,) = bench.stores.desk().drain(1, run, "anna", None)
    assert not drained.alive
    assert bench.store.renew(run)
    assert bench.store.orders(run).drain == "drained by anna"
    assert bench.state(run, advanced(one)) == set(), "what it has in hand it may finish"


def test_who_was_taken_over_changes_nothing_drained_or_not(bench: Bench) -> None:
    zombie = bench.start("k")
    (one,) = bench.claim(zombie)
    bench.clock.pass_time(LEASE + 1)
    other = bench.another()
    taker = bench.begin(other).run
    drained = bench.stores.desk().drain(1, None, "anna", None)
    assert [each.run for each in drained] == [taker]
    assert bench.stores.desk().drain(1, zombie, "anna", None) == []
    assert not bench.store.renew(zombie)
    with pytest.raises(LeaseLost):
        bench.state(zombie, advanced(one))


# Concurrency.


def test_what_is_said_of_concurrency_holds_for_all_runs_until_it_is_taken_back(bench: Bench) -> None:
    run = bench.start("k")
    other = bench.begin(instance="other").run
    desk = bench.stores.desk()
    assert (bench.store.orders(run).concurrency, desk.concurrency(1)) == (None, None)
    desk.set_concurrency(1, 8, "anna", "their limit")
    assert (bench.store.orders(run).concurrency, bench.store.orders(run).said) == (8, 1)
    assert bench.store.orders(other).concurrency is None
    later = bench.begin().run
    assert bench.store.orders(later).concurrency == 8
    assert (desk.concurrency(1), desk.standing(1, TODAY).concurrency) == (8, 8)
    desk.set_concurrency(1, 8, "ben", None)
    assert bench.store.orders(run).said == 2, "said once more"
    desk.set_concurrency(1, None, "ben", None)
    assert (bench.store.orders(run).concurrency, bench.store.orders(run).said) == (None, 3)
    assert acts(bench) == [
        ("concurrency_changed", "anna", "8 for each run: their limit"),
        ("concurrency_changed", "ben", "8 for each run"),
        ("concurrency_changed", "ben", "what the job declares"),
    ]
    assert desk.verify(None, None).misfit is None


# What runs say.


def test_what_a_run_says_of_its_work_is_told(bench: Bench) -> None:
    run = bench.start("k", pid=4711)
    bench.clock.pass_time(10)
    bench.store.note_work(run, Work(7, 1.5, 32))
    found = facts(bench, run)
    assert (found.pid, found.done, found.rate, found.concurrency) == (4711, 7, 1.5, 32)
    assert found.noted == pytest.approx(bench.stores.desk().standing(1, TODAY).now)
    assert found.lease == pytest.approx(LEASE - 10)
    bench.clock.pass_time(LEASE)
    assert facts(bench, run).lease == pytest.approx(-10)
    bench.store.renew(run)
    assert facts(bench, run).lease == pytest.approx(LEASE)


def test_a_run_that_has_ended_says_nothing_more(bench: Bench) -> None:
    run = bench.start("k")
    bench.store.note_work(run, Work(7, 1.5, 32))
    bench.store.end_run(run, 0, "all done")
    bench.store.note_work(run, Work(9, 1.5, 32, Pace(1.0, 1, 1.0, 1.0)))
    assert (facts(bench, run).done, facts(bench, run).lease) == (7, None)


def test_a_boot_leaves_no_lease_to_tell(bench: Bench) -> None:
    bench.needs_one_host()
    run = bench.start("k")
    bench.clock.reboot()
    assert facts(bench, run).lease is None
