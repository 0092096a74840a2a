from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from job_files import EmptySource, notebook

from onward.errors import DeclarationError
from onward.job.job import Job
from onward.job.plan import FailureLimit
from onward.job.steps import Step
from onward.model import Retry


@pytest.fixture
def job() -> Job:
    return Job("triage", EmptySource())


def test_a_step_is_still_the_plain_function(job: Job) -> None:
    @job.step
    def shout(text: str) -> str:
        """Louder."""
        return text.upper()

    assert isinstance(shout, Step)
    assert shout("a") == "A"
    assert (shout.__name__, shout.__doc__) == ("shout", "Louder.")
    assert shout.name == "shout"


async def _twice(n: int) -> int:
    return 2 * n


def test_an_async_step_too(job: Job) -> None:
    @job.step(timeout=30, retry=Retry(attempts=5))
    async def double(n: int) -> int:
        return await _twice(n)

    assert asyncio.run(double(3)) == 6
    assert job.plan().steps[0].is_async


def test_options_reach_the_plan_and_defaults_are_the_contracts(job: Job) -> None:
    @job.step
    def first(value: Any) -> Any: ...

    @job.step(
        retry=Retry(attempts=7), timeout=1, concurrency=3, process=True, version="v2", max_output=9, calls_out=True
    )
    def second(value: Any) -> Any: ...

    one, two = job.plan().steps
    assert (one.retry, one.timeout, one.concurrency, one.process, one.max_output, one.calls_out) == (
        Retry(), 600.0, None, False, 16 * 1024 * 1024, False,
    )  # fmt: skip
    assert (two.retry, two.timeout, two.concurrency, two.process, two.max_output, two.calls_out) == (
        Retry(attempts=7), 1.0, 3, True, 9, True,
    )  # fmt: skip
    assert two.version == "v2"
    assert (one.index, two.index, one.name, two.name) == (0, 1, "first", "second")
    assert two.function is second.function


def test_policies_reach_the_plan_and_defaults_are_the_contracts() -> None:
    def classify(error: Exception) -> None: ...

    plain = Job("a", EmptySource())
    other = Job(
        "b", EmptySource(), classify=classify, concurrency=4, max_failures="5%", resume_cap=9, on_bad="quarantine",
        store_inputs=False,
    )  # fmt: skip
    for one in (plain, other):
        one.step(_identity)
    plan = plain.plan()
    assert (plan.concurrency, plan.max_failures, plan.resume_cap, plan.on_bad, plan.store_inputs, plan.classify) == (
        32, None, 3, "stop", True, None,
    )  # fmt: skip
    plan = other.plan()
    assert (plan.concurrency, plan.resume_cap, plan.on_bad, plan.store_inputs, plan.classify) == (
        4, 9, "quarantine", False, classify,
    )  # fmt: skip
    assert plan.max_failures == FailureLimit(percent=5.0)


def _identity(value: Any) -> Any:
    return value


@pytest.mark.parametrize(
    ("given", "limit"),
    [
        (20, FailureLimit(count=20)),
        ("20", FailureLimit(count=20)),
        (0, FailureLimit(count=0)),
        ("5%", FailureLimit(percent=5)),
        (" 0.5 % ", FailureLimit(percent=0.5)),
    ],
)
def test_max_failures(given: int | str, limit: FailureLimit) -> None:
    assert FailureLimit.parse(given) == limit
    assert str(FailureLimit(percent=5.0)) == "5%"
    assert str(FailureLimit(count=7)) == "7"


@pytest.mark.parametrize("given", [-1, True, "x", "101%", "-1%", "nan%", 1.5, ""])
def test_max_failures_refused(given: Any) -> None:
    with pytest.raises(DeclarationError, match="max_failures"):
        FailureLimit.parse(given)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"name": ""}, "name"),
        ({"name": "  "}, "name"),
        ({"name": "a/b"}, "'/'"),
        ({"name": "a\0b"}, "control"),
        ({"name": 5}, "name"),
        ({"source": "x.jsonl"}, "source must be"),
        ({"source": lambda p: EmptySource()}, r"Job\(params=…\) is not given"),
        ({"source": lambda a, b: EmptySource()}, "one argument"),
        ({"source": lambda *, a: EmptySource()}, "one argument"),
        ({"concurrency": 0}, "concurrency"),
        ({"concurrency": 1_000_001}, "concurrency"),
        ({"concurrency": True}, "concurrency"),
        ({"resume_cap": 0}, "resume_cap"),
        ({"on_bad": "skip"}, "'stop' or 'quarantine'"),
        ({"store_inputs": 1}, "store_inputs"),
        ({"classify": 5}, "classify"),
        ({"max_failures": "many"}, "max_failures"),
        ({"params": dict}, "pydantic model or a dataclass"),
        ({"params": "Params"}, "pydantic model or a dataclass"),
        ({"instance": 5}, "instance"),
        ({"instance": "{day"}, "template"),
        ({"instance": "{day}"}, r"Job\(params=…\) has none"),
        ({"record": object()}, "record"),
        ({"record": type("Odd", (), {})}, "record: .*Odd cannot be kept as JSON"),
    ],
)
def test_a_job_that_cannot_be_meant(arguments: dict[str, Any], words: str) -> None:
    with pytest.raises(DeclarationError, match=words) as caught:
        Job(**{"name": "a", "source": EmptySource(), **arguments})
    assert str(caught.value).startswith(f"{__file__}:")


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"retry": 3}, "retry"),
        ({"timeout": 0}, "timeout"),
        ({"timeout": None}, "timeout"),
        ({"timeout": float("inf")}, "timeout"),
        ({"concurrency": 0}, "concurrency"),
        ({"process": 1}, "process"),
        ({"version": ""}, "version"),
        ({"version": 1.5}, "version"),
        ({"max_output": 0}, "max_output"),
        ({"calls_out": None}, "calls_out"),
        ({"uses": (object(),)}, "does not look the same in every process"),
        ({"uses": ("params.day",)}, "'day'"),
    ],
)
def test_a_step_that_cannot_be_meant(job: Job, options: dict[str, Any], words: str) -> None:
    with pytest.raises(DeclarationError, match=words) as caught:
        job.step(**options)(_identity)
    assert "step '_identity'" in str(caught.value)
    assert f"{__file__}:" in str(caught.value)
    assert not job.steps


def test_what_is_no_step(job: Job) -> None:
    def yields(value: Any) -> Any:
        yield value

    class Thing:
        def __init__(self, value: Any): ...

    for wrong, words in ((yields, "yields"), (lambda value: value, "def"), (Thing, "function"), (5, "function")):
        with pytest.raises(DeclarationError, match=words):
            job.step(wrong)  # type: ignore[arg-type]


def test_two_steps_of_one_name(job: Job) -> None:
    job.step(_identity)
    with pytest.raises(DeclarationError, match=r"'_identity' is declared twice; the first is at .*:\d+"):
        job.step(_identity)


def test_a_function_with_attributes_of_its_own_stays_a_step(job: Job) -> None:
    def labelled(value: Any) -> Any: ...

    labelled.name = "other"  # type: ignore[attr-defined]
    assert job.step(labelled).name == "labelled"


def test_kinds_of_resources(job: Job) -> None:
    @job.resource
    def plain() -> int:
        return 1

    @job.resource
    async def awaited() -> int:
        return 1

    @job.resource
    def opened() -> Iterator[int]:
        yield 1

    @job.resource
    async def opened_async(plain: int, opened: int) -> AsyncIterator[int]:
        yield plain + opened

    job.step(_identity)
    resources = job.plan().resources
    assert [(it.name, it.kind) for it in resources.values()] == [
        ("plain", "value"),
        ("awaited", "async value"),
        ("opened", "generator"),
        ("opened_async", "async generator"),
    ]
    assert resources["opened_async"].parameters == ("plain", "opened")
    assert plain() == 1


def test_resources_take_only_params_and_earlier_resources(job: Job) -> None:
    def wanting(params: Any) -> int: ...
    def unknown(http: Any) -> int: ...
    def contextual(context: Any) -> int: ...
    def starred(*all: Any) -> int: ...

    for wrong, words in (
        (wanting, r"Job\(params=…\) is not given"),
        (unknown, "'http'"),
        (contextual, "choices: none"),
        (starred, r"\*args"),
    ):
        with pytest.raises(DeclarationError, match=words):
            job.resource(wrong)


def test_a_context_manager_as_resource_is_refused(job: Job) -> None:
    @contextmanager
    def opened() -> Iterator[int]:
        yield 1

    with pytest.raises(DeclarationError, match="leave out @contextmanager"):
        job.resource(opened)


def _named(name: str) -> Callable[..., Any]:
    def function(value: Any) -> Any: ...

    function.__name__ = name
    return function


def _resource(name: str) -> Callable[..., Any]:
    def function() -> Any: ...

    function.__name__ = name
    return function


def test_one_name_means_one_thing(job: Job) -> None:
    job.resource(_resource("http"))
    job.step(_named("parse"))
    with pytest.raises(DeclarationError, match="a resource has that name already"):
        job.step(_named("http"))
    with pytest.raises(DeclarationError, match="a step has that name already"):
        job.resource(_resource("parse"))
    with pytest.raises(DeclarationError, match="declared twice"):
        job.resource(_resource("http"))
    for name in ("params", "context", "payload", "idempotency_key"):
        with pytest.raises(DeclarationError, match=name):
            job.step(_named(name))
        with pytest.raises(DeclarationError, match=name):
            job.resource(_resource(name))


NOTEBOOK_JOB = """
from job_files import EmptySource
from onward.job.job import Job
job = Job("nb", EmptySource())
"""


def test_a_notebook_replaces_a_step_in_place() -> None:
    names: dict[str, Any] = {}
    notebook(NOTEBOOK_JOB, 9, names)
    notebook("@job.resource\ndef tool(): return 1", 0, names)
    notebook("@job.step\ndef one(value): return 1", 1, names)
    notebook("@job.step\ndef two(value, one, tool): return 2", 2, names)
    before = [step.version for step in names["job"].plan().steps]
    notebook("@job.step\ndef one(value): return 11", 3, names)
    notebook("@job.resource\ndef tool(): return 2", 4, names)
    job = names["job"]
    assert [step.name for step in job.steps] == ["one", "two"]
    assert job.steps[0](None) == 11
    after = [step.version for step in job.plan().steps]
    assert before[0] != after[0]
    assert before[1] == after[1]
    with pytest.raises(DeclarationError, match="nothing declared before it is called 'two'"):
        notebook("@job.step\ndef one(value, two): return 3", 5, names)
    assert job.folder is None
    assert (job.reference.file, job.reference.module) == (None, None)


def test_a_notebook_refuses_process_steps_with_the_reason() -> None:
    names: dict[str, Any] = {}
    notebook(NOTEBOOK_JOB, 9, names)
    with pytest.raises(DeclarationError, match=r"process=True needs a job that another process can load.*\.py file"):
        notebook("@job.step(process=True)\ndef one(value): return 1", 1, names)


def test_a_job_without_steps_has_no_plan(job: Job) -> None:
    with pytest.raises(DeclarationError, match="no steps"):
        job.plan()


@dataclass
class Params:
    day: str


def test_sources_are_opened_for_params_and_based_at_the_jobs_folder() -> None:
    here = Path(__file__).parent
    assert Job("a", EmptySource("a.jsonl")).open_source().location == str(here / "a.jsonl")
    assert Job("a", lambda: EmptySource("b.jsonl")).open_source().location == str(here / "b.jsonl")
    dated = Job("a", lambda p: EmptySource(f"{p.day}.jsonl"), params=Params, instance="{day}")
    assert dated.open_source(Params("monday")).location == str(here / "monday.jsonl")
    assert Job("a", lambda: EmptySource("b"), params=Params).open_source(Params("x")).title == "b"
    absolute = Path("/data/in.jsonl")
    assert Job("a", EmptySource(absolute)).open_source().location == str(absolute)


def test_a_source_that_cannot_be_based_is_taken_as_it_is() -> None:
    class Fixed(EmptySource):
        based_at = None  # type: ignore[assignment]

    source = Fixed("x")
    assert Job("a", source).open_source() is source


def test_a_source_function_that_fails_says_so() -> None:
    from onward.errors import SourceError, UsageError

    def broken() -> Any:
        raise KeyError("day")

    def refused() -> Any:
        raise SourceError("no such column")

    with pytest.raises(UsageError, match="raised KeyError: 'day'"):
        Job("a", broken).open_source()
    with pytest.raises(SourceError):
        Job("a", refused).open_source()
    with pytest.raises(UsageError, match="returned 5"):
        Job("a", lambda: 5).open_source()  # type: ignore[arg-type]


_WITHOUT_PYDANTIC = """
import sys
from onward.job.job import Job
from onward.job import loading
from job_files import EmptySource
from typing import Any
job = Job("light", EmptySource(), record=dict)
@job.step
def one(value: dict[str, Any]) -> str:
    return "x"
@job.step
def two(value, one: str) -> list:
    return [one]
plan = job.plan()
assert plan.steps[0].arguments[0].decode('{"a":1}') == {"a": 1}
assert plan.steps[1].encode(["x"]) == '["x"]'
assert plan.record_validate({"a": 1}) == {"a": 1}
print(sorted(name for name in sys.modules if name.startswith("pydantic")))
"""


def test_a_job_of_plain_values_does_without_pydantic() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _WITHOUT_PYDANTIC],
        capture_output=True,
        text=True,
        check=False,
        env={"PYTHONPATH": os.pathsep.join(sys.path)},
    )
    assert (done.stdout.strip(), done.stderr) == ("[]", "")
