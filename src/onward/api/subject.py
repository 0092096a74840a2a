"""What a call is about: the store, the job, its instance and its steps as they are now."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

from onward import runner
from onward.engine.spending.bill import asking
from onward.errors import UsageError
from onward.job import registry
from onward.job.instance import Binding
from onward.job.job import Job
from onward.job.plan import StepPlan, effect_names
from onward.operate import questions
from onward.operate.questions import Subject
from onward.ports.desk import Desk
from onward.ports.facts import InstanceFacts

T = TypeVar("T")


def bind(job: Job, params: Any, instance: str | None) -> Binding:
    """The params and the instance of a start; `instance` must be the one that the params make."""
    binding = job.bind(params)
    if instance is not None and instance != binding.instance:
        raise UsageError(f"these params make the instance {binding.instance!r}, not {instance!r}")
    return binding


@contextlib.contextmanager
def open_desk(job: Job | str, store: str | None) -> Iterator[Desk]:
    stop_if_only_loaded()
    if isinstance(job, str) and store is None:
        raise UsageError(f"where is the store of job '{job}'? A name alone needs store=…")
    desk = runner.open_desk(runner.store_url(None if isinstance(job, str) else job, store))
    try:
        yield desk
    finally:
        desk.close()


@contextlib.contextmanager
def open_desk_at(url: str) -> Iterator[Desk]:
    desk = runner.open_desk(url)
    try:
        yield desk
    finally:
        desk.close()


def name_of(job: Job | str) -> str:
    return job if isinstance(job, str) else job.name


def subject_of(desk: Desk, job: Job | str, params: Any, instance: str | None) -> Subject:
    binding = bind(job, params, instance) if isinstance(job, Job) and params is not None else None
    facts = questions.choose_instance(desk, name_of(job), binding.instance if binding else instance)
    steps = _steps_now(job, binding, facts)
    if steps is None:
        today = {step.name: step.version for step in facts.versions}
        parts = desk.version_parts(facts.number)
        asks = {step: True for step, version in today.items() if "model" in parts.get((step, version), {})}
        return Subject(name_of(job), facts.name, facts.number, today, asks)
    today = {step.name: step.version for step in steps}
    return Subject(name_of(job), facts.name, facts.number, today, asking(steps), effect_names(steps))


def _steps_now(job: Job | str, binding: Binding | None, facts: InstanceFacts) -> Sequence[StepPlan] | None:
    """The steps of the job as it is now, for these params or those of the newest run; None where they cannot be had."""
    if isinstance(job, Job):
        with contextlib.suppress(UsageError):  # params that no longer fit: what the newest run had
            return job.plan((binding or job.bind_json(facts.params)).params).steps
    return None


def each_of(
    job: Job | str,
    store: str | None,
    params: Any,
    instance: str | None,
    ask: Callable[[Desk, Subject], Iterator[T]],
) -> Iterator[T]:
    """The answers to a question with many; what is wrong with it is said at once, the store let go at the end."""
    with contextlib.ExitStack() as stack:
        desk = stack.enter_context(open_desk(job, store))
        answers = ask(desk, subject_of(desk, job, params, instance))
        held = stack.pop_all()

    def each() -> Iterator[T]:
        with held:
            yield from answers

    return each()


def stop_if_only_loaded() -> None:
    if registry.loading():
        raise registry.StopLoading


def refuse_inside_loop(what: str = "run", instead: str = "await onward.run_async(…)") -> None:
    import asyncio

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise UsageError(f"onward.{what} was called inside a running event loop; use: {instead}")
