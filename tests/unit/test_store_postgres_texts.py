"""Texts as PostgreSQL holds them, and the SQL that is made of the short forms."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onward.store.postgres import statements, texts
from onward.store.sql.statements import blocks

TEXTS = st.text(st.sampled_from("\x00\x01\x02ab\x7fé😀"))


@given(TEXTS)
def test_what_is_held_comes_back_and_has_no_nul(text: str) -> None:
    held = texts.held(text)
    assert "\0" not in held
    assert texts.given(held) == text


@given(TEXTS, TEXTS)
def test_the_order_of_bytes_stays(one: str, two: str) -> None:
    assert (texts.held(one).encode() < texts.held(two).encode()) == (one.encode() < two.encode())


@given(st.recursive(TEXTS | st.integers(-5, 5), lambda inner: st.lists(inner) | st.dictionaries(TEXTS, inner)))
def test_json_is_held_likewise(value: object) -> None:
    held = texts.held_json(json.dumps(value))
    assert "\\u0000" not in held
    assert texts.given_json(held) == value


@pytest.mark.parametrize("text", ['"\\\\u0000"', '["\\\\\\\\u0001"]', '"\\\\u0001 and \\u0001"', "1.0"])
def test_escapes_of_escapes_are_no_nuls(text: str) -> None:
    assert texts.given_json(texts.held_json(text)) == json.loads(text)


def test_parameters_are_numbered_once_and_typed_by_their_names() -> None:
    made = statements.compiled("SELECT :name, :instance, :name::json FROM x WHERE y = :now AND z::text = 'a'")
    assert made.names == ("name", "instance", "now")
    assert made.text == (
        "SELECT $1::text, $2::bigint, $1::text::json FROM x WHERE y = $3::double precision AND z::text = 'a'"
    )


def test_rows_are_listed_by_their_places() -> None:
    made = statements.compiled("SELECT * FROM listed(:rows) AS f(id bigint, _ text, step text, more json)")
    assert made.text == (
        "SELECT * FROM (SELECT (value ->> 0)::bigint AS id, value ->> 2 AS step, value -> 3 AS more, "
        "place - 1 AS place FROM json_array_elements($1::json) WITH ORDINALITY AS every(value, place)) AS f"
    )


def test_arrays_are_made_of_lists() -> None:
    made = statements.compiled("SELECT ids(:rows), texts(f.kept)")
    assert made.text == (
        "SELECT ARRAY(SELECT value::bigint FROM json_array_elements_text($1::json) AS every(value)), "
        "ARRAY(SELECT value FROM json_array_elements_text(f.kept) AS every(value))"
    )


def test_both_dialects_have_the_same_blocks() -> None:
    assert set(blocks("onward.store.sqlite")) == set(blocks(statements.PACKAGE))
