"""Values that JSON has no form for, as text: the one place that says how.

| value | text |
|---|---|
| date, time, date and time | ISO 8601; UTC as `Z`; up to nine digits of a second |
| length of time | ISO 8601 in seconds: `PT90.5S` |
| Decimal | its digits, as many as it has: `1.10` |
| UUID | `8-4-4-4-12` |
| bytes | Base64 |
| member of an Enum | its value |
| pydantic model, dataclass, mapping | an object |
"""

from __future__ import annotations

import base64
import dataclasses
import datetime
import decimal
import enum
import uuid
from collections.abc import Mapping
from typing import Any


def plain(value: Any) -> Any:
    """The plain value for JSON; what has no form is left as it is, for the encoder to name."""
    kind = type(value)
    if kind in (str, int, float, bool, type(None)):
        return value
    if kind is dict or isinstance(value, Mapping):
        return {name: plain(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if hasattr(kind, "__pydantic_serializer__") and hasattr(value, "model_dump"):
        return value.model_dump(mode="json")
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: plain(getattr(value, field.name)) for field in dataclasses.fields(value)}
    return scalar(value)


def scalar(value: Any) -> Any:
    """The text of a single value, or the value itself."""
    if isinstance(value, enum.Enum):
        return scalar(value.value)
    if isinstance(value, str):
        return str.__str__(value)
    if isinstance(value, int):
        return value if isinstance(value, bool) else int(value)
    if isinstance(value, datetime.date | datetime.time):
        text = value.isoformat()
        return text[:-6] + "Z" if text.endswith("+00:00") else text
    if isinstance(value, datetime.timedelta):
        return length_text(value // datetime.timedelta(microseconds=1), 6)
    if isinstance(value, decimal.Decimal):
        return format(value, "f") if value.is_finite() else value
    if isinstance(value, uuid.UUID):
        return str(value)
    if isinstance(value, bytes | bytearray | memoryview):
        return base64.b64encode(value).decode()
    return value


def length_text(count: int, digits: int) -> str:
    """A length of time, counted in units of 10**-digits seconds."""
    whole, part = divmod(abs(count), 10**digits)
    fraction = f".{part:0{digits}d}".rstrip("0") if part else ""
    return f"{'-' if count < 0 else ''}PT{whole}{fraction}S"
