"""What is lost when a typed value goes to JSON and comes back."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from typing import Any

_SEQUENCES = (list, tuple)


def loss(before: Any, after: Any, path: str = "") -> str | None:
    """Say what the first part is that came back from JSON as something else, without quoting it; None: nothing.

    Lists and tuples count as alike, as they do for plain JSON. A type without an equality of its own is believed.
    """
    if before is after or _equal(before, after):
        return None
    parts = _parts(before)
    if parts is not None and isinstance(before, type(after)):
        return _first(_loss_of_part(after, value, name, path) for name, value in parts)
    if isinstance(before, dict) and isinstance(after, dict):
        return _loss_in_dict(before, after, path)
    if isinstance(before, _SEQUENCES) and isinstance(after, _SEQUENCES) and len(before) == len(after):
        pairs = enumerate(zip(before, after, strict=True))
        return _first(loss(one, other, f"{path}[{index}]") for index, (one, other) in pairs)
    here = path or "the output"
    if type(before) is not type(after):
        return f"{here} is of type {type(before).__name__}, which comes back from JSON as {type(after).__name__}"
    if _inherits(type(before), "__eq__"):
        return None
    return f"{here} of type {type(before).__name__} does not come back from JSON as it went in"


def join(path: str, name: object) -> str:
    return f"{path}.{name}" if path else str(name)


def _inherits(kind: type, method: str) -> bool:
    """Whether a type has from `object` what it does for `method`."""
    return getattr(kind, method) is getattr(object, method)


def _equal(before: Any, after: Any) -> bool:
    try:
        return bool(before == after)
    except Exception:
        return False


def _first(findings: Iterator[str | None]) -> str | None:
    return next((finding for finding in findings if finding is not None), None)


def _parts(value: Any) -> list[tuple[str, Any]] | None:
    """Name and value of all that a pydantic model or a dataclass writes to JSON; None for anything else."""
    fields = getattr(type(value), "model_fields", None)
    if isinstance(fields, Mapping):
        kept = [(name, getattr(value, name, None)) for name, info in fields.items() if not info.exclude]
        return kept + list((getattr(value, "__pydantic_extra__", None) or {}).items())
    if dataclasses.is_dataclass(value):
        return [(item.name, getattr(value, item.name, None)) for item in dataclasses.fields(value)]
    return None


def _loss_of_part(after: Any, value: Any, name: str, path: str) -> str | None:
    here = join(path, name)
    if not hasattr(after, name):
        return f"{here} is lost in JSON: {type(after).__name__} has no such field"
    return loss(value, getattr(after, name), here)


def _loss_in_dict(before: dict[Any, Any], after: dict[Any, Any], path: str) -> str | None:
    for name, value in before.items():
        here = join(path, name)
        if name not in after:
            return f"{here}: the key of type {type(name).__name__} does not come back from JSON as it went in"
        found = loss(value, after[name], here)
        if found is not None:
            return found
    return None
