"""From declared steps to their plans: shapes become callables, names become arguments, code becomes versions."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from contextlib import suppress
from decimal import Decimal
from types import UnionType
from typing import Any, Union, get_args, get_origin

from onward.errors import DeclarationError, UsageError
from onward.job.annotations import MISSING
from onward.job.coding import encoder, output_decoder, record_decoder
from onward.job.effects import Effect, check_payload, key_values
from onward.job.fields import field_of, field_types
from onward.job.groups import NO_VALUE, Group, Limit, value_text
from onward.job.models import models_among
from onward.job.plan import Argument, CallPlan, EffectPlan, GroupPlan, StepPlan
from onward.job.signature import Slot
from onward.job.steps import Step
from onward.job.values import PLAIN, Shape
from onward.job.versions import StepCode, step_code, used_params


def plan_steps(
    steps: Sequence[Step[..., Any]],
    record: Shape | None,
    params: Any,
    ignored: tuple[type, ...],
    group: Group | None = None,
) -> tuple[StepPlan, ...]:
    """The plans of all steps of one job. `ignored`: types of module variables that are no part of a step's version;
    `group`: that of steps without one of their own.

    Raises DeclarationError for an annotation that is still undefined, UsageError where a version needs params.
    """
    planner = _Planner(record or PLAIN, params, ignored, group)
    return tuple(planner.step(index, step) for index, step in enumerate(steps))


class _Planner:
    """Holds what the steps of one plan share, so that equal arguments get the same `decode`."""

    def __init__(self, record: Shape, params: Any, ignored: tuple[type, ...], group: Group | None):
        self._record = record
        self._params = params
        self._ignored = ignored
        self._group = group
        self._groups: dict[int, GroupPlan] = {}
        self._outputs: dict[str, Shape] = {}
        self._decoders: dict[tuple[str, str, int], tuple[Shape, Callable[[str], Any]]] = {}

    def step(self, index: int, step: Step[..., Any]) -> StepPlan:
        options = step.options
        output = self._shape(step, step.returns(), "its return annotation")
        self._outputs[step.name] = output
        code = self._code(step, output)
        return StepPlan(
            index=index,
            name=step.name,
            version=code.version,
            function=step.function,
            is_async=inspect.iscoroutinefunction(step.function),
            retry=options.retry,
            timeout=options.timeout,
            concurrency=options.concurrency,
            process=options.process,
            max_output=options.max_output,
            calls_out=options.calls_out,
            arguments=tuple(self._argument(step, slot) for slot in step.slots),
            encode=encoder(output, options.max_output),
            effect=self._effect(step, output) if isinstance(step, Effect) else None,
            limit=options.limit,
            group=self._grouped(step.name, options.group or self._group),
            decode=output_decoder(output, step.name),
            models=models_among(code.described),
            parts=code.parts,
        )

    def _grouped(self, step: str, group: Group | None) -> GroupPlan | None:
        """One plan for each group that is declared; the second of one field has its first step's name as well."""
        if group is None:
            return None
        if id(group) not in self._groups:
            names = {known.name for known in self._groups.values()}
            name = f"{group.field} ({step})" if group.field in names else group.field
            own = group.per_minute is not None or group.concurrency is not None
            ceiling = Limit(group.per_minute, group.concurrency) if own else None
            value_of = _value_reader(group.field, record_decoder(self._record))
            self._groups[id(group)] = GroupPlan(name, value_of, ceiling, group.ceilings(), group.openings())
        return self._groups[id(group)]

    def _effect(self, step: Effect[..., Any], receipt: Shape) -> EffectPlan:
        check_payload(step)
        parts = {kind: self._call(part, step, receipt) for kind, part in step.parts.items()}
        inputs = [self._argument(step, slot) for slot in step.slots if slot.origin in ("record", "step")]
        decode, receipt_of = record_decoder(self._record), record_decoder(receipt)
        encode = encoder(receipt, step.options.max_output)
        fields = step.effect.fields
        return EffectPlan(
            name=step.effect.name,
            formerly=tuple(step.effect.formerly),
            identify=lambda text: key_values(fields, decode(text)),
            traits=step.traits(),
            inputs=tuple(inputs),
            payload=parts.get("payload"),
            probe=parts.get("probe"),
            confirm=parts.get("confirm"),
            receive=lambda text: encode(receipt_of(text)),
            fields=tuple(sorted(self._told(name, declared) for name, declared in fields.items())),
        )

    def _told(self, field: str, declared: type | None) -> str:
        """A field of a key, and of which type it is where that makes it another: 40.10 is not the text "40.10"."""
        known = declared or (field_types(self._record) or {}).get(field)
        return f"{field} as a Decimal" if known is Decimal else field

    def _call(self, part: Step[..., Any], effect: Effect[..., Any], receipt: Shape) -> CallPlan:
        """A part of an effect: what its probe returns is a receipt, what its payload's function returns a payload."""
        returned = receipt
        if part is effect.parts.get("payload"):
            returned = self._shape(part, part.returns(), "its return annotation")
        return CallPlan(
            function=part.function,
            is_async=inspect.iscoroutinefunction(part.function),
            arguments=tuple(self._argument(part, slot, effect) for slot in part.slots),
            encode=encoder(returned, part.options.max_output),
            may_be_bool=_is_bool(effect.returns()),
        )

    def _argument(self, step: Step[..., Any], slot: Slot, effect: Effect[..., Any] | None = None) -> Argument:
        decode = None
        if slot.origin == "record":
            decode = self._decoder("", self._consumed(step, slot, self._record), record_decoder)
        elif slot.origin == "step":
            shape = self._consumed(step, slot, self._outputs[slot.name])
            decode = self._decoder(slot.name, shape, lambda shape: output_decoder(shape, slot.name))
        elif slot.origin == "receipt":
            shape = self._consumed(step, slot, self._outputs[slot.name])
            decode = output_decoder(shape, slot.name)
        elif slot.origin == "payload":
            shape = self._consumed(step, slot, self._payload(effect or step))
            decode = output_decoder(shape, slot.name)
        return Argument(slot.parameter, slot.origin, slot.name, decode)

    def _payload(self, effect: Step[..., Any]) -> Shape:
        builder = effect.parts.get("payload") if isinstance(effect, Effect) else None
        return PLAIN if builder is None else self._shape(builder, builder.returns(), "its return annotation")

    def _consumed(self, step: Step[..., Any], slot: Slot, produced: Shape) -> Shape:
        if slot.annotation is MISSING:
            return produced
        return self._shape(step, slot.annotation, f"its parameter '{slot.parameter}'")

    def _decoder(self, name: str, shape: Shape, make: Callable[[Shape], Callable[[str], Any]]) -> Callable[[str], Any]:
        place = (name, type(shape).__name__, id(shape))
        if place not in self._decoders:
            self._decoders[place] = (shape, make(shape))
        return self._decoders[place][1]

    def _shape(self, step: Step[..., Any], annotation: Any, what: str) -> Shape:
        try:
            return step.shape(annotation, what)
        except NameError as error:
            raise DeclarationError(f"{step!r}: {what} uses a name that is not defined: {error.name}") from error

    def _code(self, step: Step[..., Any], output: Shape) -> StepCode:
        given = step.options.version
        if given is None and self._params is None and (missing := used_params(step.options.uses)):
            raise UsageError(f"the version of step '{step.name}' depends on params ({', '.join(missing)}): give them")
        return step_code(
            step.function,
            step.source,
            plain=step.plain_parameters,
            schema=output.schema(),
            uses=(*step.options.uses, *_payload_code(step)),
            param=lambda name: getattr(self._params, name, None),
            ignored=self._ignored,
            version=given,
        )


def _value_reader(field: str, decode: Callable[[str], Any]) -> Callable[[str], str]:
    def value_of(text: str) -> str:
        with suppress(Exception):  # what is wrong with the record, its step will say
            return value_text(field_of(decode(text), field))
        return NO_VALUE

    return value_of


def _is_bool(annotation: Any) -> bool:
    """Whether it is `bool`, or has it as a choice, written out or as text."""
    if isinstance(annotation, str):
        return "bool" in (choice.strip() for choice in annotation.split("|"))
    return annotation is bool or (bool in get_args(annotation) and get_origin(annotation) in (Union, UnionType))


def _payload_code(step: Step[..., Any]) -> list[Any]:
    """What an effect sends is part of its version."""
    builder = step.parts.get("payload") if isinstance(step, Effect) else None
    return [] if builder is None else [builder.function]
