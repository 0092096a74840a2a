"""From a declared job to its plan: shapes become callables, names become arguments, code becomes versions."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from onward.errors import DeclarationError, UsageError
from onward.job.annotations import MISSING
from onward.job.coding import encoder, output_decoder, record_decoder, record_validate
from onward.job.plan import Argument, Plan, StepPlan
from onward.job.signature import Slot
from onward.job.values import PLAIN, Shape
from onward.job.versions import step_version, used_params

if TYPE_CHECKING:
    from onward.job.job import Job
    from onward.job.steps import Step


def make_plan(job: Job, params: Any) -> Plan:
    """Raises DeclarationError for a job without steps or an annotation that is still undefined."""
    if not job.steps:
        raise DeclarationError(f"job '{job.name}' has no steps")
    planner = _Planner(job, params)
    return Plan(
        job=job.name,
        steps=tuple(planner.step(index, step) for index, step in enumerate(job.steps)),
        resources=job.resources,
        record_validate=None if planner.record is None else record_validate(planner.record),
        concurrency=job.concurrency,
        max_failures=job.max_failures,
        resume_cap=job.resume_cap,
        on_bad=job.on_bad,
        store_inputs=job.store_inputs,
        classify=job.classify,
        reference=job.reference,
    )


class _Planner:
    """Holds what the steps of one plan share, so that equal arguments get the same `decode`."""

    def __init__(self, job: Job, params: Any):
        self._job = job
        self._params = params
        self._outputs: dict[str, Shape] = {}
        self._decoders: dict[tuple[str, str, int], tuple[Shape, Callable[[str], Any]]] = {}
        try:
            self.record = job.record_shape()
        except NameError as error:
            raise DeclarationError(f"job '{job.name}': record uses a name that is not defined: {error.name}") from error

    def step(self, index: int, step: Step[..., Any]) -> StepPlan:
        options = step.options
        output = self._shape(step, step.returns(), "its return annotation")
        self._outputs[step.name] = output
        return StepPlan(
            index=index,
            name=step.name,
            version=self._version(step, output),
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
        )

    def _argument(self, step: Step[..., Any], slot: Slot) -> Argument:
        decode = None
        if slot.origin == "record":
            decode = self._decoder("", self._consumed(step, slot, self.record or PLAIN), record_decoder)
        elif slot.origin == "step":
            shape = self._consumed(step, slot, self._outputs[slot.name])
            decode = self._decoder(slot.name, shape, lambda shape: output_decoder(shape, slot.name))
        return Argument(slot.parameter, slot.origin, slot.name, decode)

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

    def _version(self, step: Step[..., Any], output: Shape) -> str:
        if step.options.version is not None:
            return str(step.options.version)
        if self._params is None and (missing := used_params(step.options.uses)):
            raise UsageError(f"the version of step '{step.name}' depends on params ({', '.join(missing)}): give them")
        return step_version(
            step.function,
            step.source,
            plain=step.plain_parameters,
            schema=output.schema(),
            uses=step.options.uses,
            param=lambda name: getattr(self._params, name, None),
            ignored=(type(self._job),),
        )
