"""What a call came to becomes a fact of its record, or the call that follows."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Protocol

from onward.engine.attempt import Attempt
from onward.engine.effects.turns import Effects
from onward.engine.gates.admission import Admission
from onward.engine.gates.causes import Causes
from onward.engine.outcomes import (
    Answered,
    CallOutcome,
    Died,
    EndedEarly,
    PutOff,
    Raised,
    Returned,
    Stale,
    TooLate,
)
from onward.engine.tally import Tally
from onward.job.plan import Plan
from onward.model import Fact, Kind, State
from onward.policy.attempts import Decision, History, decide
from onward.policy.effects import UNDECODABLE
from onward.policy.failures import Classified
from onward.policy.suspects import DEATHS_TO_CONVICT


class Writer(Protocol):
    """Who hands facts to the journal."""

    def submit(self, fact: Fact) -> None: ...

    def flush_if_idle(self) -> None: ...

    def may_send(self) -> bool:
        """Whether the lease is young enough for something to be sent under it."""
        ...

    def starts_next(self, attempt: Attempt) -> bool:
        """Whether the step after this one may start with the commit of this one's checkpoint."""
        ...


class Endings:
    """`on_fatal` hears of failures that stop the run, `on_died` of a call's process dying."""

    def __init__(
        self,
        plan: Plan,
        writer: Writer,
        admission: Admission,
        causes: Causes,
        tally: Tally,
        draw: Callable[[], float],
    ):
        self.on_fatal: Callable[[Attempt, Classified], None] = lambda attempt, failure: None
        self.on_died: Callable[[Attempt, Died], bool] = lambda attempt, died: False
        self.effects = Effects(writer.starts_next, self.failed, writer.may_send)
        self._plan = plan
        self._writer = writer
        self._admission = admission
        self._causes = causes
        self._tally = tally
        self._draw = draw

    def ended(self, attempt: Attempt, outcome: CallOutcome | None) -> None:
        """State what came of a call; None: it was cut because the run stops."""
        self._causes.heard(attempt, outcome)
        if attempt.passed:
            self._admission.heard(attempt, outcome.failure if isinstance(outcome, Raised) else None)
        if attempt.phase != "step":
            if not isinstance(outcome, Stale | Died):
                self._effect_ended(attempt, outcome)
                return
            attempt.call_lost(begun=isinstance(outcome, Died) and bool(outcome.beside))
        if not isinstance(outcome, Raised) and (attempt.passed or attempt.gate.trial is not None):
            self._admission.release(attempt)
        if isinstance(outcome, Returned):
            attempt.clear()
            self._writer.submit(attempt.completed(outcome.text, self._writer.starts_next(attempt)))
        elif isinstance(outcome, Raised):
            if outcome.failure.kind is not Kind.FATAL:  # which need not have come from the step
                attempt.clear()
            self._causes.when_told(
                attempt, outcome.failure, lambda: self._writer.submit(self.failed(attempt, outcome.failure))
            )
        elif isinstance(outcome, EndedEarly):
            attempt.clear()
            self._writer.submit(attempt.done_early(outcome.reason))
        elif isinstance(outcome, PutOff):
            self._writer.submit(attempt.put_off(outcome.requests, outcome.known))
        elif isinstance(outcome, Stale):
            self._stale(attempt, outcome)
        elif isinstance(outcome, Died) and not outcome.beside:
            self._writer.submit(attempt.not_started_after_all())
        elif isinstance(outcome, Died):
            if not self.on_died(attempt, outcome):
                self.died_alone(attempt, outcome)
        else:
            self._writer.submit(attempt.given_back("the run stopped before the step ended"))
        self._writer.flush_if_idle()

    def _effect_ended(self, attempt: Attempt, outcome: CallOutcome | None) -> None:
        failure = outcome.failure if isinstance(outcome, Raised | Answered) else None
        survived = failure is None or failure.kind is not Kind.FATAL
        if survived and attempt.phase in ("send", "confirm") and not isinstance(outcome, TooLate):
            attempt.clear()
        if failure is not None and failure.kind is Kind.TRANSIENT:
            if isinstance(outcome, Raised) and (failure.not_applied or attempt.phase == "prepare"):
                self._causes.when_told(attempt, failure, lambda: self._state_effect(attempt, outcome))
                return
            self._causes.unanswered(attempt, failure)
        if failure is not None:
            self._causes.when_meant(attempt, failure, lambda: self._state_effect(attempt, outcome))
            return
        self._state_effect(attempt, outcome)

    def _state_effect(self, attempt: Attempt, outcome: CallOutcome | None) -> None:
        self.state(attempt, self.effects.ended(attempt, outcome))
        self._writer.flush_if_idle()

    def state(self, attempt: Attempt, fact: Fact) -> None:
        """State what came of an effect; its step is over unless the same attempt goes on with another call."""
        if fact.state is not State.IN_PROGRESS or fact.checkpoint is not None:
            self._admission.release(attempt)
        self._writer.submit(fact)

    def failed(self, attempt: Attempt, failure: Classified) -> Fact:
        """What follows the failure; a fatal one stops the run."""
        assert attempt.step is not None
        failure = failure.among(self._tally.has_succeeded(attempt.step.name))  # a child knows nothing of other records
        history = History(attempt.attempts, attempt.claimed.failed_runs, self._plan.resume_cap)
        decision = decide(failure, history, attempt.step.retry, self._draw())
        if attempt.pause is not None:
            wait = max(attempt.pause, failure.retry_after or 0.0)  # what was asked for holds for a later run, too
            decision = Decision("retry", "an outage", wait, False, attempt.claimed.failed_runs)
            attempt.pause = None
        fact = attempt.failed(failure, decision, time.time())
        if decision.verdict == "stop":
            self.on_fatal(attempt, failure)
        return fact

    def _stale(self, attempt: Attempt, stale: Stale) -> None:
        fact = attempt.held("stale", f"the stored output of {stale.step} no longer decodes: {stale.reason}")
        fact.event, fact.step = "record_waits", stale.step
        if fact.state is State.UNCONFIRMED and attempt.step is not None:  # what to ask about cannot be made anew
            fact.hold, fact.step = UNDECODABLE, attempt.step.name
            fact.event, fact.reason = (
                "effect_unconfirmed",
                f"what is stored no longer decodes: {stale.step}: {stale.reason}",
            )
        self._writer.submit(fact)

    def died_alone(self, attempt: Attempt, died: Died) -> None:
        """The process of this record alone died: one step nearer to conviction."""
        fact = attempt.died(DEATHS_TO_CONVICT, died.how)
        if fact.state is State.QUARANTINED:
            verdict = Decision("quarantine", "out of memory" if died.survived else died.how)
            fact = attempt.failed(died.failure(), verdict, time.time())
            fact.solo_deaths = attempt.claimed.solo_deaths
        self._writer.submit(fact)
