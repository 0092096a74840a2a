"""A run whose lease has run out while its process lives: another run takes its records over, and what it may be sending
for waits until that process has ended its calls, or has died."""

from __future__ import annotations

import pytest
from store_conformance import LEASE, Bench
from test_store_ledger import (
    FILING,
    INTENDED,
    another_job,
    begin,
    claim,
    entry_of,
    going_on,
    intent,
    met,
)

from onward.errors import UsageError
from onward.model import Claimed
from onward.policy.suspects import DEATHS_TO_SUSPECT
from onward.ports.desk import Asked, Asking, Word
from onward.ports.work import ClaimWish

ASKING = Asking("clerk", None, [FILING], [FILING])


def lapsed(bench: Bench) -> tuple[int, Claimed]:
    """A run that has not renewed its lease in mid-send; its process lives."""
    bench.needs_one_host()
    run = bench.start("k")
    (one,) = claim(bench, run)
    met(bench, run, intent(one))
    bench.clock.pass_time(LEASE + 1)
    return run, one


@pytest.mark.parametrize("how", ["dies", "wakes"])
def test_its_call_is_waited_for_to_its_end(bench: Bench, how: str) -> None:
    run, one = lapsed(bench)
    second = begin(bench)
    assert (bench.row("k")["hold"], claim(bench, second)) == ("sending", [])
    bench.clock.pass_time(100)
    assert (bench.store.renew(second), bench.store.take_over(second)) == (True, [])
    assert claim(bench, second) == [], "a lease that has run out does not end a call"
    if how == "dies":
        bench.die(run)
    else:
        assert bench.store.end_run(run, 3, "lease lost") is None
        bench.store.take_over(second)
        assert claim(bench, second) == [], "its thread may go on"
        bench.store.sends_ended(run)
    bench.store.take_over(second)
    (again,) = claim(bench, second)
    assert (again.id, entry_of(again).ended_at) == (one.id, bench.clock.now())


def test_its_call_is_not_asked_about_nor_called_not_sent(bench: Bench) -> None:
    run, one = lapsed(bench)
    desk, word = bench.stores.desk(), Word("clerk", one.id, FILING, "ow1-x", None, None, "b", {"b": "1"})
    assert desk.ask_again(1, ASKING) == Asked(sending=1), "nobody has taken it over yet"
    second = begin(bench)
    assert desk.ask_again(1, ASKING) == Asked(sending=1)
    wish = ClaimWish(10, 1 << 20, effects=True, only=(one.id,), asked=True)
    assert bench.write(second, wishes=[wish]).claimed == [[]], "chosen before it was taken over"
    with pytest.raises(UsageError, match=f"may still be sending: the process of run {run}"):
        desk.settle(1, word)
    bench.die(run)
    assert desk.settle(1, word) is not None


def test_who_deduplicates_is_sent_to_again_at_once(bench: Bench) -> None:
    _, one = lapsed(bench)
    (again,) = claim(bench, begin(bench, deduped=(FILING,)))
    assert (again.id, entry_of(again).state, entry_of(again).ended_at) == (one.id, INTENDED, None)


def test_its_obligation_is_adopted_by_nobody_while_its_process_lives(bench: Bench) -> None:
    run, _ = lapsed(bench)
    with another_job(bench, "z") as (other, store):
        (two,) = claim(bench, other, store)
        (told,) = met(bench, other, intent(two), store=store)
        assert (told.meeting, told.sending) == ("wait", True)
        bench.die(run)
        assert met(bench, other, intent(two), store=store)[0].meeting == "adopt"


def test_a_suspect_is_one_still_when_its_call_has_ended(bench: Bench) -> None:
    run, _ = lapsed(bench)
    for _ in range(DEATHS_TO_SUSPECT):
        second = begin(bench)
        bench.store.sends_ended(run)
        bench.store.take_over(second)
        if bench.row("k")["hold"] is None:
            (again,) = claim(bench, second)
            bench.state(second, going_on(again, INTENDED))
        bench.clock.pass_time(LEASE + 1)
        run = second
    assert (bench.row("k")["deaths"], bench.row("k")["hold"]) == (DEATHS_TO_SUSPECT, "suspect")


def test_where_only_leases_tell_a_lapsed_call_counts_as_just_ended(bench: Bench) -> None:
    """Its process may be anywhere, or stopped: from now on `settle` has to pass before an answer is believed."""
    if bench.stores.one_host:
        pytest.skip("it is seen whether the process lives")
    run = bench.start("k")
    (one,) = claim(bench, run)
    met(bench, run, intent(one))
    bench.clock.pass_time(LEASE + 1)
    second = begin(bench)
    (again,) = claim(bench, second)
    assert (again.id, entry_of(again).state, entry_of(again).ended_at) == (one.id, INTENDED, bench.clock.now())
    assert not bench.store.renew(run), "however late it wakes"
