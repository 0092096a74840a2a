"""What type checkers see of a job. Nothing here is run: `mypy --strict tests/typing` is the test."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from dataclasses import dataclass
from typing import Any, assert_type

from onward.errors import Rejected, StepOutcome
from onward.job.job import Job
from onward.job.loading import load_job
from onward.job.plan import FailureLimit, JobReference, Plan
from onward.job.steps import Step
from onward.model import Retry
from onward.ports.source import Source


@dataclass
class Ticket:
    id: str


@dataclass
class Params:
    day: str


def source_of_params(params: Params) -> Source: ...  # type: ignore[empty-body]
def source_of_nothing() -> Source: ...  # type: ignore[empty-body]
def one_source() -> Source: ...  # type: ignore[empty-body]
def classify(error: Exception) -> StepOutcome | None: ...
def classify_by_class(error: BaseException) -> type[StepOutcome] | None: ...
def classify_wrongly(error: Exception) -> str: ...  # type: ignore[empty-body]


job = Job(
    "types",
    source_of_params,
    record=Ticket,
    params=Params,
    instance="{day}",
    classify=classify,
    concurrency=4,
    max_failures="5%",
    resume_cap=2,
    on_bad="quarantine",
    store_inputs=False,
)
Job("a", source=one_source())
Job("a", source=source_of_nothing)
Job("a", source=lambda params: source_of_params(params))
Job("a", source=lambda: one_source())
Job("a", one_source(), classify=classify_by_class, max_failures=FailureLimit(count=3))

Job("a")  # type: ignore[call-arg]
Job(5, one_source())  # type: ignore[arg-type]
Job("a", "in.jsonl")  # type: ignore[arg-type]
Job("a", one_source(), Ticket)  # type: ignore[call-arg]
Job("a", one_source(), params=Params("monday"))  # type: ignore[arg-type]
Job("a", one_source(), on_bad="skip")  # type: ignore[arg-type]
Job("a", one_source(), concurrency="4")  # type: ignore[arg-type]
Job("a", one_source(), classify=classify_wrongly)  # type: ignore[arg-type]
Job("a", one_source(), unknown=1)  # type: ignore[call-arg]


@job.step
def plain(ticket: Ticket, *, loud: bool = False) -> str:
    """Loud or not."""
    return ticket.id.upper() if loud else ticket.id


@job.step(retry=Retry(attempts=5), timeout=30, concurrency=2, process=False, version="1", uses=("params.day", plain))
async def awaited(ticket: Ticket, plain: str) -> int:
    return len(plain)


@job.step()
def empty_brackets(ticket: Ticket) -> None: ...


assert_type(plain(Ticket("a")), str)
assert_type(plain(Ticket("a"), loud=True), str)
assert_type(plain.name, str)
empty_brackets(Ticket("a"))


async def awaits() -> None:
    assert_type(await awaited(Ticket("a"), "b"), int)
    await awaited(Ticket("a"))  # type: ignore[call-arg]


takes_a_step: Callable[[Step[..., Any]], str] = lambda step: step.name  # noqa: E731
takes_a_step(plain)
as_function: Callable[[Ticket], str] = plain

plain("a")  # type: ignore[arg-type]
plain(Ticket("a"), quiet=True)  # type: ignore[call-arg]

job.step(timeout="30")  # type: ignore[call-overload]
job.step(unknown=1)  # type: ignore[call-overload]
job.step(5)  # type: ignore[call-overload]


@job.resource
async def http(params: Params) -> AsyncIterator[int]:
    yield 1


assert_type(http(Params("monday")), AsyncIterator[int])

bound = job.bind(Params("monday"), ["day=tuesday"])
assert_type(bound.instance, str)
assert_type(bound.params_json, str | None)
plan = job.plan(bound.params)
assert_type(plan, Plan)
assert_type(plan.reference, JobReference)
assert_type(plan.steps[0].arguments[0].decode, Callable[[str], Any] | None)
assert_type(job.open_source(bound.params), Source)
assert_type(load_job("job.py"), Job)


def refuse(error: Exception) -> type[Rejected]:
    return Rejected


Job("a", one_source(), classify=refuse)
