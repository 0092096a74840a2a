"""Sources that change: new values, vanished and returned records, values that do not fit."""

from __future__ import annotations

import pytest
from store_conformance import (
    Bench,
    advanced,
    at,
    ended,
    failed,
    failure,
    finished,
    given_back,
    plain,
    quarantined,
    records,
    retried,
    told,
)

from onward.model import FeedBlock, Kind
from onward.ports.desk import Choice


@pytest.fixture
def run(bench: Bench) -> int:
    """A run that is about to feed for the first time."""
    begun = bench.begin()
    bench.store.take_feed(begun.run)
    bench.store.begin_pass(begun.run, False, "")
    return begun.run


# The way back out of a conflict.


@pytest.mark.parametrize(("today", "generation", "kept"), [("1", 2, "1"), ("2", 1, "7"), ("3", 2, None)])
def test_a_release_out_of_a_conflict_takes_what_the_effect_was_sent_for(
    bench: Bench, run: int, today: str, generation: int, kept: str | None
) -> None:
    """Its first output, where that is of today's version again; what there is, where that is; else it is made anew."""
    bench.feed(run, records(("k", "1")), complete=True)
    ended(bench, run, "k")
    desk = bench.stores.desk()
    desk.decide(1, Choice("rerun", "clerk", {"a": "2", "b": "1"}, records=[bench.row("k")["id"]]))
    (one,) = bench.claim(run)
    made = advanced(one, output="7")
    made.version = "2"
    bench.state(run, made, quarantined(one, Kind.CONFLICT, step="b", failure=failure(Kind.CONFLICT, step="b")))
    assert desk.decide(1, Choice("release", "clerk", {"a": today, "b": "1"})).count == 1
    (again,) = bench.claim(run)
    assert again.generation == generation
    assert {step: one.output for step, one in again.checkpoints.items()} == ({"a": kept} if kept else {})


# Changed input.


@pytest.mark.parametrize("state", ["pending", "waits", "held", "failed", "quarantined", "suspect", "stale"])
def test_an_unfinished_record_takes_its_new_value(bench: Bench, run: int, state: str) -> None:
    bench.feed(run, records(("k", "1")), complete=True)
    _bring_to(bench, run, state)
    outcome = bench.pass_over(run, ("k", "2"), again=True)
    assert told(outcome) == {"changed_unfinished": 1}
    row = bench.row("k")
    assert (row["state"], row["generation"], row["hold"], row["not_before"]) == ("pending", 1, None, 0)
    assert (row["attempts"], row["deaths"], row["solo_deaths"], row["failed_runs"]) == (0, 0, 0, 0)
    assert row["history"][-1] == ("record_reset", None, "its input changed in the source")
    (one,) = bench.claim(run)
    assert (one.value, one.generation, one.checkpoints, one.step) == ("2", 1, {}, None)


def _bring_to(bench: Bench, run: int, state: str) -> None:
    if state == "pending":
        return
    (one,) = bench.claim(run)
    bench.state(run, advanced(one, then="b"))
    facts = {
        "waits": lambda: retried(one, bench.clock.now() + 99, step="b"),
        "failed": lambda: failed(one, failed_runs=2),
        "quarantined": lambda: quarantined(one),
        "suspect": lambda: given_back(one, hold="suspect", deaths=2, solo_deaths=1),
        "stale": lambda: given_back(one, hold="stale"),
    }
    if state != "held":
        bench.state(run, facts[state]())


def test_checkpoints_of_the_old_value_stay_in_history_but_count_no_more(bench: Bench, run: int) -> None:
    bench.feed(run, records(("k", "1")), complete=True)
    _bring_to(bench, run, "waits")
    assert bench.store.counts(1).steps == {"a": 1}
    bench.pass_over(run, ("k", "2"), again=True)
    assert {name: n for name, n in bench.store.counts(1).steps.items() if n} == {}
    row = bench.row("k")
    assert row["checkpoints"] == {(0, "a"): ("1", "1")}
    assert row["inputs"] == {0: "1", 1: "2"}


def test_a_value_that_changes_at_every_pass(bench: Bench, run: int) -> None:
    bench.feed(run, records(("k", "0")), complete=True)
    for number in range(1, 5):
        bench.pass_over(run, ("k", str(number)), again=True)
    (one,) = bench.claim(run)
    assert (one.value, one.generation) == ("4", 4)


def test_a_value_that_is_as_it_was_before_is_another_change(bench: Bench, run: int) -> None:
    bench.feed(run, records(("k", "1")), complete=True)
    _bring_to(bench, run, "waits")
    bench.pass_over(run, ("k", "2"), again=True)
    assert told(bench.pass_over(run, ("k", "1"), again=True)) == {"changed_unfinished": 1}
    (one,) = bench.claim(run)
    assert (one.value, one.generation, one.checkpoints) == ("1", 2, {})


def test_a_finished_record_keeps_its_result_and_is_stale(bench: Bench, run: int) -> None:
    bench.feed(run, records(("k", "1")), complete=True)
    ended(bench, run, "k")
    assert told(bench.pass_over(run, ("k", "2"), again=True)) == {"changed_finished": 1, "done_again": ['"k"']}
    row = bench.row("k")
    assert (row["state"], row["generation"], row["input_changed"]) == ("succeeded", 0, 1)
    assert row["inputs"] == {0: "1", 1: "2"}
    assert list(bench.stores.recounted_versions(1).groups.values()) == [(0, 1)]
    assert bench.claim(run) == []


def test_a_finished_record_whose_value_changes_twice(bench: Bench, run: int) -> None:
    bench.feed(run, records(("k", "1")), complete=True)
    ended(bench, run, "k")
    bench.pass_over(run, ("k", "2"), again=True)
    assert told(bench.pass_over(run, ("k", "2"), again=True)) == {"unchanged": 1, "done_again": ['"k"']}
    assert told(bench.pass_over(run, ("k", "3"), again=True)) == {"changed_finished": 1, "done_again": ['"k"']}
    assert bench.row("k")["inputs"] == {0: "1", 1: "3"}


def test_a_finished_record_whose_value_comes_back_is_stale_no_more(bench: Bench, run: int) -> None:
    bench.feed(run, records(("k", "1")), complete=True)
    ended(bench, run, "k")
    bench.pass_over(run, ("k", "2"), again=True)
    bench.pass_over(run, ("k", "1"), again=True)
    row = bench.row("k")
    assert (row["input_changed"], row["inputs"]) == (0, {0: "1"})
    assert list(bench.stores.recounted_versions(1).groups.values()) == [(1, 0)]


def test_a_record_that_finished_on_its_new_value(bench: Bench, run: int) -> None:
    bench.feed(run, records(("k", "1")), complete=True)
    bench.pass_over(run, ("k", "2"), again=True)
    ended(bench, run, "k")
    assert told(bench.pass_over(run, ("k", "2"), again=True)) == {"unchanged": 1, "done_again": ['"k"']}
    bench.pass_over(run, ("k", "1"), again=True)
    assert bench.row("k")["input_changed"] == 1
    bench.pass_over(run, ("k", "2"), again=True)
    assert (bench.row("k")["input_changed"], bench.row("k")["generation"]) == (0, 1)


def test_a_change_is_told_though_inputs_are_not_stored(bench: Bench) -> None:
    bench.store = store = bench.open(store_inputs=False) if bench.stores.several else bench.store
    run = bench.start(("k", "1"), store=store)
    (one,) = bench.claim(run)
    assert one.value == (None if bench.stores.several else "1")
    assert told(bench.pass_over(run, ("k", "1"), again=True)) == {"unchanged": 1}
    assert told(bench.pass_over(run, ("k", "2"), again=True)) == {"changed_unfinished": 1}


# Vanished and returned.


def _feed_beside_one_that_stays(bench: Bench, run: int, state: str) -> None:
    """Two records, of which "k" is in the state."""
    bench.feed(run, records("stays", "k"), complete=True)
    if state == "done":
        ended(bench, run, "k")
    else:
        bench.claim(run, 1)
        _bring_to(bench, run, state)


@pytest.mark.parametrize("state", ["pending", "waits", "held", "failed", "quarantined", "suspect", "stale", "done"])
def test_a_vanished_record_keeps_state_and_results_and_counts_nowhere(bench: Bench, run: int, state: str) -> None:
    _feed_beside_one_that_stays(bench, run, state)
    before = bench.row("k")
    outcome = bench.pass_over(run, "stays", again=True)
    assert told(outcome) == {"unchanged": 1, "vanished": 1}
    counts = bench.store.counts(1)
    assert (counts.total, counts.vanished, counts.failures) == (1, 1, {})
    row = bench.row("k")
    assert row["vanished"] == 1
    assert row["state"] == ("pending" if state == "held" else before["state"])
    assert (row["hold"], row["checkpoints"]) == (before["hold"], before["checkpoints"])
    assert row["history"][-1] == ("record_vanished", None, "no longer in the source")
    assert "k" not in plain(bench.claim(run)) + plain(bench.claim(run, suspects=True))


@pytest.mark.parametrize("state", ["pending", "waits", "held", "failed", "quarantined", "suspect", "stale", "done"])
def test_a_record_that_returns_is_as_it_was(bench: Bench, run: int, state: str) -> None:
    _feed_beside_one_that_stays(bench, run, state)
    before = bench.store.counts(1)
    bench.pass_over(run, "stays", again=True)
    outcome = bench.pass_over(run, "stays", "k", again=True)
    assert (outcome.returned, outcome.vanished) == (1, 0)
    after = bench.store.counts(1)
    if state != "held":
        assert after == before
    assert (after.total, after.vanished) == (2, 0)


@pytest.mark.parametrize("state", ["pending", "waits", "held", "failed", "quarantined", "suspect", "done"])
def test_a_record_that_returns_with_another_value(bench: Bench, run: int, state: str) -> None:
    bench.feed(run, records("stays", ("k", "1")), complete=True)
    if state == "done":
        ended(bench, run, "k")
    else:
        bench.claim(run, 1)
        _bring_to(bench, run, state)
    bench.pass_over(run, "stays", again=True)
    outcome = bench.pass_over(run, "stays", ("k", "2"), again=True)
    assert outcome.returned == 1
    assert (outcome.changed_finished, outcome.changed_unfinished) == ((1, 0) if state == "done" else (0, 1))
    assert bench.row("k")["vanished"] == 0


def test_who_held_a_record_that_vanished_has_lost_it(bench: Bench, run: int) -> None:
    bench.feed(run, records("k", "stays"), complete=True)
    (one,) = bench.claim(run, 1)
    bench.pass_over(run, "stays", again=True)
    assert bench.state(run, finished(one)) == {(one.id, one.fence)}
    assert bench.row("k")["state"] == "pending"


def test_an_attempt_that_a_vanishing_cut_is_not_used_up(bench: Bench, run: int) -> None:
    bench.feed(run, records("k", "stays"), complete=True)
    (one,) = bench.claim(run, 1)
    bench.pass_over(run, "stays", again=True)
    bench.pass_over(run, "k", "stays", again=True)
    (again, _) = bench.claim(run)
    assert (one.attempts, again.attempts) == (1, 1)


def test_a_suspect_that_vanished_while_it_was_held_returns_as_one(bench: Bench, run: int) -> None:
    bench.feed(run, records("k", "stays"), complete=True)
    (one,) = bench.claim(run, 1)
    bench.state(run, given_back(one, hold="suspect", deaths=2))
    bench.claim(run, suspects=True, start=False)
    bench.pass_over(run, "stays", again=True)
    bench.pass_over(run, "k", "stays", again=True)
    assert plain(bench.claim(run)) == ["stays"]


def test_the_first_pass_vanishes_nothing(bench: Bench, run: int) -> None:
    bench.feed(run, records("a"), cursor="1")
    assert told(bench.feed(run, [], cursor="2", after="1", complete=True)) == {}


def test_nothing_vanishes_before_the_end_of_the_pass(bench: Bench, run: int) -> None:
    bench.feed(run, records("a", "b"), complete=True)
    bench.store.begin_pass(run, True, "it changed")
    bench.feed(run, records("a"), cursor="1")
    assert bench.store.counts(1).vanished == 0
    assert not bench.store.counts(1).source_complete
    assert told(bench.feed(run, [], cursor="2", after="1", complete=True)) == {"vanished": 1}


def test_an_emptied_source_vanishes_all(bench: Bench, run: int) -> None:
    bench.feed(run, records("a", "b"), complete=True)
    assert told(bench.pass_over(run, again=True)) == {"vanished": 2}
    assert bench.states() == {}


def test_an_early_end_that_vanishes_and_returns(bench: Bench, run: int) -> None:
    bench.feed(run, records("k", "stays"), complete=True)
    ended(bench, run, "k", skipped="b")
    bench.pass_over(run, "stays", again=True)
    assert bench.store.counts(1).skipped == 0
    bench.pass_over(run, "k", "stays", again=True)
    assert bench.store.counts(1).skipped == 1


def test_a_failed_record_that_vanished_is_not_tried_again(bench: Bench, run: int) -> None:
    bench.feed(run, records("k", "stays"), complete=True)
    (one,) = bench.claim(run, 1)
    bench.state(run, failed(one))
    bench.pass_over(run, "stays", again=True)
    bench.store.end_run(run, 1, "")
    assert bench.begin().reset_failed == 0
    assert bench.row("k")["state"] == "failed"


# Misfits.


def test_a_misfit_is_set_aside_with_its_reason(bench: Bench, run: int) -> None:
    outcome = bench.feed(run, [at(0, "a", '"x"', "x is no number"), at(1, "b")], complete=True)
    assert told(outcome) == {"added": 2, "misfits": 1}
    row = bench.row("a")
    assert (row["state"], row["failure"]["kind"], row["failure"]["step"]) == ("quarantined", "invalid", None)
    assert row["failure"]["message"] == '"x is no number"'
    assert bench.store.counts(1).failures == {(None, "invalid"): 1}
    assert plain(bench.claim(run)) == ["b"]


def test_a_misfit_fed_again_stays_where_it_is(bench: Bench, run: int) -> None:
    bench.feed(run, [at(0, "a", '"x"', "no number")], complete=True)
    bench.store.begin_pass(run, True, "")
    assert told(bench.feed(run, [at(0, "a", '"x"', "no number")], complete=True)) == {"unchanged": 1}
    assert bench.store.counts(1).failures == {(None, "invalid"): 1}


def test_a_misfit_that_was_mended_in_the_source_is_taken_up(bench: Bench, run: int) -> None:
    bench.feed(run, [at(0, "a", '"x"', "no number")], complete=True)
    bench.pass_over(run, ("a", "5"), again=True)
    assert bench.store.counts(1).failures == {}
    assert plain(bench.claim(run)) == ["a"]


def test_a_misfit_that_became_another_misfit(bench: Bench, run: int) -> None:
    bench.feed(run, [at(0, "a", '"x"', "no number")], complete=True)
    bench.store.begin_pass(run, True, "")
    outcome = bench.feed(run, [at(0, "a", '"y"', "y is no number")], complete=True)
    assert told(outcome) == {"changed_unfinished": 1, "misfits": 1}
    assert bench.row("a")["failure"]["message"] == '"y is no number"'
    assert bench.store.counts(1).failures == {(None, "invalid"): 1}


def test_a_record_that_no_longer_fits_is_set_aside(bench: Bench, run: int) -> None:
    bench.feed(run, records(("a", "1"), ("b", "1")), complete=True)
    bench.store.begin_pass(run, True, "")
    outcome = bench.feed(run, [at(0, "a", '"x"', "no number"), at(1, "b", "1", "1 is too small")], complete=True)
    assert told(outcome) == {"changed_unfinished": 1, "unchanged": 1, "misfits": 2}
    assert bench.claim(run) == []


@pytest.mark.parametrize("state", ["waits", "suspect", "stale"])
def test_a_record_that_waits_and_no_longer_fits_waits_no_more(bench: Bench, run: int, state: str) -> None:
    bench.feed(run, records(("k", "1")), complete=True)
    _bring_to(bench, run, state)
    bench.store.begin_pass(run, True, "")
    assert bench.feed(run, [at(0, "k", "1", "1 is too small")], complete=True).misfits == 1
    row = bench.row("k")
    assert (row["state"], row["hold"], row["not_before"]) == ("quarantined", None, 0)


def test_a_finished_record_that_no_longer_fits_keeps_its_result(bench: Bench, run: int) -> None:
    bench.feed(run, records(("a", "1")), complete=True)
    ended(bench, run, "a")
    bench.store.begin_pass(run, True, "")
    assert bench.feed(run, [at(0, "a", '"x"', "no number")], complete=True).misfits == 0
    assert bench.states() == {"succeeded": 1}


def test_a_failed_record_that_became_a_misfit_counts_once(bench: Bench, run: int) -> None:
    bench.feed(run, records(("a", "1")), complete=True)
    (one,) = bench.claim(run)
    bench.state(run, failed(one, Kind.BUG))
    bench.store.begin_pass(run, True, "")
    bench.feed(run, [at(0, "a", '"x"', "no number")], complete=True)
    assert bench.store.counts(1).failures == {(None, "invalid"): 1}


def test_a_misfit_that_vanishes_and_returns(bench: Bench, run: int) -> None:
    bench.feed(run, [at(0, "a", '"x"', "no number"), at(1, "b")], complete=True)
    bench.pass_over(run, "b", again=True)
    assert bench.store.counts(1).failures == {}
    bench.store.begin_pass(run, True, "")
    bench.feed(run, [at(0, "a", '"x"', "no number"), at(1, "b")], complete=True)
    assert bench.store.counts(1).failures == {(None, "invalid"): 1}


def test_failures_counted_afresh_are_not_counted_twice_in_one_batch(bench: Bench, run: int) -> None:
    bench.feed(run, records("old", "new", "stays"), cursor="3", complete=True)
    old, new, _ = bench.claim(run)
    bench.state(run, failed(old))
    bench.store.begin_pass(run, True, "it changed")
    blocks = [
        FeedBlock([at(0, "misfit", '"x"', "no number"), at(1, "stays")], [], "1"),
        FeedBlock([at(2, "old", "2"), at(3, "new"), at(4, "other", '"x"', "no number")], [], "2", True, after="1"),
    ]
    bench.write(run, facts=[failed(new, Kind.REJECTED)], blocks=blocks)
    assert bench.store.counts(1).failures == {("a", "rejected"): 1, (None, "invalid"): 2}


def test_a_rerun_takes_what_other_versions_finish_after_it_began(bench: Bench) -> None:
    run = bench.start("a", "b")
    ended(bench, run, "a")
    desk = bench.stores.desk()
    act = desk._act(1, Choice("rerun", "clerk", {"a": "1", "b": "1"}, step="a"))
    ended(bench, run, "b", lineage=(("a", "9"), ("b", "1")))
    assert act.decide().count == 2
    assert bench.states() == {"pending": 2}
