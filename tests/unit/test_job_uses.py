"""What versions depend on besides the code: `uses=`, output schemas, and values as text."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from job_files import EmptySource, fresh_imports, write
from pydantic import BaseModel

from onward.errors import DeclarationError, UsageError
from onward.job.canonical import canonical, stable_repr
from onward.job.job import Job
from onward.job.loading import load_job


@pytest.fixture
def versions(tmp_path: Path) -> Iterator[Callable[..., list[str]]]:
    """Versions of the steps of a job file with this text, for these params."""

    def load(text: str, **params: Any) -> list[str]:
        job = load_job(str(write(tmp_path / "job.py", text)))
        return [step.version for step in job.plan(job.bind(params or None).params).steps]

    with fresh_imports():
        yield load


def changed(old: str, new: str, text: str) -> str:
    assert old in text
    return text.replace(old, new)


USES = """
from dataclasses import dataclass

@dataclass
class Params:
    model: str = "small"
    day: str = "monday"

job = Job("v", EmptySource(), params=Params)
def helper(x): return x
PROMPT = "Say it"

@job.step(uses=("params.model", helper, {"b": 1, "a": {2, 1}}))
def ask(row): return row

@job.step
def rest(row, params: Params): return row
"""


def test_uses(versions: Any) -> None:
    before = versions(USES)
    assert versions(USES, model="small") == before
    assert versions(USES, day="tuesday") == before
    assert versions(USES, model="large")[0] != before[0]
    assert versions(USES, model="large")[1] == before[1]
    assert versions(changed("def helper(x): return x", "def helper(x): return -x", USES))[0] != before[0]
    assert versions(changed('{"b": 1, "a": {2, 1}}', '{"a": {1, 2}, "b": 1}', USES)) == before
    assert versions(changed('"a": {2, 1}', '"a": {3, 1}', USES))[0] != before[0]
    assert versions(changed('day: str = "monday"', 'day: str = "tuesday"', USES)) == before


def test_a_single_use_needs_no_tuple(versions: Any) -> None:
    lone = changed('uses=("params.model", helper, {"b": 1, "a": {2, 1}})', 'uses="params.model"', USES)
    assert versions(lone, model="large")[0] != versions(lone)[0]


def test_a_version_that_depends_on_params_cannot_be_told_without(tmp_path: Path) -> None:
    with fresh_imports():
        job = load_job(str(write(tmp_path / "job.py", USES)))
        with pytest.raises(UsageError, match=r"step 'ask' depends on params \(model\)"):
            job.plan()


SCHEMA = """
from models import Summary
job = Job("v", EmptySource())
@job.step
def summarise(row) -> Summary: return row
@job.step
def many(row) -> list[Summary]: return row
"""
MODELS = """
from pydantic import BaseModel
class Summary(BaseModel):
    text: str
"""


def test_the_output_schema_counts_also_from_another_file(tmp_path: Path) -> None:
    def versions(models: str) -> list[str]:
        (tmp_path / "models.py").write_text(models)
        with fresh_imports():
            job = load_job(str(write(tmp_path / "job.py", SCHEMA)))
            return [step.version for step in job.plan().steps]

    before = versions(MODELS)
    assert versions(MODELS + "    # more to come\n") == before
    after = versions(MODELS + "    score: float = 0.0\n")
    assert before[0] != after[0]
    assert before[1] != after[1]


def version_of(function: Callable[..., Any], **options: Any) -> str:
    job = Job("v", EmptySource())
    job.step(**options)(function)
    return job.plan().steps[0].version


def test_functions_and_values_as_uses() -> None:
    def step(value: Any) -> Any: ...

    def version(*uses: Any) -> str:
        return version_of(step, uses=uses)

    one = lambda x: x + 1  # noqa: E731
    two = lambda x: x + 2  # noqa: E731
    same = lambda y: y + 1  # noqa: E731
    assert version(one) != version(two)
    assert version(one) != version(same)
    assert version(1) != version("1") != version(1.0) != version(True) != version(1)
    assert version(Decimal("1.0")) != version(Decimal("1.00"))
    assert version("a", "b") != version("ab")
    assert version(["a"]) != version(("a",))
    assert version(Path("a/b")) == version(Path("a") / "b")
    assert version(Thing) != version(OtherThing)
    assert version(Model(size=1)) == version(Model(size=1)) != version(Model(size=2))
    assert version(functools.wraps(one)(two)) == version(one)


class Thing:
    size = 1


class OtherThing:
    size = 2


class Model(BaseModel):
    size: int


@dataclass
class Point:
    x: int
    inner: Any = None


def test_values_without_a_stable_text_are_refused() -> None:
    def step(value: Any) -> Any: ...

    for value in (object(), [object()], functools.partial(version_of), Point(1, object()), iter([])):
        with pytest.raises(DeclarationError, match="does not look the same in every process"):
            version_of(step, uses=(value,))


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary() | st.dates() | st.decimals(),
    lambda inner: st.lists(inner) | st.tuples(inner) | st.dictionaries(st.text(), inner),
    max_leaves=8,
)


@given(values, values)
def test_canonical_texts_tell_apart(one: Any, other: Any) -> None:
    assert canonical(one) is not None
    if canonical(one) == canonical(other):
        assert repr(one) == repr(other) or one == other


def test_values_that_are_not_plain() -> None:
    endless: list[Any] = []
    endless.append(endless)
    assert canonical(endless) is None
    assert canonical({"a": object()}) is None
    assert stable_repr(object()) is None
    assert stable_repr(Odd()) == "Odd odd"
    assert canonical({"b": 1, "a": 2}) == canonical({"a": 2, "b": 1})
    assert canonical({3, 1, 2}) == canonical({2, 3, 1})


class Odd:
    def __repr__(self) -> str:
        return "odd"
