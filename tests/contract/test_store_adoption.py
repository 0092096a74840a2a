"""A record whose obligation another one has taken over goes on once that is settled, and it is told who has it."""

from __future__ import annotations

import pytest
from store_conformance import Bench, plain
from test_store_ledger import (
    ABSENT,
    CONFIRMED,
    FILING,
    SENT,
    UNKNOWN,
    another_job,
    begin,
    claim,
    done,
    going_on,
    intent,
    met,
    unconfirmed,
)

from onward.model import Claimed
from onward.ports.desk import Asking, Word
from onward.ports.work import ClaimWish


def adopted(bench: Bench) -> tuple[int, Claimed, Claimed]:
    """Record a waits for a person; b of the same run has taken its obligation over, and holds it."""
    run = bench.start("a", "b")
    a, b = claim(bench, run)
    met(bench, run, intent(a))
    bench.state(run, unconfirmed(a, hold="person"))
    assert met(bench, run, intent(b))[0].meeting == "adopt"
    return run, a, b


def test_it_waits_for_the_other_and_for_no_person(bench: Bench) -> None:
    run, _, b = adopted(bench)
    assert bench.row("a")["hold"] == "elsewhere"
    bench.state(run, going_on(b, SENT, receipt="7"))
    bench.state(run, unconfirmed(b, SENT, hold="person"))
    assert claim(bench, run) == []
    asked = bench.stores.desk().ask_again(1, Asking("clerk", None, [FILING], [FILING]))
    assert (asked.records, asked.elsewhere) == ([b.id], 1)


@pytest.mark.parametrize("state", [CONFIRMED, ABSENT])
def test_it_goes_on_when_the_others_outcome_is_known(bench: Bench, state: str) -> None:
    run, _, b = adopted(bench)
    settled = done(b, "7") if state == CONFIRMED else unconfirmed(b, ABSENT, hold="person")
    bench.state(run, settled)
    (again,) = claim(bench, run)
    assert (plain([again]), again.entries) == (["a"], {})
    (told,) = met(bench, run, intent(again))
    expected = ("adopt", "record b of job") if state == CONFIRMED else ("go", None)
    assert (told.meeting, told.entry.origin) == expected


@pytest.mark.parametrize("receipt", ['"7"', None])
def test_a_persons_word_about_the_other_wakes_it(bench: Bench, receipt: str | None) -> None:
    run, _, b = adopted(bench)
    bench.state(run, unconfirmed(b, UNKNOWN, hold="person"))
    word = Word("clerk", b.id, FILING, "ow1-x", receipt, None, "b", {"b": "1"})
    bench.clock.pass_time(1)
    assert bench.stores.desk().settle(1, word) is not None
    assert "a" in plain(claim(bench, run))


def test_it_wakes_in_another_job_and_in_a_later_run(bench: Bench) -> None:
    run = bench.start("k")
    (one,) = claim(bench, run)
    met(bench, run, intent(one))
    bench.state(run, unconfirmed(one, hold="person"))
    bench.store.end_run(run, 1, "done")
    with another_job(bench, "z") as (other, store):
        (two,) = claim(bench, other, store)
        assert met(bench, other, intent(two), store=store)[0].meeting == "adopt"
        holder = bench.stores.desk().record(one.id).held_by
        assert holder is not None
        assert (holder.key, holder.job, holder.effect, holder.idempotency_key) == ('"z"', "other", FILING, "ow1-x")
        assert claim(bench, begin(bench)) == []
        bench.state(other, done(two, "7"), store=store)
    assert bench.stores.desk().record(one.id).held_by is None
    assert plain(claim(bench, begin(bench))) == ["k"]


def test_one_that_has_taken_it_back_waits_no_more(bench: Bench) -> None:
    run, a, b = adopted(bench)
    bench.state(run, unconfirmed(b, UNKNOWN, hold="person"))
    wish = ClaimWish(10, 1 << 20, effects=True, only=(a.id,), asked=True)
    (again,) = bench.write(run, wishes=[wish]).claimed[0]
    assert met(bench, run, intent(again))[0].meeting == "adopt"
    bench.state(run, unconfirmed(again, hold="person"))
    assert (bench.row("a")["hold"], bench.row("b")["hold"]) == ("person", "elsewhere")
    desk = bench.stores.desk()
    assert (desk.record(a.id).held_by, desk.record(b.id).held_by is None) == (None, False)


def test_what_was_done_already_leaves_nobody_waiting(bench: Bench) -> None:
    run = bench.start("a", "b")
    a, b = claim(bench, run)
    met(bench, run, intent(a))
    bench.state(run, done(a, "7"))
    assert met(bench, run, intent(b))[0].meeting == "adopt"
    assert bench.stores.desk().record(a.id).held_by is None
