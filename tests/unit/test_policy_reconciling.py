"""What a person's question changes, and which of a job's names in the ledger must be explained."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from onward.model import Entry, EntryState
from onward.policy.effects import Traits, asked_now, next_act
from onward.policy.identity import unrelated

ENTRY = Entry("report", "ow1-x", EntryState.UNKNOWN, "{}", "h", None, 1, 0, 7, first_at=100.0, intended_at=100.0)
PROBED = Traits(has_probe=True, deadline=10.0, settle=5.0)


@pytest.mark.parametrize("ask_at", [0.0, 120.0, 400.0, 4000.0])
def test_a_probe_is_asked_as_soon_as_nothing_can_land_any_more(ask_at: float) -> None:
    seen = asked_now(PROBED, replace(ENTRY, ask_at=ask_at))
    assert next_act(PROBED, seen, 8, 119.9).what == "ask later"
    assert next_act(PROBED, seen, 8, 135.0).what == "probe"


def test_where_a_call_ended_late_the_pause_after_it_holds() -> None:
    late = asked_now(PROBED, replace(ENTRY, ask_at=125.0))
    assert next_act(PROBED, late, 8, 124.0).what == "ask later"
    assert next_act(PROBED, late, 8, 125.0).what == "probe"


def test_a_confirmation_is_asked_for_at_once() -> None:
    traits = Traits(has_confirm=True)
    sent = replace(ENTRY, state=EntryState.SENT, receipt='"r"', sent_at=101.0, ask_at=400.0)
    assert next_act(traits, sent, 8, 102.0).what == "ask later"
    assert next_act(traits, asked_now(traits, sent), 8, 102.0).what == "confirm"


def test_where_nobody_can_be_asked_a_question_changes_nothing() -> None:
    assert next_act(Traits(), asked_now(Traits(), ENTRY), 8, 1000.0).what == "wait for a person"
    assert not Traits().finds_out
    assert Traits(keyed=True).finds_out and PROBED.finds_out and Traits(on_unknown="resend").finds_out


@pytest.mark.parametrize(
    ("declared", "used", "is_open", "told"),
    [
        ({"a": ()}, ["a"], {}, None),
        ({"a": (), "b": ()}, ["a"], {}, None),
        ({"b": ("a",)}, ["a"], {}, None),
        ({}, ["a"], {"a": 0}, None),
        ({"b": ()}, ["a", "b"], {"a": 0}, None),
        ({"b": ()}, ["a"], {"a": 0}, "formerly='a'"),
        ({"b": (), "c": ("d",)}, ["a", "d"], {"a": 0}, "none under 'b'"),
        ({}, ["a"], {"a": 1}, "1 obligation without an outcome"),
        ({"b": ()}, ["a", "b"], {"a": 1200}, "1,200 obligations without an outcome"),
    ],
)
def test_names_that_are_gone(declared: Any, used: list[str], is_open: dict[str, int], told: str | None) -> None:
    said = unrelated(declared, used, is_open)
    assert said is None if told is None else told in str(said)
