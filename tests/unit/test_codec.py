"""JSON that comes back as it went in, and keys that stay apart."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from onward.codec import canonical_key, check, dumps, loads, may_lose_digits, plain_key
from onward.errors import OutputError

ANY_TEXT = st.text(alphabet=st.characters(), max_size=20)  # lone surrogates and NUL too
WHOLE = st.integers() | st.integers(-(10**400), 10**400) | st.sampled_from([2**53 + 1, 2**63, 2**64, -(2**63) - 1])
FLOATS = st.floats(allow_nan=False, allow_infinity=False)
SCALARS = st.none() | st.booleans() | WHOLE | FLOATS | ANY_TEXT
VALUES = st.recursive(
    SCALARS, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(ANY_TEXT, inner, max_size=4), max_leaves=12
)
KEYS = st.recursive(ANY_TEXT.filter(bool) | WHOLE, lambda inner: st.lists(inner, min_size=1, max_size=3), max_leaves=5)


def same(left: Any, right: Any) -> bool:
    """Equal in value and in type, down to the sign of zero."""
    if type(left) is not type(right):
        return False
    if isinstance(left, dict):
        return list(left) == list(right) and all(same(left[name], right[name]) for name in left)
    if isinstance(left, list):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, float):
        return left == right and math.copysign(1, left) == math.copysign(1, right)
    return bool(left == right)


@settings(max_examples=400, deadline=None)
@given(VALUES)
@example({"": [1, 1.0, -0.0, 0, True, None, "\ud800", "\x00"]})
@example([10**400, 2**64, -(2**63)])
@example({"n": 1.7976931348623157e308, "small": 5e-324})
@example([[[[[[]]]]]])
def test_what_goes_in_comes_out(value: Any) -> None:
    text = dumps(value)
    assert same(loads(text), value)
    assert same(loads(text.encode()), value)
    assert same(json.loads(text), value), "another reader understands the same"
    assert "\n" not in text


@settings(max_examples=200, deadline=None)
@given(VALUES)
def test_what_can_be_written_passes_the_check(value: Any) -> None:
    check(value)


@settings(max_examples=200, deadline=None)
@given(VALUES)
def test_the_text_of_a_value_is_always_the_same(value: Any) -> None:
    assert dumps(loads(dumps(value))) == dumps(value)


def test_tuples_are_lists() -> None:
    assert dumps((1, ("a",), [])) == '[1,["a"],[]]'


class Text(str):
    """A kind of text of its own."""


class Number(int):
    """A kind of number of its own."""


@pytest.mark.parametrize(
    ("value", "path"),
    [
        (math.nan, "the output is nan"),
        (math.inf, "the output is inf"),
        ({"a": [1, {"b": -math.inf}]}, r"a\[1\]\.b is -inf"),
        ({"a": b"x"}, "a is of type bytes"),
        ([NotImplemented], r"\[0\] is of type NotImplementedType"),
        ({1: "x"}, "the output has the key 1 of type int"),
        ({"a": {None: 1}}, "a has the key None of type NoneType"),
        ({"a": {True: 1}}, "a has the key True"),
        ({"a": {"b": {2, 3}}}, r"a\.b is of type set"),
        ([Text("x")], r"\[0\] is of type Text"),
        ([Number(1)], r"\[0\] is of type Number"),
        (Text("x"), "the output is of type Text"),
        ({Text("x"): 1}, "the output has the key 'x' of type Text"),
        ([{"big": 10**30, "bad": 1j}], r"\[0\]\.bad is of type complex"),
        (["\ud800", math.nan], r"\[1\] is nan"),
        (__import__("decimal").Decimal("1.0"), "the output is of type Decimal"),
        (__import__("datetime").datetime(2024, 1, 1), "the output is of type datetime"),
        (__import__("uuid").UUID(int=1), "the output is of type UUID"),
    ],
    ids=repr,
)
def test_what_json_cannot_hold_is_named_by_its_path(value: Any, path: str) -> None:
    with pytest.raises(OutputError, match=path):
        dumps(value)
    with pytest.raises(OutputError, match=path):
        check(value)


def test_too_deep_is_an_error_with_words() -> None:
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    with pytest.raises((OutputError, RecursionError)):
        dumps(deep)
    with pytest.raises(ValueError, match="nested too deeply"):
        loads("[" * 100_000 + "]" * 100_000)


def test_what_contains_itself() -> None:
    loop: list[Any] = []
    loop.append(loop)
    with pytest.raises((OutputError, RecursionError)):
        dumps(loop)


@pytest.mark.parametrize(
    "text",
    ["", "{", "nan", "NaN", "Infinity", "-Infinity", "[1,]", "{'a':1}", "01", "1.", '"\t"', "[NaN]", "1 2", "\ufeff1"],
)
def test_what_is_no_json(text: str) -> None:
    with pytest.raises(ValueError, match=r"."):
        loads(text)
    with pytest.raises(ValueError, match=r"."):
        loads(text.encode())


def test_bytes_that_are_no_utf_8() -> None:
    with pytest.raises(ValueError, match=r"."):
        loads(b'"\xff\xfe"')


def test_a_number_beyond_every_float_may_be_read_but_not_handed_on() -> None:
    assert loads("1e400") == math.inf
    with pytest.raises(OutputError, match="the output is inf"):
        dumps(loads("1e400"))


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("9007199254740993", 2**53 + 1),
        ("18446744073709551616", 2**64),
        ("-9223372036854775809", -(2**63) - 1),
        ('{"id":12345678901234567890123}', {"id": 12345678901234567890123}),
        ('"\\ud800"', "\ud800"),
        ('"\\ud83d\\ude00"', "😀"),
        ('"\\u0000"', "\x00"),
        ("0.1", 0.1),
        ("1E2", 100.0),
        (" [1 , 2] ", [1, 2]),
        ('{"a":1,"a":2}', {"a": 2}),
    ],
)
def test_texts_that_fast_parsers_get_wrong(text: str, value: Any) -> None:
    assert same(loads(text), value)


def test_long_runs_of_digits_are_seen() -> None:
    assert may_lose_digits(b'{"a":1234567890123456}')
    assert not may_lose_digits(b'{"a":123456789012345,"b":123456789012345}')


# Keys.


@settings(max_examples=400, deadline=None)
@given(KEYS, KEYS)
@example(7, "7")
@example("007", "7")
@example([1, 2], ["1", "2"])
@example([[1], 2], [1, [2]])
@example(["a,b"], ["a", "b"])
@example(['a","b'], ["a", "b"])
@example("[1]", [1])
@example(10**400, str(10**400))
@example("\u00e9", "e\u0301")
def test_two_keys_have_one_text_only_if_they_are_the_same(left: Any, right: Any) -> None:
    assert (canonical_key(left) == canonical_key(right)) == same(left, right)


@settings(max_examples=300, deadline=None)
@given(KEYS)
def test_a_key_comes_back_from_its_text(key: Any) -> None:
    assert same(loads(canonical_key(key)), key)
    canonical_key(key).encode()


@pytest.mark.parametrize("key", [None, "", [], True, False, 1.0, math.nan, [1, None], ["a", ""], [[]], {"a": 1}, b"x"])
def test_what_is_no_key(key: Any) -> None:
    with pytest.raises(ValueError, match="the key"):
        canonical_key(key)


def test_keys_as_people_type_them() -> None:
    assert plain_key('"r17"') == "r17"
    assert plain_key("7") == "7"
    assert plain_key('["a",7]') == '["a",7]'
    assert plain_key(str(10**400)) == str(10**400)


GOLDEN = {
    '"r17"': "r17",
    "7": 7,
    "-7": -7,
    '["de",2024]': ["de", 2024],
    '["a",["b",1]]': ["a", ["b", 1]],
    '"\u00e9"': "\u00e9",
    '"\\ud800"': "\ud800",
    '"\\u0000"': "\x00",
    '"a\\"b\\\\c\\nd/e\x7f"': 'a"b\\c\nd/e\x7f',
}


@pytest.mark.parametrize(("text", "key"), GOLDEN.items())
def test_the_texts_of_keys_stay_what_they_are(text: str, key: Any) -> None:
    """They are identities in stores that exist."""
    assert canonical_key(key) == text
