"""Plain values as text that is the same in every process and tells apart what is different."""

from __future__ import annotations

import dataclasses
import enum
import re
from collections.abc import Mapping
from typing import Any

_AS_REPR = frozenset((bool, int, float, complex, str, bytes, type(None), type(...), range, slice))
_AS_REPR_BY_NAME = frozenset(
    ("datetime.date", "datetime.datetime", "datetime.time", "datetime.timedelta", "datetime.timezone", "re.Pattern",
     "zoneinfo.ZoneInfo", "decimal.Decimal", "fractions.Fraction", "uuid.UUID")
)  # fmt: skip
"""By name, so that none of these modules is imported for a job that has no such value."""
_ADDRESS = re.compile(r" at 0x[0-9a-fA-F]+")


def canonical(value: Any) -> str | None:
    """The text of a value built from plain parts; None where it holds anything else, or itself."""
    try:
        return _text(value)
    except (_NotPlain, RecursionError):
        return None


def stable_repr(value: Any) -> str | None:
    """The `repr` of a value whose type wrote one that has no address in it; None otherwise."""
    if getattr(type(value), "__repr__") is getattr(object, "__repr__"):  # noqa: B009 - mypy takes them for unlike
        return None
    said = repr(value)
    return None if _ADDRESS.search(said) else f"{_name(value)} {said}"


class _NotPlain(Exception):
    pass


def _text(value: Any) -> str:
    if isinstance(value, enum.Enum):
        return f"{_name(value)}.{value.name}={_text(value.value)}"
    if type(value) in _AS_REPR or f"{type(value).__module__}.{type(value).__qualname__}" in _AS_REPR_BY_NAME:
        return repr(value)
    if hasattr(value, "as_posix") and hasattr(value, "parts"):
        return f"path {value.as_posix()!r}"
    if isinstance(value, list | tuple):
        return f"{_name(value)}[" + ",".join(_text(item) for item in value) + "]"
    if isinstance(value, set | frozenset):
        return _braced(value, [_text(item) for item in value])
    if isinstance(value, Mapping):
        return _braced(value, [f"{_text(key)}:{_text(item)}" for key, item in value.items()])
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return _fields(value, [field.name for field in dataclasses.fields(value)])
    fields = getattr(type(value), "model_fields", None)
    if isinstance(fields, Mapping):
        return _fields(value, list(fields))
    raise _NotPlain


def _fields(value: Any, names: list[str]) -> str:
    return f"{_name(value)}(" + ",".join(f"{name}={_text(getattr(value, name))}" for name in names) + ")"


def _braced(value: Any, items: list[str]) -> str:
    return f"{_name(value)}{{" + ",".join(sorted(items)) + "}"


def _name(value: Any) -> str:
    return type(value).__name__
