"""Calls of steps in this process, and what may come of them."""

from __future__ import annotations

import asyncio
import logging
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from onward.codec import loads, plain_key
from onward.engine.attempt import Attempt
from onward.engine.effects.calls import EffectCalls
from onward.engine.forks import end_if_forked, forks
from onward.engine.outcomes import CallOutcome, Died, EndedEarly, Prepared, PutOff, Raised, Returned, Stale, TooLate
from onward.engine.resources import Resources
from onward.engine.spending.anywhere import DeskAnywhere
from onward.engine.spending.desk import CallDesk
from onward.engine.threads import Threads
from onward.errors import Done, MisfitRecord, OnwardError, StaleCheckpoint
from onward.job.plan import CallPlan, Plan, StepPlan
from onward.model import Kind
from onward.policy.failures import Classified, classify, opinion
from onward.ports.models import Deferred, asking_of

ASKED_BY = "onward.llm.model"
_NOTHING = nullcontext()


class Caller(Protocol):
    """Makes calls somewhere. Nothing but cancellation is raised."""

    async def call(self, attempt: Attempt) -> CallOutcome: ...


class OwnCalls(Caller, Protocol):
    """Makes calls in this process."""

    def prepared(self, attempt: Attempt) -> Prepared | None:
        """The effect's key and payload where no function of the job's has to be called for them."""
        ...


@dataclass(frozen=True, slots=True)
class Context:
    """What a step may ask for as `context`. `key` is the plain JSON value of the record's key."""

    key: Any
    attempt: int
    run: int
    instance: str
    logger: logging.LoggerAdapter[logging.Logger]


class LocalCaller:
    """Calls in this process: async steps on the event loop, sync ones in threads.

    `value_of` gives the record's input as JSON text; `has_succeeded` whether a step has for another record; `desk`:
    where a call that asks models finds the run's limits and budgets.
    """

    def __init__(
        self,
        plan: Plan,
        resources: Resources,
        run: int,
        instance: str,
        value_of: Callable[[Attempt], str],
        has_succeeded: Callable[[str], bool],
        desk: Callable[[Attempt], CallDesk] | None = None,
    ):
        self.threads = Threads(asyncio.get_running_loop())
        self._plan = plan
        self._resources = resources
        self._run = run
        self._instance = instance
        self._value_of = value_of
        self._has_succeeded = has_succeeded
        self._desk = desk if ASKED_BY in sys.modules else None  # a job that has not loaded it asks no model
        self._home = forks()
        self._wants_context = {step.name for step in plan.steps if _asks_for(step, "context")}
        self._effects = EffectCalls(self._made, value_of, self.raised)

    async def call(self, attempt: Attempt) -> CallOutcome:
        step = attempt.step
        assert step is not None
        attempt.begun = False
        try:
            if not self._resources.opened:
                await self._resources.open()
            if attempt.phase not in ("step", "send"):
                return await self._effects.call(attempt)
            return Returned(step.encode(await self._made(attempt, step)))
        except Done as done:
            return EndedEarly(done.reason)
        except Deferred as deferred:
            return PutOff(deferred.requests, deferred.known)
        except StaleCheckpoint as stale:
            return Stale(stale.step, str(stale))
        except _Late:
            return TooLate()
        except asyncio.CancelledError:
            raise
        except OnwardError as error:  # a resource or the source failed: no fault of the record
            return Raised(Classified(Kind.FATAL, type(error).__name__, str(error), not_applied=not attempt.begun))
        except BaseException as error:
            return self.raised(attempt, error)

    def prepared(self, attempt: Attempt) -> Prepared | None:
        try:
            return self._effects.prepared(attempt)
        except Exception:  # the call says what is wrong
            return None

    async def _made(self, attempt: Attempt, what: StepPlan | CallPlan) -> Any:
        """What the function returns for the attempt."""
        step = attempt.step
        assert step is not None
        offered = self._resources.offered
        if step.name in self._wants_context:
            offered = {**offered, "context": self._context(attempt)}
        try:
            first, others = attempt.arguments(what.arguments, self._value_of(attempt), offered)
        except MisfitRecord as error:
            if attempt.phase in ("step", "prepare"):
                raise
            raise StaleCheckpoint("the record", str(error)) from None  # it did fit when its effect began
        if attempt.is_late:
            raise _Late
        attempt.called()
        attempt.begun = True
        desk = None if self._desk is None else self._desk(attempt)
        try:
            with _NOTHING if desk is None else _at(desk, step):
                if what.is_async:
                    output = await what.function(*first, **others)
                else:
                    output = await self.threads.call(what.function, first, others, to_the_end=attempt.sending)
        except BaseException as error:
            end_if_forked(self._home, error)
            if desk is not None and not isinstance(error, asyncio.CancelledError):
                _put_off(desk)
            raise
        end_if_forked(self._home, None)
        if desk is not None:
            _put_off(desk)
        return output

    def raised(self, attempt: Attempt, error: BaseException) -> CallOutcome:
        """What an exception of the attempt's step means."""
        assert attempt.step is not None
        if isinstance(done := opinion(self._plan.classify, error), Done):
            return EndedEarly(done.reason)
        failure = classify(error, time.time(), self._has_succeeded(attempt.step.name), self._plan.classify)
        if failure.kind in (Kind.BUG, Kind.SYSTEM) and (place := _place(error, attempt.step.function)):
            failure = Classified(failure.kind, failure.error_type, f"{failure.message} ({place})")
        if failure.kind is Kind.SYSTEM:  # no fault of the record's own, until it is found so
            traceback.clear_frames(error.__traceback__)  # the step's variables may be what has filled the memory
            kind = "" if failure.error_type == "MemoryError" else f"{failure.error_type}: "
            return Died(kind + failure.message, (attempt.claimed.id,), survived=True)
        return Raised(failure)

    def _context(self, attempt: Attempt) -> Context:
        assert attempt.step is not None
        key = attempt.claimed.key
        logger = logging.LoggerAdapter(
            logging.getLogger("onward.step"), {"key": plain_key(key), "step": attempt.step.name, "run": self._run}
        )
        return Context(loads(key), attempt.attempts, self._run, self._instance, logger)


class _Late(Exception):
    """The function is not called any more."""


@contextmanager
def _at(desk: CallDesk, step: StepPlan) -> Iterator[None]:
    """What the call asks of models goes through the desk."""
    try:
        with asking_of(DeskAnywhere(desk), step.models):
            yield
    finally:
        desk.close()


def _put_off(desk: CallDesk) -> None:
    """What a step makes of an answer that is not there yet, be it an error or a result, is not what it is to make."""
    if (deferred := desk.deferred()) is not None:
        raise deferred


def _asks_for(step: StepPlan, origin: str) -> bool:
    effect = step.effect
    parts = (step, effect.payload, effect.probe, effect.confirm) if effect is not None else (step,)
    return any(argument.origin == origin for part in parts if part is not None for argument in part.arguments)


def _place(error: BaseException, function: Callable[..., Any]) -> str | None:
    """`file:line` of the innermost frame in the step's own file, where a person would look first."""
    frames = traceback.extract_tb(error.__traceback__)
    own = getattr(getattr(function, "__code__", None), "co_filename", None)
    mine = [frame for frame in frames if frame.filename == own]
    if not mine:
        return None
    return f"{Path(mine[-1].filename).name}:{mine[-1].lineno}"
