"""An input that changes while an effect of its record is open waits until that is settled, and then is taken or not."""

from __future__ import annotations

from typing import Any

import pytest
from store_conformance import Bench, at, fact, failed, given_back, quarantined
from test_store_ledger import (
    ABSENT,
    CONFIRMED,
    FILING,
    INTENDED,
    SENT,
    UNKNOWN,
    about,
    begin,
    claim,
    done,
    entry_of,
    going_on,
    intent,
    met,
    retried,
    unconfirmed,
)

from onward.model import Claimed, EffectFact, EntryState, FeedOutcome, State
from onward.ports.desk import Choice, Word
from onward.ports.work import ClaimWish

TODAY = {"a": "1", "b": "1"}


def open_effect(bench: Bench, state: EntryState | None = UNKNOWN) -> tuple[int, Claimed]:
    """A record with the input 1, whose effect is open: left so, or (None) still in the hands of its run."""
    run = bench.start(("k", "1"))
    (one,) = claim(bench, run)
    met(bench, run, intent(one))
    if state is not None:
        bench.state(run, unconfirmed(one, state))
    return run, one


def change(bench: Bench, run: int, value: str = "2") -> FeedOutcome:
    return bench.pass_over(run, ("k", value), again=True)


def kept(bench: Bench, run: int, state: EntryState = UNKNOWN) -> Claimed:
    """The record, claimed again, after its input has changed."""
    assert change(bench, run).changed_kept == 1
    (again,) = claim(bench, run)
    assert (again.generation, again.value, entry_of(again).state) == (0, "1", state)
    return again


def renewed(bench: Bench, run: int, made: Any) -> None:
    """The fact ends the wait: the record is pending with its new input, and has nothing of the old one."""
    assert bench.write(run, facts=[made]).renewed == {(made.record, made.fence)}
    row = bench.row("k")
    assert (row["state"], row["generation"], row["input_changed"], row["run"]) == ("pending", 1, 0, None)
    assert (row["step"], row["attempts"], row["not_before"], row["hold"]) == (None, 0, 0, None)
    assert bench.store.counts(1).inputs_waiting == 0
    (again,) = claim(bench, run)
    assert (again.generation, again.value, again.entries, again.checkpoints) == (1, "2", {}, {})


@pytest.mark.parametrize("state", [UNKNOWN, SENT, INTENDED])
def test_a_record_keeps_its_input_while_its_effect_is_open(bench: Bench, state: EntryState) -> None:
    run, one = open_effect(bench, state)
    bench.state(run)
    outcome = change(bench, run)
    assert (outcome.changed_kept, outcome.changed_unfinished, outcome.unchanged) == (1, 0, 0)
    assert (bench.states(), bench.store.counts(1).inputs_waiting) == ({"unconfirmed": 1}, 1)
    assert bench.row("k")["history"][-1][0] == "input_waits"
    (again,) = claim(bench, run)
    assert (again.id, again.generation, again.value, entry_of(again).state) == (one.id, 0, "1", state)


def test_what_is_being_sent_is_not_disturbed(bench: Bench) -> None:
    run, one = open_effect(bench, None)
    assert change(bench, run).changed_kept == 1
    assert bench.state(run, going_on(one, SENT, receipt="7")) == set()
    assert bench.state(run, done(one, "7")) == set()
    assert bench.row("k")["succeeded_generation"] == 0


def test_so_does_one_whose_run_died(bench: Bench) -> None:
    run, _ = open_effect(bench, None)
    bench.die(run)
    kept(bench, begin(bench), INTENDED)


def test_without_an_open_effect_the_new_input_is_taken_at_once(bench: Bench) -> None:
    run, one = open_effect(bench, None)
    bench.state(run, retried(one, ABSENT, bench.clock.now() + 1))
    outcome = change(bench, run)
    assert (outcome.changed_unfinished, outcome.changed_kept) == (1, 0)
    assert bench.row("k")["generation"] == 1


def test_what_was_sent_is_gone_on_with_to_its_end_and_is_then_stale(bench: Bench) -> None:
    run, _ = open_effect(bench)
    again = kept(bench, run)
    bench.state(run, going_on(again, SENT, receipt="7"))
    booked = fact(
        again, State.IN_PROGRESS, done_step="b", version="1", checkpoint="7", step="c", started=True, attempts=1,
        effect=about(CONFIRMED, receipt="7"),
    )  # fmt: skip
    assert bench.write(run, facts=[booked]).renewed == set()
    assert bench.write(run, facts=[given_back(again)]).renewed == set(), "it goes on with what was sent"
    (last,) = claim(bench, run)
    assert (last.generation, last.value) == (0, "1")
    change(bench, run, "3")
    bench.state(run, fact(last, State.SUCCEEDED, lineage=(("b", "1"),)))
    row, (group,) = bench.row("k"), bench.store.results_by_version(1)
    assert (row["state"], row["input_changed"], row["inputs"][1]) == ("succeeded", 1, "3")
    assert (group.count, group.changed, bench.store.counts(1).inputs_waiting) == (0, 1, 0)


def test_a_probe_that_finds_nothing_sends_nothing_of_the_old_input(bench: Bench) -> None:
    run, _ = open_effect(bench)
    again = kept(bench, run)
    renewed(bench, run, going_on(again, INTENDED, asks=2))
    events = [event for event, _, _ in bench.row("k")["history"]]
    assert events[-2:] == ["record_reset", "record_reset"]


def test_the_new_input_may_then_send_another_payload(bench: Bench) -> None:
    run, _ = open_effect(bench)
    again = kept(bench, run)
    bench.write(run, facts=[going_on(again, INTENDED, asks=2)])
    (anew,) = claim(bench, run)
    assert met(bench, run, intent(anew, digest="other"))[0].meeting == "go"


@pytest.mark.parametrize("how", ["retried", "failed", "quarantined"])
def test_a_refusal_makes_room_for_the_new_input_at_once(bench: Bench, how: str) -> None:
    run, one = open_effect(bench, None)
    change(bench, run)
    said = {"retried": retried(one, ABSENT, 0.0), "failed": failed(one), "quarantined": quarantined(one)}[how]
    said.effect = about(ABSENT)
    renewed(bench, run, said)


@pytest.mark.parametrize("how", ["failed", "quarantined", "stale"])
def test_one_that_cannot_go_on_after_it_was_sent_takes_the_new_input(bench: Bench, how: str) -> None:
    run, _ = open_effect(bench, SENT)
    again = kept(bench, run, SENT)
    effect = about(CONFIRMED, receipt="7")
    bench.state(run, fact(again, State.IN_PROGRESS, step="c", started=True, attempts=1, effect=effect))
    held = fact(again, State.PENDING, step="c", hold="stale", event="record_waits", reason="no longer decodes")
    renewed(bench, run, {"failed": failed(again), "quarantined": quarantined(again), "stale": held}[how])


def test_an_input_that_is_as_it_was_waits_no_more(bench: Bench) -> None:
    run, _ = open_effect(bench)
    change(bench, run)
    assert change(bench, run).unchanged == 1, "the same again waits already"
    assert change(bench, run, "1").changed_kept == 0
    assert (bench.store.counts(1).inputs_waiting, bench.row("k")["inputs"]) == (0, {0: "1"})


def test_a_misfit_waits_too(bench: Bench) -> None:
    run, _ = open_effect(bench)
    bench.store.begin_pass(run, True, "it changed")
    assert bench.feed(run, [at(0, "k", "2", invalid="no")], complete=True).misfits == 0
    assert bench.states() == {"unconfirmed": 1}


@pytest.mark.parametrize("receipt", [None, '"7"'])
def test_a_persons_word_settles_it(bench: Bench, receipt: str | None) -> None:
    run, one = open_effect(bench)
    change(bench, run)
    word = Word("clerk", one.id, FILING, "ow1-x", receipt, None, "b", {"b": "1"})
    with_end = State.PENDING if receipt is None else State.SUCCEEDED
    desk = bench.stores.desk()
    bench.clock.pass_time(1)
    assert desk.settle(1, word) is with_end
    row, counts = bench.row("k"), bench.store.counts(1)
    assert (row["generation"], row["input_changed"]) == ((1, 0) if receipt is None else (0, 1))
    assert counts.inputs_waiting == 0


def test_one_quarantined_for_what_its_send_did_goes_on_to_settle_it(bench: Bench) -> None:
    run, one = open_effect(bench, None)
    convicted = quarantined(one, solo_deaths=3)
    convicted.effect = EffectFact(FILING, "ow1-x", UNKNOWN)
    bench.state(run, convicted)
    assert change(bench, run).changed_kept == 1
    row = bench.row("k")
    assert (row["state"], row["generation"], row["input_changed"]) == ("pending", 0, 1)
    assert (row["hold"], row["deaths"], row["solo_deaths"]) == ("suspect", 2, 0)


def test_a_correction_by_hand_waits_as_well(bench: Bench) -> None:
    run, one = open_effect(bench, None)
    convicted = quarantined(one)
    convicted.effect = EffectFact(FILING, "ow1-x", UNKNOWN)
    bench.state(run, convicted)
    decided = bench.stores.desk().correct(1, [(one.id, "5")], Choice("release", "clerk", TODAY))
    assert (decided.count, decided.corrected) == (1, 1)
    (again,) = claim(bench, run)
    assert (again.generation, again.value, bench.row("k")["inputs"]) == (0, "1", {0: "1", 1: "5"})
    bench.write(run, facts=[going_on(again, INTENDED, asks=2)])
    assert claim(bench, run)[0].value == "5"


def test_a_vanished_one_is_counted_while_it_is_open(bench: Bench) -> None:
    run, _ = open_effect(bench)
    assert bench.store.counts(1).vanished_open == 0
    bench.pass_over(run, "other", again=True)
    assert bench.store.counts(1).vanished_open == 1


# Another record has taken the obligation over: what it owes, and for which input, is still this one's.


def taken_over(bench: Bench) -> tuple[int, Claimed, Claimed]:
    """The record k with the input 1 has sent, and waits for a person; z of the same run has adopted the obligation."""
    run = bench.start(("k", "1"), "z")
    one, two = claim(bench, run)
    met(bench, run, intent(one))
    bench.state(run, unconfirmed(one, hold="person"))
    assert met(bench, run, intent(two))[0].meeting == "adopt"
    outcome = bench.pass_over(run, ("k", "2"), "z", again=True)
    assert (outcome.changed_kept, outcome.changed_unfinished) == (1, 0)
    assert (bench.row("k")["hold"], bench.row("k")["generation"]) == ("elsewhere", 0)
    return run, one, two


def test_an_input_waits_for_what_comes_of_the_obligation_in_other_hands(bench: Bench) -> None:
    run, one, two = taken_over(bench)
    bench.state(run, done(two))
    (again,) = claim(bench, run)
    assert (again.id, again.value) == (one.id, "1")
    assert met(bench, run, intent(again))[0].meeting == "adopt"
    bench.state(run, fact(again, State.SUCCEEDED, lineage=(("b", "1"),)))
    assert (bench.row("k")["input_changed"], bench.row("k")["succeeded_generation"]) == (1, 0)


def test_nothing_of_the_old_input_is_sent_once_the_other_knows_that_nothing_was(bench: Bench) -> None:
    run, one, two = taken_over(bench)
    bench.state(run, unconfirmed(two, ABSENT, hold="person"))
    (again,) = claim(bench, run)
    assert (again.id, again.value) == (one.id, "1")
    renewed(bench, run, intent(again))


def test_nor_is_the_new_one_taken_while_it_is_open_in_other_hands(bench: Bench) -> None:
    run, one, two = taken_over(bench)
    wish = ClaimWish(10, 1 << 20, effects=True, only=(one.id,), asked=True)
    (again,) = bench.write(run, wishes=[wish]).claimed[0]
    assert met(bench, run, intent(again))[0].meeting == "wait"
    assert bench.write(run, facts=[given_back(again)]).renewed == set()
    assert bench.row("k")["generation"] == 0
    bench.state(run, done(two))


def test_an_edited_key_does_not_make_it_go_round_in_circles(bench: Bench) -> None:
    run, one, two = taken_over(bench)
    wish = ClaimWish(10, 1 << 20, effects=True, only=(one.id,), asked=True)
    (again,) = bench.write(run, wishes=[wish]).claimed[0]
    assert met(bench, run, intent(again, "ow1-other"))[0].meeting == "other key"
    bench.state(run, given_back(again), done(two))


def test_a_correction_waits_for_it_too(bench: Bench) -> None:
    run, one, two = taken_over(bench)
    wish = ClaimWish(10, 1 << 20, effects=True, only=(one.id,), asked=True)
    (again,) = bench.write(run, wishes=[wish]).claimed[0]
    bench.pass_over(run, ("k", "1"), "z", again=True)
    bench.state(run, quarantined(again))
    bench.stores.desk().correct(1, [(one.id, "3")], Choice("release", "clerk", TODAY))
    assert (bench.row("k")["generation"], bench.row("k")["input_changed"]) == (0, 1)
    bench.state(run, done(two))


def test_what_was_sent_at_an_earlier_step_holds_though_another_has_adopted_it(bench: Bench) -> None:
    """The input 1 goes on to its end, since the first of two effects was sent for it."""
    run = bench.start(("k", "1"), "z")
    one, two = claim(bench, run)
    met(bench, run, intent(one))
    bench.state(run, going_on(one, CONFIRMED, receipt="7"))
    assert met(bench, run, intent(two))[0].meeting == "adopt"
    second = intent(one, "ow1-y")
    assert second.effect is not None
    met(bench, run, second)
    bench.pass_over(run, ("k", "2"), "z", again=True)
    assert bench.write(run, facts=[going_on(one, INTENDED, "ow1-y", asks=1)]).renewed == set()
    bench.state(run, fact(two, State.SUCCEEDED, lineage=(("b", "1"),)))
    assert bench.write(run, facts=[fact(one, State.PENDING, effect=about(ABSENT, "ow1-y"))]).renewed == set()
    (again,) = claim(bench, run)
    assert bench.write(run, facts=[intent(again, "ow1-y")]).renewed == set()
    assert again.value == "1"
