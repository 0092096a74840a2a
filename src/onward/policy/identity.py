"""Idempotency keys: a pure function of an effect's name and of what its record says that the obligation is.

Never of order, attempt, worker, time, locale or `hash()`; the same obligation has the same key in every job, on every
machine and in every year. The prefix is the version of the encoding.
"""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from datetime import date, datetime
from decimal import Decimal, InvalidOperation
from typing import Any

PREFIX = "ow1-"
DIGEST_BYTES = 20
FIELD_TYPES = (str, int, bool, date, Decimal)
_INTEGER = re.compile(r"-?(0|[1-9][0-9]*)")


class NoIdentity(ValueError):
    """A value that cannot be part of an identity. The message says what to do and does not quote the value."""


def idempotency_key(effect: str, fields: Mapping[str, Any]) -> str:
    """The key of one obligation: `fields` by name, in any order.

    Values are text, integers, booleans, dates, Decimals or None. An integer, its decimal text and an integral Decimal
    are alike, and a date and its ISO text, so that a file read without types means the same obligations.

    Raises NoIdentity for floats and everything else that has no exact text.
    """
    encoded = [[name, *_encoded(name, value)] for name, value in sorted(fields.items())]
    if all(value is None or value == "" for value in fields.values()):
        raise NoIdentity("all fields of the identity are empty")
    text = json.dumps([effect, encoded], ensure_ascii=True, separators=(",", ":"))
    return PREFIX + hashlib.blake2b(text.encode(), digest_size=DIGEST_BYTES).hexdigest()


def as_declared(name: str, value: Any, declared: type | None) -> Any:
    """The value as the declared type has it; text, as files hold it, is read as that type. Raises NoIdentity."""
    if declared is None or value is None or type(value) is declared:
        return value
    if declared is Decimal and type(value) is int:
        return Decimal(value)
    if declared is str and type(value) is int:
        return str(value)
    if isinstance(value, str) and declared is not str:
        try:
            return _from_text(value, declared)
        except (ValueError, InvalidOperation):
            pass
    raise NoIdentity(
        f"field '{name}' is {_article(type(value).__name__)}, the effect's key declares {declared.__name__}"
    )


def _from_text(text: str, declared: type) -> Any:
    if declared is int:
        if not _INTEGER.fullmatch(text):
            raise ValueError
        return int(text)
    if declared is date:
        return date.fromisoformat(text)
    if declared is Decimal:
        return Decimal(text)
    if declared is bool and text in ("true", "false"):
        return text == "true"
    raise ValueError


def _encoded(name: str, value: Any) -> tuple[str, str]:
    """A tag and text that no other value has."""
    kind = type(value)
    if value is None:
        return "null", ""
    if kind is bool:
        return "bool", "true" if value else "false"
    if kind is int:
        return "integer", str(value)
    if isinstance(value, str):
        whole = _INTEGER.fullmatch(value) and value != "-0"
        return ("integer" if whole else "text"), str(value)
    if isinstance(value, date) and not isinstance(value, datetime):
        return "text", value.isoformat()
    if kind is Decimal:
        return _encoded_decimal(name, value)
    if kind is float:
        raise NoIdentity(
            f"field '{name}' is a float, which has no exact text; make it an integer (cents), a Decimal or text"
        )
    raise NoIdentity(
        f"field '{name}' is {_article(kind.__name__)}; an effect's key is made of text, integers, booleans, dates, "
        "Decimals and None"
    )


def _encoded_decimal(name: str, value: Decimal) -> tuple[str, str]:
    if not value.is_finite():
        raise NoIdentity(f"field '{name}' is {value}, which is no number")
    sign, digits, exponent = value.as_tuple()
    number = int("".join(map(str, digits)))
    assert isinstance(exponent, int)
    if number == 0:
        return "integer", "0"
    while number % 10 == 0:
        number, exponent = number // 10, exponent + 1
    minus = "-" if sign else ""
    if exponent >= 0:
        if exponent > 4000:
            raise NoIdentity(f"field '{name}' has more digits than an identity may have")
        return "integer", f"{minus}{number * 10**exponent}"
    return "decimal", f"{minus}{number}e{exponent}"


def _article(kind: str) -> str:
    return f"an {kind}" if kind[0] in "aeiou" else f"a {kind}"
