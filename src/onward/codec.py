"""JSON text in and out, exactly: big integers, lone surrogates and NaN are where fast parsers lie."""

from __future__ import annotations

import hashlib
import json
import math
from typing import Any

import orjson

from onward.errors import OutputError

_AS_ZERO = bytes(48 if 48 <= byte <= 57 else 0 for byte in range(256))
_LONG = 16
_LONG_NUMBER = b"0" * _LONG
_FAST_TYPES = (str, bool, type(None))
_PLAIN = orjson.OPT_PASSTHROUGH_DATACLASS | orjson.OPT_PASSTHROUGH_DATETIME | orjson.OPT_PASSTHROUGH_SUBCLASS


def _refuse_constant(text: str) -> Any:
    raise ValueError(f"{text} is not JSON")


def may_lose_digits(text: bytes) -> bool:
    """Whether JSON text has a run of digits that a fast parser could round (a search as bytes, ten times as fast as a
    regular expression)."""
    return _LONG_NUMBER in text.translate(_AS_ZERO)


def loads(text: str | bytes) -> Any:
    """Decode JSON; integers of any size keep every digit. Raises ValueError."""
    if len(text) < _LONG or not may_lose_digits(_as_bytes(text)):
        try:
            return orjson.loads(text)
        except orjson.JSONDecodeError:
            pass  # a lone surrogate or a float beyond range: the slower parser tells them from real faults
    try:
        return json.loads(text if isinstance(text, str) else text.decode(), parse_constant=_refuse_constant)
    except RecursionError:
        raise ValueError("nested too deeply") from None


def _as_bytes(text: str | bytes) -> bytes:
    return text if isinstance(text, bytes) else text.encode("utf-8", "surrogatepass")


def dumps(value: Any) -> str:
    """Encode plain JSON values (dict with text keys, list, tuple, text, numbers, bool, None) as compact text.

    Raises OutputError naming the path of the first thing that JSON cannot hold.
    """
    if type(value) in _FAST_TYPES or type(value) is int:
        return _scalar(value)
    try:
        text = orjson.dumps(value, option=_PLAIN).decode()
        if loads(text) == value:
            return text
    except (TypeError, ValueError, RecursionError):
        pass
    check(value)
    return json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":"))


def _scalar(value: str | int | bool | None) -> str:
    try:
        return orjson.dumps(value).decode()
    except TypeError:  # beyond 64 bits, or a lone surrogate
        return json.dumps(value)


def check(value: Any, path: str = "") -> None:
    """Raise OutputError at the first part of `value` that would not come back from JSON as it went in."""
    here = path or "the output"
    kind = type(value)
    if kind in _FAST_TYPES or kind is int:
        return
    if kind is float:
        if not math.isfinite(value):
            raise OutputError(f"{here} is {value!r}, which JSON cannot hold")
    elif kind is dict:
        for name, item in value.items():
            if type(name) is not str:
                raise OutputError(f"{here} has the key {name!r} of type {type(name).__name__}; JSON keys are text")
            check(item, f"{path}.{name}" if path else name)
    elif kind is list or kind is tuple:
        for index, item in enumerate(value):
            check(item, f"{path}[{index}]")
    else:
        raise OutputError(
            f"{here} is of type {kind.__name__}, which JSON cannot hold; annotate the step's return type "
            "(pydantic model, dataclass, …) or return plain values"
        )


def canonical_key(value: Any) -> str:
    """The key's identity as JSON text: `7`, `"7"` and `"007"` stay three keys. Raises ValueError with the reason.

    Text and integers are keys, and lists of them for several fields. Everything that another reader could take for
    something else is refused: null, empty text, floats (7.0), booleans.
    """
    kind = type(value)
    if kind is str:
        if not value:
            raise ValueError("the key is empty text")
        return _scalar(value)
    if kind is int:
        return str(value)
    if kind is list or kind is tuple:
        if not value:
            raise ValueError("the key has no fields")
        return "[" + ",".join(canonical_key(item) for item in value) + "]"
    if value is None:
        raise ValueError("the key is null")
    raise ValueError(f"the key is {value!r} ({kind.__name__}); keys are text or integers")


def canonical_hash(text: str) -> str:
    """128 bits over what JSON text says, whatever the order of its names."""
    return hashlib.blake2b(_sorted(text), digest_size=16).hexdigest()


def _sorted(text: str) -> bytes:
    """Which of the two encoders writes it depends on what the text says alone."""
    if not may_lose_digits(_as_bytes(text)):
        try:
            return orjson.dumps(orjson.loads(text), option=orjson.OPT_SORT_KEYS)
        except (TypeError, orjson.JSONDecodeError):
            pass  # half of a surrogate pair, or a float beyond range
    value = loads(text)
    return json.dumps(value, sort_keys=True, ensure_ascii=True, separators=(",", ":")).encode()


def plain_key(key: str) -> str:
    """A canonical key as a person types it: text without quotes, the rest as JSON."""
    value = loads(key)
    return value if isinstance(value, str) else key
