"""Texts as PostgreSQL can hold them, and back: it has no NUL, so one is written as two characters that sort alike.

NUL becomes U+0001 U+0001, and U+0001 becomes U+0001 U+0002: no text is lost, and their order stays.
"""

from __future__ import annotations

from typing import Any

import orjson

_MARK = "\x01"
_ESCAPED = ("\\u0000", "\\u0001")  # as JSON has them


def held(text: str) -> str:
    """The text as it is stored."""
    if _MARK in text or "\0" in text:
        return text.replace(_MARK, "\x01\x02").replace("\0", "\x01\x01")
    return text


def given(text: str) -> str:
    """The text as it was before it was stored."""
    if _MARK not in text:
        return text
    first, *rest = text.split(_MARK)
    found, at = [first], 0
    while at < len(rest):  # after each mark stands what it was made of; a second mark at once is NUL
        part = rest[at]
        if part:
            found.append(_MARK + part[1:])
            at += 1
        else:
            found.append("\0" + (rest[at + 1] if at + 1 < len(rest) else ""))
            at += 2
    return "".join(found)


def held_json(text: str) -> str:
    """JSON text whose texts are as they are stored."""
    if any(sign in text for sign in _ESCAPED):
        return orjson.dumps(_each(orjson.loads(text), held)).decode()
    return text


def given_json(text: str) -> Any:
    """What JSON text says whose texts are as they are stored."""
    value = orjson.loads(text)
    return _each(value, given) if _ESCAPED[1] in text else value


def _each(value: Any, change: Any) -> Any:
    if isinstance(value, str):
        return change(value)
    if isinstance(value, list):
        return [_each(one, change) for one in value]
    if isinstance(value, dict):
        return {change(name): _each(one, change) for name, one in value.items()}
    return value
