"""Whether a failure is its record's own: faults and refusals are held back until the calls beside them have told."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from onward.engine.attempt import Attempt
from onward.engine.gates.admission import Admission
from onward.engine.gates.gates import Gate
from onward.engine.gates.outages import Outages, held_back
from onward.engine.gates.refusals import HELD_BACK as REFUSALS_FOR
from onward.engine.gates.refusals import Refusals
from onward.engine.outcomes import Answered, CallOutcome, EndedEarly, Raised, Returned
from onward.model import Kind
from onward.policy.failures import Classified
from onward.policy.outage import NONE

End = Callable[[], None]


class Causes:
    """`end`, where it is asked for, states what the failure comes to; `concluded` is called after one that was held
    back."""

    def __init__(self, admission: Admission, outages: Outages, refusals: Refusals, concluded: Callable[[], None]):
        self._admission = admission
        self._outages = outages
        self._refusals = refusals
        self._concluded = concluded
        self._loop = asyncio.get_running_loop()

    def look_around(self) -> None:
        """A few times a second: faults that nothing has explained."""
        self._outages.look_around()

    def look_at_refusals(self) -> None:
        """Other calls may have told by now."""
        self._refusals.look_around()

    def after_call(self) -> None:
        if self._outages.held_back:
            self._loop.call_soon(self._outages.look_around)

    def conclude_all(self) -> None:
        """The run stops: nothing more will tell."""
        self._outages.conclude_all()
        self._refusals.look_around(at_last=True)

    def heard(self, attempt: Attempt, outcome: CallOutcome | None) -> None:
        """Whoever was called may have answered, if only with a refusal: then its outage is over."""
        if attempt.gate is None or attempt.gate.outage is NONE:
            return
        failure = outcome.failure if isinstance(outcome, Raised | Answered) else None
        if failure is not None:
            answered = failure.kind in (Kind.REJECTED, Kind.INVALID) or failure.throttled
        elif isinstance(outcome, Answered):
            answered = outcome.answer != "unknown"
        else:
            answered = isinstance(outcome, Returned | EndedEarly)
        if answered:
            self._outages.answered(attempt.gate, attempt.began)

    def when_told(self, attempt: Attempt, failure: Classified, end: End) -> None:
        """The call has failed; the attempt is at its step no more."""
        if failure.kind is not Kind.TRANSIENT or attempt.gate is None:
            self._admission.release(attempt)
            self.when_meant(attempt, failure, end)
            return
        gate = attempt.gate
        was_tried = gate.trial is attempt

        def conclude(spared: bool) -> None:
            if spared:
                self._admission.at_gates = True
                attempt.pause = self._outages.pause_after_trial(gate) if was_tried else 0.0
            end()
            self._concluded()

        self._outages.failed(gate, attempt, failure, conclude)
        self._admission.release(attempt)
        if self._outages.held_back:
            self._loop.call_later(held_back(gate), self._outages.look_around)

    @property
    def has_open(self) -> bool:
        """Whether faults are held back."""
        return self._outages.held_back > 0

    async def told(self, gate: Gate) -> None:
        """Before a call begins: a fault beside it may be the first of an outage."""
        await self._outages.told(gate)

    def unanswered(self, attempt: Attempt, failure: Classified) -> None:
        """What was sent, or asked, has no answer, which costs no attempt anyway: it tells of an outage."""
        self._outages.failed(attempt.gate, attempt, failure, lambda spared: None)

    def when_meant(self, attempt: Attempt, failure: Classified, end: End) -> None:
        """A refusal may be meant for the record alone, or for all."""
        assert attempt.step is not None
        if self._refusals.holds_back(attempt.step.name, failure, end):
            self._loop.call_later(REFUSALS_FOR, self._refusals.look_around, True)
        else:
            end()
