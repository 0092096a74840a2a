"""The other decisions, each as its table: retries, transitions, endings, suspects, pace."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from onward.errors import IllegalTransition
from onward.model import Kind, Retry, State
from onward.policy import transitions
from onward.policy.attempts import Decision, History, decide, wait_before_retry
from onward.policy.endings import EndedCounts, Ending, Remains, exit_code, first_fifty, too_many_failures
from onward.policy.failures import Classified
from onward.policy.pace import MOST_AHEAD, claim_ahead
from onward.policy.suspects import halves, is_convicted, is_suspect

THRICE = Retry(attempts=3, base=1.0, factor=2.0, cap=60.0)


def failure(kind: Kind, **given: Any) -> Classified:
    return Classified(kind, "Error", "no", **given)


# What follows a failure.


@pytest.mark.parametrize(
    ("kind", "attempts", "failed_runs", "verdict", "counted", "runs_then"),
    [
        (Kind.TRANSIENT, 1, 0, "retry", True, 0),
        (Kind.TRANSIENT, 2, 0, "retry", True, 0),
        (Kind.TRANSIENT, 3, 0, "fail", True, 1),
        (Kind.TRANSIENT, 4, 0, "fail", True, 1),
        (Kind.TRANSIENT, 1, 2, "retry", True, 2),
        (Kind.TRANSIENT, 3, 1, "fail", True, 2),
        (Kind.TRANSIENT, 3, 2, "quarantine", True, 3),
        (Kind.BUG, 1, 0, "fail", True, 1),
        (Kind.BUG, 1, 1, "fail", True, 2),
        (Kind.BUG, 1, 2, "quarantine", True, 3),
        (Kind.SYSTEM, 1, 0, "fail", True, 1),
        (Kind.REJECTED, 1, 0, "quarantine", True, 0),
        (Kind.INVALID, 1, 1, "quarantine", True, 1),
        (Kind.CONFLICT, 1, 0, "quarantine", True, 0),
        (Kind.FATAL, 1, 0, "stop", False, 0),
        (Kind.FATAL, 3, 2, "stop", False, 2),
    ],
)
def test_what_follows(kind: Kind, attempts: int, failed_runs: int, verdict: str, counted: bool, runs_then: int) -> None:
    told = decide(failure(kind), History(attempts, failed_runs, 3), THRICE, 0.5)
    assert (told.verdict, told.counted, told.failed_runs) == (verdict, counted, runs_then)
    assert told.reason


@pytest.mark.parametrize("attempts", [1, 3, 50])
def test_a_throttled_call_is_tried_again_for_ever_and_costs_nothing(attempts: int) -> None:
    told = decide(failure(Kind.TRANSIENT, throttled=True), History(attempts, 0, 3), THRICE, 0.5)
    assert (told.verdict, told.counted) == ("retry", False)


def test_one_attempt_is_no_retry() -> None:
    told = decide(failure(Kind.TRANSIENT), History(1, 0, 3), Retry(attempts=1), 0.5)
    assert (told.verdict, told.reason) == ("fail", "attempts used up")


def test_a_cap_of_one_run() -> None:
    assert decide(failure(Kind.BUG), History(1, 0, 1), THRICE, 0.5).verdict == "quarantine"


def test_a_decision_by_default_counts() -> None:
    assert Decision("fail", "why").counted


@pytest.mark.parametrize(("attempts", "ceiling"), [(1, 1), (2, 2), (3, 4), (4, 8), (7, 60), (100, 60), (10**9, 60)])
def test_waits_grow_to_their_cap_and_are_drawn_evenly_below(attempts: int, ceiling: float) -> None:
    waits = [wait_before_retry(failure(Kind.TRANSIENT), attempts, THRICE, draw) for draw in (0.0, 0.5, 0.999)]
    assert waits == pytest.approx([0, ceiling / 2, 0.999 * ceiling])


@pytest.mark.parametrize(
    "retry",
    [Retry(factor=1e10), Retry(base=1e300, factor=1e10), Retry(factor=1e200, cap=5), Retry(base=0, factor=1e200)],
)
def test_waits_do_not_grow_beyond_numbers(retry: Retry) -> None:
    for attempts in (1, 2, 40, 65, 1000):
        wait = wait_before_retry(failure(Kind.TRANSIENT), attempts, retry, 0.5)
        assert 0 <= wait <= (retry.cap if retry.base else 0)


@pytest.mark.parametrize("draw", [0.0, 0.5, 0.999])
@pytest.mark.parametrize("attempts", [1, 9])
def test_nobody_comes_back_sooner_than_was_asked_nor_all_at_once(attempts: int, draw: float) -> None:
    told = wait_before_retry(failure(Kind.TRANSIENT, retry_after=30.0), attempts, THRICE, draw)
    assert 30.0 <= told < 31.0


@pytest.mark.parametrize(
    "given",
    [
        {"attempts": 0},
        {"base": -1.0},
        {"cap": -1.0},
        {"factor": 0.5},
        {"base": float("nan")},
        {"cap": float("inf")},
        {"factor": float("nan")},
    ],
)
def test_retries_that_cannot_be_meant(given: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="Retry"):
        Retry(**given)


# Transitions.


DESIGN = """
pending      in_progress
in_progress  in_progress succeeded pending failed quarantined unconfirmed
unconfirmed  in_progress pending succeeded quarantined
pending      quarantined
failed       pending quarantined
quarantined  pending
succeeded    pending
"""


def test_the_table_of_transitions_is_the_designs() -> None:
    told = {(State(line.split()[0]), State(to)) for line in DESIGN.strip().splitlines() for to in line.split()[1:]}
    assert set(transitions.LEGAL) == told
    assert all(transitions.LEGAL.values())


@pytest.mark.parametrize(("before", "after"), list(itertools.product(State, State)))
def test_what_the_table_has_not_raises(before: State, after: State) -> None:
    if (before, after) in transitions.LEGAL:
        transitions.require(before, after)
    else:
        with pytest.raises(IllegalTransition, match=f"{before} to {after}"):
            transitions.require(before, after)


# Endings.


EARLY, PERSON, NOTHING, FAULT = (Ending(code, "why") for code in (3, 4, 2, 70))


@pytest.mark.parametrize(
    ("unfinished", "failed", "need_a_person", "ending", "code"),
    [
        (0, 0, 0, None, 0),
        (0, 5, 0, None, 1),
        (5, 0, 0, None, 3),
        (5, 5, 0, None, 3),
        (5, 0, 5, None, 4),
        (5, 0, 2, None, 4),
        (0, 0, 0, EARLY, 3),
        (9, 3, 0, EARLY, 3),
        (9, 0, 0, PERSON, 4),
        (0, 0, 0, PERSON, 4),
        (9, 3, 1, EARLY, 4),
        (0, 0, 0, NOTHING, 2),
        (9, 9, 9, FAULT, 70),
    ],
)
def test_exit_codes(unfinished: int, failed: int, need_a_person: int, ending: Ending | None, code: int) -> None:
    assert exit_code(Remains(unfinished, failed, need_a_person), ending) == code


def test_an_ending_tells_its_detail_to_people() -> None:
    assert Ending(4, "why", "because").text == "why: because"
    assert Ending(4, "why").text == "why"


SAME, OTHER_STEP, OTHER_KIND = ("a", "bug"), ("b", "bug"), ("a", "rejected")


@pytest.mark.parametrize(
    ("succeeded", "failures", "cause"),
    [
        (0, {SAME: 50}, SAME),
        (0, {SAME: 57}, SAME),
        (0, {SAME: 49}, None),
        (1, {SAME: 50}, None),
        (0, {SAME: 49, OTHER_STEP: 1}, None),
        (0, {SAME: 50, OTHER_KIND: 3}, None),
        (0, {SAME: 50, OTHER_KIND: 0}, SAME),
        (0, {}, None),
    ],
)
def test_the_first_fifty(succeeded: int, failures: dict[tuple[str, str], int], cause: tuple[str, str] | None) -> None:
    assert first_fifty(EndedCounts(succeeded, failures)) == cause


@pytest.mark.parametrize(
    ("count", "percent", "left", "ended", "too_many"),
    [
        (None, None, 1000, 1000, False),
        (0, None, 0, 500, False),
        (0, None, 1, 1, True),
        (20, None, 20, 20, False),
        (20, None, 21, 9000, True),
        (None, 5.0, 99, 99, False),
        (None, 5.0, 5, 100, False),
        (None, 5.0, 6, 100, True),
        (None, 5.0, 50, 1000, False),
        (None, 0.0, 1, 100, True),
        (None, 0.0, 0, 100, False),
        (None, 100.0, 500, 500, False),
    ],
)
def test_max_failures(count: int | None, percent: float | None, left: int, ended: int, too_many: bool) -> None:
    assert too_many_failures(count, percent, left, ended) is too_many


# Suspects.


@pytest.mark.parametrize(
    ("deaths", "solo", "suspect"), [(0, 0, False), (1, 0, False), (2, 0, True), (9, 0, True), (0, 1, True)]
)
def test_suspects(deaths: int, solo: int, suspect: bool) -> None:
    assert is_suspect(deaths, solo) is suspect


@pytest.mark.parametrize(("solo", "convicted"), [(0, False), (1, False), (2, False), (3, True), (4, True)])
def test_three_deaths_alone_convict(solo: int, convicted: bool) -> None:
    assert is_convicted(solo) is convicted


@pytest.mark.parametrize("size", range(20))
def test_halves_hold_all_and_nobody_twice(size: int) -> None:
    parts = halves(list(range(size)))
    assert sorted(itertools.chain(*parts)) == list(range(size))
    assert all(parts)
    if size > 1:
        assert len(parts) == 2
        assert abs(len(parts[0]) - len(parts[1])) <= 1


@pytest.mark.parametrize("size", [1, 2, 3, 7, 256, 1000])
def test_halving_comes_to_each_alone_after_few_deaths(size: int) -> None:
    for guilty in {0, size // 2, size - 1}:
        group, deaths = list(range(size)), 0
        while len(group) > 1:
            deaths += 1
            group = next(part for part in halves(group) if guilty in part)
        assert deaths <= 10
        assert group == [guilty]


# Pace.


def test_claims_run_ahead_as_far_as_a_commit_lasts_and_no_further() -> None:
    assert claim_ahead(0.0, 0.005) == 0
    assert claim_ahead(0.1, 0.005) == 1
    assert claim_ahead(1e9, 1.0) == MOST_AHEAD
    ahead = [claim_ahead(calls, 0.005) for calls in (1, 10, 100, 1000, 10_000)]
    assert ahead == sorted(ahead)
    assert ahead[0] <= 1
