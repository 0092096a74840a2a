"""What an effect does next, whom an intent meets, and how long is waited: the tables."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from onward.model import Entry, EntryState
from onward.policy.effects import (
    Traits,
    asked_again_at,
    asked_now,
    given_up,
    landed_by,
    meeting,
    next_act,
    sends_again,
    time_to_begin,
)

NOW = 1_700_000_000.0
OWN = 5

UNKEYED = Traits()
KEYED = Traits(keyed=True)
PROBED = Traits(has_probe=True)
RESENT = Traits(on_unknown="resend")
EXPIRES = Traits(keyed=True, expires=3600.0)
ANY = {
    "unkeyed": UNKEYED,
    "keyed": KEYED,
    "probed": PROBED,
    "not probed first": replace(PROBED, probe_first=False),
    "keyed and probed": Traits(keyed=True, has_probe=True),
    "resent": RESENT,
    "confirmed": Traits(has_confirm=True),
}
INTENDED, UNKNOWN, SENT = EntryState.INTENDED, EntryState.UNKNOWN, EntryState.SENT


def entry(state: EntryState, age: float = 0.0, fence: int = OWN, **given: Any) -> Entry:
    """An obligation of record 1, first intended `age` seconds ago."""
    began = NOW - age
    made = Entry("filing", "ow1-x", state, "{}", "hash", None, 1, 0, fence, began, began)
    return replace(made, **given)


def what(traits: Traits, known: Entry | None, now: float = NOW) -> str:
    return next_act(traits, known, OWN, now).what


@pytest.mark.parametrize("traits", ANY.values(), ids=ANY)
def test_nothing_known_or_known_as_not_applied_is_prepared(traits: Traits) -> None:
    assert what(traits, None) == "prepare"
    assert what(traits, entry(EntryState.ABSENT)) == "prepare"
    assert what(traits, entry(EntryState.ABSENT, fence=1)) == "prepare"


@pytest.mark.parametrize("traits", ANY.values(), ids=ANY)
def test_what_is_confirmed_is_done_whenever_it_was(traits: Traits) -> None:
    assert what(traits, entry(EntryState.CONFIRMED, age=1e9, fence=1)) == "finish"


@pytest.mark.parametrize(
    ("name", "first"),
    [
        ("unkeyed", "send"),
        ("keyed", "send"),
        ("probed", "probe"),
        ("not probed first", "send"),
        ("keyed and probed", "send"),
        ("resent", "send"),
        ("confirmed", "send"),
    ],
)
def test_the_holders_own_intent_is_sent_or_probed_first(name: str, first: str) -> None:
    assert what(ANY[name], entry(INTENDED)) == first
    assert what(ANY[name], entry(INTENDED, asks=1)) == "send", "once the probe has said that there is none"


AFTER = landed_by(PROBED, entry(INTENDED)) - NOW


@pytest.mark.parametrize("state", [INTENDED, UNKNOWN])
@pytest.mark.parametrize(
    ("traits", "age", "expected"),
    [
        (UNKEYED, 1.0, "wait for a person"),
        (UNKEYED, 1e6, "wait for a person"),
        (Traits(has_confirm=True), 1e6, "wait for a person"),
        (KEYED, 1.0, "send"),
        (KEYED, 1e6, "send"),
        (EXPIRES, 3599.0 - AFTER, "send"),
        (EXPIRES, 3600.0, "wait for a person"),
        (replace(EXPIRES, has_probe=True), 3599.0 - AFTER, "send"),
        (replace(EXPIRES, has_probe=True), 3600.0, "ask later"),
        (replace(EXPIRES, has_probe=True), 3600.0 + AFTER, "probe"),
        (PROBED, 0.0, "ask later"),
        (PROBED, AFTER - 0.1, "ask later"),
        (PROBED, AFTER, "probe"),
        (PROBED, 1e6, "probe"),
        (replace(PROBED, on_unknown="resend"), 1.0, "ask later"),
        (RESENT, 1.0, "send"),
        (replace(EXPIRES, on_unknown="resend"), 4000.0, "send"),
    ],
)
def test_what_may_have_been_sent(state: EntryState, traits: Traits, age: float, expected: str) -> None:
    """An intent of an earlier holder is as good as unknown."""
    assert what(traits, entry(state, age, fence=OWN - 1)) == expected


def test_a_probe_is_believed_only_after_deadline_and_settling() -> None:
    act = next_act(Traits(has_probe=True, deadline=100, settle=7), entry(UNKNOWN, age=20), OWN, NOW)
    assert (act.what, act.until) == ("ask later", NOW + 92)
    act = next_act(PROBED, entry(UNKNOWN, age=20, ask_at=NOW + 500), OWN, NOW)
    assert (act.what, act.until) == ("ask later", NOW + 500)


def test_the_newest_send_counts_for_what_may_still_land() -> None:
    known = entry(UNKNOWN, age=5000, intended_at=NOW - 10)
    assert next_act(PROBED, known, OWN, NOW).until == NOW - 10 + 95
    assert what(EXPIRES, known) == "wait for a person", "a key is remembered since the first send"


@pytest.mark.parametrize(("traits", "expected"), [(KEYED, "send"), (PROBED, "probe"), (RESENT, "send")])
def test_nothing_is_asked_before_its_time(traits: Traits, expected: str) -> None:
    known = entry(UNKNOWN, age=1000, ask_at=NOW + 5)
    act = next_act(traits, known, OWN, NOW)
    assert (act.what, act.until) == ("ask later", NOW + 5)
    assert what(traits, known, NOW + 5) == expected


@pytest.mark.parametrize("known", [entry(UNKNOWN, 1000), entry(SENT, 1000, sent_at=NOW - 900)], ids=lambda e: e.state)
def test_a_clock_that_was_set_back_makes_nobody_wait_for_years(known: Entry) -> None:
    traits = Traits(keyed=True, has_confirm=True)
    known.ask_at = NOW + 365 * 86400
    assert what(traits, known) in ("send", "confirm")


@pytest.mark.parametrize(
    ("traits", "known", "expected"),
    [
        (UNKEYED, entry(SENT, sent_at=NOW), "finish"),
        (Traits(has_confirm=True), entry(SENT, sent_at=NOW), "confirm"),
        (Traits(has_confirm=True), entry(SENT, sent_at=NOW, ask_at=NOW + 1), "ask later"),
        (Traits(has_confirm=True, has_probe=True), entry(SENT, sent_at=NOW, fence=1), "confirm"),
        (Traits(has_confirm=True, keyed=True), entry(SENT, sent_at=NOW, fence=1), "confirm"),
        (Traits(has_confirm=True), entry(SENT, age=1e6, sent_at=NOW - 1e6), "confirm"),
    ],
)
def test_a_receipt_is_only_confirmed_never_sent_again(traits: Traits, known: Entry, expected: str) -> None:
    assert what(traits, known) == expected


# When a person has to look.


@pytest.mark.parametrize(
    ("known", "gives_up", "words"),
    [
        (entry(SENT, 9000, sent_at=NOW - 99), False, ""),
        (entry(SENT, 9000, sent_at=NOW - 100), True, "sent, and not confirmed within 100 s"),
        (entry(SENT, 100), True, "sent, and not confirmed"),
        (entry(UNKNOWN, 99), False, ""),
        (entry(UNKNOWN, 100), True, "not known whether it was sent, 100 s later"),
        (entry(UNKNOWN, 9000, intended_at=NOW - 99), False, ""),
    ],
)
def test_after_its_time_the_question_in_vain_was_the_last(known: Entry, gives_up: bool, words: str) -> None:
    reason = given_up(Traits(confirm_within=100), known, NOW)
    assert (reason is not None) == gives_up
    assert words in (reason or "")


def test_pauses_grow_to_five_minutes() -> None:
    waits = [asked_again_at(KEYED, entry(UNKNOWN, asks=asks), NOW) - NOW for asks in range(1, 12)]
    assert waits == [2, 4, 8, 16, 32, 64, 128, 256, 300, 300, 300]
    assert asked_again_at(KEYED, entry(UNKNOWN, asks=10**6), NOW) == NOW + 300


def test_the_far_sides_wish_is_obeyed_where_it_is_longer() -> None:
    assert asked_again_at(KEYED, entry(UNKNOWN, asks=1), NOW, at_least=60) == NOW + 60
    assert asked_again_at(KEYED, entry(UNKNOWN, asks=6), NOW, at_least=60) == NOW + 64


def test_the_last_question_comes_when_the_time_is_over() -> None:
    short = Traits(has_confirm=True, confirm_within=100)
    known = entry(SENT, 200, sent_at=NOW - 90, asks=8)
    assert asked_again_at(short, known, NOW) == NOW + 10
    assert asked_again_at(short, known, NOW, at_least=50) == NOW + 10
    assert asked_again_at(short, known, NOW + 10) == NOW + 10 + 256, "for a person who has it asked again"


@pytest.mark.parametrize(
    ("known", "again"),
    [
        (entry(INTENDED), False),
        (entry(INTENDED, asks=3), False),
        (entry(INTENDED, fence=OWN - 1), True),
        (entry(UNKNOWN), True),
        (entry(UNKNOWN, fence=OWN - 1), True),
    ],
)
def test_which_send_is_not_the_first(known: Entry, again: bool) -> None:
    assert sends_again(known, OWN) is again


# Meetings.

CONFIRMED, ABSENT = EntryState.CONFIRMED, EntryState.ABSENT


@pytest.mark.parametrize("state", [INTENDED, UNKNOWN, SENT, CONFIRMED])
def test_ones_own_entry_is_gone_on_with_and_another_payload_is_a_conflict(state: EntryState) -> None:
    for in_good_hands in (True, False):
        assert meeting(entry(state), 1, "hash", in_good_hands) == "go on"
        assert meeting(entry(state), 1, "other", in_good_hands) == "conflict"


@pytest.mark.parametrize(
    ("state", "same", "in_good_hands", "expected"),
    [
        (INTENDED, True, True, "wait"),
        (INTENDED, True, False, "adopt"),
        (INTENDED, False, True, "wait"),  # it may turn out not to have been applied
        (INTENDED, False, False, "conflict"),
        (UNKNOWN, True, True, "wait"),
        (UNKNOWN, True, False, "adopt"),
        (UNKNOWN, False, True, "conflict"),
        (UNKNOWN, False, False, "conflict"),
        (SENT, True, True, "wait"),
        (SENT, True, False, "adopt"),
        (SENT, False, True, "conflict"),
        (SENT, False, False, "conflict"),
        (CONFIRMED, True, True, "adopt"),
        (CONFIRMED, True, False, "adopt"),
        (CONFIRMED, False, True, "conflict"),
        (CONFIRMED, False, False, "conflict"),
        (ABSENT, True, True, "wait"),
        (ABSENT, True, False, "go"),
        (ABSENT, False, True, "wait"),
        (ABSENT, False, False, "go"),
    ],
)
def test_what_another_record_comes_upon(state: EntryState, same: bool, in_good_hands: bool, expected: str) -> None:
    assert meeting(entry(state), 2, "hash" if same else "other", in_good_hands) == expected


def test_ones_own_that_was_not_applied_is_superseded_whatever_is_sent_now() -> None:
    for in_good_hands in (True, False):
        assert meeting(entry(ABSENT), 1, "other", in_good_hands) == "go"


@pytest.mark.parametrize(("origin", "expected"), [(None, "finish"), ("record z of job two", "wait for a person")])
def test_what_another_job_has_sent_to_be_confirmed_is_not_confirmed_by_who_cannot(
    origin: str | None, expected: str
) -> None:
    """A job that has given up its own .confirm takes its own receipts as they are."""
    act = next_act(KEYED, entry(SENT, origin=origin), OWN, NOW)
    assert act.what == expected
    assert origin is None or origin in act.reason


@pytest.mark.parametrize(
    ("deadline", "age", "left"),
    [(60.0, 0.0, 5.0), (60.0, 4.0, 1.0), (60.0, 70.0, -65.0), (4.0, 0.5, 1.5), (0.1, 0.0, 0.25), (60.0, -9.0, 5.0)],
)
def test_an_intent_says_by_when_its_send_has_begun(deadline: float, age: float, left: float) -> None:
    """So that whoever finds it knows when its call had ended: a whole deadline later."""
    traits, waiting = replace(PROBED, deadline=deadline), entry(INTENDED, age)
    assert time_to_begin(traits, waiting, NOW) == pytest.approx(left)
    if age >= 0:
        assert landed_by(traits, waiting) - NOW == pytest.approx(left + deadline + traits.settle)


@pytest.mark.parametrize(("declared", "stored"), [((60.0, 30.0), (1.0, 0.0)), ((1.0, 0.0), (60.0, 30.0))])
def test_of_what_is_declared_now_and_was_when_it_was_sent_the_longer_holds(
    declared: tuple[float, float], stored: tuple[float, float]
) -> None:
    traits = replace(PROBED, deadline=declared[0], settle=declared[1])
    known = entry(UNKNOWN, deadline=stored[0], settle=stored[1])
    assert landed_by(traits, known) - NOW == pytest.approx(5 + 60 + 30)


def test_what_ended_late_is_believed_to_be_absent_only_once_it_has_settled() -> None:
    traits = Traits(has_probe=True, deadline=60, settle=30)
    known = entry(EntryState.UNKNOWN, intended_at=NOW - 1000, ended_at=NOW - 10)
    act = next_act(traits, known, 2, NOW)
    assert (act.what, act.until) == ("ask later", NOW + 20)
    assert next_act(traits, asked_now(traits, known), 2, NOW).what == "ask later", "a person's haste settles nothing"
    assert next_act(traits, known, 2, NOW + 20).what == "probe"
