"""Fields of records: what a record's type is known to have, and what a value has."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields as dataclass_fields
from dataclasses import is_dataclass
from typing import Any

from onward.errors import DeclarationError


def fields_of(record: Any) -> list[str] | None:
    """The fields of a record type; None where they are not known."""
    if hasattr(record, "model_fields"):
        return list(record.model_fields)
    if isinstance(record, type) and is_dataclass(record):
        return [field.name for field in dataclass_fields(record)]
    return None


def check_field(what: str, name: str, record: Any) -> None:
    """Raises DeclarationError for a field that the record's type does not have."""
    known = fields_of(record)
    if known is not None and name not in known:
        raise DeclarationError(
            f"{what} names the field '{name}', which the record type does not have (fields: {', '.join(known)})"
        )


def field_of(value: Any, name: str) -> Any:
    """A field of a record's value; None where it has none of that name."""
    return value.get(name) if isinstance(value, Mapping) else getattr(value, name, None)
