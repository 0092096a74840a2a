"""JSON text taken apart and put together again."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onward.sinks import cells

scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
values = st.recursive(scalars, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=12)


@given(st.dictionaries(st.text(), values), st.sampled_from([None, 1, "\t"]), st.booleans())
def test_every_member_is_found_as_written(value: dict[str, object], indent: int | str | None, plain: bool) -> None:
    found = cells.members(json.dumps(value, indent=indent, ensure_ascii=plain))
    assert list(found) == list(value)
    assert {name: json.loads(cell) for name, cell in found.items()} == value


def test_digits_stay_and_the_last_of_a_repeated_name_counts() -> None:
    assert cells.members('{"a":1.10, "b" : 1E2,"c":-0.0,"a":18446744073709551617}') == {
        "a": "18446744073709551617",
        "b": "1E2",
        "c": "-0.0",
    }


def test_depth_is_no_matter() -> None:
    deep = "[" * 50_000 + "]" * 50_000
    assert cells.members(f'{{"a":{deep},"b":1}}') == {"a": deep, "b": "1"}


@pytest.mark.parametrize("text", ["", "[]", '{"a":1', '{"a"', '{"a":[1}', "{1:2}", '{"a":1 "b":', '{"a":}'])
def test_what_is_no_object_is_an_error_and_never_half_an_answer(text: str) -> None:
    with pytest.raises(ValueError, match=r"not a JSON object|not closed"):
        cells.members(text)
