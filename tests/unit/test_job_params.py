from __future__ import annotations

import datetime
import enum
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st
from job_files import EmptySource
from pydantic import BaseModel, Field, SecretStr, field_validator

from onward.errors import DeclarationError, UsageError
from onward.job.job import Job


class Size(enum.Enum):
    SMALL = "small"
    LARGE = 2


class Params(BaseModel):
    day: datetime.date
    model: str = "small"
    size: Size = Size.SMALL
    tries: int = 1
    rate: float = 0.5
    fast: bool = False
    tags: list[str] = []
    limit: int | None = None
    note: str | None = None
    code: Annotated[str, Field(max_length=5)] = ""
    mode: Literal["a", 1] = "a"
    ticket: int = Field(default=0, alias="ticketNumber")


@dataclass
class Plain:
    day: str
    tries: int = 1
    tags: list[str] = field(default_factory=list)
    derived: int = field(default=0, init=False)


def job(params: Any = Params, instance: str = "", **more: Any) -> Job:
    return Job("p", EmptySource(), params=params, instance=instance, **more)


@pytest.mark.parametrize(
    ("assignment", "value"),
    [
        ("model=7", "7"),
        ("model=null", "null"),
        ('model="x"', '"x"'),
        ("model=", ""),
        ("model=a=b", "a=b"),
        ("size=small", Size.SMALL),
        ("size=2", Size.LARGE),
        ("tries=7", 7),
        ("rate=1e3", 1000.0),
        ("rate=3", 3.0),
        ("fast=true", True),
        ("fast=yes", True),
        ("fast=0", False),
        ('tags=["a","b"]', ["a", "b"]),
        ("limit=null", None),
        ("limit=5", 5),
        ("note=null", None),
        ("note=5", "5"),
        ("note=some text", "some text"),
        ("code=007", "007"),
        ("code=7", "7"),
        ('code="7"', '"7"'),
        ("mode=1", 1),
        ("mode=a", "a"),
        ("ticket=9", 9),
    ],
)
def test_text_is_typed_by_the_params(assignment: str, value: Any) -> None:
    name = assignment.partition("=")[0]
    found = getattr(job().bind(None, ["day=2024-02-29", assignment]).params, name)
    assert (type(found), found) == (type(value), value)


def test_the_last_assignment_wins_and_assignments_win_over_objects() -> None:
    bound = job().bind({"day": "2024-01-01", "tries": 2}, ["tries=3", "tries=4"])
    assert (bound.params.day, bound.params.tries) == (datetime.date(2024, 1, 1), 4)
    again = job().bind(bound.params, ["model=large", "ticket=3"])
    assert (again.params.tries, again.params.model, again.params.ticket) == (4, "large", 3)


def test_objects_and_mappings() -> None:
    params = Params(day=datetime.date(2024, 1, 1))
    assert job().bind(params).params is params
    assert job().bind({"day": "2024-01-01"}).params == params
    assert job().bind({"day": datetime.date(2024, 1, 1), "ticketNumber": 4}).params.ticket == 4
    assert job(Plain).bind({"day": "x"}).params == Plain("x")
    with pytest.raises(UsageError, match="params must be Params or a mapping, not Plain"):
        job().bind(Plain("x"))


def test_dataclasses_with_annotations_as_text() -> None:
    assert job(Plain).bind(None, ["day=7", "tries=3", 'tags=["x"]']).params == Plain("7", 3, ["x"])
    with pytest.raises(UsageError, match="'derived'"):
        job(Plain).bind(None, ["day=7", "derived=3"])


def test_classes_inside_a_function() -> None:
    @dataclass
    class Inner:
        size: int

    @dataclass
    class Local:
        inner: Inner

    here = Job("p", EmptySource(), params=Local)
    assert here.bind(None, ['inner={"size":3}']).params == Local(Inner(3))
    with pytest.raises(DeclarationError, match="params: Local uses Inner, which is not defined"):
        job(Local).bind(None, ['inner={"size":3}'])


@pytest.mark.parametrize(
    ("assignments", "words"),
    [
        (["dya=1"], "there is no param 'dya' \\(choices: day, model, size, "),
        (["day"], "name=value, not 'day'"),
        (["=x"], "there is no param ''"),
        ([], r"missing params: day \(give them as -p day=…\)"),
        (["day=soon"], "params do not fit: day: Input should be a valid date"),
        (["day=2024-01-01", "tries=many"], "params do not fit: tries: Input should be a valid integer"),
        (["day=2024-01-01", "code=toolong"], "params do not fit: code: String should have at most 5"),
        (["day=2024-01-01", "size=huge"], "params do not fit: size: "),
    ],
)
def test_wrong_usage_lists_the_choices(assignments: list[str], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        job().bind(None, assignments)


def test_a_mapping_with_unknown_names() -> None:
    with pytest.raises(UsageError, match="there is no param 'dya', 'x'"):
        job().bind({"dya": 1, "x": 2, "day": "2024-01-01"})


class Checked(BaseModel):
    low: int = 0
    high: int = 1

    @field_validator("high")
    @classmethod
    def above(cls, value: int) -> int:
        if value < 1:
            raise ValueError("must be positive")
        return value


def test_validators_of_the_params_are_asked() -> None:
    with pytest.raises(UsageError, match="params do not fit: high: Value error, must be positive"):
        job(Checked).bind(None, ["high=0"])
    assert job(Checked).bind().params == Checked()


def test_a_job_without_params() -> None:
    plain = Job("p", EmptySource())
    assert plain.bind() == (None, None, "")
    assert plain.bind_json(None) == (None, None, "")
    assert Job("p", EmptySource(), instance="fixed").bind().instance == "fixed"
    for given_params, assignments in (({"a": 1}, []), (None, ["a=1"])):
        with pytest.raises(UsageError, match="job 'p' takes no params"):
            plain.bind(given_params, assignments)


def test_params_as_canonical_json() -> None:
    bound = job().bind(None, ["day=2024-02-29", "size=2"])
    assert bound.params_json == (
        '{"code":"","day":"2024-02-29","fast":false,"limit":null,"mode":"a","model":"small","note":null,"rate":0.5,'
        '"size":2,"tags":[],"ticket":0,"tries":1}'
    )
    assert job().bind_json(bound.params_json) == bound
    with pytest.raises(UsageError, match="params do not fit"):
        job().bind_json("{}")


class Secretive(BaseModel):
    password: SecretStr = SecretStr("")
    rate: float = 0.0


def test_params_that_json_cannot_keep_are_refused() -> None:
    with pytest.raises(UsageError, match="params cannot be kept as JSON: password"):
        job(Secretive).bind(None, ["password=x"])
    with pytest.raises(UsageError, match="params cannot be kept as JSON: rate is nan"):
        job(Secretive).bind(None, ["rate=nan"])


@given(st.dates(), st.text(max_size=5), st.integers(), st.none() | st.text())
def test_params_survive_json(day: datetime.date, code: str, tries: int, note: str | None) -> None:
    bound = job().bind({"day": day, "code": code, "tries": tries, "note": note})
    assert bound.params_json is not None
    assert job().bind_json(bound.params_json) == bound


@pytest.mark.parametrize(
    ("template", "name"),
    [
        ("", ""),
        ("{day}", "2024-02-29"),
        ("{day:%Y-%m}", "2024-02"),
        ("{model}/{day}", "small/2024-02-29"),
        ("{tries:03d}", "001"),
        ("{fast}-{size}-{rate}", "false-small-0.5"),
        ("{{x}}", "{x}"),
        ("{tags}", "[]"),
    ],
)
def test_instance_names(template: str, name: str) -> None:
    assert job(instance=template).bind(None, ["day=2024-02-29"]).instance == name


@pytest.mark.parametrize("template", ["{dya}", "{}", "{0}", "{day.year}", "{day!r}", "{tags[0]}"])
def test_a_template_of_unknown_params(template: str) -> None:
    with pytest.raises(DeclarationError, match=r"is not a param \(choices: day, model, "):
        job(instance=template)


def test_an_instance_needs_values() -> None:
    for template, words in (
        ("{note}", "the param 'note' is empty"),
        ("{code}", "the param 'code' is empty"),
        ("{model:%Y}", "cannot be written as '%Y'"),
    ):
        with pytest.raises(UsageError, match=words):
            job(instance=template).bind(None, ["day=2024-02-29"])
    with pytest.raises(UsageError, match="control characters"):
        job(instance="{model}").bind({"day": "2024-02-29", "model": "a\nb"})
