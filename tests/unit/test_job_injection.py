from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Any

import pytest
from job_files import EmptySource

from onward.errors import DeclarationError
from onward.job.job import Job


@dataclass
class Params:
    day: str = "monday"


@pytest.fixture
def job() -> Job:
    job = Job("triage", EmptySource(), params=Params)

    @job.resource
    def http() -> int:
        return 1

    @job.step
    def summarise(ticket: Any) -> str: ...

    return job


def origins(job: Job) -> list[tuple[str, str]]:
    return [(argument.origin, argument.name) for argument in job.plan(Params()).steps[-1].arguments]


def test_everything_that_can_be_injected(job: Job) -> None:
    @job.step
    def route(row: Any, summarise: str, http: int, params: Params, *, context: Any) -> str: ...

    assert origins(job) == [
        ("record", "row"),
        ("step", "summarise"),
        ("resource", "http"),
        ("params", "params"),
        ("context", "context"),
    ]
    arguments = job.plan(Params()).steps[-1].arguments
    assert [argument.decode is not None for argument in arguments] == [True, True, False, False, False]
    assert arguments[0].parameter == "row"


def test_order_after_the_first_does_not_matter(job: Job) -> None:
    @job.step
    def route(ticket: Any, context: Any, summarise: str) -> str: ...

    assert [name for _, name in origins(job)] == ["ticket", "context", "summarise"]


def test_the_record_may_be_positional_only(job: Job) -> None:
    @job.step
    def route(ticket: Any, /, summarise: str) -> str: ...

    assert origins(job) == [("record", "ticket"), ("step", "summarise")]


CHOICES = re.escape("(choices: earlier steps: summarise; resources: http; params; context)")


def _unknown(ticket: Any, nothing: Any) -> Any: ...
def _near(ticket: Any, sumarise: Any) -> Any: ...
def _with_default(ticket: Any, size: int = 3) -> Any: ...
def _itself(ticket: Any, _itself: Any) -> Any: ...
def _stars(ticket: Any, *rest: Any) -> Any: ...
def _kwargs(ticket: Any, **rest: Any) -> Any: ...
def _no_parameter() -> Any: ...
def _only_keywords(*, ticket: Any) -> Any: ...
def _positional(ticket: Any, summarise: Any, /) -> Any: ...
def _step_first(summarise: Any) -> Any: ...
def _resource_first(http: Any) -> Any: ...
def _params_first(params: Any) -> Any: ...
def _payload_first(payload: Any) -> Any: ...


@pytest.mark.parametrize(
    ("function", "words"),
    [
        (_unknown, "nothing declared before it is called 'nothing' " + CHOICES),
        (_near, "did you mean 'summarise'"),
        (_with_default, "'size'.*" + CHOICES),
        (_itself, "cannot receive itself.*" + CHOICES),
        (_stars, r"\*args and \*\*kwargs"),
        (_kwargs, r"\*args and \*\*kwargs"),
        (_no_parameter, "needs a first parameter"),
        (_only_keywords, "needs a first parameter"),
        (_positional, "positional-only"),
        (_step_first, "also names a step declared before"),
        (_resource_first, "also names a resource declared before"),
        (_params_first, "also names the job's params"),
        (_payload_first, "also names an effect's payload"),
    ],
)
def test_what_cannot_be_injected_is_refused_with_its_place(job: Job, function: Any, words: str) -> None:
    with pytest.raises(DeclarationError, match=words) as caught:
        job.step(function)
    line = function.__code__.co_firstlineno
    assert str(caught.value).startswith(f"{__file__}:{line}: step '{function.__name__}'")
    assert [step.name for step in job.steps] == ["summarise"]


def test_params_need_a_type() -> None:
    def wants(ticket: Any, params: Any) -> Any: ...

    with pytest.raises(DeclarationError, match=r"asks for params, but Job\(params=…\) is not given"):
        Job("a", EmptySource()).step(wants)


def test_annotations_of_resources_need_not_be_known_at_run_time(job: Job) -> None:
    @job.step
    def route(ticket: Any, http: OnlyForTypeCheckers, context: Nowhere) -> str: ...  # type: ignore[name-defined]  # noqa: F821

    assert [origin for origin, _ in origins(job)] == ["record", "resource", "context"]
