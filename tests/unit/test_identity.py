"""Idempotency keys: what they are, for ever; and which obligations are alike."""

from __future__ import annotations

import enum
import hashlib
import os
import subprocess
import sys
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onward.policy.identity import NoIdentity, as_declared, idempotency_key

# A far side remembers these. A vector that changes means that what was sent once can be sent again.
GOLDEN: list[tuple[str, dict[str, Any], str]] = [
    (
        "annual-report",
        {"entity": "ACME-1", "jurisdiction": "DE", "filing_type": "annual", "filing_year": 2024},
        "ow1-2dae76b2b36aa2b8cf478b506e000756f00842c8",
    ),
    ("e", {"id": "a"}, "ow1-bb41f0306420114ba5d04a2214ab1b2a9b9be2eb"),
    ("e", {"id": "7"}, "ow1-c008ea945606d376a39e22f1d40ff28149b7f582"),
    ("e", {"id": "007"}, "ow1-139bb65155f59308f5c910ed6dcce623f6aa3ba5"),
    ("e", {"id": -7}, "ow1-623f82e38993da6426b1b247a7c75fe59be719c3"),
    ("e", {"id": 2**80}, "ow1-32d93ce5c953418882c424aa36f4ba6b406188bf"),
    ("e", {"id": True}, "ow1-f15a15b6da70c7f12321ae712dd9595735646e0e"),
    ("e", {"id": False}, "ow1-3c0a17f0f16903ca265fda196e88501a06ff08fa"),
    ("e", {"id": "true"}, "ow1-527909c66bef52d36769546a4d58f2cb57bb444d"),
    ("e", {"id": date(2024, 2, 29)}, "ow1-f7d363ad31d028c97cabee06acc97e17d39bfe5a"),
    ("e", {"id": Decimal("19.90")}, "ow1-8866b32ca2de622a723f120272a78682da333044"),
    ("e", {"id": Decimal("-0.5")}, "ow1-5bf5379bc7892c26a9de6c80a66b3f254ca3bdbb"),
    ("e", {"id": Decimal("1E+3")}, "ow1-d046bdc731a3e7a3391b5d2263df90182a6fd2ca"),
    ("e", {"id": "\u00e4"}, "ow1-f6835b0d5ca14696c0b1ee4f2d44d2e907a016fc"),
    ("e", {"id": "a\u0308"}, "ow1-6c794f9f77e83d8602cbaee4aaed3746d70899bc"),
    ("e", {"id": "\ud800"}, "ow1-360d3725c21cba5b87b588bcc712a3c5336a08d8"),
    ("e", {"id": "a\x00b"}, "ow1-d8d9ff94f25ab3672f240f884723e8c1c27f0e90"),
    ("e", {"id": " a"}, "ow1-4d6c7fd4cb5e79fbb207b0167b847a2c024f7fee"),
    ("e", {"id": "a", "part": None}, "ow1-0c209c0967b88b7798536e03168f68412a18d85d"),
    ("e", {"id": "a", "part": ""}, "ow1-e39a6d51be4419fa98e74f2c2251aff9f718dc12"),
    ('\u00e9"', {"id": "a"}, "ow1-f211f0e5be561c68db76c0557d01d178d53250da"),
]


class Colour(enum.StrEnum):
    RED = "red"


class Plain(str, enum.Enum):  # noqa: UP042 - what many models still have, whose text is the name of its member
    RED = "red"


class Level(enum.IntEnum):
    HIGH = 7


@pytest.mark.parametrize(("effect", "fields", "key"), GOLDEN)
def test_golden_vectors(effect: str, fields: dict[str, Any], key: str) -> None:
    assert idempotency_key(effect, fields) == key


def test_the_encoding_spelled_out() -> None:
    said = '["annual-report",[["due","text","2024-02-29"],["fee","decimal","199e-1"],["year","integer","2024"]]]'
    expected = "ow1-" + hashlib.blake2b(said.encode(), digest_size=20).hexdigest()
    assert idempotency_key("annual-report", {"year": "2024", "fee": Decimal("19.90"), "due": "2024-02-29"}) == expected


ALIKE = [
    (7, "7"),
    (-7, "-7"),
    (0, "0"),
    (2**80, str(2**80)),
    (7, Decimal("7")),
    (7, Decimal("7.00")),
    (1000, Decimal("1E+3")),
    (0, Decimal("-0.0")),
    (Decimal("19.9"), Decimal("19.900")),
    (date(2024, 2, 29), "2024-02-29"),
    (Colour.RED, "red"),
    (Plain.RED, "red"),
    (Level.HIGH, 7),
]
UNLIKE = [
    ("7", "07"),
    ("7", " 7"),
    ("7", "7 "),
    ("7", "+7"),
    ("7", "7.0"),
    ("0", "-0"),
    ("7", "\u0667"),
    (7, -7),
    (1, True),
    (0, False),
    ("1", True),
    ("true", True),
    ("", None),
    (0, None),
    ("null", None),
    ("a", "A"),
    ("\u00e4", "a\u0308"),
    ("19.9", Decimal("19.9")),
    ("1e3", 1000),
    ("2024-02-29", "2024-2-29"),
    ("7\n", "7"),
]


def key(value: Any, **more: Any) -> str:
    return idempotency_key("e", {"id": value, "other": "x", **more})


@pytest.mark.parametrize(("one", "other"), ALIKE)
def test_alike(one: Any, other: Any) -> None:
    assert key(one) == key(other)


@pytest.mark.parametrize(("one", "other"), UNLIKE)
def test_unlike(one: Any, other: Any) -> None:
    assert key(one) != key(other)


def test_the_name_of_the_effect_and_those_of_its_fields_belong_to_it() -> None:
    assert idempotency_key("a", {"id": 1}) != idempotency_key("b", {"id": 1})
    assert idempotency_key("a", {"id": 1}) != idempotency_key("a", {"no": 1})
    assert idempotency_key("a", {"x": "1", "y": "2"}) != idempotency_key("a", {"x": "2", "y": "1"})


@pytest.mark.parametrize(
    ("value", "words"),
    [
        (1.5, "float, which has no exact text; make it an integer"),
        (float("nan"), "float"),
        (Decimal("NaN"), "not a finite number; correct it"),
        (Decimal("sNaN"), "not a finite number"),
        (Decimal("Infinity"), "not a finite number"),
        (datetime(2024, 2, 29, tzinfo=UTC), "datetime, whose text depends on its zone and precision; make it a date"),
        (b"a", "a bytes; an effect's key is made of text"),
        (["a"], "a list;"),
        (("a",), "a tuple;"),
        ({"a": 1}, "a dict;"),
        (object(), "an object;"),
        (10**5000, "more than 4,000 digits; make it text"),
        (Decimal("1E+5000"), "more than 4,000 digits"),
        (Decimal("1" * 4200), "more than 4,000 digits"),
    ],
    ids=lambda value: type(value).__name__,
)
def test_what_has_no_exact_text_is_refused_and_told_what_to_do(value: Any, words: str) -> None:
    with pytest.raises(NoIdentity, match=words) as caught:
        key(value)
    assert str(caught.value).startswith("field 'id' ")


@pytest.mark.parametrize("declared", [str, int, bool, date, Decimal])
def test_no_declared_type_makes_a_float_or_a_moment_an_identity(declared: type) -> None:
    for value, words in ((1.0, "make it an integer"), (datetime(2024, 1, 1), "make it a date")):
        with pytest.raises(NoIdentity, match=words):
            key(as_declared("id", value, declared))


def test_a_refusal_does_not_quote_the_value() -> None:
    with pytest.raises(NoIdentity) as caught:
        key(["secret"])
    assert "secret" not in str(caught.value)
    with pytest.raises(NoIdentity) as caught:
        as_declared("id", "secret", int)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("fields", [{"id": None}, {"id": ""}, {"id": None, "part": ""}, {}])
def test_nothing_at_all_is_no_identity(fields: dict[str, Any]) -> None:
    with pytest.raises(NoIdentity, match="empty"):
        idempotency_key("e", fields)


# Declared types.


@pytest.mark.parametrize(
    ("text", "declared", "meant"),
    [
        ("2024", int, 2024),
        ("-5", int, -5),
        ("2024-02-29", date, date(2024, 2, 29)),
        ("19.90", Decimal, Decimal("19.9")),
        ("true", bool, True),
        ("false", bool, False),
        (7, str, "7"),
        (7, Decimal, Decimal(7)),
        ("007", str, "007"),
        (None, int, None),
        (7, None, 7),
    ],
)
def test_text_is_read_as_the_declared_type(text: Any, declared: type | None, meant: Any) -> None:
    found = as_declared("id", text, declared)
    assert (found, type(found)) == (meant, type(meant))
    assert key(found) == key(meant)


@pytest.mark.parametrize(
    ("value", "declared"),
    [
        ("007", int),
        ("7.0", int),
        (" 7", int),
        ("x", int),
        (True, int),
        (Decimal(7), int),
        ("yes", bool),
        (1, bool),
        ("29.2.2024", date),
        ("x", Decimal),
        (True, str),
        (date(2024, 2, 29), str),
    ],
)
def test_what_is_not_of_the_declared_type_is_refused(value: Any, declared: type) -> None:
    with pytest.raises(NoIdentity, match=f"field 'id' is .*, the effect's key declares {declared.__name__}"):
        as_declared("id", value, declared)


# Properties.

SCALARS = st.one_of(
    st.none(),
    st.booleans(),
    st.integers(),
    st.text(),
    st.dates(),
    st.decimals(min_value=-(10**30), max_value=10**30, allow_nan=False),
)
FIELDS = st.dictionaries(st.text(min_size=1, max_size=8), SCALARS, min_size=1, max_size=4)


def said(fields: dict[str, Any]) -> Any:
    """What obligation these fields mean, by rules of their own."""

    def one(value: Any) -> Any:
        if isinstance(value, bool) or value is None:
            return repr(value)
        if isinstance(value, date):
            return "text", value.isoformat()
        if isinstance(value, Decimal):
            return ("number", int(value)) if value == value.to_integral_value() else ("decimal", value)
        if isinstance(value, int):
            return "number", value
        try:
            return ("number", int(value)) if str(int(value)) == value else ("text", value)
        except ValueError:
            return "text", value

    return {name: one(value) for name, value in fields.items()}


@given(FIELDS, st.randoms(use_true_random=False))
def test_the_order_of_the_fields_does_not_matter(fields: dict[str, Any], chance: Any) -> None:
    names = list(fields)
    chance.shuffle(names)
    fields["always"] = "x"
    assert idempotency_key("e", fields) == idempotency_key("e", {"always": "x"} | {n: fields[n] for n in names})


@given(FIELDS, FIELDS)
def test_keys_are_alike_exactly_where_obligations_are(one: dict[str, Any], other: dict[str, Any]) -> None:
    one, other = {**one, "always": "x"}, {**other, "always": "x"}
    assert (idempotency_key("e", one) == idempotency_key("e", other)) == (said(one) == said(other))


@given(SCALARS, SCALARS)
def test_one_field_that_differs_makes_another_obligation(one: Any, other: Any) -> None:
    assert (key(one) == key(other)) == (said({"id": one}) == said({"id": other}))


@given(st.integers())
def test_an_integer_and_its_text_are_alike(number: int) -> None:
    assert key(number) == key(str(number)) == key(Decimal(number)) == key(as_declared("id", str(number), int))


@given(st.text(min_size=1), st.text(min_size=1))
def test_no_two_texts_are_alike(one: str, other: str) -> None:
    assert (key(one) == key(other)) == (one == other)


SCRIPT = """
import locale, decimal
from datetime import date
from decimal import Decimal
from onward.policy.identity import idempotency_key
try:
    locale.setlocale(locale.LC_ALL, "")
except locale.Error:
    pass
decimal.getcontext().prec = 2
names = {"entity", "jurisdiction", "year", "fee", "due"}  # a set: its order is the process's own
values = {"entity": "\\u00c4", "jurisdiction": "DE", "year": 2024, "fee": Decimal("1234.50"), "due": date(2024, 2, 9)}
print(idempotency_key("annual-report", {name: values[name] for name in names}))
"""


def test_neither_hash_seed_nor_locale_nor_zone_matter() -> None:
    told = set()
    for seed, lang, zone in (("0", "C", "UTC"), ("1", "de_DE.UTF-8", "Asia/Tokyo"), ("77", "tr_TR.UTF-8", "EST5EDT")):
        environment = {**os.environ, "PYTHONHASHSEED": seed, "LC_ALL": lang, "TZ": zone}
        done = subprocess.run(
            [sys.executable, "-c", SCRIPT], env=environment, capture_output=True, text=True, check=True
        )
        told.add(done.stdout.strip())
    assert told == {"ow1-995fa466e6d45332030452c624cd312f7eef1f83"}
