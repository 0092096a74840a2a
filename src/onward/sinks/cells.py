"""JSON text taken apart without decoding it, so that `1.10` and `18446744073709551616` keep every digit."""

from __future__ import annotations

import re

import orjson

from onward import codec
from onward.ports.sink import ExportRow

_SPACE = r"[ \t\n\r]*"
_STRING = r'"[^"\\]*(?:\\.[^"\\]*)*"'
_OPENING = re.compile(rf"{_SPACE}\{{{_SPACE}")
_MEMBER = re.compile(rf'({_STRING}){_SPACE}:{_SPACE}(?:({_STRING}|[^"{{\[\]}},: \t\n\r]+)|(?=[{{\[]))', re.DOTALL)
_NEXT = re.compile(rf"{_SPACE},?{_SPACE}")
_STRING_OR_BRACKET = re.compile(rf"{_STRING}|[\[\]{{}}]", re.DOTALL)
_SURROGATE = re.compile("[\ud800-\udfff]")


def members(text: str) -> dict[str, str]:
    """The names and JSON texts of an object's members; a repeated name keeps its last value. Raises ValueError."""
    start = _OPENING.match(text)
    if start is None:
        raise ValueError("not a JSON object")
    position = start.end()
    found: dict[str, str] = {}
    while member := _MEMBER.match(text, position):
        value = member[2]
        end = member.end()
        if value is None:
            end = _end_of_nested(text, end)
            value = text[member.end() : end]
        found[_decoded(member[1])] = value
        separator = _NEXT.match(text, end)
        position = separator.end() if separator else end
    if text[position : position + 1] != "}":
        raise ValueError("not a JSON object")
    return found


def _end_of_nested(text: str, start: int) -> int:
    depth = 0
    for token in _STRING_OR_BRACKET.finditer(text, start):
        mark = token[0]
        if mark in "[{":
            depth += 1
        elif mark in "]}":
            depth -= 1
            if depth == 0:
                return token.end()
    raise ValueError("a bracket is not closed")


def is_object(text: str) -> bool:
    return _OPENING.match(text) is not None


def is_nested(text: str) -> bool:
    return text[0] in "[{"


def is_text(text: str) -> bool:
    return text[0] == '"'


def as_text(cell: str) -> str | None:
    """A cell as a person reads it: text without quotes, null as None, everything else as its JSON text.

    Half of a surrogate pair, which no file in UTF-8 can hold, stays the escape that it is in JSON.
    """
    if cell == "null":
        return None
    return _writable(_decoded(cell)) if is_text(cell) else cell


def _decoded(quoted: str) -> str:
    if "\\" not in quoted:
        return quoted[1:-1]
    decoded: str = codec.loads(quoted)
    return decoded


def _writable(text: str) -> str:
    if _SURROGATE.search(text):
        return text.encode("utf-8", "backslashreplace").decode("utf-8")
    return text


def outputs_text(row: ExportRow) -> str:
    """The outputs as one JSON object, every value spliced in as it was stored."""
    return orjson.dumps({step: orjson.Fragment(output) for step, output in row.outputs.items()}).decode()


def versions_text(row: ExportRow) -> str:
    return orjson.dumps(row.versions).decode()
