"""Effects in the worker's hands: between its slots, its facts and the courses of effects."""

from __future__ import annotations

import time
from collections.abc import Callable

from onward.engine.attempt import Attempt
from onward.engine.effects.course import Course
from onward.engine.outcomes import CallOutcome
from onward.model import Fact, Met
from onward.policy.effects import asked_now
from onward.policy.failures import Classified


class Effects:
    """What the worker asks about attempts at effects. It submits what it is answered. `asks_now`: a person asks."""

    def __init__(
        self,
        starts_next: Callable[[Attempt], bool],
        fail: Callable[[Attempt, Classified], Fact],
        may_send: Callable[[], bool],
    ):
        self.asks_now = False
        self._starts_next = starts_next
        self._fail = fail
        self._may_send = may_send

    def begin(self, attempt: Attempt) -> Fact | None:
        """The attempt has a slot: None where a call is to be made, or what is to be stated instead."""
        if self.asks_now and attempt.entry is not None:
            assert attempt.step is not None and attempt.step.effect is not None
            attempt.entry = asked_now(attempt.step.effect.traits, attempt.entry)
        fact = self._course(attempt).begin()
        if fact is None and attempt.phase == "send":
            if not self._may_send():
                attempt.phase = "step"
                return attempt.given_back("the lease is too old to send anything under it")
            attempt.sending = True
        return fact

    def ended(self, attempt: Attempt, outcome: CallOutcome | None) -> Fact:
        """What came of the call."""
        return self._course(attempt).ended(outcome, self._fail)

    def settled(self, attempt: Attempt, fact: Fact, met: Met | None) -> Fact | None:
        """A fact about the entry is durable: None where the attempt goes on as the fact says, or what follows."""
        assert fact.effect is not None
        attempt.learn(fact.effect, time.time)
        return None if met is None else self._course(attempt).met(met)

    def patience(self, attempt: Attempt) -> float:
        """Seconds for which a send that does not return is waited for past its deadline."""
        assert attempt.step is not None and attempt.step.effect is not None
        return attempt.step.effect.traits.deadline + attempt.step.effect.traits.settle

    def never_returned(self, attempt: Attempt, cut: bool = False) -> Fact:
        return self._course(attempt).never_returned(cut)

    def _course(self, attempt: Attempt) -> Course:
        course: Course | None = attempt.course
        if course is None or course.step is not attempt.step:
            course = attempt.course = Course(attempt, self._starts_next)
        return course
