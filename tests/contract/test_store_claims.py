"""Claims: which records, in which order, how many, and what a claim does to them."""

from __future__ import annotations

import pytest
from store_conformance import (
    Bench,
    advanced,
    fact,
    failed,
    finished,
    given_back,
    plain,
    quarantined,
    records,
    retried,
)

from onward.model import State
from onward.policy.pace import LONGEST_WAIT


def test_a_claim_takes_records_in_source_order_not_in_the_order_of_keys(bench: Bench) -> None:
    run = bench.start("c", "a", "b")
    assert plain(bench.claim(run, 2)) == ["c", "a"]
    assert plain(bench.claim(run, 2)) == ["b"]
    assert bench.claim(run, 2) == []


def test_a_claim_takes_no_more_than_its_limit(bench: Bench) -> None:
    run = bench.start(*range(10))
    assert len(bench.claim(run, 3)) == 3
    assert bench.claim(run, 0) == []
    assert bench.states() == {"pending": 7, "in_progress": 3}


def test_what_is_claimed_tells_everything_that_work_needs(bench: Bench) -> None:
    run = bench.start(("k", '{"x":1}'))
    (one,) = bench.claim(run)
    assert (one.key, one.value, one.position, one.generation) == ('"k"', '{"x":1}', 0, 0)
    assert (one.step, one.attempts, one.deaths, one.solo_deaths, one.failed_runs) == (None, 1, 0, 0, 0)
    assert one.checkpoints == {}
    row = bench.row("k")
    assert (row["state"], row["run"], row["fence"], row["started"]) == ("in_progress", run, one.fence, 1)


def test_a_claim_brings_the_checkpoints_of_earlier_attempts(bench: Bench) -> None:
    run = bench.start("k")
    (one,) = bench.claim(run)
    bench.state(run, advanced(one, "a", '{"made":[1,2]}'))
    bench.state(run, given_back(one, step="b"))
    (again,) = bench.claim(run)
    assert {step: (stored.version, stored.output) for step, stored in again.checkpoints.items()} == {
        "a": ("1", '{"made":[1,2]}')
    }
    assert again.step == "b"


@pytest.mark.parametrize(("start", "attempts"), [(True, 1), (False, 0)])
def test_attempts_count_with_the_claim_only_where_it_starts_them(bench: Bench, start: bool, attempts: int) -> None:
    run = bench.start("k")
    (one,) = bench.claim(run, start=start)
    assert one.attempts == attempts
    assert (bench.row("k")["attempts"], bench.row("k")["started"]) == (attempts, int(start))


def test_attempts_go_on_from_where_they_were(bench: Bench) -> None:
    run = bench.start("k")
    (one,) = bench.claim(run)
    bench.state(run, retried(one, bench.clock.now() - 1, attempts=1))
    (two,) = bench.claim(run)
    assert two.attempts == 2


def test_waits_that_ended_come_first_and_in_the_order_of_their_end(bench: Bench) -> None:
    run = bench.start("a", "b", "c", "d", "e")
    now = bench.clock.now()
    a, b, c, *_ = bench.claim(run, 3)
    bench.state(run, retried(a, now + 9), retried(b, now + 5), retried(c, now + 7))
    assert plain(bench.claim(run, 1)) == ["d"]
    bench.clock.pass_time(8)
    assert plain(bench.claim(run)) == ["b", "c", "e"]
    bench.clock.pass_time(1)
    assert plain(bench.claim(run)) == ["a"]


def test_waits_that_end_together_come_in_source_order(bench: Bench) -> None:
    run = bench.start("b", "a", "c")
    held = bench.claim(run)
    bench.state(run, *[retried(one, bench.clock.now() + 1) for one in reversed(held)])
    bench.clock.pass_time(1)
    assert plain(bench.claim(run)) == ["b", "a", "c"]


def test_a_record_is_not_claimed_before_its_time(bench: Bench) -> None:
    run = bench.start("k")
    (one,) = bench.claim(run)
    bench.state(run, retried(one, bench.clock.now() + 10))
    bench.clock.pass_time(9.9)
    assert bench.claim(run) == []
    bench.clock.pass_time(0.2)
    assert plain(bench.claim(run)) == ["k"]
    assert bench.row("k")["not_before"] == 0


def test_another_run_may_take_up_a_record_that_waits(bench: Bench) -> None:
    first, second = bench.start("k"), bench.begin().run
    (one,) = bench.claim(first)
    bench.state(first, retried(one, bench.clock.now() + 1))
    bench.clock.pass_time(2)
    (again,) = bench.claim(second)
    assert again.attempts == 2
    assert again.fence > one.fence


def test_claims_tell_when_the_next_wait_ends(bench: Bench) -> None:
    run = bench.start("a", "b", "c")
    a, b, _ = bench.claim(run)
    now = bench.clock.now()
    bench.state(run, retried(a, now + 9), retried(b, now + 5))
    assert _next_due(bench, run) == pytest.approx(now + 5, abs=0.01)
    bench.clock.pass_time(6)
    assert _next_due(bench, run) == pytest.approx(now + 9, abs=0.01)
    bench.clock.pass_time(6)
    assert _next_due(bench, run) is None


def test_a_wait_for_a_person_is_no_wait_that_ends(bench: Bench) -> None:
    run = bench.start("a")
    (a,) = bench.claim(run)
    bench.state(run, retried(a, bench.clock.now() + 5, hold="stale"))
    assert _next_due(bench, run) is None


def _next_due(bench: Bench, run: int) -> float | None:
    from onward.ports.work import ClaimWish

    return bench.write(run, wishes=[ClaimWish(10, 1 << 20)]).next_due


def test_a_claim_takes_no_more_bytes_than_it_may_but_at_least_one_record(bench: Bench) -> None:
    big, small = '"' + "x" * 98 + '"', '"' + "x" * 8 + '"'
    run = bench.start(("a", big), ("b", small), ("c", small), ("d", big), ("e", small))
    assert plain(bench.claim(run, max_bytes=50)) == ["a"]
    assert plain(bench.claim(run, max_bytes=20)) == ["b", "c"]
    assert plain(bench.claim(run, max_bytes=0)) == ["d"]
    assert plain(bench.claim(run, max_bytes=0)) == ["e"]


def test_bytes_are_counted_not_characters(bench: Bench) -> None:
    run = bench.start(("a", '"ééé"'), ("b", '"ééé"'))
    assert plain(bench.claim(run, max_bytes=15)) == ["a"]
    assert plain(bench.claim(run, max_bytes=15)) == ["b"]


def test_a_large_record_that_is_due_keeps_its_turn(bench: Bench) -> None:
    big, small = '"' + "x" * 98 + '"', "1"
    run = bench.start(("small", small), ("big", big), ("fresh", small))
    first, second = bench.claim(run, 2)
    bench.state(run, retried(first, bench.clock.now() - 2), retried(second, bench.clock.now() - 1))
    assert plain(bench.claim(run, max_bytes=50)) == ["small"]
    assert plain(bench.claim(run, max_bytes=50)) == ["big"]
    assert plain(bench.claim(run, max_bytes=50)) == ["fresh"]


def test_only_named_records_are_claimed_where_some_are_named(bench: Bench) -> None:
    run = bench.start("a", "b", "c", "d")
    ids = {key: bench.row(key)["id"] for key in "abcd"}
    assert bench.claim(run, only=()) == []
    assert plain(bench.claim(run, only=(ids["d"], ids["b"]))) == ["b", "d"]
    assert bench.claim(run, only=(ids["d"], ids["b"])) == []
    assert plain(bench.claim(run)) == ["a", "c"]


def test_only_applies_to_waits_too(bench: Bench) -> None:
    run = bench.start("a", "b")
    a, b = bench.claim(run)
    bench.state(run, retried(a, bench.clock.now() + 1), retried(b, bench.clock.now() + 1))
    bench.clock.pass_time(2)
    assert plain(bench.claim(run, only=(b.id,))) == ["b"]


def test_suspects_and_others_are_never_claimed_together(bench: Bench) -> None:
    run = bench.start("a", "b", "c")
    _, b, _ = bench.claim(run)
    bench.state(run, given_back(b, hold="suspect", deaths=2))
    bench.state(run, given_back(_))
    assert bench.store.counts(1).held == {"suspect": 1}
    assert plain(bench.claim(run)) == ["c"]
    (suspect,) = bench.claim(run, suspects=True, start=False)
    assert (suspect.key, suspect.deaths, suspect.attempts) == ('"b"', 2, 0)
    assert bench.store.counts(1).held == {}


def test_a_record_that_waits_for_a_person_is_claimed_by_nobody(bench: Bench) -> None:
    run = bench.start("a")
    (a,) = bench.claim(run)
    bench.state(run, given_back(a, hold="stale"))
    assert bench.claim(run) == bench.claim(run, suspects=True) == []
    assert bench.store.counts(1).held == {"stale": 1}
    assert bench.states() == {"pending": 1}


def test_the_next_run_looks_at_stale_records_again(bench: Bench) -> None:
    run = bench.start("a")
    (a,) = bench.claim(run)
    bench.state(run, given_back(a, hold="stale"))
    bench.store.end_run(run, 4, "stale")
    assert plain(bench.claim(bench.begin().run)) == ["a"]


def test_two_wishes_of_one_batch_never_get_the_same_record(bench: Bench) -> None:
    from onward.ports.work import ClaimWish

    run = bench.start("a", "b", "c")
    outcome = bench.write(run, wishes=[ClaimWish(2, 1 << 20), ClaimWish(2, 1 << 20)])
    assert [plain(one) for one in outcome.claimed] == [["a", "b"], ["c"]]


def test_facts_come_before_claims_in_one_batch(bench: Bench) -> None:
    from onward.ports.work import ClaimWish

    run = bench.start("a")
    (a,) = bench.claim(run)
    outcome = bench.write(run, facts=[given_back(a)], wishes=[ClaimWish(1, 1 << 20)])
    assert plain(outcome.claimed[0]) == ["a"]
    assert outcome.claimed[0][0].fence > a.fence


def test_blocks_come_before_claims_in_one_batch(bench: Bench) -> None:
    from onward.model import FeedBlock
    from onward.ports.work import ClaimWish

    run = bench.begin().run
    bench.store.take_feed(run)
    bench.store.begin_pass(run, False, "")
    outcome = bench.write(run, blocks=[FeedBlock(records("a"), [], "1")], wishes=[ClaimWish(1, 1 << 20)])
    assert plain(outcome.claimed[0]) == ["a"]


def test_nothing_that_is_over_is_claimed(bench: Bench) -> None:
    run = bench.start("done", "failed", "quarantined", "held")
    done, bad, worse, _ = bench.claim(run)
    bench.state(run, advanced(done))
    bench.state(run, finished(done), failed(bad), quarantined(worse))
    assert bench.claim(run) == []
    assert bench.states() == {"succeeded": 1, "failed": 1, "quarantined": 1, "in_progress": 1}


def test_claims_stay_within_their_instance(bench: Bench) -> None:
    bench.start("a")
    other = bench.start("b", instance="other")
    assert plain(bench.claim(other)) == ["b"]


def test_a_clock_that_was_set_back_does_not_keep_records_for_years(bench: Bench) -> None:
    run = bench.start("k")
    (one,) = bench.claim(run)
    bench.state(run, retried(one, bench.clock.now() + 5))
    bench.clock.jump(-3 * 365 * 86400)
    due = _next_due(bench, run)
    assert due is not None
    assert due - bench.clock.now() <= 60
    bench.clock.pass_time(61)
    assert plain(bench.claim(run)) == ["k"]


@pytest.mark.parametrize("back", [10, 3000])
def test_a_clock_that_was_set_back_makes_no_wait_longer_than_it_was_meant_to_be(bench: Bench, back: float) -> None:
    run = bench.start("a", "b", "c")
    a, b, c = bench.claim(run)
    now = bench.clock.now()
    bench.state(run, retried(a, now + 5), retried(b, now + 2), retried(c, now + 600))
    bench.clock.jump(-back)
    assert _next_due(bench, run) == pytest.approx(now - back + 2, abs=0.01)
    bench.clock.pass_time(2)
    assert plain(bench.claim(run)) == ["b"]
    assert _next_due(bench, run) == pytest.approx(now - back + 5, abs=0.01)
    bench.clock.pass_time(3)
    assert plain(bench.claim(run)) == ["a"]
    assert _next_due(bench, run) == pytest.approx(now - back + 600, abs=0.01)


def test_the_longest_wait_that_may_be_asked_for_is_not_cut(bench: Bench) -> None:
    run = bench.start("k")
    (one,) = bench.claim(run)
    wait = LONGEST_WAIT + 1
    bench.state(run, retried(one, bench.clock.now() + wait))
    assert _next_due(bench, run) == pytest.approx(bench.clock.now() + wait, abs=0.01)


def test_a_clock_that_was_set_forward_ends_waits(bench: Bench) -> None:
    bench.needs_one_host()
    run = bench.start("k")
    (one,) = bench.claim(run)
    bench.state(run, retried(one, bench.clock.now() + 3000))
    bench.clock.jump(86400)
    assert plain(bench.claim(run)) == ["k"]


def test_a_vanished_record_is_not_claimed(bench: Bench) -> None:
    run = bench.start("a", "b")
    bench.pass_over(run, "b", again=True)
    assert plain(bench.claim(run)) == ["b"]


def test_the_fence_grows_with_every_claim(bench: Bench) -> None:
    run = bench.start("k")
    fences = []
    for _ in range(4):
        (one,) = bench.claim(run)
        fences.append(one.fence)
        bench.state(run, given_back(one))
    assert fences == sorted(set(fences))


def test_every_state_that_a_claimed_record_may_go_to_frees_it(bench: Bench) -> None:
    run = bench.start("a")
    (a,) = bench.claim(run)
    bench.state(run, fact(a, State.UNCONFIRMED, step="a", event="effect_unconfirmed"))
    assert bench.states() == {"unconfirmed": 1}
    assert bench.claim(run) == []
