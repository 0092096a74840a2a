"""Outages: calls that fail for a reason they share cost no attempts, and their gate lets one record try now and then.

A fault is held back for a moment while it is not known whether it is the record's own: the next calls tell.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from onward.engine.attempt import Attempt
from onward.engine.gates.gates import Gate
from onward.policy import outage
from onward.policy.failures import Classified

HELD_BACK = 0.5
LONGEST_HELD_BACK = 20.0
"""Seconds: no call is so slow that a fault waits longer to be explained by those beside it."""
LOOK_EVERY = 0.01
Conclude = Callable[[bool], None]


@dataclass(slots=True)
class _Open:
    """A fault whose cause is not known yet. `conclude` is told whether the attempt is spared."""

    gate: Gate
    since: float
    conclude: Conclude


@dataclass(slots=True)
class Outages:
    """`others`: whether further calls are about to begin. `patient`: False where nothing is waited for."""

    others: Callable[[], bool]
    limit: float
    patient: bool = True
    _open: list[_Open] = field(default_factory=list)

    @property
    def held_back(self) -> int:
        return len(self._open)

    async def told(self, gate: Gate) -> None:
        """Return once it is known what to make of a fault: a call that begins meanwhile may be one too many.

        Where none is left that could tell, the next one begins, alone; where calls are slow, all do after a moment.
        """
        until = time.monotonic() + HELD_BACK
        gate.hesitating += 1
        try:
            while gate.calls and time.monotonic() < until and any(one.gate is gate for one in self._open):
                await asyncio.sleep(LOOK_EVERY)
        finally:
            gate.hesitating -= 1

    def answered(self, gate: Gate, began: float) -> None:
        """A call that began at `began` (monotonic seconds) was answered, be it with a refusal."""
        if gate.outage is outage.NONE:
            return
        was_on = gate.outage.is_on
        gate.outage = outage.after_success(gate.outage, began)
        if gate.outage is outage.NONE:
            gate.failing.others_passed(was_on)
            gate.given_up = False
            gate.mark()
            self._conclude(gate, spared=False)

    def failed(self, gate: Gate, attempt: Attempt, failure: Classified, conclude: Conclude) -> None:
        """A call met a transient fault; `conclude` is called now, or once it is known what to make of it."""
        now = time.monotonic()
        if self.patient and failure.retry_after and failure.status is not None:
            gate.asked_until = max(gate.asked_until, now + failure.retry_after)
            gate.mark()
        if not self.patient or failure.throttled:
            conclude(False)
            return
        was_on, was_trial = gate.outage.is_on, gate.trial is attempt
        record = attempt.claimed.id
        if was_on:
            gate.failing.met(record)
            if was_trial:
                gate.outage = outage.after_trial(gate.outage, now)
                gate.given_up = outage.is_given_up(gate.outage, self.limit, now)
            conclude(True)
            return
        if not outage.is_evidence(failure, attempt.attempts) or gate.failing.is_its_own(record):
            conclude(False)
            return
        gate.failing.met(record)
        gate.outage = outage.after_fault(gate.outage, failure, record, now, attempt.began)
        gate.mark()
        self._open.append(_Open(gate, now, conclude))
        if gate.outage.is_on:
            of_status = "" if failure.status is None else f" {failure.status}"
            gate.cause = failure.cause or f"{failure.error_type}{of_status}"
            self._conclude(gate, spared=True)
        elif not self._may_tell(gate):
            self._conclude(gate, spared=False)

    def pause_after_trial(self, gate: Gate) -> float:
        """Seconds for which a record that was tried lets others go first."""
        return 2.0 * max(gate.outage.until - time.monotonic(), 0.0)

    def look_around(self) -> None:
        """Faults that nothing has explained in time are the records' own."""
        now = time.monotonic()
        for one in list(self._open):
            held = held_back(one.gate)
            if one in self._open and (now - one.since > held or not self._may_tell(one.gate)):
                self._conclude(one.gate, spared=False)

    def conclude_all(self) -> None:
        """The run stops: nothing more will tell."""
        for one in list(self._open):
            if one in self._open:
                self._conclude(one.gate, spared=False)

    def _may_tell(self, gate: Gate) -> bool:
        return gate.calls > 0 or gate.hesitating > 0 or bool(gate.waiting) or self.others()

    def _conclude(self, gate: Gate, spared: bool) -> None:
        about = [one for one in self._open if one.gate is gate]
        self._open = [one for one in self._open if one.gate is not gate]
        for one in about:
            one.conclude(spared)


def held_back(gate: Gate) -> float:
    """Seconds in which the calls beside a fault will have told."""
    return min(max(HELD_BACK, 2.0 * gate.call_seconds), LONGEST_HELD_BACK)
