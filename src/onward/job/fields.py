"""Fields of records: what a record's type is known to have, and what a value has."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields as dataclass_fields
from dataclasses import is_dataclass
from typing import Any, get_type_hints, is_typeddict

from onward.errors import DeclarationError


def field_types(record: Any) -> dict[str, Any] | None:
    """The fields of a record type with their annotations as far as they are known; None where it has no fields."""
    if hasattr(record, "model_fields"):
        return {name: field.annotation for name, field in record.model_fields.items()}
    if isinstance(record, type) and is_dataclass(record):
        fields = [field.name for field in dataclass_fields(record)]
    elif is_typeddict(record):
        fields = list(record.__annotations__)
    else:
        return None
    try:
        hints = get_type_hints(record)
    except Exception:  # a name that is defined further down, or nowhere: whoever needs the type says so
        hints = {}
    return {name: hints.get(name) for name in fields}


def check_field(what: str, name: str, record: Any) -> None:
    """Raises DeclarationError for a field that the record's type does not have."""
    known = field_types(record)
    if known is not None and name not in known:
        raise DeclarationError(
            f"{what} names the field '{name}', which the record type does not have (fields: {', '.join(known)})"
        )


def field_of(value: Any, name: str) -> Any:
    """A field of a record's value; None where it has none of that name."""
    return value.get(name) if isinstance(value, Mapping) else getattr(value, name, None)
