"""JSON schemas of a user's own: what is sent of them, and what answers are held against."""

from __future__ import annotations

import json
from typing import Any

import pytest

from llm_server.schemas import refused
from onward.errors import UsageError
from onward.job.values import Misfit
from onward.llm.form import SchemaForm, form_of
from onward.llm.schemas import Schema

TICKET = {
    "$schema": "https://json-schema.org/draft/2020-12/schema",
    "title": "Ticket",
    "type": "object",
    "properties": {"team": {"enum": ["billing", "support"]}, "days": {"type": ["integer", "null"], "minimum": 0}},
    "required": ["team"],
}


def form(schema: Any) -> SchemaForm:
    return SchemaForm(Schema(schema, "answer.json"))


def test_a_schema_is_sent_strict_where_a_strict_one_lets_through_nothing_else() -> None:
    name, sent, strict = form(TICKET).schema
    assert (name, strict) == ("answer", True)
    assert sent == {
        "type": "object",
        "properties": {"team": {"enum": ["billing", "support"]}, "days": {"type": ["integer", "null"], "minimum": 0}},
        "required": ["team", "days"],
        "additionalProperties": False,
    }
    assert refused(sent) is None
    assert TICKET["required"] == ["team"]  # the user's own is as it was


@pytest.mark.parametrize(
    "loose",
    [
        {"type": "object", "properties": {"note": {"type": "string"}}},  # a field that may be missing, not null
        {"type": "object", "additionalProperties": {"type": "string"}},  # names of any kind
        {"type": "object", "properties": {"a": {"type": "array"}}, "required": ["a"]},
        {"type": "object", "properties": {"a": {"type": "string", "maxLength": 9}}, "required": ["a"]},
        {"type": "object", "properties": {"a": {"oneOf": [{"type": "null"}]}}, "required": ["a"]},
        {"type": "object", "properties": {"a": True}, "required": ["a"]},
    ],
)
def test_others_are_sent_as_they_are_and_not_strict(loose: dict[str, Any]) -> None:
    assert form(loose).schema == ("answer", loose, False)


def test_an_answer_is_held_against_the_whole_schema() -> None:
    read = form(TICKET).read
    assert read('{"team": "billing"}') == {"team": "billing"}
    assert read('```json\n{"team": "support", "days": 12345678901234567890}\n```')["days"] == 12345678901234567890
    with pytest.raises(Misfit, match=r"team: 'sales' is not one of \['billing', 'support'\]"):
        read('{"team": "sales"}')
    with pytest.raises(Misfit, match="'team' is a required property"):
        read("{}")
    with pytest.raises(Misfit, match="it is no JSON"):
        read("billing")


def test_a_date_is_checked_to_be_one() -> None:
    dated = form({"type": "object", "properties": {"due": {"type": "string", "format": "date"}}, "required": ["due"]})
    assert dated.read('{"due": "2026-02-28"}') == {"due": "2026-02-28"}
    with pytest.raises(Misfit, match="due: '2026-02-31' is not a 'date'"):
        dated.read('{"due": "2026-02-31"}')


def test_what_is_wrong_is_told_in_few_words() -> None:
    wrong = form({"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]})
    with pytest.raises(Misfit) as misfit:
        wrong.read(json.dumps({"a": "x" * 100_000}))
    assert len(str(misfit.value)) < 400


def test_a_schema_that_is_no_object_is_asked_for_in_one() -> None:
    listed = {"type": "array", "items": {"$ref": "#/$defs/name"}, "$defs": {"name": {"type": "string"}}}
    names = form(listed)
    assert names.schema == (
        "answer",
        {
            "type": "object",
            "properties": {"value": {"type": "array", "items": {"$ref": "#/$defs/name"}}},
            "required": ["value"],
            "additionalProperties": False,
            "$defs": {"name": {"type": "string"}},
        },
        True,
    )
    assert names.read('{"value": ["a"]}') == ["a"]
    with pytest.raises(Misfit, match=r"\[0\]: 7 is not of type 'string'"):
        names.read('{"value": [7]}')
    with pytest.raises(Misfit, match="no object with 'value' alone in it"):
        names.read('["a"]')


def test_a_wrapped_schema_still_refers_to_itself() -> None:
    tree = form({"anyOf": [{"type": "string"}, {"type": "array", "items": {"$ref": "#"}}]})
    inner: Any = tree.schema[1]["properties"]
    assert inner["value"]["anyOf"][1]["items"] == {"$ref": "#/properties/value"}
    assert tree.read('{"value": ["a", ["b"]]}') == ["a", ["b"]]


def test_an_object_by_reference_is_an_object() -> None:
    one = {"$ref": "#/$defs/Ticket", "$defs": {"Ticket": {"type": "object", "properties": {}, "required": []}}}
    assert form(one).read("{}") == {}


@pytest.mark.parametrize(
    ("wrong", "told"),
    [
        ({"type": "objekt"}, "answer.json: this is no JSON schema: type: 'objekt' is not valid"),
        ({"type": "string", "pattern": "("}, "answer.json: this is no JSON schema"),
        (["a"], "answer.json: a JSON schema for answers is an object, not list"),
        ({"type": "object", "properties": {"a": {"$ref": "#/$defs/b"}}}, "'#/$defs/b' leads nowhere"),
        ({"$ref": "https://example.com/schema.json"}, "'https://example.com/schema.json' leads nowhere"),
    ],
)
def test_what_is_no_schema_is_said_before_anything_is_asked(wrong: Any, told: str) -> None:
    with pytest.raises(UsageError) as error:
        form(wrong)
    assert told in str(error.value)


def test_a_form_may_stand_for_a_type() -> None:
    one = form(TICKET)
    assert form_of(one) is one
