"""Ranks: a value as text that sorts as the value does, in every database that compares texts byte by byte."""

from __future__ import annotations

import math
from collections.abc import Sequence
from datetime import UTC, date, datetime, time, timedelta
from decimal import Decimal
from enum import Enum
from typing import Any

LAST = "~"
LONGEST_TEXT = 80
MOST_DIGITS = 40
_BIAS = 500_000
_COMPLEMENT = str.maketrans("0123456789", "9876543210")


class NoRank(ValueError):
    """A value that has no order among others. The message does not quote it."""


def rank(value: Any) -> str:
    """Smallest first: numbers, then dates and times, then text; what is None or no number (NaN) comes last.

    Numbers of different types compare by their value, a date is its midnight, a time without a zone is UTC. Of several
    values in a tuple or list the first that differ decide. Raises NoRank.
    """
    if isinstance(value, Enum):
        value = value.value
    if value is None:
        return LAST
    if isinstance(value, str):
        return "3" + value.replace("\0", "\1").encode("utf-8", "replace").decode()[:LONGEST_TEXT]
    if isinstance(value, bool | int | float | Decimal):
        return _number(value)
    if isinstance(value, timedelta):
        return _number(Decimal(value // timedelta(microseconds=1)).scaleb(-6))
    if isinstance(value, date):
        return "2" + _moment(value)
    if isinstance(value, Sequence) and not isinstance(value, bytes | bytearray):
        return "\1".join(rank(one) for one in value) or LAST
    raise NoRank(f"a priority is a number, date, text, None or a tuple of them, not {type(value).__name__}")


def _moment(value: date) -> str:
    if not isinstance(value, datetime):
        value = datetime.combine(value, time())
    if value.tzinfo is not None:
        try:
            value = value.astimezone(UTC).replace(tzinfo=None)
        except OverflowError:  # within a day of the calendar's ends
            value = value.replace(tzinfo=None)
    return value.isoformat(timespec="microseconds")


def _number(value: float | Decimal) -> str:
    """`1`, then the sign, the exponent and the digits, both turned round below zero."""
    if isinstance(value, float | Decimal) and not math.isfinite(value):
        return LAST if value != value else "12:" if value > 0 else "10"
    exact = Decimal(repr(value)) if isinstance(value, float) else Decimal(value)
    negative, digits, exponent = exact.as_tuple()
    text = "".join(map(str, digits)).lstrip("0")
    if not text:
        return "11"
    assert isinstance(exponent, int)
    place = min(max(len(text) + exponent + _BIAS, 0), 2 * _BIAS - 1)
    written = f"{place:06d}" + text.rstrip("0")[:MOST_DIGITS]
    return f"10{written.translate(_COMPLEMENT)}~" if negative else f"12{written}"
