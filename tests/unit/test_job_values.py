from __future__ import annotations

import dataclasses
import datetime
import enum
import json
import typing
from collections.abc import Callable
from decimal import Decimal
from typing import Any, Literal, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, Field, Json, SecretStr, computed_field, field_validator

from onward import codec
from onward.errors import OutputError
from onward.job.annotations import Names
from onward.job.coding import encoder
from onward.job.values import BuiltinShape, ModelShape, PlainShape, shape_of

MISSING = object()


class Colour(enum.Enum):
    RED = "red"


class Point(NamedTuple):
    x: int
    y: int


class Row(typing.TypedDict, total=False):
    day: typing.Required[datetime.date]
    note: str


class Table(typing.TypedDict):
    rows: list[Row]
    first: Row | None


@dataclasses.dataclass
class Part:
    size: int
    weight: float | None = None


class Summary(BaseModel):
    text: str
    score: float | None = None
    part: Part | None = None
    anything: Any = None


class Longer(Summary):
    pages: int = 0


class Closed(BaseModel):
    model_config = ConfigDict(extra="forbid")
    size: int

    @computed_field  # type: ignore[prop-decorator]
    @property
    def double(self) -> int:
        return 2 * self.size


class Aliased(BaseModel):
    full_name: str = Field(alias="fullName")


class TwoAliases(BaseModel):
    full_name: str = Field(validation_alias="in", serialization_alias="out")


class Strict(BaseModel):
    model_config = ConfigDict(strict=True)
    day: datetime.date


class Packed(BaseModel):
    numbers: Json[list[int]]


class Hidden(BaseModel):
    shown: int
    scratch: int = Field(default=0, exclude=True)


class Crashing(BaseModel):
    size: int

    @field_validator("size")
    @classmethod
    def crash(cls, value: int) -> int:
        raise KeyError(value)


NAN = float("nan")
DAY = datetime.date(2024, 2, 29)


@pytest.mark.parametrize(
    ("annotation", "output", "text"),
    [
        (str, "é\ud800", r'"\u00e9\ud800"'),
        (str, "a\0b", r'"a\u0000b"'),
        (int, 10**30, "1" + "0" * 30),
        (float, 5, "5.0"),
        (float, 0.1, "0.1"),
        (bool, True, "true"),
        (type(None), None, "null"),
        (dict, {"a": [1, None]}, '{"a":[1,null]}'),
        (list, [1, "a"], '[1,"a"]'),
        (dict[str, Any], {"a": 1}, '{"a":1}'),
        (dict[int, str], {1: "a"}, '{"1":"a"}'),
        (list[int], [1, 2], "[1,2]"),
        (tuple[int, ...], (1, 2), "[1,2]"),
        (set[int], {1}, "[1]"),
        (int | None, None, "null"),
        (str | None, "\ud800", r'"\ud800"'),
        (Decimal, Decimal("1.50"), '"1.50"'),
        (datetime.date, DAY, '"2024-02-29"'),
        (datetime.timedelta, datetime.timedelta(1.5), '"P1DT12H"'),
        (Colour, Colour.RED, '"red"'),
        (Literal["a", 1], 1, "1"),
        (bytes, b"ok", '"ok"'),
        (Point, Point(1, 2), "[1,2]"),
        (Row, {"day": DAY}, '{"day":"2024-02-29"}'),
        (Table, {"rows": [{"day": DAY, "note": "x"}], "first": None}, None),
        (Part, Part(1, 2.5), '{"size":1,"weight":2.5}'),
        (Summary, Summary(text="a", part=Part(1)), None),
        (list[Summary], [Summary(text="a", anything={"k": [1, {"z": None}]})], None),
        (Summary, Summary(text="a", anything="\ud800"), None),
        (Closed, Closed(size=1), '{"size":1}'),
        (Aliased, Aliased(fullName="x"), '{"full_name":"x"}'),
        (TwoAliases, TwoAliases(**{"in": "x"}), '{"full_name":"x"}'),
        (Strict, Strict(day=DAY), '{"day":"2024-02-29"}'),
        (Packed, Packed.model_validate({"numbers": "[1]"}), '{"numbers":"[1]"}'),
        (Longer, Longer(text="a", pages=3), None),
        (typing.Annotated[int, Field(gt=0)], 3, "3"),
    ],
)
def test_there_and_back(annotation: Any, output: Any, text: str | None) -> None:
    shape = shape_of(annotation, Names())
    written = shape.encode(output)
    assert text is None or json.loads(written) == json.loads(text)
    assert codec.loads(written) is not MISSING
    back = shape.decode(written)
    assert back == output
    assert type(back) is (float if annotation is float else type(output))


@pytest.mark.parametrize(
    ("annotation", "output", "meant"),
    [
        (Summary, {"text": "a", "score": 1}, Summary(text="a", score=1.0)),
        (Part, {"size": 1}, Part(1)),
        (list[Part], [{"size": 1}], [Part(1)]),
        (Aliased, {"fullName": "x"}, Aliased(fullName="x")),
        (Aliased, {"full_name": "x"}, Aliased(fullName="x")),
        (datetime.date, "2024-02-29", DAY),
        (tuple[int, int], [1, 2], (1, 2)),
        (Colour, "red", Colour.RED),
    ],
)
def test_plain_json_may_stand_for_a_typed_output(annotation: Any, output: Any, meant: Any) -> None:
    shape = shape_of(annotation, Names())
    assert shape.decode(shape.encode(output)) == meant


@pytest.mark.parametrize(
    ("annotation", "output", "message"),
    [
        (str, 5, "the output: Input should be a valid string"),
        (str, None, "the output: Input should be a valid string"),
        (int, True, "the output: Input should be a valid integer"),
        (int, "5", "the output: Input should be a valid integer"),
        (int, 5.0, "the output: Input should be a valid integer"),
        (bool, 1, "the output: Input should be a valid boolean"),
        (float, NAN, "the output is nan, which JSON cannot hold"),
        (float, "1.5", "the output: Input should be a valid number"),
        (dict, {"a": {1: 2}}, "a has the key 1 of type int; JSON keys are text"),
        (dict, [1], "the output: Input should be"),
        (list[int], ["5"], "[0]: Input should be a valid integer"),
        (list[str], [b"x"], "[0]: Input should be a valid string"),
        (list[float], [1.0, NAN], "[1] is nan, which JSON cannot hold"),
        (float | None, NAN, "the output is nan, which JSON cannot hold"),
        (type(None), 1, "the output: Input should be null"),
        (Decimal, Decimal("NaN"), "the output: Input should be a finite number"),
        (bytes, b"\xff", "the output cannot be written as JSON"),
        (Row, {"note": "x"}, "day: Field required"),
        (Table, {"rows": [{"day": DAY, "note": 1}], "first": None}, "rows[0].note: Input should be a valid string"),
        (Part, {"size": "1"}, "size: Input should be a valid integer"),
        (Part, Part("x"), "size: Input should be a valid integer"),  # type: ignore[arg-type]
        (Summary, Summary(text="a", score=NAN), "score is nan, which JSON cannot hold"),
        (Summary, Summary(text="a", part=Part(1, NAN)), "part.weight is nan, which JSON cannot hold"),
        (
            Summary,
            Summary(text="a", anything=Decimal(1)),
            "anything is of type Decimal, which comes back from JSON as str",
        ),
        (
            Summary,
            Summary(text="a", anything=[b"x"]),
            "anything[0] is of type bytes, which comes back from JSON as str",
        ),
        (Summary, Summary(text="a", anything={1: 2}), "anything.1: the key of type int does not come back"),
        (Summary, Summary(text="a", anything=object()), "the output cannot be written as JSON"),
        (Summary, Longer(text="a", pages=3), "pages is lost in JSON: Summary has no such field"),
        (Summary, {"score": 1.0}, "text: Field required"),
        (Summary, Summary.model_construct(text=5), "text: Input should be a valid string"),
        (SecretStr, SecretStr("x"), "of type SecretStr does not come back"),
        (Any, Decimal(1), "the output is of type Decimal"),
        (Any, {"a": [NAN]}, "a[0] is nan"),
    ],
)
def test_an_output_that_does_not_fit_or_survive_names_the_path(annotation: Any, output: Any, message: str) -> None:
    with pytest.raises(OutputError) as caught:
        shape_of(annotation, Names()).encode(output)
    assert message in str(caught.value)


def test_messages_do_not_quote_values() -> None:
    for annotation, output in (
        (Summary, {"text": 1, "score": "secret-1"}),
        (int, "secret-1"),
        (Summary, Summary(text="a", anything=b"secret-1")),
        (list[Part], [{"size": "secret-1"}]),
    ):
        with pytest.raises(OutputError) as caught:
            shape_of(annotation, Names()).encode(output)
        assert "secret" not in str(caught.value)
        assert caught.value.__cause__ is None


def test_fields_left_out_on_purpose_are_not_a_loss() -> None:
    shape = shape_of(Hidden, Names())
    assert shape.decode(shape.encode(Hidden(shown=1, scratch=7))) == Hidden(shown=1)


def test_an_output_that_contains_itself() -> None:
    endless: list[Any] = []
    endless.append(endless)
    for annotation in (Any, list, list[Any], list[list[Any]]):
        with pytest.raises(OutputError):
            encoder(shape_of(annotation, Names()), 100)(endless)


def test_many_misfits_are_counted() -> None:
    with pytest.raises(OutputError, match=r"^\[0\]: .*; \[4\]: .*; and 3 more$"):
        shape_of(list[int], Names()).encode(list("abcdefgh"))


@pytest.mark.parametrize("limit", [5, 40])
def test_the_limit_counts_bytes_of_json_text(limit: int) -> None:
    encode = encoder(shape_of(str, Names()), limit)
    fitting = "é" * ((limit - 2) // 2)
    assert encode(fitting) == f'"{fitting}"'
    with pytest.raises(OutputError, match=rf"^the output is \d+ bytes, the limit is {limit} bytes \(max_output\)$"):
        encode(fitting + "é")


def test_big_sizes_are_told_in_units() -> None:
    encode = encoder(shape_of(Any, Names()), 16 * 1024 * 1024)
    with pytest.raises(OutputError) as caught:
        encode("x" * (17 * 1024 * 1024))
    assert str(caught.value) == "the output is 17.0 MiB, the limit is 16 MiB (max_output)"


def test_which_shapes_do_without_pydantic() -> None:
    assert all(isinstance(shape_of(it, Names()), PlainShape) for it in (Any, object))
    assert all(
        isinstance(shape_of(it, Names()), BuiltinShape) for it in (str, int, dict, list, dict[str, Any], type(None))
    )
    assert all(isinstance(shape_of(it, Names()), ModelShape) for it in (Part, list[int], str | None))


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=12,
)
BUILTINS = [str, int, float, bool, dict, list, type(None), dict[str, Any], list[Any]]


@given(json_values)
def test_plain_json_survives(value: Any) -> None:
    text = encoder(shape_of(Any, Names()), 1 << 20)(value)
    assert codec.loads(text) == value


@given(json_values, st.sampled_from(BUILTINS))
def test_the_short_way_for_builtins_says_what_pydantic_says(value: Any, annotation: Any) -> None:
    text = codec.dumps(value)
    short, full = shape_of(annotation, Names()), ModelShape(annotation, Names())
    for ask in ("encode", "decode", "check", "decode_input"):
        given_value = text if ask.startswith("decode") else value
        assert _outcome(short, ask, given_value) == _outcome(full, ask, given_value), ask


def _outcome(shape: Any, ask: str, value: Any) -> Any:
    try:
        found = getattr(shape, ask)(value)
    except (ValueError, OutputError) as error:
        return type(error), str(error)
    return codec.loads(found) if ask == "encode" else (type(found), found)


@given(st.builds(Summary, text=st.text(), score=st.none() | st.floats(), anything=json_values))
def test_a_model_survives_or_is_refused(value: Summary) -> None:
    shape = shape_of(Summary, Names())
    try:
        text = shape.encode(value)
    except OutputError:
        assert value.score is not None
        assert value.score - value.score != 0  # nan or infinite
    else:
        assert shape.decode(text) == value


def test_records_keep_the_models_own_rule_for_aliases() -> None:
    validate = shape_of(Aliased, Names())
    assert validate.check({"fullName": "x"}) == Aliased(fullName="x")
    with pytest.raises(ValueError, match="fullName: Field required"):
        validate.check({"full_name": "x"})


def test_a_strict_record_takes_a_date_as_json_has_it() -> None:
    shape = shape_of(Strict, Names())
    assert shape.check({"day": "2024-02-29"}) == shape.decode_input('{"day":"2024-02-29"}') == Strict(day=DAY)


def test_a_validator_that_crashes_makes_a_misfit_that_does_not_quote() -> None:
    shape = shape_of(Crashing, Names())
    asked: list[tuple[Callable[[Any], Any], Any]] = [
        (shape.check, {"size": 77}),
        (shape.decode_input, '{"size":77}'),
    ]
    for ask, value in asked:
        with pytest.raises(ValueError, match="raise KeyError") as caught:
            ask(value)
        assert "77" not in str(caught.value)
