"""Whose an obligation is while its record vanishes from the source, or its run is thought to be dead: nobody takes over
what is in good hands, and who has lost it all the same goes on."""

from __future__ import annotations

import pytest
from store_conformance import LEASE, Bench
from test_store_ledger import (
    CONFIRMED,
    UNKNOWN,
    another_job,
    claim,
    done,
    entry_of,
    going_on,
    intent,
    met,
    unconfirmed,
)

from onward.model import Claimed, State


@pytest.mark.parametrize("asked_later", [False, True])
def test_what_vanished_in_mid_send_is_in_good_hands(bench: Bench, asked_later: bool) -> None:
    run = bench.start("gone", "here")
    gone, here = claim(bench, run)
    met(bench, run, intent(gone))
    bench.pass_over(run, "here", again=True)
    if asked_later:
        bench.state(run, unconfirmed(gone, until=bench.clock.now() + 10))
    assert met(bench, run, intent(here))[0].meeting == "wait"
    if not asked_later:
        assert bench.state(run, done(gone, "7")) == set()
        told = met(bench, run, intent(here))[0]
        assert (told.meeting, told.entry.receipt) == ("adopt", "7")


def test_what_vanished_and_is_a_persons_is_adopted(bench: Bench) -> None:
    run = bench.start("gone", "here")
    gone, here = claim(bench, run)
    met(bench, run, intent(gone))
    bench.pass_over(run, "here", again=True)
    bench.state(run, unconfirmed(gone, hold="person"))
    assert met(bench, run, intent(here))[0].meeting == "adopt"


def taken_while_asking(bench: Bench) -> tuple[int, Claimed]:
    """A run that does not renew its lease while it asks about an obligation, and goes on too late."""
    run = bench.start("k")
    (one,) = claim(bench, run)
    met(bench, run, intent(one))
    bench.state(run, unconfirmed(one))
    (again,) = claim(bench, run)
    assert entry_of(again).state == UNKNOWN
    bench.clock.pass_time(LEASE + 1)
    return run, again


@pytest.mark.parametrize("state", [State.SUCCEEDED, State.IN_PROGRESS, State.UNCONFIRMED])
def test_one_whose_obligation_was_taken_meanwhile_waits_for_the_other(bench: Bench, state: State) -> None:
    run, one = taken_while_asking(bench)
    with another_job(bench, "z") as (other, store):
        (two,) = claim(bench, other, store)
        assert met(bench, other, intent(two), store=store)[0].meeting == "adopt"
        bench.store.renew(run)
        said = {
            State.SUCCEEDED: done(one, "7"),
            State.IN_PROGRESS: going_on(one, "sent", receipt="7"),  # type: ignore[arg-type]
            State.UNCONFIRMED: unconfirmed(one),
        }
        assert bench.state(run, said[state]) == {(one.id, one.fence)}
        row = bench.row("k")
        assert (row["state"], row["hold"], row["run"], claim(bench, run)) == ("unconfirmed", "elsewhere", None, [])
        assert row["history"][-1] == ("record_reset", "b", "another record has taken its obligation over")
        bench.state(other, done(two, "8"), store=store)
    (again,) = claim(bench, run)
    (told,) = met(bench, run, intent(again))
    assert (told.meeting, told.entry.state, told.entry.receipt) == ("adopt", CONFIRMED, "8")


def test_one_whose_obligation_was_taken_and_done_meanwhile_goes_on(bench: Bench) -> None:
    run, one = taken_while_asking(bench)
    with another_job(bench, "z") as (other, store):
        (two,) = claim(bench, other, store)
        assert met(bench, other, intent(two), store=store)[0].meeting == "adopt"
        bench.state(other, done(two, "8"), store=store)
    bench.store.renew(run)
    assert bench.state(run, unconfirmed(one)) == {(one.id, one.fence)}
    assert bench.states() == {"pending": 1}
    (again,) = claim(bench, run)
    assert met(bench, run, intent(again))[0].entry.receipt == "8"
