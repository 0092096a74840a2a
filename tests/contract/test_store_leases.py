"""Leases and locks, deaths and stops: who is taken over, and what becomes of what it held."""

from __future__ import annotations

from typing import Any

from store_conformance import (
    LEASE,
    Bench,
    advanced,
    finished,
    given_back,
    plain,
    retried,
)

from onward.model import State

# Leases.


def test_a_renewed_lease_lasts(bench: Bench) -> None:
    run = bench.start("k")
    bench.claim(run)
    for _ in range(5):
        bench.clock.pass_time(LEASE - 1)
        assert bench.store.renew(run)
    assert bench.begin().others == 1
    assert bench.states() == {"in_progress": 1}


def test_a_lease_that_ran_out_is_taken_over(bench: Bench) -> None:
    run = bench.start("k")
    (one,) = bench.claim(run)
    bench.clock.pass_time(LEASE + 1)
    begun = bench.begin()
    assert [dead.run for dead in begun.dead_runs] == [run]
    assert bench.states() == {"pending": 1}
    assert bench.row("k")["fence"] > one.fence


def test_a_lease_just_before_its_end_is_not_taken_over(bench: Bench) -> None:
    run = bench.start("k")
    bench.claim(run)
    bench.clock.pass_time(LEASE - 0.1)
    assert bench.begin().dead_runs == []
    assert bench.states() == {"in_progress": 1}


def test_a_lease_that_ran_out_but_was_not_taken_may_be_renewed(bench: Bench) -> None:
    run = bench.start("k")
    (one,) = bench.claim(run)
    bench.clock.pass_time(100 * LEASE)
    assert bench.store.renew(run)
    assert bench.begin().others == 1
    assert bench.state(run, finished(one)) == set()


def test_a_lease_that_was_taken_over_cannot_be_renewed(bench: Bench) -> None:
    run = bench.start("k")
    bench.clock.pass_time(LEASE + 1)
    bench.begin()
    before = bench.stores.run_row(run)
    assert not bench.store.renew(run)
    assert bench.stores.run_row(run) == before


def test_wall_time_is_nothing_to_a_lease(bench: Bench) -> None:
    bench.start("k")
    bench.clock.jump(10 * 365 * 86400)
    assert bench.begin().others == 1
    bench.clock.jump(-20 * 365 * 86400)
    assert bench.begin().others == 2


def test_after_a_reboot_every_lease_is_over_however_fresh_it_looks(bench: Bench) -> None:
    bench.needs_one_host()
    run = bench.start("k")
    bench.claim(run)
    bench.clock.reboot(5)
    assert [dead.run for dead in bench.begin().dead_runs] == [run]


def test_a_dead_process_is_told_by_its_lock_before_its_lease_ends(bench: Bench) -> None:
    run = bench.start("k")
    bench.claim(run)
    bench.die(run)
    assert [dead.run for dead in bench.begin().dead_runs] == [run]
    assert bench.states() == {"pending": 1}


def test_a_run_that_goes_on_buries_the_dead(bench: Bench) -> None:
    first, second = bench.start("k"), bench.begin().run
    bench.claim(first)
    assert bench.store.take_over(second) == []
    bench.die(first)
    (dead,) = bench.store.take_over(second)
    assert (dead.run, dead.put_back, dead.started, dead.told_to_stop) == (first, 1, 1, False)
    assert bench.store.take_over(second) == []


def test_a_run_never_buries_itself(bench: Bench) -> None:
    run = bench.start("k")
    bench.claim(run)
    bench.clock.pass_time(10 * LEASE)
    assert bench.store.take_over(run) == []
    assert bench.states() == {"in_progress": 1}


def test_the_dead_of_other_instances_are_not_this_runs_business(bench: Bench) -> None:
    other = bench.start("k", instance="tuesday")
    bench.claim(other)
    bench.die(other)
    assert bench.begin().dead_runs == []
    assert bench.store.counts(1).of(State.IN_PROGRESS) == 1


# Deaths and stops.


def die_with(bench: Bench, run: int, told: str | None = None) -> Any:
    """The run dies, and the next one begins."""
    if told is not None:
        bench.store.note_stop(run, told)
    bench.die(run)
    return bench.begin()


def test_a_first_death_only_puts_back(bench: Bench) -> None:
    run = bench.start("k", "l")
    bench.claim(run, 1)
    begun = die_with(bench, run)
    (dead,) = begun.dead_runs
    assert (dead.put_back, dead.started, dead.suspects) == (1, 1, 0)
    row = bench.row("k")
    assert (row["deaths"], row["attempts"], row["hold"], row["not_before"]) == (1, 0, None, 0)
    assert row["history"] == [("record_reset", None, "the run that held it died")]
    assert plain(bench.claim(begun.run)) == ["k", "l"]


def test_a_second_death_makes_suspects_of_those_that_had_started(bench: Bench) -> None:
    run = bench.start("k", "l", "m")
    bench.claim(run, 1)
    run = die_with(bench, run).run
    started = bench.claim(run, 2)
    assert plain(started) == ["k", "l"]
    begun = die_with(bench, run)
    (dead,) = begun.dead_runs
    assert (dead.put_back, dead.started, dead.suspects) == (2, 2, 1)
    assert (bench.row("k")["hold"], bench.row("l")["hold"]) == ("suspect", None)
    assert plain(bench.claim(begun.run)) == ["l", "m"]


def test_records_that_were_claimed_but_had_not_started_are_innocent(bench: Bench) -> None:
    run = bench.start("k")
    for _ in range(5):
        bench.claim(run, start=False)
        run = die_with(bench, run).run
    row = bench.row("k")
    assert (row["deaths"], row["hold"], row["attempts"]) == (0, None, 0)


def test_a_run_that_was_told_to_stop_suspects_nobody_however_it_ends(bench: Bench) -> None:
    run = bench.start("k")
    for _ in range(4):
        bench.claim(run)
        begun = die_with(bench, run, "SIGTERM")
        (dead,) = begun.dead_runs
        assert (dead.told_to_stop, dead.suspects) == (True, 0)
        run = begun.run
    row = bench.row("k")
    assert (row["deaths"], row["hold"]) == (0, None)
    assert row["history"][-1] == ("record_reset", None, "the run that held it was told to stop")


def test_the_first_reason_to_stop_stands(bench: Bench) -> None:
    run = bench.start("k")
    bench.store.note_stop(run, "SIGTERM")
    bench.store.note_stop(run, "SIGINT")
    assert bench.stores.run_row(run)["told"] == "SIGTERM"


def test_a_suspect_that_had_not_started_stays_one(bench: Bench) -> None:
    run = bench.start("k")
    (one,) = bench.claim(run)
    bench.state(run, given_back(one, deaths=2, hold="suspect"))
    bench.claim(run, suspects=True, start=False)
    begun = die_with(bench, run)
    assert (bench.row("k")["hold"], bench.row("k")["deaths"]) == ("suspect", 2)
    assert begun.dead_runs[0].suspects == 0


def test_a_record_that_died_alone_stays_a_suspect(bench: Bench) -> None:
    run = bench.start("k")
    (one,) = bench.claim(run)
    bench.state(run, given_back(one, solo_deaths=1, hold="suspect"))
    bench.claim(run, suspects=True, start=False)
    begun = die_with(bench, run, "SIGTERM")
    assert bench.row("k")["hold"] == "suspect"
    (again,) = bench.claim(begun.run, suspects=True)
    assert again.solo_deaths == 1


def test_an_attempt_cut_by_death_is_not_used_up(bench: Bench) -> None:
    run = bench.start("k")
    (one,) = bench.claim(run)
    bench.state(run, retried(one, bench.clock.now() - 1, attempts=1))
    (two,) = bench.claim(run)
    assert two.attempts == 2
    (again,) = bench.claim(die_with(bench, run).run)
    assert again.attempts == 2


def test_a_death_counts_though_the_step_had_begun_with_the_commit_before(bench: Bench) -> None:
    run = bench.start("k")
    (one,) = bench.claim(run)
    bench.state(run, advanced(one, started=True))
    begun = die_with(bench, run)
    assert bench.row("k")["deaths"] == 1
    (again,) = bench.claim(begun.run)
    assert (again.step, again.attempts, set(again.checkpoints)) == ("b", 1, {"a"})


def test_several_dead_runs_are_buried_at_once(bench: Bench) -> None:
    runs = [bench.start("k", "l"), bench.begin().run]
    for run in runs:
        bench.claim(run, 1)
        bench.die(run)
    begun = bench.begin()
    assert {dead.run: dead.put_back for dead in begun.dead_runs} == dict.fromkeys(runs, 1)
    assert bench.states() == {"pending": 2}
