"""Ranks sort as the values do, compared byte by byte."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal
from enum import Enum
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onward.policy.rank import LAST, NoRank, rank

NUMBERS = st.one_of(
    st.integers(-(10**30), 10**30),
    st.floats(allow_nan=False),
    st.decimals(allow_nan=False, allow_infinity=False, min_value=-(10**9), max_value=10**9, places=6),
)


def as_bytes(value: Any) -> bytes:
    return rank(value).encode()


@given(NUMBERS, NUMBERS)
def test_numbers_of_all_types_sort_by_their_value(one: Any, other: Any) -> None:
    left, right = as_bytes(one), as_bytes(other)
    assert (left < right, left == right) == (exact(one) < exact(other), exact(one) == exact(other))


def exact(value: Any) -> Decimal:
    return Decimal(repr(value)) if isinstance(value, float) else Decimal(value)


@given(st.datetimes(), st.datetimes())
def test_times_sort_by_time(one: datetime, other: datetime) -> None:
    assert (as_bytes(one) < as_bytes(other)) == (one < other)


@given(st.text(max_size=20), st.text(max_size=20))
def test_texts_sort_by_their_characters(one: str, other: str) -> None:
    one, other = one.replace("\0", ""), other.replace("\0", "")
    assert (as_bytes(one) < as_bytes(other)) == (one.encode("utf-8", "replace") < other.encode("utf-8", "replace"))


@given(st.tuples(st.integers(-5, 5), st.dates()), st.tuples(st.integers(-5, 5), st.dates()))
def test_of_several_values_the_first_that_differ_decide(one: Any, other: Any) -> None:
    assert (as_bytes(one) < as_bytes(other)) == (one < other)


def test_kinds_come_in_one_order_and_none_comes_last() -> None:
    class Tier(Enum):
        GOLD = 1

    east = timezone(timedelta(hours=5))
    row = [
        float("-inf"), -3, False, Decimal("0.5"), Tier.GOLD, timedelta(seconds=2), 10**40, float("inf"),
        datetime(2026, 1, 1, 3, tzinfo=east), date(2026, 1, 1), datetime(2026, 1, 1, 1, tzinfo=UTC),
        "", "Z", "a", "ä", None,
    ]  # fmt: skip
    shuffled = row[::-1]
    assert sorted(shuffled, key=as_bytes) == row
    assert rank(float("nan")) == rank(None) == rank(()) == LAST


def test_ranks_are_short_and_hold_no_nul() -> None:
    assert len(rank("x" * 10_000)) < 100
    assert len(rank(7**500)) < 60
    assert "\0" not in rank("a\0b")


@pytest.mark.parametrize("value", [b"x", {"a": 1}, object()])
def test_what_has_no_order_is_refused(value: Any) -> None:
    with pytest.raises(NoRank, match="a priority is a number, date, text"):
        rank(value)
