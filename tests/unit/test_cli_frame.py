"""The picture of a run: shares of the bar, widths, words."""

from __future__ import annotations

import io
import time
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from rich.console import Console

from onward.cli import amounts, words
from onward.cli.frame import STYLES, Frame, bar, shares
from onward.cli.lines import progress_line
from onward.engine.spending.bill import AtModel, Money
from onward.engine.tally import Progress
from onward.model import State
from onward.policy.bill import Outlook
from onward.policy.forecast import Range


def progress(**changes: Any) -> Progress:
    counts = dict.fromkeys(State, 0) | {State.SUCCEEDED: 40, State.FAILED: 2, State.IN_PROGRESS: 8, State.PENDING: 50}
    now = time.time()
    made = Progress(
        job="triage",
        instance="monday",
        counts=counts,
        total=100,
        source_complete=True,
        started=now - 65,
        now=now,
        rate=2.5,
        eta=250.0,
        calls=8,
        retrying={"call: ConnectError": 3},
        ended_here=42,
        longest=("k7", "call", 12.0),
    )
    return replace(made, **changes)


def drawn(frame: Frame, width: int) -> list[str]:
    text = io.StringIO()
    Console(file=text, width=width, color_system=None, legacy_windows=False).print(frame)
    return text.getvalue().splitlines()


def test_the_picture() -> None:
    lines = drawn(Frame(progress(next_try=time.time() + 5), "7", None), 100)
    assert lines[0].startswith("triage · monday")
    assert lines[0].endswith("run 7 · 0:01:05")
    assert lines[1].endswith(" 42 / 100  42%")
    assert lines[2] == "40 succeeded   2 failed   8 in progress   50 pending"
    assert lines[3] == "2.5/s   about 4 min left   8 calls now"
    ahead = drawn(Frame(progress(calls=1), "7", None), 100)[3]
    assert ahead == "2.5/s   about 4 min left   1 call now, 7 more claimed"
    beside = drawn(Frame(progress(calls=1, elsewhere=5), "7", None), 100)[3]
    assert beside == "2.5/s   about 4 min left   1 call now, 2 more claimed, 5 with other runs"
    assert lines[4].startswith("3 waiting for another try, next in ")
    assert lines[4].endswith(": call: ConnectError ×3")
    assert lines[5] == "longest: k7 at call, for 12 s"


def test_what_other_runs_hold_is_waited_for_and_no_time_is_told() -> None:
    counts = dict.fromkeys(State, 0) | {State.SUCCEEDED: 92, State.IN_PROGRESS: 8}
    waiting = progress(counts=counts, calls=0, elsewhere=8, longest=None, retrying={})
    told = "waiting for 8 records with other runs (of one that died they come back when its lease is over)"
    assert drawn(Frame(waiting, "7", None), 120)[3] == f"2.5/s   {told}"
    assert told in progress_line(waiting) and "left" not in progress_line(waiting)
    pending = replace(waiting, counts=counts | {State.PENDING: 1})
    assert "about 4 min left" in progress_line(pending), "it will work on that"


def test_the_time_left_stands_beside_the_rate_that_it_comes_from() -> None:
    shared = drawn(Frame(progress(rate=2.5, rate_of_all=7.5), "7", None), 100)[3]
    assert shared == "2.5/s here, 7.5/s in all   about 4 min left   8 calls now"
    assert drawn(Frame(progress(rate=2.5, rate_of_all=2.6), "7", None), 100)[3].startswith("2.5/s   about")


def test_nothing_of_the_pace_is_cut_where_it_is_narrow() -> None:
    narrow = drawn(Frame(progress(calls=1, rate_of_all=7.5), "7", None), 60)
    assert narrow[-4:-2] == [
        "2.5/s here, 7.5/s in all   about 4 min left",
        "1 call now, 7 more claimed",
    ]


def test_the_last_picture_has_no_pace() -> None:
    assert len(drawn(Frame(progress(), "7", None, ended=True), 100)) == 3


def test_stopping_is_said_and_nothing_is_promised() -> None:
    lines = drawn(Frame(progress(), "7", "SIGTERM"), 100)
    assert "stopping (SIGTERM): 8 calls to finish" in lines[0]
    assert "left" not in lines[3]


def test_plain_terminals_get_plain_signs() -> None:
    assert all(line.isascii() for line in drawn(Frame(progress(retrying={}), "7", None, ascii_only=True), 100))


@pytest.mark.parametrize("width", range(1, 130, 7))
def test_it_fits_any_width(width: int) -> None:
    for stopping in (None, "SIGINT"):
        for line in drawn(Frame(progress(), "7", stopping), width):
            assert len(line) <= width


@given(st.dictionaries(st.sampled_from(list(STYLES)), st.integers(0, 10**7)), st.integers(10, 80))
def test_every_state_has_its_share(counts: dict[str, int], room: int) -> None:
    total = sum(counts.values())
    cells = shares(counts, total, room)
    assert sum(cells.values()) <= room
    assert all(cells[state] >= 1 for state in cells)
    assert cells.keys() == {state for state in counts if counts[state] and state != "pending"}
    to_go = counts.get("pending", 0)
    if total:
        assert (sum(cells.values()) == room) == (to_go == 0)
    assert len(bar(counts, total, room).plain) == room


@pytest.mark.parametrize(
    "seconds, said",
    [
        (0.04, "0.0 s"),
        (9.94, "9.9 s"),
        (9.96, "10 s"),
        (59.6, "1 min"),
        (465, "7 min 45 s"),
        (11520, "3 h 12 min"),
        (187200, "2 d 4 h"),
    ],
)
def test_durations_in_words(seconds: float, said: str) -> None:
    assert words.duration(seconds) == said


@pytest.mark.parametrize(
    "eta, said",
    [(3, "a few seconds left"), (47, "about 45 s left"), (250, "about 4 min left"), (8000, "about 2 h 13 min left")],
)
def test_the_time_left_is_no_finer_than_a_guess(eta: float, said: str) -> None:
    assert words.left(eta) == said


def test_rates_and_keys() -> None:
    assert [words.rate(value) for value in (1234.5, 12, 2.54, 0.5, 0.001)] == [
        "1,234/s",
        "12/s",
        "2.5/s",
        "30/min",
        "4/h",
    ]
    assert words.key_text("plain") == "plain"
    assert words.key_text(7) == "7"
    assert words.key_text(["a", 7]) == '["a",7]'
    assert words.key_text("a\x1b[2J") == '"a\\u001b[2J"'
    assert words.printable("a\nb\x07") == "a\\nb\\x07"


def test_what_is_to_be_asked_about_again_is_not_done() -> None:
    counts = {State.SUCCEEDED: 90, State.UNCONFIRMED: 10}
    waiting = progress(counts=counts, retrying={}, held={"person": 3})
    lines = drawn(Frame(waiting, "7", None), 100)
    assert lines[1].endswith("93 / 100  93%")
    assert "7 records sent, or perhaps sent: to be asked about again" in lines
    assert progress_line(waiting).startswith("93 of 100 (93%)")
    settled = replace(waiting, held={"person": 10})
    assert "asked about again" not in "".join(drawn(Frame(settled, "7", None), 100))


def money(**changes: Any) -> Money:
    asked = {"requests": 9, "lost": 0, "tokens_in": 1_204_331, "tokens_out": 88_120, "cached_tokens": 0}
    spent = {"spent_usd": 3.214, **asked}
    return replace(Money(spent, spent, Outlook(Range(27.2, 31.4, 36.1))), **changes)


def test_money_and_time_have_their_ranges() -> None:
    asked = progress(
        money=money(), models=(AtModel("small", 12, 48, None),), time_left=Range(170.0, 250.0, 380.0), retrying={}
    )
    lines = drawn(Frame(asked, "7", None), 100)
    assert lines[3] == "2.5/s   about 4 min left (3–6 min)   8 calls now"
    assert lines[4] == "$3.21 spent   about $31 to finish (27–36)   1,204,331 tokens in, 88,120 out"
    assert lines[5] == "small: 12 of up to 48 calls"
    line = progress_line(asked)
    assert "about 4 min left (3–6 min)" in line
    assert "$3.21 spent, about $31 to finish (27–36), 1,204,331 tokens in, 88,120 out, at most 48 at small" in line


def test_throttling_is_said_for_a_minute() -> None:
    now = time.time()
    throttled = progress(now=now, money=money(), models=(AtModel("small", 1, 4, now - 5),))
    assert drawn(Frame(throttled, "7", None), 100)[5] == "small: 1 of up to 4 calls   throttled 5 s ago"
    assert "at most 4 at small (throttled 5 s ago)" in progress_line(throttled)
    long_ago = replace(throttled, models=(AtModel("small", 1, 4, now - 90),))
    assert "throttled" not in "".join(drawn(Frame(long_ago, "7", None), 100))


def test_what_is_not_known_is_not_promised() -> None:
    unknown = money(spent={**money().spent, "spent_usd": None}, to_come=Outlook(None, "price", "a"))
    assert drawn(Frame(progress(money=unknown), "7", None), 100)[4].startswith("cost not known   1,204,331 tokens in")
    for quiet in (
        Frame(progress(money=money()), "7", "SIGTERM"),
        Frame(progress(source_complete=False, money=money()), "7", None),
    ):
        assert "to finish (" not in drawn(quiet, 100)[4]
    assert len(drawn(Frame(progress(), "7", None), 100)) == 6


def test_money_on_plain_and_narrow_terminals() -> None:
    asked = progress(money=money(), models=(AtModel("small", 1, 4, time.time()),), time_left=Range(170.0, 250.0, 380.0))
    for width in range(1, 100, 3):
        assert all(len(line) <= width for line in drawn(Frame(asked, "7", None), width))
    plain = drawn(Frame(replace(asked, retrying={}), "7", None, ascii_only=True), 100)
    assert all(line.isascii() for line in plain)
    assert "(27-36)" in plain[4]


@pytest.mark.parametrize(
    ("ends", "said"),
    [
        ((31.4, 27.2, 36.1), "about $31 (27–36)"),
        ((3.14, 2.72, 3.61), "about $3.14 (2.72–3.61)"),
        ((0.0314, 0.0272, 0.0361), "about $0.031 (0.027–0.036)"),
        ((31_400, 27_200, 36_100), "about $31,400 (27,200–36,100)"),
        ((2.0, 2.0, 2.0), "about $2.00"),
    ],
)
def test_amounts_have_as_many_digits_as_say_something(ends: tuple[float, float, float], said: str) -> None:
    assert amounts.about(*ends) == said


@pytest.mark.parametrize(
    ("first", "last", "said"),
    [(180, 360, "3–6 min"), (50, 180, "50 s–3 min"), (5000, 9000, "1 h 23 min–2 h 30 min"), (200, 205, "3 min")],
)
def test_spans_say_their_unit_once(first: float, last: float, said: str) -> None:
    assert words.between(words.rough(first), words.rough(last)) == said
