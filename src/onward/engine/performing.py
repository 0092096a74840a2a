"""One call in its slot: made where its gates are open, cut, given up, and what it came to stated."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from typing import Protocol

from onward.engine.attempt import Attempt
from onward.engine.calls import Caller
from onward.engine.endings import Endings
from onward.engine.events import Events
from onward.engine.gates.admission import Admission
from onward.engine.gates.causes import Causes
from onward.engine.outcomes import CallOutcome, Raised, cancelled_itself
from onward.engine.slots import Slot
from onward.model import Kind
from onward.policy.failures import Classified


class Holder(Protocol):
    """Who holds the records. `stopping`: no new call begins."""

    stopping: bool

    def give_back(self, attempt: Attempt) -> None:
        """The run is stopping: the attempt goes back into the store."""
        ...

    def put_back(self, attempt: Attempt, reason: str) -> None:
        """The attempt is to wait in the store."""
        ...

    def plan_flush(self, at_once: bool) -> None: ...


class Performing:
    """Makes calls, each in its slot. `processes` calls steps that are for processes of their own.

    `sends_on`: a coroutine that sends does not let itself be cancelled, so that nobody can tell when it ends.
    `is_cancelled`: whether the run itself is being cancelled, and not a call.
    """

    def __init__(
        self,
        holder: Holder,
        caller: Caller,
        processes: Caller,
        admission: Admission,
        causes: Causes,
        endings: Endings,
        events: Events,
    ):
        self.sends_on = False
        self.is_cancelled: Callable[[], bool] = lambda: False
        self._holder = holder
        self._caller = caller
        self._processes = processes
        self._admission = admission
        self._causes = causes
        self._endings = endings
        self._events = events

    async def perform(self, slot: Slot, attempt: Attempt) -> None:
        holder, admission = self._holder, self._admission
        if holder.stopping:
            holder.give_back(attempt)
            return
        step = attempt.step
        assert step is not None
        gate = admission.gates.of(attempt)
        if self._causes.has_open and not await self._told(slot, attempt):
            return
        if admission.may_be_shut(attempt) and not admission.enter(attempt):
            admission.release(attempt)
            holder.put_back(attempt, "its gate was shut before the call")
            return
        gate.calls += 1
        attempt.inside, attempt.began = gate, time.monotonic()
        caller = attempt.home or (self._processes if step.process else self._caller)
        try:
            if step.effect is not None:
                if attempt.home is not None:
                    await attempt.home.up()  # type: ignore[attr-defined]
                if (instead := self._endings.effects.begin(attempt)) is not None:
                    self._endings.state(attempt, instead)
                    return
            outcome = await caller.call(attempt)  # type: ignore[attr-defined]
        except asyncio.CancelledError:
            if slot.given_up:
                return
            outcome = self._cut_short(slot, attempt)
        finally:
            if attempt.inside is not None:
                gate.calls -= 1
                attempt.inside = None
            gate.took(time.monotonic() - slot.began)
        if slot.given_up and not attempt.sending:  # what is being sent is waited for
            return
        slot.cut = None
        self._endings.ended(attempt, outcome)
        self._causes.after_call()

    async def _told(self, slot: Slot, attempt: Attempt) -> bool:
        """Wait until a fault beside the call is explained; False where the attempt is over by then."""
        try:
            await self._causes.told(self._admission.gates.of(attempt))
        except asyncio.CancelledError:
            if not slot.given_up:
                self._endings.ended(attempt, self._cut_short(slot, attempt))
            return False
        if self._holder.stopping:
            self._holder.give_back(attempt)
        return not self._holder.stopping

    def _cut_short(self, slot: Slot, attempt: Attempt) -> CallOutcome | None:
        task = asyncio.current_task()
        if task is not None:
            task.uncancel()
        assert attempt.step is not None
        if slot.cut is not None and _is_in_thread(attempt):
            self._events.of(attempt, "call_abandoned", step=attempt.step.name, reason="its thread cannot be cut")
        if slot.cut == "timeout":
            return Raised(_timeout(attempt.step.timeout))
        if slot.cut == "stop" or self.is_cancelled():
            return None
        return cancelled_itself()

    def given_up(self, slot: Slot, attempt: Attempt) -> None:
        """A call that does not let itself be cancelled: its record goes on without it."""
        assert attempt.step is not None
        self._events.of(attempt, "call_abandoned", step=attempt.step.name, reason="it does not return")
        self._admission.leave(attempt)
        if attempt.sending:
            self.sends_on = self.sends_on or not _is_in_thread(attempt)
            if slot.cut == "timeout":
                patience = self._endings.effects.patience(attempt)
                asyncio.get_running_loop().call_later(patience, self._never_returned, attempt)
            else:
                self._never_returned(attempt, cut=True)
            return
        self._endings.ended(attempt, Raised(_timeout(attempt.step.timeout)) if slot.cut == "timeout" else None)

    def _never_returned(self, attempt: Attempt, cut: bool = False) -> None:
        """A send that goes on long past its deadline, or (`cut`) as its run ends: its end is not heard any more."""
        if attempt.sending:
            assert attempt.step is not None
            self._endings.state(attempt, self._endings.effects.never_returned(attempt, cut))
            self._holder.plan_flush(True)


def _is_in_thread(attempt: Attempt) -> bool:
    """Whether the call is made in a thread of this process, where nothing can end it."""
    step = attempt.step
    return step is not None and not step.is_async and not step.process and attempt.home is None


def _timeout(seconds: float) -> Classified:
    return Classified(Kind.TRANSIENT, "TimeoutError", f"no answer within {seconds:g} seconds (timeout)")
