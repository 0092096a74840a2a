"""Values as databases write them, made plain: exactly, or refused. `sources.sql` has the table."""

from __future__ import annotations

import base64
import json
import re
from collections.abc import Callable
from decimal import Decimal, InvalidOperation
from typing import Any

from onward.sources.sql_rows import Unfit

LONGEST_SHOWN = 60
FEW_DIGITS = 600
"""Of so many Python makes a number in any case."""
_NUMERIC = re.compile(r"-?\d+(\.\d+)?")
_DATE = re.compile(r"(?!0000)\d{4}-\d\d-\d\d")
_TIMESTAMP = re.compile(r"((?!0000)\d{4}-\d\d-\d\d) (\d\d:\d\d:\d\d)(\.\d+)?([+-]\d\d(?::\d\d)*)?")
_TIME = re.compile(r"(\d\d:\d\d:\d\d)(\.\d+)?([+-]\d\d(?::\d\d)*)?")
_UTC = ("+00", "+00:00")


def json_value(text: str) -> Any:
    """The value that JSON text says, if nothing of it gets lost. Raises Unfit."""
    decoder = _CAREFUL if "-0" in text or len(text) > FEW_DIGITS else _QUICK
    try:
        return decoder.decode(text)
    except RecursionError:
        raise Unfit("is nested too deeply") from None
    except ValueError as error:
        raise Unfit(f"is not JSON: {error}") from None


def _exact(digits: str) -> float:
    number = float(digits)
    if number in (float("inf"), float("-inf")) or not _is_same(number, digits):
        raise Unfit(f"has the number {_shown(digits)}, of which digits would get lost; cast it to text there")
    return number


def _is_same(number: float, digits: str) -> bool:
    try:
        return Decimal(repr(number)) == Decimal(digits)
    except InvalidOperation:  # an exponent beyond even Decimal
        return False


def _whole(digits: str) -> int | float:
    if digits == "-0":
        return -0.0
    try:
        return int(digits)
    except ValueError:  # Python's bound on the digits of a number
        raise Unfit(f"has a number of {len(digits):,} digits, {_shown(digits)}; cast it to text there") from None


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    made = dict(pairs)
    if len(made) < len(pairs):
        names = [name for name, _ in pairs]
        twice = next(name for name in names if names.count(name) > 1)
        raise Unfit(
            f"has {_shown(json.dumps(twice))} twice in one object, of which one would get lost; cast it to text"
        )
    return made


def _shown(text: str) -> str:
    return text if len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]}…"


def _no_number(text: str) -> Any:
    raise Unfit(f"has {text}, which JSON cannot hold")


_QUICK = json.JSONDecoder(parse_float=_exact, parse_constant=_no_number, object_pairs_hook=_object)
_CAREFUL = json.JSONDecoder(parse_float=_exact, parse_int=_whole, parse_constant=_no_number, object_pairs_hook=_object)
"""The one that knows the whole numbers of which something would get lost."""


def numeric(text: str) -> str:
    if not _NUMERIC.fullmatch(text):
        raise Unfit(f"is {text}, which JSON cannot hold")
    return text


def boolean(text: str) -> bool:
    return text == "t"


def date(text: str) -> str:
    if not _DATE.fullmatch(text):
        raise Unfit(f"is {text}, which is no date between the years 1 and 9999")
    return text


def timestamp(text: str) -> str:
    found = _TIMESTAMP.fullmatch(text)
    if found is None:
        raise Unfit(f"is {text}, which is no moment between the years 1 and 9999")
    return f"{found[1]}T{found[2]}{_fraction(found[3])}{_zone(found[4])}"


def time(text: str) -> str:
    found = _TIME.fullmatch(text)
    return text if found is None else f"{found[1]}{_fraction(found[2])}{_zone(found[3])}"


def _fraction(text: str | None) -> str:
    """Six digits, as Python writes them."""
    return "" if text is None else f"{text:0<7}"


def _zone(text: str | None) -> str:
    if text is None:
        return ""
    if text in _UTC:
        return "Z"
    return text if ":" in text else f"{text}:00"


def octets(text: str) -> str:
    return base64.b64encode(bytes.fromhex(text.removeprefix("\\x"))).decode()


def array_of(convert: Callable[[str], Any] | None, delimiter: str = ",") -> Callable[[str], Any]:
    """What makes a list of an array's text: `{1,NULL,"a \\"b\\""}`, nested as deep as it is."""

    def read(text: str) -> Any:
        if text.startswith("["):  # its bounds, where they are not the usual ones
            text = text.partition("=")[2]
        return _Array(text, convert, delimiter).value()

    return read


class _Array:
    def __init__(self, text: str, convert: Callable[[str], Any] | None, delimiter: str):
        self._text = text
        self._at = 0
        self._convert = convert
        self._delimiter = delimiter

    def value(self) -> Any:
        if self._text[self._at] == "{":
            return self._list()
        if self._text[self._at] == '"':
            return self._converted(self._quoted())
        begin = self._at
        while self._text[self._at] not in (self._delimiter, "}"):
            self._at += 1
        word = self._text[begin : self._at]
        return None if word == "NULL" else self._converted(word)

    def _list(self) -> list[Any]:
        found: list[Any] = []
        self._at += 1
        while self._text[self._at] != "}":
            found.append(self.value())
            if self._text[self._at] == self._delimiter:
                self._at += 1
        self._at += 1
        return found

    def _quoted(self) -> str:
        parts: list[str] = []
        self._at += 1
        while (sign := self._text[self._at]) != '"':
            if sign == "\\":
                self._at += 1
                sign = self._text[self._at]
            parts.append(sign)
            self._at += 1
        self._at += 1
        return "".join(parts)

    def _converted(self, text: str) -> Any:
        return text if self._convert is None else self._convert(text)
