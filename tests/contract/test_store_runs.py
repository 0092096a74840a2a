"""Runs: beginning, the next run, what a run that was taken over may do, ends, the first 50."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import pytest
from store_conformance import (
    LEASE,
    Bench,
    failed,
    failure,
    finished,
    given_back,
    plain,
    quarantined,
    retried,
)

from onward.errors import LeaseLost, SourceMoved
from onward.model import Kind, StepVersion

# Beginning.


def test_the_first_run_makes_the_instance(bench: Bench) -> None:
    begun = bench.begin()
    assert (begun.new_instance, begun.others, begun.reset_failed, begun.dead_runs) == (True, 0, 0, [])
    assert bench.store.instance_of(begun.run) == begun.instance
    assert bench.store.counts(begun.instance).total == 0


def test_later_runs_find_it(bench: Bench) -> None:
    first, second = bench.begin(), bench.begin()
    assert (second.instance, second.new_instance) == (first.instance, False)
    assert second.run != first.run


def test_jobs_and_instances_are_apart(bench: Bench) -> None:
    found = {bench.begin(job=job, instance=name).instance for job in ("x", "y") for name in ("", "monday")}
    assert len(found) == 4
    assert bench.begin(job="x").others == 1


def test_a_run_sees_the_others_that_live(bench: Bench) -> None:
    bench.begin()
    bench.begin()
    assert bench.begin().others == 2


def test_another_place_needs_to_be_meant(bench: Bench) -> None:
    bench.begin(location="/a/in.jsonl")
    with pytest.raises(SourceMoved, match=r"/a/in\.jsonl.*/b/in\.jsonl.*--source-changed"):
        bench.begin(location="/b/in.jsonl")
    bench.begin(location="/b/in.jsonl", source_changed=True)
    bench.begin(location="/b/in.jsonl")
    with pytest.raises(SourceMoved):
        bench.begin(location="/a/in.jsonl")


def test_a_refused_run_leaves_nothing(bench: Bench) -> None:
    first = bench.begin(location="/a")
    with pytest.raises(SourceMoved):
        bench.begin(location="/b")
    bench.store.end_run(first.run, 0, "")
    assert bench.begin(location="/a").dead_runs == []


def test_a_run_that_looks_at_no_input_moves_nothing(bench: Bench) -> None:
    bench.begin(location="/a")
    bench.begin(location=None)
    with pytest.raises(SourceMoved):
        bench.begin(location="/b")


def test_an_instance_that_was_never_fed_takes_the_first_place_it_is_given(bench: Bench) -> None:
    bench.begin(location=None)
    bench.begin(location="/a")
    with pytest.raises(SourceMoved):
        bench.begin(location="/b")


# The next run.


def failing(bench: Bench, *keys: str, failed_runs: int = 1, version: str = "1") -> int:
    run = bench.start(*keys)
    told = failure(Kind.BUG, version=version)
    bench.state(run, *[failed(one, failed_runs=failed_runs, failure=told) for one in bench.claim(run)])
    return run


def test_failed_records_are_tried_again_by_the_next_run(bench: Bench) -> None:
    run = failing(bench, "k", "l")
    bench.store.end_run(run, 1, "some failed")
    begun = bench.begin()
    assert begun.reset_failed == 2
    assert bench.states() == {"pending": 2}
    one, _ = bench.claim(begun.run)
    assert (one.attempts, one.failed_runs) == (1, 1)
    assert ("record_reset", None, "failed in an earlier run: tried again") in bench.row("k")["history"]


def test_failed_records_stay_while_another_run_lives(bench: Bench) -> None:
    run = failing(bench, "k")
    begun = bench.begin()
    assert (begun.others, begun.reset_failed) == (1, 0)
    assert bench.states() == {"failed": 1}
    bench.store.end_run(run, 1, "")
    bench.store.end_run(begun.run, 1, "")
    assert bench.begin().reset_failed == 1


def test_a_dead_run_is_no_other_run(bench: Bench) -> None:
    run = failing(bench, "k")
    bench.die(run)
    begun = bench.begin()
    assert (begun.others, begun.reset_failed) == (0, 1)


def test_runs_of_other_instances_do_not_count(bench: Bench) -> None:
    run = failing(bench, "k")
    bench.begin(instance="tuesday")
    bench.store.end_run(run, 1, "")
    assert bench.begin().reset_failed == 1


def test_quarantined_and_succeeded_records_are_not_tried_again(bench: Bench) -> None:
    run = bench.start("k", "l")
    one, two = bench.claim(run)
    bench.state(run, quarantined(one), finished(two))
    bench.store.end_run(run, 1, "")
    assert bench.begin().reset_failed == 0
    assert bench.states() == {"succeeded": 1, "quarantined": 1}


def test_failed_runs_go_on_counting_while_the_step_is_the_same(bench: Bench) -> None:
    run = failing(bench, "k", failed_runs=2)
    bench.store.end_run(run, 1, "")
    (one,) = bench.claim(bench.begin().run)
    assert one.failed_runs == 2


def test_failed_runs_start_anew_when_the_step_changed(bench: Bench) -> None:
    run = failing(bench, "k", failed_runs=2)
    bench.store.end_run(run, 1, "")
    begun = bench.begin(steps=(StepVersion("a", "2"), StepVersion("b", "1")))
    (one,) = bench.claim(begun.run)
    assert one.failed_runs == 0


def test_failed_runs_do_not_start_anew_when_another_step_changed(bench: Bench) -> None:
    run = failing(bench, "k", failed_runs=2)
    bench.store.end_run(run, 1, "")
    begun = bench.begin(steps=(StepVersion("a", "1"), StepVersion("b", "2")))
    (one,) = bench.claim(begun.run)
    assert one.failed_runs == 2


def test_a_suspect_that_failed_stays_a_suspect_in_the_next_run(bench: Bench) -> None:
    run = bench.start("k")
    (one,) = bench.claim(run)
    bench.state(run, failed(one, deaths=2))
    bench.store.end_run(run, 1, "")
    begun = bench.begin()
    assert bench.claim(begun.run) == []
    assert plain(bench.claim(begun.run, suspects=True, start=False)) == ["k"]


# A run that was taken over.


ZOMBIE_ACTS: dict[str, Callable[[Any, int], Any]] = {
    "take_over": lambda store, run: store.take_over(run),
    "note_stop": lambda store, run: store.note_stop(run, "late"),
    "take_feed": lambda store, run: store.take_feed(run),
    "begin_pass again": lambda store, run: store.begin_pass(run, True, "it changed"),
    "begin_pass": lambda store, run: store.begin_pass(run, False, ""),
    "reset_first_ended": lambda store, run: store.reset_first_ended(run),
    "end_run": lambda store, run: store.end_run(run, 0, "all done"),
    "renew": lambda store, run: store.renew(run),
}


@pytest.mark.parametrize("act", ZOMBIE_ACTS)
def test_a_run_that_was_taken_over_changes_nothing(bench: Bench, act: str) -> None:
    run = bench.start("k", "l")
    one, _ = bench.claim(run)
    bench.state(run, failed(one))
    bench.clock.pass_time(LEASE + 1)
    other_store = bench.another()
    other = bench.begin(other_store).run
    if "pass" in act:
        assert other_store.take_feed(other) is not None
    (mine, *_) = bench.claim(other, store=other_store)
    third = bench.begin(other_store).run
    bench.claim(third, store=other_store)
    bench.die(third, other_store)

    before = everything(bench)
    with contextlib.suppress(LeaseLost):
        ZOMBIE_ACTS[act](bench.store, run)
    assert everything(bench) == before
    assert bench.state(other, finished(mine), store=other_store) == set()


def everything(bench: Bench) -> Any:
    query = bench.stores.query  # type: ignore[attr-defined]
    return {table: query(f"SELECT * FROM {table}") for table in ("instances", "runs", "records", "history", "counts")}


# Ends.


def test_a_run_that_ends_gives_back_what_it_holds_with_the_attempt_uncounted(bench: Bench) -> None:
    run = bench.start("k", "l")
    one, _ = bench.claim(run)
    bench.state(run, retried(one, bench.clock.now() - 1, attempts=1))
    bench.claim(run)
    bench.store.end_run(run, 3, "SIGINT")
    assert bench.states() == {"pending": 2}
    assert (bench.row("k")["attempts"], bench.row("l")["attempts"]) == (1, 0)
    row = bench.stores.run_row(run)
    assert (row["exit_code"], row["reason"]) == (3, "SIGINT")
    assert row["ended"] == bench.clock.now()
    assert bench.begin().dead_runs == []


def test_a_run_that_ended_is_ended_once(bench: Bench) -> None:
    run = bench.start("k")
    bench.store.end_run(run, 3, "first")
    bench.clock.pass_time(10)
    before = bench.stores.run_row(run)
    bench.store.end_run(run, 0, "second")
    assert bench.stores.run_row(run) == before


def test_a_late_end_of_a_dead_run_changes_nothing(bench: Bench) -> None:
    run = bench.start("k")
    bench.claim(run)
    bench.clock.pass_time(LEASE + 1)
    other = bench.begin().run
    bench.claim(other)
    bench.store.end_run(run, 0, "all done")
    assert bench.row("k")["run"] == other
    assert bench.stores.run_row(run)["reason"] == "died"


def test_a_suspect_is_given_back_as_one(bench: Bench) -> None:
    run = bench.start("k")
    (one,) = bench.claim(run)
    bench.state(run, given_back(one, deaths=2, hold="suspect"))
    bench.claim(run, suspects=True, start=False)
    bench.store.end_run(run, 3, "SIGINT")
    assert bench.row("k")["hold"] == "suspect"


# The first 50.


def test_the_first_ended_are_put_back(bench: Bench) -> None:
    run = bench.start("a", "b", "c", "d")
    one, two, three, _ = bench.claim(run)
    bench.state(run, failed(one, failed_runs=2), quarantined(two), finished(three))
    assert bench.store.reset_first_ended(run) == 2
    assert bench.states() == {"pending": 2, "succeeded": 1, "in_progress": 1}
    assert bench.store.counts(1).failures == {}
    assert (bench.row("a")["failed_runs"], bench.row("a")["attempts"]) == (0, 0)
    assert bench.row("b")["history"][-1][0] == "record_reset"
    assert bench.store.reset_first_ended(run) == 0


def test_misfits_are_not_put_back_with_them(bench: Bench) -> None:
    from store_conformance import records

    run = bench.begin().run
    bench.store.take_feed(run)
    bench.store.begin_pass(run, False, "")
    misfit, fit = records("misfit", "fit")
    misfit.invalid = "no number"
    bench.feed(run, [misfit, fit], complete=True)
    (one,) = bench.claim(run)
    bench.state(run, failed(one))
    assert bench.store.reset_first_ended(run) == 1
    assert bench.states() == {"quarantined": 1, "pending": 1}


def test_a_convict_among_the_first_is_put_back_as_a_suspect(bench: Bench) -> None:
    run = bench.start("k")
    (one,) = bench.claim(run)
    bench.state(run, quarantined(one, Kind.SYSTEM, solo_deaths=3, deaths=2))
    bench.store.reset_first_ended(run)
    assert bench.claim(run) == []
    assert plain(bench.claim(run, suspects=True, start=False)) == ["k"]
