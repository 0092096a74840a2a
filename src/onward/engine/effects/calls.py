"""The calls of an effect beside its send: the payload, and whether it was applied, and whether it is confirmed."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from onward.engine.attempt import Attempt
from onward.engine.outcomes import Answered, CallOutcome, Prepared, Raised
from onward.errors import Invalid, OutputError, StaleCheckpoint
from onward.job.plan import CallPlan, EffectPlan, StepPlan
from onward.model import Answer, Mismatch
from onward.policy.identity import NoIdentity, idempotency_key

Make = Callable[[Attempt, StepPlan | CallPlan], Awaitable[Any]]


class EffectCalls:
    """`make` calls one function for an attempt, `value_of` gives the record's input as JSON text, `raised` says what an
    exception means."""

    def __init__(
        self,
        make: Make,
        value_of: Callable[[Attempt], str],
        raised: Callable[[Attempt, BaseException], CallOutcome],
    ):
        self._make = make
        self._value_of = value_of
        self._raised = raised

    async def call(self, attempt: Attempt) -> CallOutcome:
        """Make the call of the attempt's phase. Raises what the payload's function raises, and StaleCheckpoint where
        what is to be asked about no longer decodes: to ask again would not help."""
        step = attempt.step
        assert step is not None and step.effect is not None
        if attempt.phase == "prepare":
            if (prepared := self.prepared(attempt)) is not None:
                return prepared
            payload = step.effect.payload
            assert payload is not None
            key, former = self._keys(attempt, step.effect)
            return Prepared(key, payload.encode(await self._make(attempt, payload)), former)
        part = step.effect.probe if attempt.phase == "probe" else step.effect.confirm
        assert part is not None
        try:
            answer = await self._make(attempt, part)
        except (asyncio.CancelledError, StaleCheckpoint):
            raise
        except Exception as error:  # whatever it is, the far side has not answered
            told = self._raised(attempt, error)
            failure = told.failure if isinstance(told, Raised) else None
            return Answered("unknown", reason=f"the {attempt.phase} raised {type(error).__name__}", failure=failure)
        return _probed(answer, part) if attempt.phase == "probe" else _confirmed(answer)

    def prepared(self, attempt: Attempt) -> Prepared | None:
        """What is sent where no payload is declared: the effect's inputs by parameter."""
        assert attempt.step is not None and attempt.step.effect is not None
        effect = attempt.step.effect
        if effect.payload is not None:
            return None
        key, former = self._keys(attempt, effect)
        texts = attempt.texts(effect.inputs, self._value_of(attempt))
        payload = "{" + ",".join([f'"{name}":{text}' for name, text in texts.items()]) + "}"
        attempt.prepared = payload, texts
        return Prepared(key, payload, former)

    def _keys(self, attempt: Attempt, effect: EffectPlan) -> tuple[str, tuple[tuple[str, str], ...]]:
        """The obligation's key, and (name, key) under which it may be known from before. Raises Invalid."""
        value, prefix = self._value_of(attempt), effect.key_prefix
        try:
            fields = effect.identify(value)
            key = prefix + idempotency_key(effect.name, fields)
            former = [(name, prefix + idempotency_key(name, fields)) for name in effect.formerly]
        except NoIdentity as error:
            raise Invalid(str(error)) from None
        return key, tuple(former)


def _probed(answer: Any, probe: CallPlan) -> Answered:
    if answer is Answer.ABSENT:
        return Answered("absent")
    if answer is Answer.UNKNOWN or answer is None:
        return Answered("unknown", reason="the probe could not tell")
    if isinstance(answer, bool) and not probe.may_be_bool:
        told = f"the probe returned {answer}, which is no receipt"
        return Answered("unknown", reason=f"{told}: return the receipt, onward.ABSENT or onward.UNKNOWN")
    try:
        return Answered("found", probe.encode(answer))
    except OutputError as error:
        return Answered("unknown", reason=f"what the probe returned is no receipt: {error}")


def _confirmed(answer: Any) -> Answered:
    if answer is True:
        return Answered("confirmed")
    if isinstance(answer, Mismatch):
        return Answered("mismatch", reason=answer.reason)
    if answer is False or answer is None or answer is Answer.UNKNOWN:
        return Answered("unknown")
    kind = type(answer).__name__  # and not what it says: reasons are told in log events
    return Answered(
        "unknown", reason=f"the confirm returned {kind}: neither True, False, onward.UNKNOWN nor onward.Mismatch"
    )
