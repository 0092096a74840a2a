"""Feeding: first and later passes, double keys, partial blocks, cursors and turns, who feeds."""

from __future__ import annotations

from dataclasses import replace

import pytest
from store_conformance import (
    LEASE,
    Bench,
    advanced,
    at,
    failed,
    finished,
    given_back,
    plain,
    quarantined,
    records,
    retried,
    told,
)

from onward.model import FeedBlock


@pytest.fixture
def run(bench: Bench) -> int:
    """A run that is about to feed for the first time."""
    begun = bench.begin()
    bench.store.take_feed(begun.run)
    bench.store.begin_pass(begun.run, False, "")
    return begun.run


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
