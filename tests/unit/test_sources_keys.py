"""Keys from validated records, and misfits."""

from __future__ import annotations

import dataclasses
import datetime as dt
import decimal
import enum
import uuid
from pathlib import Path
from typing import Any

import pydantic
import pytest
from source_reading import read_all
from typing_extensions import TypedDict

from onward.errors import MisfitRecord
from onward.model import BadLine, SourceRecord
from onward.sources.csv_file import csv
from onward.sources.jsonl import jsonl
from onward.sources.keys import RecordMaker


def validating(kind: Any) -> Any:
    adapter = pydantic.TypeAdapter(kind)

    def validate(value: Any) -> Any:
        try:
            return adapter.validate_python(value)
        except pydantic.ValidationError as error:
            raise MisfitRecord(error.errors()[0]["msg"]) from error

    return validate


class Number(enum.IntEnum):
    ONE = 1


class Colour(enum.Enum):
    RED = "red"


class Model(pydantic.BaseModel):
    id: Any


def key_of(part: Any) -> str:
    record = RecordMaker("f", ("id",), lambda _: Model(id=part)).make({"id": "raw"}, "{}", 1)
    assert isinstance(record, SourceRecord), record
    return record.key


@pytest.mark.parametrize(
    ("part", "key"),
    [
        ("a", '"a"'),
        (7, "7"),
        (Number.ONE, "1"),
        (Colour.RED, '"red"'),
        (dt.date(2024, 1, 2), '"2024-01-02"'),
        (dt.datetime(2024, 1, 2, tzinfo=dt.UTC), '"2024-01-02T00:00:00Z"'),
        (uuid.UUID(int=1), '"00000000-0000-0000-0000-000000000001"'),
        (decimal.Decimal("1.10"), '"1.10"'),
    ],
)
def test_key_fields_of_all_kinds(part: Any, key: str) -> None:
    assert key_of(part) == key


@pytest.mark.parametrize("part", [None, "", 7.0, True, [1], pydantic.SecretStr("x"), decimal.Decimal("nan")])
def test_what_is_no_key(part: Any) -> None:
    bad = RecordMaker("f", ("id",), lambda _: Model(id=part)).make({"id": "raw"}, "{}", 1)
    assert isinstance(bad, BadLine)
    assert bad.where == "f:1"


def test_keys_come_from_the_validated_record(tmp_path: Path) -> None:
    @dataclasses.dataclass
    class Row:
        id: int

    class Typed(TypedDict):
        id: int

    class Aliased(pydantic.BaseModel):
        number: int = pydantic.Field(alias="id")

    path = tmp_path / "in.csv"
    path.write_text("id,t\n007,a\n")
    assert read_all(csv(path, key="id")).keys == ['"007"']
    for kind in (Row, Typed):
        reading = read_all(csv(path, key="id"), validate=validating(kind))
        assert reading.keys == ["7"]
        assert reading.records[0].value == '{"id":"007","t":"a"}'
    assert read_all(csv(path, key=("id", "t")), validate=validating(Row)).keys == ['[7,"a"]']
    assert read_all(csv(path, key="id"), validate=validating(Aliased)).keys == ['"007"']


def test_a_misfit_keeps_the_key_of_its_raw_fields(tmp_path: Path) -> None:
    class Row(pydantic.BaseModel):
        id: int
        n: int

    path = tmp_path / "in.jsonl"
    path.write_text('{"id":1,"n":1}\n{"id":2,"n":"x"}\n{"id":null,"n":"x"}\n{"id":"a","n":1}\n[]\n')
    reading = read_all(jsonl(path, key="id"), validate=validating(Row))
    assert [(record.key, bool(record.invalid)) for record in reading.records] == [
        ("1", False),
        ("2", True),
        ('"a"', True),
    ]
    assert reading.records[1].value == '{"id":2,"n":"x"}'
    assert reading.reasons[3].startswith('the key field "id" is null; besides, ')
    assert 5 in reading.reasons


def test_validation_sees_every_digit(tmp_path: Path) -> None:
    seen = []
    path = tmp_path / "in.jsonl"
    path.write_text('{"id":1,"n":12345678901234567890123}\n{"id":2,"n":1}\n')
    read_all(jsonl(path, key="id"), validate=lambda value: seen.append(value["n"]) or value)
    assert seen == [12345678901234567890123, 1]


def test_methods_are_not_fields(tmp_path: Path) -> None:
    class Row(pydantic.BaseModel):
        id: int

    path = tmp_path / "in.jsonl"
    path.write_text('{"id":1,"copy":"c"}\n')
    assert read_all(jsonl(path, key="copy"), validate=validating(Row)).keys == ['"c"']


def test_raw_text_of_bad_lines_is_cut() -> None:
    bad = RecordMaker("f", ("id",), None).make({"no": "x" * 50_000}, "x" * 50_000, 1)
    assert isinstance(bad, BadLine)
    assert len(bad.raw) < 11_000
