"""What is known of when the call under an intent ended: nobody may take the far side's word before it has settled."""

from __future__ import annotations

import pytest
from store_conformance import Bench
from test_store_ledger import (
    ABSENT,
    INTENDED,
    UNKNOWN,
    another_job,
    begin,
    claim,
    entry_of,
    going_on,
    intent,
    met,
    unconfirmed,
)

from onward.model import Claimed

LATER = 500.0


def sending(bench: Bench) -> tuple[int, Claimed]:
    run = bench.start("k")
    (one,) = claim(bench, run)
    met(bench, run, intent(one))
    return run, one


def seen_ended(bench: Bench) -> float | None:
    """In a run that begins now."""
    (again,) = claim(bench, begin(bench))
    return entry_of(again).ended_at


def test_the_death_of_a_process_is_the_end_of_its_call_and_is_seen_by_who_buries_it(bench: Bench) -> None:
    run, _ = sending(bench)
    bench.clock.pass_time(LATER)
    bench.die(run)
    assert seen_ended(bench) == bench.clock.now()


@pytest.mark.parametrize("hold", ["person", "sending"])
def test_a_call_that_was_given_up_ended_when_it_is_seen_to_have(bench: Bench, hold: str) -> None:
    run, one = sending(bench)
    bench.state(run, unconfirmed(one, INTENDED, hold=hold))
    bench.store.end_run(run, 3, "stopped")
    bench.clock.pass_time(LATER)
    bench.store.sends_ended(run)
    assert seen_ended(bench) == bench.clock.now()


def test_a_call_that_was_cut_at_the_end_of_its_run_ended_when_it_is_seen_to_have(bench: Bench) -> None:
    run, _ = sending(bench)
    bench.store.end_run(run, 3, "stopped")
    bench.clock.pass_time(LATER)
    bench.store.sends_ended(run)
    assert seen_ended(bench) == bench.clock.now()


def test_a_call_that_is_heard_to_end_without_an_answer_ended_then(bench: Bench) -> None:
    run, one = sending(bench)
    bench.clock.pass_time(LATER)
    ended = bench.clock.now()
    bench.state(run, unconfirmed(one))
    bench.clock.pass_time(7)
    (again,) = claim(bench, run)
    assert entry_of(again).ended_at == ended
    bench.state(run, unconfirmed(again))
    (again,) = claim(bench, run)
    assert entry_of(again).ended_at == ended, "a question in vain is no send"


def test_who_adopts_what_a_dead_run_was_sending_sees_it_end_only_now(bench: Bench) -> None:
    run, _ = sending(bench)
    bench.clock.pass_time(LATER)
    bench.die(run)
    with another_job(bench, "z") as (other, store):
        (two,) = claim(bench, other, store)
        (told,) = met(bench, other, intent(two), store=store)
        now = bench.clock.now()
        assert (told.meeting, told.entry.ended_at) == ("adopt", now)
        bench.state(other, unconfirmed(two), store=store)
        bench.clock.pass_time(7)
        (again,) = claim(bench, other, store)
        assert (entry_of(again).state, entry_of(again).ended_at) == (UNKNOWN, now)


def test_another_send_has_not_ended(bench: Bench) -> None:
    run, _ = sending(bench)
    bench.die(run)
    second = begin(bench)
    (again,) = claim(bench, second)
    bench.state(second, going_on(again, INTENDED))
    bench.state(second, unconfirmed(again, INTENDED))
    (again,) = claim(bench, second)
    assert entry_of(again).ended_at is None


def test_the_end_of_a_send_says_nothing_of_the_next_one_for_the_same_obligation(bench: Bench) -> None:
    run, one = sending(bench)
    bench.state(run, unconfirmed(one))
    (again,) = claim(bench, run)
    bench.state(run, going_on(again, ABSENT))
    assert met(bench, run, intent(again))[0].meeting == "go"
    bench.clock.pass_time(LATER)
    bench.die(run)
    with another_job(bench, "z") as (other, store):
        (two,) = claim(bench, other, store)
        (told,) = met(bench, other, intent(two), store=store)
        assert (told.meeting, told.entry.ended_at) == ("adopt", bench.clock.now())


@pytest.mark.parametrize("jump", [-3600.0, 3600.0])
def test_a_clock_that_is_set_makes_no_end_older_or_younger(bench: Bench, jump: float) -> None:
    run, one = sending(bench)
    bench.state(run, unconfirmed(one))
    bench.clock.pass_time(5)
    bench.clock.jump(jump)
    (again,) = claim(bench, run)
    assert entry_of(again).ended_at == pytest.approx(bench.clock.now() - 5, abs=0.01)
