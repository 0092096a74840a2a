"""The ledger of effects: intents and what they come upon, what becomes of them, and whose word counts."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from store_conformance import Bench, fact, failed, plain, quarantined

from onward.model import Claimed, EffectFact, Entry, EntryState, Fact, Met, State
from onward.policy.pace import LONGEST_WAIT
from onward.ports.work import Batch, ClaimWish

FILING = "annual-report"
INTENDED, UNKNOWN, SENT = EntryState.INTENDED, EntryState.UNKNOWN, EntryState.SENT
ABSENT, CONFIRMED = EntryState.ABSENT, EntryState.CONFIRMED


def intent(one: Claimed, key: str = "ow1-x", payload: str = "{}", digest: str = "h", former: Any = ()) -> Fact:
    effect = EffectFact(FILING, key, INTENDED, payload=payload, payload_hash=digest, former=former)
    return fact(one, State.IN_PROGRESS, step="b", started=True, attempts=1, effect=effect)


def about(state: EntryState, key: str = "ow1-x", **given: Any) -> EffectFact:
    return EffectFact(FILING, key, state, **given)


def going_on(one: Claimed, state: EntryState, key: str = "ow1-x", **given: Any) -> Fact:
    """The record stays with its run; its entry becomes this."""
    return fact(one, State.IN_PROGRESS, step="b", started=True, attempts=1, effect=about(state, key, **given))


def unconfirmed(one: Claimed, state: EntryState = UNKNOWN, until: float = 0.0, hold: str | None = None) -> Fact:
    """The record leaves its run, to be asked about at `until`."""
    return fact(
        one, State.UNCONFIRMED, step="b", not_before=until, hold=hold, event="effect_unconfirmed",
        reason="no answer", effect=about(state, ask_at=until, asks=1),
    )  # fmt: skip


def done(one: Claimed, receipt: str = '"r"') -> Fact:
    return fact(
        one, State.SUCCEEDED, done_step="b", version="1", checkpoint=receipt, lineage=(("b", "1"),),
        effect=about(CONFIRMED, receipt=receipt),
    )  # fmt: skip


def retried(one: Claimed, state: EntryState, not_before: float) -> Fact:
    return fact(one, State.PENDING, step="b", attempts=1, not_before=not_before, effect=about(state))


def begin(bench: Bench, store: Any = None, **given: Any) -> int:
    """Another run, of a job that declares the effect."""
    return bench.begin(store, effects=((FILING, ()),), **given).run


def met(bench: Bench, run: int, *facts: Fact, store: Any = None) -> list[Met]:
    """What intents came upon, in their order."""
    outcome = bench.write(run, store, facts=list(facts))
    assert outcome.lost == set()
    return [outcome.met[one.record, one.fence] for one in facts]


def claim(bench: Bench, run: int, store: Any = None, **given: Any) -> list[Claimed]:
    return bench.claim(run, store=store, effects=True, **given)


def entry_of(one: Claimed) -> Entry:
    return one.entries[FILING]


@contextmanager
def another_job(bench: Bench, *keys: Any, job: str = "other") -> Iterator[tuple[int, Any]]:
    """A run of another job on the same store, which has fed these records."""
    store = bench.another()
    run = begin(bench, store, job=job, location=f"{job}.jsonl")
    bench.pass_over(run, *keys, store=store)
    yield run, store


# An intent, alone.


def test_an_intent_is_durable_and_told_that_it_may_go(bench: Bench) -> None:
    run = bench.start("k")
    (one,) = claim(bench, run)
    (told,) = met(bench, run, intent(one, payload='{"fee":50}', digest="h1"))
    assert told.meeting == "go"
    entry = told.entry
    assert (entry.name, entry.key, entry.state) == (FILING, "ow1-x", INTENDED)
    assert (entry.payload, entry.payload_hash, entry.receipt) == ('{"fee":50}', "h1", None)
    assert (entry.record, entry.generation, entry.fence) == (one.id, 0, one.fence)
    assert (entry.first_at, entry.intended_at) == (bench.clock.now(), bench.clock.now())
    assert (entry.ask_at, entry.asks, entry.sent_at, entry.origin) == (0.0, 0, None, None)


def test_a_claim_brings_what_the_ledger_knows(bench: Bench) -> None:
    run = bench.start("k", "j")
    one, _ = claim(bench, run)
    assert one.entries == {}
    met(bench, run, intent(one, payload='{"fee":50}'))
    began = bench.clock.now()
    bench.clock.pass_time(7)
    bench.state(run, unconfirmed(one, until=began + 10))
    bench.clock.pass_time(5)
    (again,) = claim(bench, run)
    entry = entry_of(again)
    assert (entry.state, entry.payload, entry.asks, entry.ask_at) == (UNKNOWN, '{"fee":50}', 1, began + 10)
    assert entry.fence == one.fence < again.fence
    assert entry.intended_at == pytest.approx(began, abs=0.01)


def test_only_who_asks_for_effects_is_told_of_them(bench: Bench) -> None:
    run = bench.start("k")
    (one,) = claim(bench, run)
    met(bench, run, intent(one))
    bench.state(run, unconfirmed(one))
    assert bench.claim(run) == []


def test_keys_are_kept_as_they_are_and_names_tell_effects_apart(bench: Bench) -> None:
    run = bench.start("a", "b", "c", "d")
    a, b, c, d = claim(bench, run)
    other = intent(d)
    assert other.effect is not None
    other.effect.name = "late-fee"
    told = met(bench, run, intent(a, "7"), intent(b, "07"), intent(c, "7 "), other)
    assert [one.meeting for one in told] == ["go"] * 4


# The course of an entry.


def test_receipt_and_confirmation_become_durable_with_the_records_fact(bench: Bench) -> None:
    run = bench.start("k")
    (one,) = claim(bench, run)
    met(bench, run, intent(one))
    bench.clock.pass_time(5)
    bench.state(run, going_on(one, SENT, receipt='{"no":7}'))
    sent_at = bench.clock.now()
    bench.clock.pass_time(5)
    bench.state(run, unconfirmed(one, SENT, until=bench.clock.now()))
    (again,) = claim(bench, run)
    entry = entry_of(again)
    assert (entry.state, entry.receipt, entry.sent_at) == (SENT, '{"no":7}', sent_at)
    bench.state(run, done(again, '{"no":7}'))
    assert bench.row("k")["checkpoints"] == {(0, "b"): ("1", '{"no":7}')}
    assert bench.states() == {"succeeded": 1}


def test_a_receipt_once_stored_is_not_lost_by_what_is_said_later(bench: Bench) -> None:
    run = bench.start("k")
    (one,) = claim(bench, run)
    met(bench, run, intent(one))
    bench.state(run, going_on(one, SENT, receipt="7"))
    bench.state(run, unconfirmed(one, SENT))
    (again,) = claim(bench, run)
    assert entry_of(again).receipt == "7"


def test_what_a_probe_has_not_found_is_intended_again_by_its_new_holder(bench: Bench) -> None:
    run = bench.start("k")
    (one,) = claim(bench, run)
    met(bench, run, intent(one, payload='{"fee":50}'))
    first_at = bench.clock.now()
    bench.state(run, unconfirmed(one))
    bench.clock.pass_time(100)
    (two,) = claim(bench, run)
    bench.state(run, going_on(two, INTENDED, asks=2))
    bench.state(run, unconfirmed(two))
    (three,) = claim(bench, run)
    entry = entry_of(three)
    assert (entry.fence, entry.payload, entry.asks) == (two.fence, '{"fee":50}', 1)
    assert (entry.first_at, entry.intended_at) == (first_at, first_at + 100)


def test_what_was_not_applied_is_superseded_by_another_payload(bench: Bench) -> None:
    run = bench.start("k")
    (one,) = claim(bench, run)
    met(bench, run, intent(one, payload='{"fee":40}', digest="h40"))
    bench.state(run, retried(one, ABSENT, bench.clock.now() + 1))
    bench.clock.pass_time(5)
    (two,) = claim(bench, run)
    assert entry_of(two).state is ABSENT
    (told,) = met(bench, run, intent(two, payload='{"fee":50}', digest="h50"))
    assert told.meeting == "go"
    assert (told.entry.payload, told.entry.payload_hash, told.entry.fence) == ('{"fee":50}', "h50", two.fence)
    assert (told.entry.first_at, told.entry.asks) == (bench.clock.now(), 0)
    bench.state(run, unconfirmed(two))
    (three,) = claim(bench, run)
    assert (entry_of(three).payload, entry_of(three).first_at) == ('{"fee":50}', told.entry.first_at)


@pytest.mark.parametrize("state", [INTENDED, UNKNOWN, SENT, CONFIRMED])
def test_nothing_else_is_ever_superseded(bench: Bench, state: EntryState) -> None:
    run = bench.start("k")
    (one,) = claim(bench, run)
    met(bench, run, intent(one, payload='{"fee":40}', digest="h40"))
    bench.state(run, unconfirmed(one, state))
    (two,) = claim(bench, run)
    (told,) = met(bench, run, intent(two, payload='{"fee":50}', digest="h50"))
    assert told.meeting == "conflict"
    assert told.entry.payload == '{"fee":40}'
    (same,) = met(bench, run, intent(two, payload='{"fee":40}', digest="h40"))
    assert same.meeting == "go on"
    assert same.entry.state is state


# Two with one obligation.


@pytest.mark.parametrize("digests", [("h", "h"), ("h", "other")])
def test_of_two_intents_in_one_batch_exactly_one_may_go(bench: Bench, digests: tuple[str, str]) -> None:
    run = bench.start("a", "b")
    a, b = claim(bench, run)
    first, second = met(bench, run, intent(a, digest=digests[0]), intent(b, digest=digests[1]))
    assert (first.meeting, second.meeting) == ("go", "wait")
    assert (first.entry.record, second.entry.record) == (a.id, a.id)
    assert second.entry.origin == "record a of job"


def test_of_many_in_one_batch_exactly_one_may_go(bench: Bench) -> None:
    run = bench.start(*[str(number) for number in range(50)])
    told = met(bench, run, *[intent(one) for one in reversed(claim(bench, run))])
    assert sorted(one.meeting for one in told) == ["go", *["wait"] * 49]


def test_of_two_that_find_it_not_applied_in_one_batch_exactly_one_may_go(bench: Bench) -> None:
    run = bench.start("a", "b", "c")
    a, b, c = claim(bench, run)
    met(bench, run, intent(a))
    dropped = failed(a)
    dropped.effect = about(ABSENT)
    bench.state(run, dropped)
    first, second = met(bench, run, intent(b), intent(c))
    assert (first.meeting, second.meeting) == ("go", "wait")
    assert second.entry.fence == b.fence


def test_of_two_that_would_adopt_it_in_one_batch_only_one_does(bench: Bench) -> None:
    run = bench.start("a", "b", "c")
    a, b, c = claim(bench, run)
    met(bench, run, intent(a))
    bench.state(run, unconfirmed(a, hold="person"))
    first, second = met(bench, run, intent(b), intent(c))
    assert (first.meeting, second.meeting) == ("adopt", "wait")


def test_a_living_record_is_waited_for_whatever_it_does_meanwhile(bench: Bench) -> None:
    run = bench.start("a", "b")
    a, b = claim(bench, run)
    met(bench, run, intent(a))
    assert met(bench, run, intent(b))[0].meeting == "wait"
    bench.state(run, unconfirmed(a, until=bench.clock.now() + 50))
    assert met(bench, run, intent(b))[0].meeting == "wait"
    bench.clock.pass_time(60)
    assert bench.store.renew(run)
    (again,) = claim(bench, run)
    bench.state(run, going_on(again, SENT, receipt="7"))
    assert met(bench, run, intent(b))[0].meeting == "wait"
    bench.state(run, done(again, "7"))
    (told,) = met(bench, run, intent(b))
    assert (told.meeting, told.entry.state, told.entry.receipt) == ("adopt", CONFIRMED, "7")
    assert told.entry.origin == "record a of job"


@pytest.mark.parametrize("digest", ["h", "other"])
def test_a_call_that_was_given_up_is_waited_for_as_long_as_its_process_lives(bench: Bench, digest: str) -> None:
    run = bench.start("a", "b")
    a, b = claim(bench, run)
    met(bench, run, intent(a))
    bench.state(run, unconfirmed(a, INTENDED, hold="person"))
    (told,) = met(bench, run, intent(b, digest=digest))
    assert (told.meeting, told.sending) == ("wait", True)
    with another_job(bench, "z") as (other, store):
        (two,) = claim(bench, other, store)
        (told,) = met(bench, other, intent(two, digest=digest), store=store)
        assert (told.meeting, told.sending) == ("wait", True)
        bench.die(run)
        (told,) = met(bench, other, intent(two, digest=digest), store=store)
        assert (told.meeting, told.sending) == ("adopt" if digest == "h" else "conflict", False)


def test_what_was_given_up_is_gone_on_with_once_its_process_has_died(bench: Bench) -> None:
    run = bench.start("a", "b")
    a, b = claim(bench, run)
    met(bench, run, intent(a), intent(b, "ow1-y"))
    bench.state(run, unconfirmed(a, INTENDED, hold="person"), unconfirmed_of(b, "ow1-y"))
    bench.store.end_run(run, 1, "done")
    second = begin(bench)
    assert plain(claim(bench, second)) == ["b"]  # the call for a goes on in this process
    bench.store.end_run(second, 1, "done")
    bench.die(run)
    (again,) = [one for one in claim(bench, begin(bench)) if plain([one]) == ["a"]]
    assert (entry_of(again).state, entry_of(again).fence < again.fence) == (INTENDED, True)


def test_what_was_under_way_when_its_run_ended_is_held_back_until_it_has_ended(bench: Bench) -> None:
    run = bench.start("a", "b")
    a, b = claim(bench, run)
    met(bench, run, intent(a), intent(b, "ow1-y"))
    bench.state(run, going_on(b, SENT, "ow1-y", receipt="7"))
    bench.store.end_run(run, 3, "stopped")
    assert (bench.states(), bench.row("a")["hold"], bench.row("b")["hold"]) == ({"unconfirmed": 2}, "sending", None)
    second = begin(bench)
    assert plain(claim(bench, second)) == ["b"]
    assert bench.store.take_over(second) == []
    assert claim(bench, second) == []
    bench.store.sends_ended(run)
    bench.store.take_over(second)
    assert plain(claim(bench, second)) == ["a"]


def test_a_call_that_has_ended_and_is_a_persons_is_adopted(bench: Bench) -> None:
    run = bench.start("a", "b")
    a, b = claim(bench, run)
    met(bench, run, intent(a))
    bench.state(run, unconfirmed(a, UNKNOWN, hold="person"))
    (told,) = met(bench, run, intent(b))
    assert (told.meeting, told.sending, told.entry.state) == ("adopt", False, UNKNOWN)


def test_one_that_waits_goes_when_the_first_was_not_applied_and_is_given_up(bench: Bench) -> None:
    run = bench.start("a", "b")
    a, b = claim(bench, run)
    met(bench, run, intent(a, digest="h40"))
    assert met(bench, run, intent(b, digest="h50"))[0].meeting == "wait"
    refused = quarantined(a, step="b")
    refused.effect = about(ABSENT)
    bench.state(run, refused)
    (told,) = met(bench, run, intent(b, digest="h50"))
    assert (told.meeting, told.entry.record) == ("go", b.id)


@pytest.mark.parametrize(
    ("state", "digest", "alive", "expected"),
    [
        (INTENDED, "h", True, "wait"),
        (INTENDED, "other", True, "wait"),
        (UNKNOWN, "h", True, "wait"),
        (UNKNOWN, "other", True, "conflict"),
        (SENT, "h", True, "wait"),
        (SENT, "other", True, "conflict"),
        (ABSENT, "other", True, "wait"),
        (INTENDED, "h", False, "adopt"),
        (INTENDED, "other", False, "conflict"),
        (UNKNOWN, "h", False, "adopt"),
        (UNKNOWN, "other", False, "conflict"),
        (SENT, "h", False, "adopt"),
        (SENT, "other", False, "conflict"),
        (ABSENT, "h", False, "go"),
        (ABSENT, "other", False, "go"),
    ],
)
def test_an_obligation_of_another_job(bench: Bench, state: EntryState, digest: str, alive: bool, expected: str) -> None:
    run = bench.start("k")
    (one,) = claim(bench, run)
    met(bench, run, intent(one, digest="h"))
    if state is not INTENDED:
        bench.state(run, going_on(one, state, receipt="7" if state is SENT else None))
    if not alive:
        bench.die(run)
    with another_job(bench, "z") as (other, store):
        (two,) = claim(bench, other, store)
        (told,) = met(bench, other, intent(two, digest=digest), store=store)
        assert told.meeting == expected
        if expected == "adopt":
            known = UNKNOWN if state is INTENDED else state  # its send may be under way
            assert (told.entry.state, told.entry.record) == (known, two.id)
            assert told.entry.origin == "record k of job"
            bench.state(other, unconfirmed(two, known), store=store)
            (again,) = claim(bench, other, store)
            assert entry_of(again).state is known


def test_a_record_whose_obligation_was_adopted_comes_upon_it_as_anothers(bench: Bench) -> None:
    run = bench.start("k")
    (one,) = claim(bench, run)
    met(bench, run, intent(one))
    bench.state(run, unconfirmed(one, hold="person"))
    with another_job(bench, "z") as (other, store):
        (two,) = claim(bench, other, store)
        assert met(bench, other, intent(two), store=store)[0].meeting == "adopt"
        bench.state(other, going_on(two, SENT, receipt="7"), store=store)
        bench.state(other, done(two, "7"), store=store)
    wish = ClaimWish(10, 1 << 20, effects=True, only=(one.id,), asked=True)
    (again,) = bench.write(run, wishes=[wish]).claimed[0]
    assert again.entries == {}
    (told,) = met(bench, run, intent(again))
    assert (told.meeting, told.entry.receipt, told.entry.origin) == ("adopt", "7", "record z of other")


def test_a_former_name_is_found(bench: Bench) -> None:
    run = bench.start("a", "b")
    a, b = claim(bench, run)
    met(bench, run, intent(a, key="old-key"))
    bench.state(run, going_on(a, SENT, key="old-key", receipt="7"))
    finished = done(a, "7")
    assert finished.effect is not None
    finished.effect.key = "old-key"
    bench.state(run, finished)
    renamed = intent(b, key="new-key", former=((FILING, "older-key"), (FILING, "old-key")))
    assert renamed.effect is not None
    renamed.effect.name = "yearly-report"
    (told,) = met(bench, run, renamed)
    assert (told.meeting, told.entry.name, told.entry.key, told.entry.receipt) == ("adopt", FILING, "old-key", "7")


# Fences.


def test_an_intent_of_a_stale_holder_changes_nothing(bench: Bench) -> None:
    run = bench.start("k")
    (one,) = claim(bench, run)
    bench.state(run, fact(one, State.PENDING, step="b", event="record_reset"))
    (two,) = claim(bench, run)
    late = intent(one, payload='{"late":1}')
    outcome = bench.write(run, facts=[late])
    assert outcome.lost == {(one.id, one.fence)}
    assert outcome.met == {}
    assert met(bench, run, intent(two))[0].entry.payload == "{}"


@pytest.mark.parametrize("state", [SENT, CONFIRMED, ABSENT, UNKNOWN, INTENDED])
def test_what_a_stale_holder_says_changes_nothing(bench: Bench, state: EntryState) -> None:
    run = bench.start("k")
    (one,) = claim(bench, run)
    met(bench, run, intent(one))
    bench.state(run, unconfirmed(one))
    (two,) = claim(bench, run)
    late = going_on(one, state, receipt='"late"')
    assert bench.write(run, facts=[late]).lost == {(one.id, one.fence)}
    bench.state(run, unconfirmed(two))
    (three,) = claim(bench, run)
    assert (entry_of(three).state, entry_of(three).receipt, entry_of(three).fence) == (UNKNOWN, None, one.fence)


def test_stale_facts_do_not_take_those_beside_them_along(bench: Bench) -> None:
    run = bench.start("a", "b", "c")
    a, b, c = claim(bench, run)
    met(bench, run, intent(a, "ka"), intent(b, "kb"))
    bench.state(run, unconfirmed_of(a, "ka"))
    (again,) = claim(bench, run)
    facts = [going_on(a, SENT, "ka", receipt="1"), going_on(b, SENT, "kb", receipt="2"), intent(c, "kc")]
    outcome = bench.write(run, facts=facts)
    assert outcome.lost == {(a.id, a.fence)}
    assert outcome.met[c.id, c.fence].meeting == "go"
    bench.state(run, unconfirmed_of(again, "ka"), unconfirmed_of(b, "kb", SENT))
    states = {one.key: (entry_of(one).state, entry_of(one).receipt) for one in claim(bench, run)}
    assert states == {'"a"': (UNKNOWN, None), '"b"': (SENT, "2")}


def unconfirmed_of(one: Claimed, key: str, state: EntryState = UNKNOWN) -> Fact:
    made = unconfirmed(one, state)
    assert made.effect is not None
    made.effect.key = key
    return made


def adopted_while_held(bench: Bench) -> tuple[int, Claimed, Claimed]:
    """A run, a record that it holds, and the one that has taken the first one's obligation over."""
    run = bench.start("a", "b")
    a, b = claim(bench, run)
    met(bench, run, intent(a))
    bench.state(run, unconfirmed(a, hold="person"))
    wish = ClaimWish(10, 1 << 20, effects=True, only=(a.id,), asked=True)
    assert met(bench, run, intent(b))[0].meeting == "adopt"
    (again,) = bench.write(run, wishes=[wish]).claimed[0]
    return run, again, b


def test_a_fact_about_an_entry_that_another_record_took_over_is_lost(bench: Bench) -> None:
    run, again, b = adopted_while_held(bench)
    outcome = bench.write(run, facts=[going_on(again, SENT, receipt='"late"'), going_on(b, SENT, receipt='"own"')])
    assert outcome.lost == {(again.id, again.fence)}
    assert bench.write(run, facts=[going_on(again, SENT, receipt='"later"')]).lost == {(again.id, again.fence)}
    bench.state(run, unconfirmed(b, SENT))
    (told,) = [one for one in claim(bench, run) if one.id == b.id]
    assert entry_of(told).receipt == '"own"'


def late_receipt(one: Claimed) -> Fact:
    return going_on(one, SENT, receipt='"late"')


@pytest.mark.parametrize("late", [late_receipt, done])
def test_a_late_receipt_of_one_whose_entry_another_record_took_over_is_not_written(
    bench: Bench, late: Callable[[Claimed], Fact]
) -> None:
    run, again, b = adopted_while_held(bench)
    assert bench.write(run, facts=[late(again)]).lost == {(again.id, again.fence)}
    bench.state(run, unconfirmed(b, UNKNOWN))
    (told,) = [one for one in claim(bench, run) if one.id == b.id]
    assert entry_of(told).receipt is None


def test_a_run_that_was_taken_over_cannot_touch_the_ledger(bench: Bench) -> None:
    from onward.errors import LeaseLost

    if not bench.stores.several:
        pytest.skip("one process only")
    run = bench.start("k")
    (one,) = claim(bench, run)
    met(bench, run, intent(one))
    bench.die(run)
    store = bench.another()
    second = begin(bench, store)
    with pytest.raises(LeaseLost):
        bench.write(run, facts=[going_on(one, SENT, receipt='"late"')])
    (two,) = claim(bench, second, store)
    assert (entry_of(two).state, entry_of(two).fence) == (INTENDED, one.fence)


# When unconfirmed records are claimed.


def test_unconfirmed_records_are_claimed_when_due_and_not_before(bench: Bench) -> None:
    run = bench.start("k")
    (one,) = claim(bench, run)
    met(bench, run, intent(one))
    until = bench.clock.now() + 10
    bench.state(run, unconfirmed(one, until=until))
    assert bench.states() == {"unconfirmed": 1}
    outcome = bench.write(run, wishes=[ClaimWish(10, 1 << 20, effects=True)])
    assert (outcome.claimed, outcome.next_due) == ([[]], until)
    bench.clock.pass_time(9.9)
    assert claim(bench, run) == []
    bench.clock.pass_time(0.2)
    assert plain(claim(bench, run)) == ["k"]
    assert bench.states() == {"in_progress": 1}
    assert (bench.row("k")["not_before"], bench.row("k")["hold"]) == (0, None)


def test_they_come_before_all_others(bench: Bench) -> None:
    run = bench.start("a", "b", "c")
    a, b = claim(bench, run, limit=2)
    met(bench, run, intent(b))
    bench.state(run, fact(a, State.PENDING, step="a"), unconfirmed(b))
    assert plain(claim(bench, run, limit=1)) == ["b"]
    assert plain(claim(bench, run)) == ["a", "c"]


def test_those_that_wait_for_a_person_are_not_claimed_until_asked_for(bench: Bench) -> None:
    run = bench.start("k")
    (one,) = claim(bench, run)
    met(bench, run, intent(one))
    bench.state(run, unconfirmed(one, hold="person"))
    bench.clock.pass_time(1e6)
    outcome = bench.write(run, wishes=[ClaimWish(10, 1 << 20, effects=True)])
    assert (outcome.claimed, outcome.next_due) == ([[]], None)
    wish = ClaimWish(10, 1 << 20, effects=True, only=(one.id,), asked=True)
    assert plain(bench.write(run, wishes=[wish]).claimed[0]) == ["k"]


def test_one_that_vanished_from_the_source_goes_on(bench: Bench) -> None:
    run = bench.start("gone", "here")
    gone, here = claim(bench, run)
    met(bench, run, intent(gone))
    bench.state(run, unconfirmed(gone, until=bench.clock.now() + 10))
    bench.state(run, fact(here, State.PENDING, step="b"))
    assert bench.pass_over(run, "here", again=True).vanished == 1
    assert bench.states() == {"pending": 1}
    assert plain(claim(bench, run)) == ["here"]
    bench.clock.pass_time(11)
    (again,) = claim(bench, run)
    assert (plain([again]), entry_of(again).state) == (["gone"], UNKNOWN)
    assert bench.states() == {"in_progress": 1}, "what vanished counts nowhere"
    bench.state(run, going_on(again, SENT, receipt="7"))
    bench.state(run, done(again, "7"))
    assert bench.row("gone")["state"] == "succeeded"
    assert bench.states() == {"in_progress": 1}


@pytest.mark.parametrize("how", ["dies", "ends"])
def test_one_whose_run_is_gone_in_mid_send_is_unconfirmed_and_goes_on_when_it_vanishes(bench: Bench, how: str) -> None:
    run = bench.start("gone", "here")
    gone, _ = claim(bench, run)
    met(bench, run, intent(gone))
    if how == "dies":
        bench.die(run)
    else:
        bench.store.end_run(run, 3, "stopped")
        bench.store.sends_ended(run)
    second = begin(bench)
    assert bench.states() == {"unconfirmed": 1, "pending": 1}
    bench.pass_over(second, "here", again=True)
    assert sorted(plain(claim(bench, second))) == ["gone", "here"]


def test_one_that_vanishes_in_mid_send_goes_on(bench: Bench) -> None:
    run = bench.start("gone", "here")
    gone, _ = claim(bench, run)
    met(bench, run, intent(gone))
    bench.pass_over(run, "here", again=True)
    lost = bench.state(run, going_on(gone, SENT, receipt="7"))
    if lost:
        (again,) = claim(bench, run)
        assert (plain([again]), entry_of(again).state) == (["gone"], INTENDED)
    else:
        bench.state(run, done(gone, "7"))
        assert bench.row("gone")["state"] == "succeeded"


# Clocks.


@pytest.mark.parametrize("jump", [-3600.0, -365 * 86400.0])
def test_a_clock_that_was_set_back_makes_no_send_younger(bench: Bench, jump: float) -> None:
    """Else a probe would wait for years, and a key would be taken for remembered that is forgotten."""
    run = bench.start("k")
    (one,) = claim(bench, run)
    met(bench, run, intent(one))
    bench.state(run, unconfirmed(one))
    bench.clock.pass_time(50)
    bench.clock.jump(jump)
    (again,) = claim(bench, run)
    now = bench.clock.now()
    assert entry_of(again).intended_at == pytest.approx(now - 50, abs=0.01)
    assert entry_of(again).first_at == pytest.approx(now - 50, abs=0.01)


def test_nor_a_receipt_younger(bench: Bench) -> None:
    """Else it would be waited for its confirmation for years."""
    run = bench.start("k")
    (one,) = claim(bench, run)
    met(bench, run, intent(one))
    bench.state(run, unconfirmed(one, SENT))
    bench.clock.pass_time(20)
    bench.clock.jump(-365 * 86400)
    (again,) = claim(bench, run)
    assert entry_of(again).sent_at == pytest.approx(bench.clock.now() - 20, abs=0.01)


def test_one_that_was_set_forward_makes_no_send_older(bench: Bench) -> None:
    """Else a probe would be believed while the send may still land."""
    run = bench.start("k")
    (one,) = claim(bench, run)
    met(bench, run, intent(one))
    bench.state(run, unconfirmed(one))
    bench.clock.pass_time(5)
    bench.clock.jump(86400)
    (again,) = claim(bench, run)
    assert entry_of(again).intended_at == pytest.approx(bench.clock.now() - 5, abs=0.01)


def test_after_a_reboot_the_wall_clock_has_to_do(bench: Bench) -> None:
    run = bench.start("k")
    (one,) = claim(bench, run)
    met(bench, run, intent(one))
    began = bench.clock.now()
    bench.state(run, unconfirmed(one))
    bench.clock.reboot(30)
    (again,) = claim(bench, begin(bench))
    assert entry_of(again).intended_at == began


def test_after_a_reboot_with_its_clock_set_back_the_time_of_an_intent_begins_anew(bench: Bench) -> None:
    bench.needs_one_host()
    """Its age is known to nobody: it may land as if it was just sent, and its key may be forgotten."""
    run = bench.start("k")
    (one,) = claim(bench, run)
    met(bench, run, intent(one))
    bench.state(run, unconfirmed(one))
    bench.clock.reboot(30)
    bench.clock.jump(-3600)
    second = begin(bench)
    began = bench.clock.now()
    bench.clock.pass_time(20)
    (again,) = claim(bench, second)
    assert entry_of(again).intended_at == pytest.approx(began, abs=0.01)
    assert entry_of(again).first_at < began - 10 * 365 * 86400


def test_unconfirmed_records_do_not_wait_for_years_when_the_clock_is_set_back(bench: Bench) -> None:
    run = bench.start("k")
    (one,) = claim(bench, run)
    met(bench, run, intent(one))
    bench.state(run, unconfirmed(one, until=bench.clock.now() + 5))
    bench.clock.jump(-365 * 86400)
    outcome = bench.write(run, wishes=[ClaimWish(10, 1 << 20, effects=True)])
    assert outcome.next_due is not None
    assert outcome.next_due <= bench.clock.now() + LONGEST_WAIT
    bench.clock.pass_time(LONGEST_WAIT)
    assert plain(claim(bench, run)) == ["k"]


def test_a_batch_that_fails_keeps_no_intent(bench: Bench) -> None:
    run = bench.start("k")
    (one,) = claim(bench, run)
    broken = Batch(facts=[intent(one)], blocks=["no block"])  # type: ignore[list-item]
    with pytest.raises(Exception):  # noqa: B017
        bench.store.write(run, broken)
    assert met(bench, run, intent(one, payload='{"b":1}'))[0].entry.payload == '{"b":1}'


def test_what_did_not_decode_is_looked_at_again_by_the_next_run_and_by_no_other(bench: Bench) -> None:
    run = bench.start("k")
    (one,) = claim(bench, run)
    met(bench, run, intent(one))
    bench.state(run, unconfirmed(one, hold="undecodable"))
    assert claim(bench, run) == []
    assert bench.store.counts(1).held == {"undecodable": 1}
    assert claim(bench, begin(bench, asks_only=True)) == []
    assert plain(claim(bench, begin(bench))) == ["k"]
