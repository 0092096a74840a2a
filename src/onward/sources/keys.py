"""From a plain value to a source record: validate it, take its key, or say in plain words why it has none."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import orjson

from onward.codec import canonical_key
from onward.errors import DeclarationError, MisfitRecord
from onward.model import BadLine, SourceRecord
from onward.ports.source import Validate
from onward.sources.plain import scalar

LINE_BITS = 40
LINE_MASK = (1 << LINE_BITS) - 1
RAW_LIMIT = 10_000

_MISSING: Any = object()


class NoKey(Exception):
    """A value has no usable key; the message is the reason for people."""


def key_fields(key: str | Sequence[str]) -> tuple[str, ...]:
    """The declared key as a tuple of field names. Raises DeclarationError."""
    fields = (key,) if isinstance(key, str) else tuple(key)
    if not fields or not all(isinstance(field, str) and field for field in fields):
        raise DeclarationError('key must be a field name or several: key="id" or key=("country", "number")')
    if len(set(fields)) != len(fields):
        raise DeclarationError(f"key names a field twice: {', '.join(fields)}")
    return fields


class RecordMaker:
    """Makes source records of one file; `name` is what people call it. Without `fields` a value is its own key.

    `quick` takes the key of a usual value fast and raises whatever it likes at anything unusual, for `make` to judge;
    None where records are validated.
    """

    def __init__(self, name: str, fields: tuple[str, ...] | None, validate: Validate | None):
        self._name = name
        self._fields = fields
        self._validate = validate
        self.quick = _quick_key(fields) if fields and validate is None else None

    def make(self, value: Any, text: str, position: int) -> SourceRecord | BadLine:
        """A record of the plain `value` whose JSON text is `text`; a bad line where it has no usable key."""
        try:
            if self._validate is None:
                return self._unvalidated(value, text, position)
            try:
                valid = self._validate(value)
            except MisfitRecord as misfit:
                return self._misfit(value, text, position, str(misfit))
            return SourceRecord(valid_key_of(valid, value, self._fields), text, position)
        except NoKey as reason:
            return self.bad(position, str(reason), text)

    def _unvalidated(self, value: Any, text: str, position: int) -> SourceRecord:
        if self.quick is not None:
            try:
                return SourceRecord(self.quick(value), text, position)
            except Exception:
                pass
        return SourceRecord(plain_key_of(value, self._fields), text, position)

    def bad(self, position: int, reason: str, raw: str = "", damage: bool = False) -> BadLine:
        shown = raw if len(raw) <= RAW_LIMIT else raw[:RAW_LIMIT] + "…"
        return BadLine(f"{self._name}:{position & LINE_MASK}", reason, position, shown, damage)

    def _misfit(self, value: Any, text: str, position: int, reason: str) -> SourceRecord | BadLine:
        """A misfit keeps the key of its raw fields, so that a corrected record finds its place again."""
        try:
            return SourceRecord(plain_key_of(value, self._fields), text, position, invalid=reason)
        except NoKey as no_key:
            return self.bad(position, f"{no_key}; besides, {reason}", text)


def plain_key_of(value: Any, fields: tuple[str, ...] | None) -> str:
    """Canonical key of a plain value. Raises NoKey."""
    if fields is None:
        return _whole_key(value)
    if type(value) is not dict:
        raise NoKey(f"{described(value)}, not an object with the key field {_quoted(fields[0])}")
    return _canonical([(field, value.get(field, _MISSING)) for field in fields])


def valid_key_of(valid: Any, raw: Any, fields: tuple[str, ...] | None) -> str:
    """Canonical key of a validated record; a field that its type does not have is taken from the raw value."""
    if fields is None:
        return _whole_key(scalar(valid) if isinstance(valid, str | int) else raw)
    parts = []
    for field in fields:
        part = _item(valid, field)
        if part is _MISSING:
            part = raw.get(field, _MISSING) if isinstance(raw, dict) else _MISSING
        parts.append((field, scalar(part)))
    return _canonical(parts)


def _whole_key(value: Any) -> str:
    """Text, an integer, or a list of them."""
    if isinstance(value, list | tuple) and value:
        return canonical_key([_checked(part, "a part of the key") for part in value])
    return canonical_key(_checked(value, "the record, which is its own key,"))


def described(value: Any) -> str:
    """What a JSON value is, in words for people."""
    if value is None:
        return "null"
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        return "a text"
    if isinstance(value, int | float):
        return f"the number {value}"
    if isinstance(value, list | tuple):
        return "a list"
    if isinstance(value, dict):
        return "an object"
    return f"a value of type {type(value).__name__}"


def _item(valid: Any, field: str) -> Any:
    if isinstance(valid, Mapping):
        return valid.get(field, _MISSING)
    part = getattr(valid, field, _MISSING)
    return _MISSING if callable(part) else part


def _canonical(parts: list[tuple[str, Any]]) -> str:
    key = []
    for field, part in parts:
        if part is _MISSING:
            raise NoKey(f"there is no field {_quoted(field)}, which is the key")
        if type(part) is not int and not (type(part) is str and part):
            part = _checked(part, f"the key field {_quoted(field)}")
        key.append(part)
    return canonical_key(key[0] if len(key) == 1 else key)


def _checked(part: Any, what: str) -> str | int:
    """A part of a key: text or an integer, also where it is of a class of its own, such as a member of a StrEnum."""
    part = scalar(part) if isinstance(part, str | int) else part
    if type(part) is int or (type(part) is str and part):
        return part
    if type(part) is str:
        raise NoKey(f"{what} is empty")
    if part is None:
        raise NoKey(f"{what} is null")
    number = isinstance(part, float)
    raise NoKey(f"{what} is {part if number else described(part)}; a key is text or a whole number")


def _quoted(field: str) -> str:
    return json.dumps(field, ensure_ascii=False)


def _quick_key(fields: tuple[str, ...]) -> Callable[[Any], str]:
    if len(fields) > 1:
        return lambda value: _quick_parts([value[field] for field in fields])
    only = fields[0]

    def take(value: Any) -> str:
        part = value[only]
        if type(part) is str and part:
            return orjson.dumps(part).decode()
        return _quick_parts([part])[1:-1]

    return take


def _quick_parts(parts: list[Any]) -> str:
    for part in parts:
        if type(part) is not int and not (type(part) is str and part):
            raise NoKey
    return canonical_key(parts)
