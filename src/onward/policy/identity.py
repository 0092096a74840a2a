"""Idempotency keys: a pure function of an effect's name and of what its record says that the obligation is.

Never of order, attempt, worker, time, locale or `hash()`; the same obligation has the same key in every job, on every
machine and in every year. The prefix is the version of the encoding.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal, InvalidOperation
from json.encoder import encode_basestring_ascii as _quoted
from typing import Any

PREFIX = "ow1-"
DIGEST_BYTES = 20
MOST_DIGITS = 4000
TOO_LARGE = 10**MOST_DIGITS
FIELD_TYPES = (str, int, bool, date, Decimal)
_INTEGER = re.compile(r"-?(0|[1-9][0-9]*)")


class NoIdentity(ValueError):
    """A value that cannot be part of an identity. The message says what to do and does not quote the value."""


def idempotency_key(effect: str, fields: Mapping[str, Any]) -> str:
    """The key of one obligation: `fields` by name, in any order.

    Values are text, integers, booleans, dates, Decimals or None. An integer, its decimal text and an integral Decimal
    are alike, and a date and its ISO text, so that a file read without types means the same obligations. Text is taken
    as it is: `"007"`, `" 7"` and `"7"` are three.

    Raises NoIdentity for floats and everything else that has no exact text.
    """
    is_empty, listed = True, []
    for name, value in sorted(fields.items()):
        tag, text = _encoded(name, value)
        listed.append(f'[{_quoted(name)},"{tag}",{_quoted(text)}]')
        is_empty = is_empty and not text
    if is_empty:
        raise NoIdentity("all fields of the identity are empty")
    text = f"[{_quoted(effect)},[{','.join(listed)}]]"
    return PREFIX + hashlib.blake2b(text.encode(), digest_size=DIGEST_BYTES).hexdigest()


def as_declared(name: str, value: Any, declared: type | None) -> Any:
    """The value as the declared type has it; text, as files hold it, is read as that type. Raises NoIdentity."""
    if declared is None or value is None or type(value) is declared or isinstance(value, float | datetime):
        return value  # what is no identity as any type is refused when it is encoded
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
    if isinstance(value, int):
        return "integer", _digits(name, int(value))
    if isinstance(value, str):
        text = str.__str__(value)  # of an enumeration's member its value, not its name
        whole = _INTEGER.fullmatch(text) and text != "-0"
        return ("integer" if whole else "text"), text
    if isinstance(value, datetime):
        raise NoIdentity(
            f"field '{name}' is a datetime, whose text depends on its zone and precision; make it a date, or text"
        )
    if isinstance(value, date):
        return "text", value.isoformat()
    if isinstance(value, Decimal):
        return _encoded_decimal(name, value)
    if isinstance(value, float):
        raise NoIdentity(
            f"field '{name}' is a float, which has no exact text; make it an integer (cents), a Decimal or text"
        )
    raise NoIdentity(
        f"field '{name}' is {_article(kind.__name__)}; an effect's key is made of text, integers, booleans, dates, "
        "Decimals and None"
    )


def _encoded_decimal(name: str, value: Decimal) -> tuple[str, str]:
    if not value.is_finite():
        raise NoIdentity(f"field '{name}' is not a finite number; correct it in the input, or make it text")
    sign, digits, exponent = value.as_tuple()
    assert isinstance(exponent, int)
    text = "".join(map(str, digits)).lstrip("0")
    number = text.rstrip("0")
    exponent += len(text) - len(number)
    if not number:
        return "integer", "0"
    if len(number) + max(exponent, 0) > MOST_DIGITS:
        raise _too_long(name)
    signed = f"-{number}" if sign else number
    return ("integer", signed + "0" * exponent) if exponent >= 0 else ("decimal", f"{signed}e{exponent}")


def _digits(name: str, number: int) -> str:
    if abs(number) >= TOO_LARGE:
        raise _too_long(name)
    return str(number)


def _too_long(name: str) -> NoIdentity:
    return NoIdentity(f"field '{name}' has more than {MOST_DIGITS:,} digits; make it text")


Names = Mapping[str, Sequence[str]]
"""Ledger names of effects, each with those that it had before."""


def at_odds(one: Names, other: Names) -> str | None:
    """An effect that one job knows by a name which it had before for the other, if there is one."""
    for declared, older in ((one, other), (other, one)):
        for former in declared.values():
            for name in former:
                if name in older and name not in declared:
                    return name
    return None


def dropped(declared: Names, said: Sequence[Names], gone: Sequence[str]) -> str | None:
    """Why a job must not go on that no longer says of a name with obligations (`gone`) whose it was, though that was
    `said` before; None where it may."""
    for name, former in declared.items():
        known = {name, *former}
        while more := {older for names in said for one in known & names.keys() for older in names[one]} - known:
            known |= more
        if lost := sorted(known.intersection(gone)):
            return (
                f"the job has obligations in the ledger under {', '.join(map(repr, lost))}, which {name!r} was called "
                f"before: without formerly={lost[0]!r} what was sent under the old name would be sent again; keep it"
            )
    return None


def unrelated(declared: Mapping[str, Sequence[str]], used: Sequence[str], is_open: Mapping[str, int]) -> str | None:
    """Why a job must not go on before it says how its effects' names are related to those that its obligations stand
    under in the ledger; None where it may.

    `declared`: today's names with those that they had before; `used`: names that the job has obligations under;
    `is_open`: how many of them have no outcome yet, for each name that is no longer declared.
    """
    if not is_open:
        return None
    new = [name for name, former in declared.items() if name not in used and not any(one in used for one in former)]
    gone = ", ".join(map(repr, is_open))
    if new:
        return (
            f"the job has obligations in the ledger under {gone}, which it no longer declares, and none under "
            f"{', '.join(map(repr, new))}, which it declares now: what was sent under the old name would be sent "
            f"again. If it is the same effect under another name, declare it with formerly={next(iter(is_open))!r}; "
            "if it is another, keep declaring the old one as well, or give the job another name"
        )
    for name, number in is_open.items():
        if number:
            many = "1 obligation" if number == 1 else f"{number:,} obligations"
            return (
                f"the job has {many} without an outcome under {name!r}, which it no longer declares: declare it again, "
                f"or say with formerly={name!r} which effect it is now"
            )
    return None


def _article(kind: str) -> str:
    return f"an {kind}" if kind[0] in "aeiou" else f"a {kind}"
