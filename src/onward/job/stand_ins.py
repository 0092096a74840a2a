"""Stand-ins for effects in tests: nothing is sent, probed or confirmed; a function or a value answers instead."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from dataclasses import replace
from typing import Any, cast

from onward import codec
from onward.errors import UsageError
from onward.job.plan import Argument, Origin, Plan, StepPlan, effect_names
from onward.job.signature import SENT


def with_stand_ins(plan: Plan, given: Mapping[str, Any]) -> Plan:
    """The plan with each effect's far side replaced, by ledger name.

    A function is given `payload` and `idempotency_key`, those that it asks for; anything else is the receipt itself.
    A stand-in counts as one that dedupes by key: after a crash it is called again with the same one.

    Raises UsageError for an effect without a stand-in, and for a stand-in without an effect.
    """
    names = effect_names(plan.steps).values()
    missing = [name for name in names if name not in given]
    if missing:
        raise UsageError(
            f"effects= has no stand-in for {', '.join(map(repr, missing))}: a test never reaches the outside world; "
            "give a function of payload and idempotency_key, or the receipt"
        )
    unknown = [name for name in given if name not in names]
    if unknown:
        listed = ", ".join(map(repr, names)) or "none"
        raise UsageError(f"effects= names {', '.join(map(repr, unknown))}; the job's effects: {listed}")
    return replace(plan, steps=tuple(_replaced(step, given) for step in plan.steps))


def _replaced(step: StepPlan, given: Mapping[str, Any]) -> StepPlan:
    effect = step.effect
    if effect is None:
        return step
    stand_in = given[effect.name]
    function = stand_in if callable(stand_in) else lambda: stand_in
    wanted = list(inspect.signature(function).parameters)
    if strange := [name for name in wanted if name not in SENT]:
        raise UsageError(
            f"the stand-in for {effect.name!r} asks for {', '.join(strange)}; it can have payload and idempotency_key"
        )
    decode = next((one.decode for one in step.arguments if one.origin == "payload"), codec.loads)
    arguments = [Argument(name, cast(Origin, name), name, decode if name == "payload" else None) for name in wanted]
    traits = replace(effect.traits, keyed=True, expires=None, has_probe=False, has_confirm=False)
    return replace(
        step,
        function=function,
        is_async=inspect.iscoroutinefunction(function),
        arguments=tuple(arguments),
        effect=replace(effect, traits=traits, probe=None, confirm=None),
    )
