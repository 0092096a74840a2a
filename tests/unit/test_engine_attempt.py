"""What of an attempt has to be written: a record that goes on as it was claimed gets its checkpoints and no more."""

from __future__ import annotations

from typing import Any

import pytest
from job_files import EmptySource

from onward.engine.attempt import Attempt
from onward.job.job import Job
from onward.model import Claimed, State


def attempt_at(step: str | None = None, attempts: int = 1, deaths: int = 0, effect: bool = False) -> Attempt:
    job = Job("chain", EmptySource())

    @job.step
    def first(record: Any) -> int: ...

    @job.step
    def second(record: Any) -> int: ...

    if effect:

        @job.effect("send", key="id", keyed=True)
        def send(record: Any, idempotency_key: Any) -> None: ...
    else:

        @job.step
        def third(record: Any) -> int: ...

    return Attempt(job.plan(), Claimed(1, 1, 0, '"k"', 0, "{}", step, attempts, deaths, 0, 0), True)


def moves(attempt: Attempt, start_next: bool = True) -> bool:
    fact = attempt.completed("1", start_next)
    assert (fact.state, fact.checkpoint) == (State.IN_PROGRESS, "1")
    return fact.moves


def test_a_record_that_was_claimed_anew_stays_as_it_is_until_its_last_step() -> None:
    attempt = attempt_at()
    assert [moves(attempt), moves(attempt)] == [False, False]
    assert attempt.completed("1", True).moves


@pytest.mark.parametrize("claimed", [{"step": "first"}, {"attempts": 2}, {"deaths": 1}], ids=str)
def test_one_whose_row_says_something_else_is_written_from_then_on(claimed: dict[str, Any]) -> None:
    attempt = attempt_at(**claimed)
    attempt.clear()
    assert [moves(attempt), moves(attempt)] == [True, True]


def test_a_next_step_that_does_not_start_at_once_is_written() -> None:
    attempt = attempt_at()
    assert moves(attempt, start_next=False)
    attempt.begin()
    assert moves(attempt)


def test_the_step_before_an_effect_is_written_for_its_row_has_to_name_the_effect() -> None:
    attempt = attempt_at(effect=True)
    assert [moves(attempt), moves(attempt)] == [False, True]
