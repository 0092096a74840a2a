"""What people do about obligations whose outcome is open: their word settles them, and they have them asked about."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import pytest
from store_conformance import Bench, advanced, check, fact, failed, finished, plain

from onward.errors import UsageError
from onward.model import Claimed, EffectFact, EntryState, Fact, State, StepVersion
from onward.ports.desk import Asked, Asking, Desk, Word

FILING = "annual-report"
KEY = "ow1-x"
UNKNOWN, INTENDED = EntryState.UNKNOWN, EntryState.INTENDED
EFFECTS = ((FILING, ()),)
TODAY = {"a": "1", "b": "2", "c": "3"}
ASKING = Asking("clerk", None, found_out=[FILING], confirmed=[FILING])
STEPS = tuple(StepVersion(*step) for step in TODAY.items())


@pytest.fixture
def desk(bench: Bench) -> Iterator[Desk]:
    made = bench.stores.desk()
    yield made
    if bench.stores.several:
        made.close()


def entry(state: EntryState, key: str = KEY, **given: Any) -> EffectFact:
    return EffectFact(FILING, key, state, **given)


def start(bench: Bench, *keys: str, **given: Any) -> int:
    return bench.start(*(keys or ("k",)), effects=EFFECTS, steps=STEPS, **given)


def intend(bench: Bench, run: int, one: Claimed, key: str = KEY, **times: float) -> None:
    made = entry(EntryState.INTENDED, key, payload='{"fee":50}', payload_hash="h", **times)
    bench.state(run, fact(one, State.IN_PROGRESS, step="b", started=True, attempts=1, effect=made))


def left(one: Claimed, state: EntryState, hold: str | None = "person", until: float = 0.0, key: str = KEY) -> Fact:
    """The record leaves its run unconfirmed."""
    said = {"event": "effect_unconfirmed", "reason": "nobody can be asked"}
    about = entry(state, key, receipt='"r"' if state is EntryState.SENT else None, ask_at=until)
    return fact(one, State.UNCONFIRMED, step="b", hold=hold, not_before=until, effect=about, **said)


def unconfirmed(
    bench: Bench, run: int, state: EntryState = EntryState.UNKNOWN, hold: str | None = "person", until: float = 0.0
) -> Claimed:
    """One record that has done step a, and whose effect b is open."""
    (one,) = bench.claim(run, 1, effects=True)
    bench.state(run, advanced(one))
    intend(bench, run, one)
    bench.state(run, left(one, state, hold, until))
    return one


def word(one: Claimed, receipt: str | None = '"r1"', **given: Any) -> Word:
    return replace(Word("clerk", one.id, FILING, KEY, receipt, None, "b", TODAY), **given)


def settle(bench: Bench, desk: Desk, said: Word) -> State | None:
    """A person says it, once what was sent can have arrived."""
    bench.clock.pass_time(1)
    after = desk.settle(1, said)
    check(bench.stores, bench.store.store)
    return after


def row(bench: Bench, key: str = "k") -> dict[str, Any]:
    return bench.row(key)


def ledger(desk: Desk, one: Claimed) -> list[tuple[str, str, str | None]]:
    return [(found.key, str(found.state), found.receipt) for found in desk.record(one.id).entries]


# Sent.


def test_what_was_sent_goes_on_with_the_next_step(bench: Bench, desk: Desk) -> None:
    run = start(bench)
    one = unconfirmed(bench, run)
    assert settle(bench, desk, word(one)) is State.PENDING
    now = row(bench)
    assert (now["state"], now["step"], now["hold"], now["not_before"], now["attempts"]) == ("pending", "c", None, 0, 0)
    assert now["checkpoints"][0, "b"] == ("2", '"r1"')
    assert ledger(desk, one) == [(KEY, "confirmed", '"r1"')]
    assert now["history"][-1] == ("effect_confirmed", "b", "a person says: it was sent")
    assert desk.record(one.id).history[-1].actor == "clerk"
    (again,) = bench.claim(run, effects=True)
    assert (list(again.checkpoints), again.step) == (["a", "b"], "c")


def test_what_was_sent_and_was_the_last_step_has_succeeded(bench: Bench, desk: Desk) -> None:
    one = unconfirmed(bench, start(bench))
    assert settle(bench, desk, word(one, today={"a": "1", "b": "2"}, reason="seen")) is State.SUCCEEDED
    assert bench.states() == {"succeeded": 1}
    assert bench.stores.recounted_versions(1).groups == {((("a", "1"), ("b", "2")), None): (1, 0)}
    assert row(bench)["history"][-1][2] == "a person says: it was sent; seen"


def test_a_receipt_that_was_there_is_replaced_by_the_one_that_is_given(bench: Bench, desk: Desk) -> None:
    one = unconfirmed(bench, start(bench), EntryState.SENT)
    settle(bench, desk, word(one, receipt='"mine"'))
    assert ledger(desk, one) == [(KEY, "confirmed", '"mine"')]
    assert row(bench)["checkpoints"][0, "b"] == ("2", '"mine"')


# Not sent.


def test_what_was_not_sent_is_pending_and_its_entry_absent(bench: Bench, desk: Desk) -> None:
    run = start(bench)
    one = unconfirmed(bench, run)
    assert settle(bench, desk, word(one, receipt=None)) is State.PENDING
    now = row(bench)
    assert (now["state"], now["step"], now["hold"], now["not_before"]) == ("pending", "b", None, 0)
    assert ledger(desk, one) == [(KEY, "absent", None)]
    assert now["history"][-1] == ("effect_denied", "b", "a person says: it was not sent")
    (again,) = bench.claim(run, effects=True)
    assert again.entries[FILING].state is EntryState.ABSENT
    assert list(again.checkpoints) == ["a"]


def test_without_the_jobs_file_it_goes_on_where_it_was(bench: Bench, desk: Desk) -> None:
    one = unconfirmed(bench, start(bench))
    assert settle(bench, desk, word(one, receipt=None, step=None)) is State.PENDING
    assert row(bench)["step"] == "b"


def test_a_suspect_stays_one_until_its_call_has_ended(bench: Bench, desk: Desk) -> None:
    run = start(bench)
    (one,) = bench.claim(run, effects=True)
    intend(bench, run, one)
    bench.state(run, replace(left(one, EntryState.UNKNOWN), deaths=2))
    settle(bench, desk, word(one, receipt=None))
    assert (row(bench)["hold"], row(bench)["deaths"]) == ("suspect", 2)


# Only what is unconfirmed, and only once.


@pytest.mark.parametrize("receipt", ['"r1"', None])
def test_a_second_word_changes_nothing(bench: Bench, desk: Desk, receipt: str | None) -> None:
    one = unconfirmed(bench, start(bench))
    settle(bench, desk, word(one, receipt))
    before = row(bench)
    assert settle(bench, desk, word(one)) is None
    assert settle(bench, desk, word(one, receipt=None)) is None
    assert row(bench) == before


@pytest.mark.parametrize("state", ["pending", "in progress", "being asked", "failed", "succeeded"])
def test_other_states_are_left_as_they_are(bench: Bench, desk: Desk, state: str) -> None:
    run = start(bench)
    (one,) = bench.claim(run, effects=True)
    if state == "pending":
        bench.state(run, fact(one, State.PENDING, step="a"))
    elif state == "failed":
        bench.state(run, failed(one))
    elif state == "succeeded":
        bench.state(run, advanced(one))
        bench.state(run, finished(one))
    else:
        intend(bench, run, one)
    if state == "being asked":
        bench.state(run, left(one, EntryState.UNKNOWN, None))
        (one,) = bench.claim(run, effects=True)
    before = row(bench)
    assert settle(bench, desk, word(one)) is None
    assert row(bench) == before


def test_an_unknown_obligation_is_no_ones(bench: Bench, desk: Desk) -> None:
    one = unconfirmed(bench, start(bench))
    assert settle(bench, desk, word(one, key="ow1-other")) is None
    assert settle(bench, desk, word(one, effect="amendment")) is None
    assert settle(bench, desk, word(one, record=one.id + 1)) is None
    assert row(bench)["state"] == "unconfirmed"


def test_a_run_that_held_the_record_before_can_say_nothing_after_the_word(bench: Bench, desk: Desk) -> None:
    run = start(bench)
    one = unconfirmed(bench, run, hold=None)
    (asking,) = bench.claim(run, effects=True)
    bench.state(run, left(asking, EntryState.UNKNOWN, None))
    settle(bench, desk, word(one, today={"a": "1", "b": "2"}))
    for late in (one, asking):
        assert bench.state(run, left(late, EntryState.UNKNOWN)) == {(late.id, late.fence)}
    assert row(bench)["state"] == "succeeded"
    assert ledger(desk, one) == [(KEY, "confirmed", '"r1"')]


# Asking again.


def ask(bench: Bench, desk: Desk, **given: Any) -> Asked:
    asked = desk.ask_again(1, replace(ASKING, **given))
    check(bench.stores, bench.store.store)
    return asked


def test_nothing_open_is_nothing_to_ask(bench: Bench, desk: Desk) -> None:
    run = start(bench, "a", "b")
    bench.claim(run, 1)
    assert ask(bench, desk) == Asked()


@pytest.mark.parametrize("state", [EntryState.UNKNOWN, EntryState.SENT])
def test_those_that_wait_are_asked_about_whatever_they_wait_for(bench: Bench, desk: Desk, state: EntryState) -> None:
    run = start(bench)
    one = unconfirmed(bench, run, state, hold=None, until=bench.clock.now() + 300)
    assert ask(bench, desk, reason="it is up").records == [one.id]
    assert row(bench)["history"][-1] == ("effect_asked", "b", "asked about again; it is up")
    assert bench.claim(run, effects=True) == []
    assert bench.claim(run, effects=True, only=(one.id,)) == []
    (asked,) = bench.claim(run, effects=True, only=(one.id,), asked=True)
    assert asked.entries[FILING].state is state
    assert (row(bench)["state"], row(bench)["not_before"]) == ("in_progress", 0)


def test_those_held_for_a_person_are_asked_about_where_somebody_can_be(bench: Bench, desk: Desk) -> None:
    run = start(bench)
    one = unconfirmed(bench, run, EntryState.SENT)
    assert ask(bench, desk).records == [one.id]
    assert ask(bench, desk, confirmed=[]) == Asked(left=1)
    assert ask(bench, desk, among=["amendment"]) == Asked()
    (asked,) = bench.claim(run, effects=True, only=(one.id,), asked=True)
    assert plain([asked]) == ["k"]


def test_a_call_that_may_still_be_sending_is_not_asked_about(bench: Bench, desk: Desk) -> None:
    run = start(bench)
    one = unconfirmed(bench, run, EntryState.INTENDED)
    assert ask(bench, desk) == Asked(sending=1)
    bench.store.end_run(run, 1, "done")
    assert ask(bench, desk) == Asked(sending=1)  # its thread goes on in this process
    bench.die(run)
    assert ask(bench, desk).records == [one.id]


def test_what_may_still_be_sending_was_not_not_sent(bench: Bench, desk: Desk) -> None:
    run = start(bench)
    one = unconfirmed(bench, run, EntryState.INTENDED)
    with pytest.raises(
        UsageError,
        match=f"the call for k may still be sending: the process of run {run}.* wait until the call returns",
    ):
        settle(bench, desk, word(one, None))
    assert (row(bench)["state"], ledger(desk, one)) == ("unconfirmed", [(KEY, "intended", None)])
    bench.die(run)
    assert settle(bench, desk, word(one, None)) is State.PENDING
    assert ledger(desk, one) == [(KEY, "absent", None)]


def test_many_words_are_each_one_for_itself(bench: Bench, desk: Desk) -> None:
    run = start(bench, "k", "j", "i")
    some = [unconfirmed_as(bench, run, f"ow1-{n}", state) for n, state in enumerate((UNKNOWN, INTENDED, UNKNOWN))]
    said = [word(one, None if n < 2 else '"r1"', key=f"ow1-{n}") for n, one in enumerate(some)]
    before = [row(bench, key) for key in "kji"]
    after = [State.PENDING, "may still be sending", State.PENDING]
    assert settled(bench, desk, *(replace(each, dry_run=True) for each in said)) == after
    assert [row(bench, key) for key in "kji"] == before
    assert settled(bench, desk, *said) == after
    check(bench.stores, bench.store.store)
    assert [row(bench, key)["state"] for key in "kji"] == ["pending", "unconfirmed", "pending"]
    assert settled(bench, desk, said[0], said[1]) == [None, "may still be sending"]


def unconfirmed_as(bench: Bench, run: int, key: str, state: EntryState) -> Claimed:
    (one,) = bench.claim(run, 1, effects=True)
    bench.state(run, advanced(one))
    intend(bench, run, one, key)
    bench.state(run, left(one, state, key=key))
    return one


def settled(bench: Bench, desk: Desk, *words: Word) -> list[object]:
    bench.clock.pass_time(1)
    found = desk.settle_all(1, words)
    return ["may still be sending" if "may still be sending" in str(after) else after for after in found]


def test_a_person_who_looks_before_it_can_have_arrived_is_not_believed(bench: Bench, desk: Desk) -> None:
    run = start(bench)
    (one,) = bench.claim(run, effects=True)
    intend(bench, run, one, deadline=20.0, settle=10.0)
    bench.state(run, fact(one, State.UNCONFIRMED, step="b", hold="person", effect=entry(EntryState.UNKNOWN)))
    bench.clock.pass_time(34)
    with pytest.raises(UsageError, match="may still arrive"):
        desk.settle(1, word(one, None))
    bench.clock.pass_time(1)
    assert settle(bench, desk, word(one, None)) is State.PENDING


def test_what_would_become_of_a_record_is_told_and_nothing_changed(bench: Bench, desk: Desk) -> None:
    one = unconfirmed(bench, start(bench))
    assert settled(bench, desk, word(one, dry_run=True)) == [State.PENDING]
    assert settled(bench, desk, word(one, dry_run=True, today={"a": "1", "b": "2"})) == [State.SUCCEEDED]
    assert ledger(desk, one) == [(KEY, "unknown", None)]


def test_what_may_still_be_sending_can_have_been_sent(bench: Bench, desk: Desk) -> None:
    one = unconfirmed(bench, start(bench), EntryState.INTENDED)
    assert settle(bench, desk, word(one)) is State.PENDING
    assert ledger(desk, one) == [(KEY, "confirmed", '"r1"')]


def test_what_a_living_run_is_at_work_on_is_left_to_it(bench: Bench, desk: Desk) -> None:
    run = start(bench)
    (one,) = bench.claim(run, effects=True)
    intend(bench, run, one)
    assert ask(bench, desk) == Asked(busy=1)
    bench.die(run)
    assert ask(bench, desk).records == [one.id]


def test_a_run_that_only_asks_leaves_failed_records_failed(bench: Bench) -> None:
    run = start(bench)
    (one,) = bench.claim(run, effects=True)
    bench.state(run, failed(one))
    bench.store.end_run(run, 1, "done")
    begun = bench.begin(effects=EFFECTS, location=None, asks_only=True)
    assert (begun.reset_failed, row(bench)["state"]) == (0, "failed")
    bench.store.end_run(begun.run, 1, "done")
    assert bench.begin(effects=EFFECTS).reset_failed == 1


def test_what_has_become_of_records(bench: Bench, desk: Desk) -> None:
    one = unconfirmed(bench, start(bench, "k", "j"))
    (told,) = desk.became([one.id])
    assert (told.key, told.state, told.step) == ('"k"', State.UNCONFIRMED, "b")
    assert told.waiting is not None
    assert (told.waiting.reason, told.waiting.since) == ("a person's word: nobody can be asked", bench.clock.now())


# What is said of unconfirmed records.


def test_an_unconfirmed_record_is_listed_without_having_failed(bench: Bench, desk: Desk) -> None:
    unconfirmed(bench, start(bench), EntryState.SENT)
    (listed,) = desk.failures(1, (State.UNCONFIRMED,), None)
    assert (listed.key, listed.step, listed.kind, listed.error) == ('"k"', "b", None, "nobody can be asked")
    assert listed.waiting is not None
    (cause,) = desk.causes(1, (State.FAILED, State.UNCONFIRMED), None)
    assert (cause.kind, cause.states[State.UNCONFIRMED], cause.error) == (None, 1, "nobody can be asked")
    assert list(desk.failures(1, (State.UNCONFIRMED,), "transient")) == []


def test_an_older_failure_is_not_taken_for_what_is_open(bench: Bench, desk: Desk) -> None:
    run = start(bench)
    (one,) = bench.claim(run, effects=True)
    again = replace(failed(one), state=State.PENDING, step="b", not_before=bench.clock.now())
    assert again.failure is not None
    again.failure = replace(again.failure, step="b")
    bench.state(run, again)
    bench.clock.pass_time(5)
    one = unconfirmed_again(bench, run)
    (listed,) = desk.failures(1, (State.UNCONFIRMED,), None)
    assert (listed.kind, listed.error_type, listed.at) == (None, "Unconfirmed", bench.clock.now())
    assert desk.record(one.id).failure is not None


@pytest.mark.parametrize("told", [True, False])
def test_only_a_death_is_of_the_kind_system(bench: Bench, desk: Desk, told: bool) -> None:
    """`told`: its run was told to stop before it was killed, so that the record is not charged with the death."""
    run = start(bench)
    (one,) = bench.claim(run, effects=True)
    intend(bench, run, one)
    if told:
        bench.store.note_stop(run, "SIGTERM")
    bench.die(run)
    bench.clock.pass_time(99)
    store = bench.another()
    begun = bench.begin(store, effects=EFFECTS, steps=STEPS).run
    (one,) = bench.claim(begun, effects=True, store=store)
    bench.state(begun, left(one, EntryState.UNKNOWN), store=store)
    assert row(bench)["deaths"] == int(not told)
    (listed,) = desk.failures(1, (State.UNCONFIRMED,), None)
    assert (listed.kind, listed.error_type) == ("system", "Unconfirmed")
    assert list(desk.failures(1, (State.UNCONFIRMED,), "system")) == [listed]


def unconfirmed_again(bench: Bench, run: int) -> Claimed:
    (one,) = bench.claim(run, effects=True)
    intend(bench, run, one)
    bench.state(run, left(one, EntryState.UNKNOWN))
    return one


def test_what_records_wait_for_is_told_in_general(bench: Bench, desk: Desk) -> None:
    run = start(bench, "a", "b", "c")
    for number, one in enumerate(bench.claim(run, effects=True)):
        intend(bench, run, one, key=f"ow1-{number}")
        hold, until = ("person", 0.0) if number else (None, bench.clock.now() + 9)
        gone = left(one, EntryState.UNKNOWN, hold, until, key=f"ow1-{number}")
        bench.state(run, replace(gone, reason=f"it does not match: fee {number}"))
    told = [(one.reason, one.count, one.until, one.since) for one in desk.standing(1, {}).waiting]
    now = bench.clock.now()
    assert told == [
        ("an answer about what was, or may have been, sent", 1, now + 9, None),
        ("a person's word: it does not match", 2, None, now),
    ]


# Names in the ledger.


def test_a_job_goes_on_under_the_names_that_it_has(bench: Bench) -> None:
    first = start(bench)
    unconfirmed(bench, first)
    second = bench.begin(effects=(*EFFECTS, ("amendment", ()))).run
    with pytest.raises(UsageError, match="is at work"):
        bench.begin(effects=(("report", (FILING,)),))
    for run in (first, second):
        bench.store.end_run(run, 1, "some need a look")
    bench.begin(effects=(("report", (FILING,)),))
    bench.begin(effects=(("amendment", ()),), job="another")


@pytest.mark.parametrize("declared", [(("report", ()),), (("report", ("other",)),), ()])
def test_a_name_that_is_gone_stops_it_before_anything_is_changed(bench: Bench, declared: Any) -> None:
    unconfirmed(bench, start(bench))
    runs = len(bench.stores.desk().standing(1, {}).runs)
    with pytest.raises(UsageError, match="formerly="):
        bench.begin(effects=declared)
    with pytest.raises(UsageError, match="formerly="):
        bench.begin(effects=declared, instance="tomorrow")
    assert len(bench.stores.instances()) == 1
    assert len(bench.stores.desk().standing(1, {}).runs) == runs


def test_an_effect_that_was_dropped_with_all_outcomes_known_stops_nobody(bench: Bench, desk: Desk) -> None:
    one = unconfirmed(bench, start(bench))
    settle(bench, desk, word(one))
    bench.begin(effects=())
