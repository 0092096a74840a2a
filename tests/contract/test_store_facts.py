"""Facts and fences: what a run that holds a record may make true of it, and what one that lost it may not."""

from __future__ import annotations

from contextlib import closing
from dataclasses import replace

import pytest
from store_conformance import (
    Bench,
    advanced,
    fact,
    failed,
    failure,
    finished,
    given_back,
    plain,
    quarantined,
    records,
    retried,
)

from onward.errors import IllegalTransition, LeaseLost
from onward.model import Claimed, Fact, Kind, State


@pytest.fixture
def run(bench: Bench) -> int:
    return bench.start("k", "l", "m")


def stale(one: Claimed) -> Claimed:
    """The same record as it was held before."""
    return replace(one, fence=one.fence - 1)


def held_by(one: Claimed) -> tuple[int, int]:
    return one.id, one.fence


def test_a_checkpoint_and_the_start_of_the_next_step_are_one_fact(bench: Bench, run: int) -> None:
    (one,) = bench.claim(run, 1)
    assert bench.state(run, advanced(one, "a", '"out"')) == set()
    row = bench.row("k")
    assert row["checkpoints"] == {(0, "a"): ("1", '"out"')}
    assert (row["state"], row["step"], row["started"], row["attempts"]) == ("in_progress", "b", 1, 1)
    assert bench.store.counts(1).steps == {"a": 1}


def test_the_last_checkpoint_and_success_are_one_fact(bench: Bench, run: int) -> None:
    (one,) = bench.claim(run, 1)
    bench.state(run, advanced(one, "a"))
    bench.state(run, finished(one, "b", "[2]"))
    row = bench.row("k")
    assert set(row["checkpoints"]) == {(0, "a"), (0, "b")}
    assert (row["state"], row["run"], row["started"], row["attempts"], row["step"]) == ("succeeded", None, 0, 0, None)
    assert bench.states() == {"pending": 2, "succeeded": 1}


def test_success_forgets_deaths_and_failed_runs(bench: Bench, run: int) -> None:
    (one,) = bench.claim(run, 1)
    bench.state(run, finished(one, deaths=1, solo_deaths=1, failed_runs=2))
    row = bench.row("k")
    assert (row["deaths"], row["solo_deaths"], row["failed_runs"]) == (0, 0, 0)


def test_a_record_may_start_a_step_after_its_claim(bench: Bench, run: int) -> None:
    (one,) = bench.claim(run, 1, start=False)
    bench.state(run, fact(one, State.IN_PROGRESS, step="a", started=True, attempts=1))
    assert (bench.row("k")["started"], bench.row("k")["attempts"]) == (1, 1)


def staying(one: Claimed, output: str = "1") -> Fact:
    made = advanced(one, output=output)
    made.moves = False
    return made


def test_a_record_that_stays_as_it_was_claimed_gets_its_checkpoint_alone(bench: Bench, run: int) -> None:
    (one, two, _) = bench.claim(run)
    before = bench.row("k")
    bench.clock.pass_time(1)
    assert bench.state(run, staying(one), advanced(two)) == set()
    assert bench.row("k") == {**before, "checkpoints": {(0, "a"): ("1", "1")}}
    assert bench.store.counts(1).steps == {"a": 2}
    bench.state(run, finished(one))
    assert bench.states() == {"in_progress": 2, "succeeded": 1}


def test_what_stays_is_told_by_its_checkpoints(bench: Bench, run: int) -> None:
    (one,) = bench.claim(run, 1)
    bench.clock.pass_time(5)
    bench.state(run, staying(one))
    with closing(bench.stores.desk()) as desk:
        (standing,) = desk.standing(1, {}).in_flight
    assert (standing.step, standing.done, standing.since) == (None, {"a"}, pytest.approx(bench.clock.now(), abs=1))


def test_a_retry_keeps_its_attempts_and_its_time(bench: Bench, run: int) -> None:
    (one,) = bench.claim(run, 1)
    until = bench.clock.now() + 7
    bench.state(run, retried(one, until, attempts=1))
    row = bench.row("k")
    assert (row["state"], row["attempts"], row["run"], row["started"]) == ("pending", 1, None, 0)
    assert row["not_before"] == pytest.approx(until)
    assert row["failure"]["kind"] == "transient"
    assert row["history"] == [("record_retrying", "a", None)]


@pytest.mark.parametrize("make", [failed, quarantined])
def test_a_failure_is_kept_with_the_record_and_counted_by_its_cause(bench: Bench, run: int, make: object) -> None:
    (one,) = bench.claim(run, 1)
    bench.state(run, make(one, Kind.REJECTED))  # type: ignore[operator]
    assert bench.row("k")["failure"]["error_type"] == "SomeError"
    assert bench.store.counts(1).failures == {("a", "rejected"): 1}


def test_only_the_newest_failure_stands(bench: Bench, run: int) -> None:
    (one,) = bench.claim(run, 1)
    bench.state(run, retried(one, bench.clock.now() - 1))
    (one,) = bench.claim(run, 1)
    bench.state(run, failed(one, Kind.BUG))
    assert bench.row("k")["failure"]["kind"] == "bug"
    assert bench.store.counts(1).failures == {("a", "bug"): 1}


def test_an_end_by_done_is_counted_apart(bench: Bench, run: int) -> None:
    one, two, _ = bench.claim(run)
    early = fact(
        one, State.SUCCEEDED, step="a", lineage=(("a", "1"),), skipped="a", event="record_done", reason="not mine"
    )
    bench.state(run, early, finished(two))
    counts = bench.store.counts(1)
    assert (counts.of(State.SUCCEEDED), counts.skipped) == (2, 1)
    assert bench.row("k")["history"] == [("record_done", "a", "not mine")]


def test_facts_of_many_records_become_true_together(bench: Bench, run: int) -> None:
    one, two, three = bench.claim(run)
    bench.state(run, advanced(one), failed(two), retried(three, bench.clock.now() + 1))
    assert bench.states() == {"in_progress": 1, "failed": 1, "pending": 1}


@pytest.mark.parametrize("make", [advanced, staying, finished, failed, quarantined, given_back])
def test_a_stale_fence_changes_nothing(bench: Bench, run: int, make: object) -> None:
    (one,) = bench.claim(run, 1)
    before = bench.row("k")
    assert bench.state(run, make(stale(one))) == {held_by(stale(one))}  # type: ignore[operator]
    assert bench.row("k") == before
    assert bench.store.counts(1).steps == {}


def test_a_lost_fact_does_not_take_the_others_with_it(bench: Bench, run: int) -> None:
    one, two, three = bench.claim(run)
    assert bench.state(run, finished(one), finished(stale(two)), failed(three)) == {held_by(stale(two))}
    assert bench.states() == {"succeeded": 1, "in_progress": 1, "failed": 1}
    assert bench.row("l")["checkpoints"] == {}
    assert bench.row("k")["checkpoints"] == {(0, "b"): ("1", "2")}


def test_results_keep_their_versions_beside_a_lost_fact(bench: Bench, run: int) -> None:
    """A lineage seen for the first time in a batch that has a lost fact, then another one."""
    one, two, three = bench.claim(run)
    assert bench.state(run, finished(one), finished(stale(two))) == {held_by(stale(two))}
    bench.state(run, finished(two, lineage=(("a", "2"), ("b", "2"))))
    bench.state(run, finished(three))
    versions = bench.stores.recounted_versions(1)
    assert versions.groups == {((("a", "1"), ("b", "1")), None): (2, 0), ((("a", "2"), ("b", "2")), None): (1, 0)}


def test_results_keep_their_versions_after_a_batch_that_failed(bench: Bench, run: int) -> None:
    one, two, _ = bench.claim(run)
    with pytest.raises(IllegalTransition):
        bench.state(run, finished(one), fact(two, State.SUCCEEDED, lineage=(("c", "3"),)), _illegal(two))
    assert bench.states() == {"in_progress": 3}
    bench.state(run, finished(one, lineage=(("d", "4"),)))
    bench.state(run, finished(two))
    assert {key for key, _ in bench.stores.recounted_versions(1).groups} == {
        (("d", "4"),),
        (("a", "1"), ("b", "1")),
    }


def _illegal(one: Claimed) -> object:
    """A fact that the table of transitions does not have."""
    made = given_back(one)
    made.state = "vanished"  # type: ignore[assignment]
    return made


def test_a_record_whose_input_changed_is_lost_to_who_held_it(bench: Bench, run: int) -> None:
    (one,) = bench.claim(run, 1)
    bench.pass_over(run, ("k", "2"), "l", "m", again=True)
    assert bench.state(run, finished(one)) == {held_by(one)}
    assert bench.states() == {"pending": 3}


def test_the_old_and_the_new_hold_of_one_record_in_one_batch(bench: Bench, run: int) -> None:
    """The run's own feed replaced the record's input while its call went on; then the run claimed it again."""
    (old,) = bench.claim(run, 1)
    bench.pass_over(run, ("k", "2"), "l", "m", again=True)
    (new,) = bench.claim(run, 1)
    assert (new.id, new.value) == (old.id, "2")
    both = [finished(old, output='"of the old input"'), finished(new, output='"of the new input"')]
    assert bench.state(run, *both) == {held_by(old)}
    row = bench.row("k")
    assert row["state"] == "succeeded"
    assert row["checkpoints"] == {(1, "b"): ("1", '"of the new input"')}


def test_the_old_hold_alone_is_lost_while_the_new_one_works(bench: Bench, run: int) -> None:
    (old,) = bench.claim(run, 1)
    bench.pass_over(run, ("k", "2"), "l", "m", again=True)
    (new,) = bench.claim(run, 1)
    assert bench.state(run, advanced(old)) == {held_by(old)}
    assert bench.row("k")["checkpoints"] == {}
    assert bench.state(run, finished(new)) == set()


def test_a_fact_about_a_record_that_ended_is_lost(bench: Bench, run: int) -> None:
    (one,) = bench.claim(run, 1)
    bench.state(run, finished(one))
    assert bench.state(run, failed(one)) == {held_by(one)}
    assert bench.state(run, staying(one)) == {held_by(one)}
    assert bench.row("k")["state"] == "succeeded"
    assert bench.row("k")["failure"] is None


def test_a_fact_about_a_record_that_another_run_holds_is_lost(bench: Bench, run: int) -> None:
    other_store = bench.another()
    other = bench.begin(other_store).run
    (one,) = bench.claim(run, 1)
    assert bench.state(other, finished(one), store=other_store) == {held_by(one)}
    assert bench.state(other, staying(one), store=other_store) == {held_by(one)}
    assert bench.row("k")["run"] == run


def test_a_record_that_moved_on_to_another_run_and_its_old_holder(bench: Bench, run: int) -> None:
    other_store = bench.another()
    other = bench.begin(other_store).run
    (one,) = bench.claim(run, 1)
    bench.state(run, given_back(one))
    (again,) = bench.claim(other, 1, store=other_store)
    assert bench.state(run, finished(one, output='"late"')) == {held_by(one)}
    assert bench.state(other, finished(again, output='"mine"'), store=other_store) == set()
    assert bench.row("k")["checkpoints"] == {(0, "b"): ("1", '"mine"')}


def test_a_run_that_was_taken_over_writes_nothing_at_all(bench: Bench, run: int) -> None:
    other_store = bench.another()
    (one,) = bench.claim(run, 1)
    bench.clock.pass_time(100)
    other = bench.begin(other_store).run
    before = bench.row("k")
    with pytest.raises(LeaseLost):
        bench.state(run, finished(one))
    with pytest.raises(LeaseLost):
        bench.claim(run, 1)
    with pytest.raises(LeaseLost):
        bench.feed(run, records("new"), after="end")
    assert bench.row("k") == before
    assert plain(bench.claim(other, store=other_store)) == ["k", "l", "m"]


def test_each_step_has_one_checkpoint_in_a_generation(bench: Bench, run: int) -> None:
    """A second checkpoint of one step can only come from a fault of the engine: it is refused, nothing is lost."""
    (one,) = bench.claim(run, 1)
    bench.state(run, advanced(one, "a", '"first"'))
    with pytest.raises(Exception, match=r"."):
        bench.state(run, advanced(one, "a", '"second"'))
    assert bench.row("k")["checkpoints"] == {(0, "a"): ("1", '"first"')}


def test_deaths_of_a_record_alone_are_kept(bench: Bench, run: int) -> None:
    (one,) = bench.claim(run, 1, start=False)
    bench.state(run, fact(one, State.IN_PROGRESS, step="a", started=False, attempts=0, deaths=2, solo_deaths=1))
    assert (bench.row("k")["deaths"], bench.row("k")["solo_deaths"]) == (2, 1)


def test_a_failure_text_says_the_step_version_and_attempts(bench: Bench, run: int) -> None:
    (one,) = bench.claim(run, 1)
    told = replace(failure(Kind.BUG, "a", "f00d", "division by zero"), attempts=4)
    bench.state(run, failed(one, failure=told))
    kept = bench.row("k")["failure"]
    assert (kept["step"], kept["version"], kept["attempts"]) == ("a", "f00d", 4)
    assert kept["message"] == '"division by zero"'


def test_an_empty_batch_is_nothing(bench: Bench, run: int) -> None:
    outcome = bench.write(run)
    assert (outcome.lost, outcome.claimed, outcome.fed) == (set(), [], [])


def test_a_batch_of_thousands(bench: Bench) -> None:
    run = bench.start(*range(3000))
    held = bench.claim(run, 3000)
    assert len(held) == 3000
    late = [stale(one) for one in held[::7]]
    lost = {held_by(one) for one in late}
    in_time = [one for number, one in enumerate(held) if number % 7]
    assert bench.state(run, *[finished(one) for one in [*in_time, *late]]) == lost
    assert bench.states() == {"in_progress": len(lost), "succeeded": 3000 - len(lost)}
