"""`onward key`: the same key as a run would use, from texts alone."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from job_files import fresh_imports, write

from onward.cli.main import call
from onward.job.loading import load_job
from onward.policy.identity import idempotency_key

HEADER = """
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from enum import StrEnum
from typing import Annotated, TypedDict
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, field_validator, model_validator

class Kind(StrEnum):
    ANNUAL = "annual"
"""
FILING = """
class Filing(BaseModel):
    entity: str
    year: int
    due: date
    fee: Decimal
    late: bool = False
    kind: Kind = Kind.ANNUAL
"""
KEY = '("entity", "year", "due", "fee", "late", "kind")'

Job = Callable[..., str]


@pytest.fixture
def job(tmp_path: Path) -> Iterator[Job]:
    def make(types: str = FILING, record: str = "Filing", key: str = KEY, more: str = "") -> str:
        text = f"""{HEADER}{types}
job = Job("filings", EmptySource(), record={record})

@job.effect("annual-report", key={key}, keyed=True)
def submit(filing, idempotency_key): ...
{more}
"""
        return str(write(tmp_path / "job.py", text))

    with fresh_imports():
        yield make


Ask = Callable[..., str]


@pytest.fixture
def ask(capsys: pytest.CaptureFixture[str], tmp_path: Path) -> Ask:
    def asked(*words: str) -> str:
        capsys.readouterr()
        code = call(["key", *words])
        told = capsys.readouterr()
        assert (code, told.err) == (0, ""), told.err
        assert not (tmp_path / ".onward").exists()
        return told.out

    return asked


@pytest.fixture
def refused(capsys: pytest.CaptureFixture[str]) -> Ask:
    def asked(*words: str) -> str:
        capsys.readouterr()
        assert call(["key", *words]) == 2
        told = capsys.readouterr()
        assert told.out == ""
        return told.err

    return asked


def used(path: str, record: Any) -> str:
    """The key that a run uses for this record."""
    effect = load_job(path).plan().steps[0].effect
    assert effect is not None
    return idempotency_key(effect.name, effect.identify(json.dumps(record)))


VALUES = ("ACME-1", "2024", "2024-02-29", "50.00", "true", "annual")
RECORD = {"entity": "ACME-1", "year": 2024, "due": "2024-02-29", "fee": "50.00", "late": True, "kind": "annual"}


def test_the_key_stands_alone_on_the_output(job: Job, ask: Ask) -> None:
    path = job()
    assert ask(path, *VALUES) == used(path, RECORD) + "\n"


def test_as_json_with_what_it_is_made_of(job: Job, ask: Ask) -> None:
    path = job()
    assert json.loads(ask(path, *VALUES, "--json")) == {
        "effect": "annual-report",
        "key": used(path, RECORD),
        "fields": {**RECORD, "fee": "50.00"},
    }


TYPES = {
    "dataclass": "@dataclass\nclass Filing:\n    entity: str\n    year: int\n    late: bool\n",
    "TypedDict": "class Filing(TypedDict):\n    entity: str\n    year: int\n    late: bool\n",
    "strict": "class Filing(BaseModel):\n    model_config = ConfigDict(strict=True)\n"
    "    entity: str\n    year: int\n    late: bool\n",
    "alias": "class Filing(BaseModel):\n    entity: str = Field(alias='e')\n    year: int = Field(alias='y')\n"
    "    late: bool = Field(alias='l')\n",
    "a check of all": "class Filing(BaseModel):\n    entity: str\n    year: int\n    late: bool\n"
    "    @model_validator(mode='after')\n    def whole(self):\n        assert self.year > 1900\n        return self\n",
    "in itself": "class Filing(BaseModel):\n    entity: str\n    year: int\n    late: bool\n"
    "    of: 'Filing | None' = None\n",
}


@pytest.mark.parametrize("types", TYPES.values(), ids=TYPES)
def test_values_are_read_as_the_records_type_reads_them(job: Job, ask: Ask, types: str) -> None:
    path = job(types, key='("entity", "year", "late")')
    record: dict[str, Any] = {"entity": "7", "year": 2024, "late": True}
    if "alias" in types:
        record = {"e": "7", "y": 2024, "l": True}
    assert ask(path, "7", "2024", "true").strip() == used(path, record)


CHECKED = {
    "a check of the field": "class Filing(BaseModel):\n    entity: str\n    @field_validator('entity')\n"
    "    def upper(cls, value):\n        return value.upper()\n",
    "a check in the annotation": "class Filing(BaseModel):\n"
    "    entity: Annotated[str, BeforeValidator(lambda value: value.upper())]\n",
    "the model's settings": "class Filing(BaseModel):\n    model_config = ConfigDict(str_to_upper=True)\n"
    "    entity: str\n",
}


@pytest.mark.parametrize("types", CHECKED.values(), ids=CHECKED)
def test_what_the_type_does_to_a_field_is_done(job: Job, ask: Ask, types: str) -> None:
    path = job(types, key='"entity"')
    assert json.loads(ask(path, "acme", "--json"))["fields"] == {"entity": "ACME"}
    assert ask(path, "acme").strip() == used(path, {"entity": "acme"})


def test_without_a_type_a_number_and_its_text_are_alike(job: Job, ask: Ask) -> None:
    path = job("", "None", '("entity", "year")')
    assert ask(path, "7", "2024").strip() == used(path, {"entity": "7", "year": 2024})
    assert ask(path, "7", "2024").strip() == used(path, {"entity": 7, "year": "2024"})
    assert ask(path, "07", "2024") != ask(path, "7", "2024")


def test_or_by_the_types_that_the_key_declares(job: Job, ask: Ask, refused: Ask) -> None:
    path = job("", "None", '{"id": str, "fee": Decimal, "due": date}')
    record = {"id": "007", "fee": "50.0", "due": "2024-02-29"}
    assert ask(path, "007", "50.00", "2024-02-29").strip() == used(path, record)
    assert "field 'due' is a str, the effect's key declares date" in refused(path, "007", "50", "29.2.2024")


def test_values_that_begin_with_a_dash(job: Job, ask: Ask) -> None:
    path = job("", "None", '"id"')
    assert ask(path, "--", "-7").strip() == used(path, {"id": -7})


SECOND = """
@job.effect("late-fee", key="entity", keyed=True)
def pay(filing, idempotency_key): ...
"""


def test_with_several_effects_one_is_named(job: Job, ask: Ask, refused: Ask) -> None:
    path = job(more=SECOND)
    told = refused(path, "ACME-1")
    assert "several effects" in told
    assert "annual-report, late-fee" in told
    key = ask(path, "ACME-1", "--effect", "late-fee").strip()
    assert key == idempotency_key("late-fee", {"entity": "ACME-1"})
    assert ask(path, *VALUES, "--effect", "annual-report").strip() == used(path, RECORD)
    assert "no effect 'pay' (choices: annual-report, late-fee)" in refused(path, "x", "--effect", "pay")


@pytest.mark.parametrize("values", [(), ("ACME-1",), (*VALUES, "more")])
def test_every_field_needs_its_value(job: Job, refused: Ask, values: tuple[str, ...]) -> None:
    assert "made of entity, year, due, fee, late, kind, in this order" in refused(job(), *values)


def test_what_does_not_fit_is_told_without_the_value(job: Job, refused: Ask) -> None:
    told = refused(job(), "ACME-1", "secret", *VALUES[2:])
    assert "'year' does not fit the record type" in told
    assert "integer" in told
    assert "secret" not in told


def test_nothing_is_no_key(job: Job, refused: Ask) -> None:
    assert "empty" in refused(job("", "None", '"id"'), "")


def test_a_job_without_effects_has_no_keys(tmp_path: Path, refused: Ask) -> None:
    path = write(tmp_path / "job.py", 'job = Job("plain", EmptySource())\n\n@job.step\ndef echo(record): ...\n')
    with fresh_imports():
        assert "has no effects" in refused(str(path), "7")


def test_the_store_alone_does_not_know(tmp_path: Path, refused: Ask) -> None:
    assert "needs JOB" in refused("7", "--job", "filings", "--store", str(tmp_path / "s.db"))
    assert not (tmp_path / "s.db").exists()
