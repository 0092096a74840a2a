"""Feeding: new, unchanged, changed, vanished, returned and double records, passes, cursors and turns."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from store_conformance import (
    LEASE,
    Bench,
    advanced,
    failed,
    finished,
    given_back,
    plain,
    quarantined,
    records,
    retried,
)

from onward.model import FeedBlock, FeedOutcome, Kind, SourceRecord


@pytest.fixture
def run(bench: Bench) -> int:
    """A run that is about to feed for the first time."""
    begun = bench.begin()
    bench.store.take_feed(begun.run)
    bench.store.begin_pass(begun.run, False, "")
    return begun.run


def at(position: int, key: Any, value: str = "1", invalid: str | None = None) -> SourceRecord:
    (one,) = records((key, value))
    return replace(one, position=position, invalid=invalid)


def told(outcome: FeedOutcome) -> dict[str, Any]:
    """What an outcome says that is not nothing."""
    names = FeedOutcome.__dataclass_fields__
    return {name: getattr(outcome, name) for name in names if getattr(outcome, name)}


def ended(bench: Bench, run: int, *keys: str, **given: Any) -> None:
    """These records succeed."""
    for one in bench.claim(run, only=tuple(bench.row(key)["id"] for key in keys)):
        bench.state(run, advanced(one))
        bench.state(run, finished(one, **given))


# The first pass.


def test_records_and_their_cursor_come_together(bench: Bench, run: int) -> None:
    assert told(bench.feed(run, [at(0, "a"), at(1, "b")], cursor="2")) == {"added": 2}
    assert bench.states() == {"pending": 2}
    assert bench.store.take_feed(run).cursor == "2"
    assert not bench.store.counts(1).source_complete


def test_the_end_of_the_source_is_remembered(bench: Bench, run: int) -> None:
    bench.feed(run, [at(0, "a")], cursor="1", complete=True)
    state = bench.store.take_feed(run)
    assert (state.cursor, state.complete) == ("1", True)
    assert bench.store.counts(1).source_complete


def test_an_empty_source_has_an_end_too(bench: Bench, run: int) -> None:
    assert told(bench.feed(run, [], cursor="0", complete=True)) == {}
    assert bench.store.counts(1).source_complete


def test_blocks_follow_one_another(bench: Bench, run: int) -> None:
    bench.feed(run, [at(0, "a")], cursor="1")
    bench.feed(run, [at(1, "b")], cursor="2", after="1")
    bench.feed(run, [], cursor="2", after="2", complete=True)
    assert plain(bench.claim(run)) == ["a", "b"]


def test_many_blocks_in_one_batch(bench: Bench, run: int) -> None:
    blocks = [FeedBlock([at(n, n)], [], str(n + 1), after=str(n) if n else None) for n in range(20)]
    assert [told(one) for one in bench.write(run, blocks=blocks).fed] == [{"added": 1}] * 20


def test_a_block_out_of_turn_changes_nothing(bench: Bench, run: int) -> None:
    bench.feed(run, [at(0, "a")], cursor="1")
    for after in (None, "2", "0"):
        assert told(bench.feed(run, [at(1, "b")], cursor="3", after=after, complete=True)) == {"out_of_turn": True}
    assert bench.states() == {"pending": 1}
    assert bench.store.take_feed(run).cursor == "1"


def test_behind_a_refused_block_the_next_ones_are_refused_too(bench: Bench, run: int) -> None:
    blocks = [
        FeedBlock([at(0, "a")], [], "1"),
        FeedBlock([at(1, "a")], [], "2", after="1"),
        FeedBlock([at(2, "c")], [], "3", after="2"),
        FeedBlock([], [], "4", complete=True, after="3"),
    ]
    fed = bench.write(run, blocks=blocks).fed
    assert [told(one) for one in fed] == [
        {"added": 1},
        {"duplicates": [('"a"', 0, 1)]},
        {"out_of_turn": True},
        {"out_of_turn": True},
    ]
    assert bench.store.take_feed(run).cursor == "1"


# Double keys.


def test_a_key_twice_in_a_block(bench: Bench, run: int) -> None:
    outcome = bench.feed(run, [at(0, "a"), at(1, "b"), at(2, "a"), at(3, "a"), at(4, "b")])
    assert told(outcome) == {"duplicates": [('"a"', 0, 2), ('"a"', 0, 3), ('"b"', 1, 4)]}
    assert bench.states() == {}


def test_a_key_twice_in_two_blocks_of_a_pass(bench: Bench, run: int) -> None:
    bench.feed(run, [at(0, "a"), at(1, "b")], cursor="1")
    outcome = bench.feed(run, [at(2, "c"), at(3, "b")], cursor="2", after="1")
    assert told(outcome) == {"duplicates": [('"b"', 1, 3)]}
    assert bench.states() == {"pending": 2}


def test_equal_values_do_not_excuse_a_double_key(bench: Bench, run: int) -> None:
    bench.feed(run, [at(0, "a", "1")], cursor="1")
    assert bench.feed(run, [at(1, "a", "1")], cursor="2", after="1").duplicates


def test_numbers_and_their_texts_are_different_keys(bench: Bench, run: int) -> None:
    keys = [7, "7", "007", 10**400, str(10**400), 0, "0", -7, ["a", 1], ["a", "1"], "[1]", [1]]
    assert told(bench.feed(run, [at(n, key) for n, key in enumerate(keys)], complete=True)) == {"added": len(keys)}
    assert len({bench.row(key)["id"] for key in keys}) == len(keys)


def test_the_same_place_again_is_no_double_key(bench: Bench, run: int) -> None:
    """A pass that was cut after a block had become durable, and is read on from before it."""
    bench.feed(run, [at(0, "a"), at(1, "b")], cursor="2", partial=True)
    bench.store.take_feed(run)
    outcome = bench.feed(run, [at(0, "a"), at(1, "b"), at(2, "c")], cursor="3", complete=True)
    assert told(outcome) == {"added": 1, "unchanged": 2}


def test_double_keys_in_a_later_pass(bench: Bench, run: int) -> None:
    bench.feed(run, [at(0, "a"), at(1, "b")], cursor="e", complete=True)
    bench.store.begin_pass(run, True, "")
    assert bench.feed(run, [at(0, "a"), at(1, "b"), at(2, "a")]).duplicates == [('"a"', 0, 2)]
    assert told(bench.feed(run, [at(0, "a")], cursor="1")) == {"unchanged": 1}
    assert bench.feed(run, [at(1, "b"), at(2, "a")], after="1").duplicates == [('"a"', 0, 2)]


def test_a_key_may_move_between_passes(bench: Bench, run: int) -> None:
    bench.feed(run, [at(0, "a"), at(1, "b"), at(2, "c")], complete=True)
    bench.pass_over(run, "c", "b", "a", again=True)
    assert plain(bench.claim(run)) == ["c", "b", "a"]


# Partial blocks.


def test_a_partial_block_keeps_its_records_but_not_its_cursor(bench: Bench, run: int) -> None:
    bench.feed(run, [at(0, "a")], cursor="1")
    assert told(bench.feed(run, [at(1, "b")], cursor="9", after="1", partial=True)) == {"added": 1}
    assert bench.store.take_feed(run).cursor == "1"
    assert bench.states() == {"pending": 2}


def test_what_a_partial_block_brought_may_stand_elsewhere_once_the_input_was_mended(bench: Bench, run: int) -> None:
    bench.feed(run, [at(0, "a")], cursor="1")
    bench.feed(run, [at(1, "b"), at(2, "c")], cursor="9", after="1", partial=True)
    bench.store.end_run(run, 4, "a bad line")
    later = bench.begin().run
    assert bench.store.take_feed(later).cursor == "1"
    bench.store.begin_pass(later, False, "")
    outcome = bench.feed(later, [at(1, "new"), at(2, "b"), at(3, "c")], after="1", complete=True)
    assert told(outcome) == {"added": 1, "unchanged": 2}
    assert plain(bench.claim(later)) == ["a", "new", "b", "c"]


def test_what_a_partial_block_brought_and_the_mended_input_has_no_more_is_vanished(bench: Bench, run: int) -> None:
    bench.feed(run, [at(0, "a")], cursor="1")
    bench.feed(run, [at(1, "b"), at(2, "c")], cursor="9", after="1", partial=True)
    bench.store.end_run(run, 4, "a bad line")
    later = bench.begin().run
    bench.store.take_feed(later)
    bench.store.begin_pass(later, False, "")
    assert told(bench.feed(later, [at(1, "c")], after="1", complete=True)) == {"unchanged": 1, "vanished": 1}
    assert bench.store.counts(1).vanished == 1
    assert plain(bench.claim(later)) == ["a", "c"]


def test_a_double_key_within_what_a_partial_block_brought(bench: Bench, run: int) -> None:
    bench.feed(run, [at(0, "a"), at(1, "b")], cursor="9", partial=True)
    bench.store.take_feed(run)
    assert bench.feed(run, [at(0, "a"), at(1, "b"), at(2, "a")]).duplicates == [('"a"', 0, 2)]


# The same again.


def test_feeding_the_same_again_changes_nothing(bench: Bench, run: int) -> None:
    keys = ["new", "held", "waits", "failed", "quarantined", "done"]
    bench.feed(run, records(*keys), complete=True)
    _, held, waits, bad, worse, done = bench.claim(run)
    bench.state(run, given_back(_), retried(waits, bench.clock.now() + 9), failed(bad), quarantined(worse))
    bench.state(run, advanced(done))
    bench.state(run, finished(done))
    before = [bench.row(key) for key in keys]
    for _again in range(3):
        outcome = bench.pass_over(run, *keys, again=True)
        assert told(outcome) == {"unchanged": 6, "done_again": ['"done"']}
    after = [bench.row(key) for key in keys]
    for row in [*before, *after]:
        del row["pass"]
    assert after == before
    assert bench.state(run, finished(held)) == set()


def test_many_passes(bench: Bench, run: int) -> None:
    bench.feed(run, records(*"abcdef"), complete=True)
    for number in range(1, 12):
        keys = [key for place, key in enumerate("abcdef") if (number >> place) & 1 or place == 5]
        bench.pass_over(run, *keys, again=True)
        counts = bench.store.counts(1)
        assert (counts.total, counts.vanished) == (len(keys), 6 - len(keys))


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


@pytest.mark.parametrize("state", ["pending", "waits", "held", "failed", "quarantined", "suspect", "stale", "done"])
def test_a_vanished_record_keeps_state_and_results_and_counts_nowhere(bench: Bench, run: int, state: str) -> None:
    bench.feed(run, records("stays", "k"), complete=True)
    if state == "done":
        ended(bench, run, "k")
    else:
        bench.claim(run, 1)
        _bring_to(bench, run, state)
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
    bench.feed(run, records("stays", "k"), complete=True)
    if state == "done":
        ended(bench, run, "k")
    else:
        bench.claim(run, 1)
        _bring_to(bench, run, state)
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


# Who feeds.


def test_one_run_feeds_and_the_others_wait(bench: Bench) -> None:
    first, second = bench.begin().run, bench.begin().run
    assert bench.store.take_feed(first) is not None
    assert bench.store.take_feed(second) is None
    assert bench.store.take_feed(first) is not None


@pytest.mark.parametrize("end", ["ended", "died", "lease over"])
def test_another_run_goes_on_feeding_where_one_stopped(bench: Bench, end: str) -> None:
    first = bench.begin().run
    bench.store.take_feed(first)
    bench.store.begin_pass(first, False, "")
    bench.feed(first, [at(0, "a")], cursor="1")
    if end == "ended":
        bench.store.end_run(first, 3, "SIGINT")
    elif end == "died":
        bench.die(first)
    else:
        bench.clock.pass_time(LEASE + 1)
    second = bench.begin().run
    state = bench.store.take_feed(second)
    assert (state.cursor, state.complete) == ("1", False)
    bench.store.begin_pass(second, False, "")
    assert told(bench.feed(second, [at(1, "b")], cursor="2", after="1", complete=True)) == {"added": 1}


def test_a_feeder_that_died_unburied_does_not_keep_others_waiting(bench: Bench) -> None:
    first, second = bench.begin().run, bench.begin().run
    bench.store.take_feed(first)
    bench.die(first)
    bench.store.take_over(second)
    assert bench.store.take_feed(second) is not None


def test_reading_on_makes_a_source_that_was_complete_incomplete_until_its_end(bench: Bench, run: int) -> None:
    bench.feed(run, [at(0, "a")], cursor="1", complete=True)
    bench.store.begin_pass(run, False, "")
    assert not bench.store.counts(1).source_complete
    bench.feed(run, [at(1, "b")], cursor="2", after="1", complete=True)
    assert bench.store.counts(1).source_complete
    assert plain(bench.claim(run)) == ["a", "b"]


def test_a_new_pass_drops_the_cursor_and_says_why(bench: Bench, run: int) -> None:
    bench.feed(run, [at(0, "a")], cursor="1", complete=True)
    number = bench.store.take_feed(run).pass_number
    bench.store.begin_pass(run, True, "line 1 was edited")
    state = bench.store.take_feed(run)
    assert (state.cursor, state.complete, state.pass_number) == (None, False, number + 1)


def test_a_pass_that_starts_over_half_way(bench: Bench, run: int) -> None:
    bench.feed(run, records("a", "b", "c"), cursor="3", complete=True)
    bench.store.begin_pass(run, True, "it changed")
    bench.feed(run, [at(0, "a")], cursor="1")
    bench.store.begin_pass(run, True, "it changed again")
    assert told(bench.feed(run, [at(0, "c"), at(1, "a")], complete=True)) == {"unchanged": 2, "vanished": 1}


def test_instances_are_fed_apart(bench: Bench) -> None:
    first = bench.start("a", "b")
    bench.start("a", instance="tuesday")
    bench.pass_over(first, "b", again=True)
    assert bench.store.counts(1).vanished == 1
    assert bench.store.counts(2).vanished == 0
    assert bench.store.counts(2).total == 1


def test_a_large_block(bench: Bench, run: int) -> None:
    many = [at(n, n) for n in range(5000)]
    assert told(bench.feed(run, many, cursor="1", complete=True)) == {"added": 5000}
    bench.store.begin_pass(run, True, "")
    changed = [replace(one, value="2") if one.position % 100 == 0 else one for one in many]
    outcome = bench.feed(run, [*changed, at(5000, 5000)], cursor="1", complete=True)
    assert told(outcome) == {"added": 1, "changed_unfinished": 50, "unchanged": 4950}


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
