"""Groups and limits as they are declared: ceilings that calls share."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from enum import Enum
from typing import Any

from onward.errors import DeclarationError
from onward.job.checks import positive_int
from onward.job.place import calling_place
from onward.policy import hours as opening
from onward.policy.hours import BadHours, Hours

NO_VALUE = ""


@dataclass(frozen=True, eq=False)
class Limit:
    """A ceiling on calls. All that are declared with the same object share it.

    Parameters
    ----------
    per_minute : calls that may begin in a minute; they are spread evenly.
    concurrency : calls that may be in progress.

    Raises DeclarationError.
    """

    per_minute: float | None = None
    concurrency: int | None = None

    def __post_init__(self) -> None:
        try:
            _check_ceiling(self.per_minute, self.concurrency)
            if self.per_minute is None and self.concurrency is None:
                raise DeclarationError("it says neither per_minute nor concurrency")
        except DeclarationError as error:
            raise DeclarationError(f"{calling_place()}: Limit(…): {error}") from None


@dataclass(frozen=True, eq=False)
class Group:
    """Records alike in one field, with a ceiling for each value of it.

    Parameters
    ----------
    field : the record's field that says to which group it belongs.
    per_minute, concurrency : the ceiling of each group, as in Limit.
    overrides : `{value: Limit(…)}`, the ceilings of single groups.
    hours : `{value: "Mon-Fri 08:00-18:00 America/New_York"}`, when calls of single groups may begin. Several times with
        commas between; without days every day, without a zone UTC.

    Raises DeclarationError.
    """

    field: str
    per_minute: float | None = None
    concurrency: int | None = None
    overrides: Mapping[Any, Limit] = dataclasses.field(default_factory=dict)
    hours: Mapping[Any, str] | None = None

    def __post_init__(self) -> None:
        try:
            if not isinstance(self.field, str) or not self.field.isprintable() or not self.field.strip():
                raise DeclarationError(f"its field is a field's name, not {self.field!r}")
            _check_ceiling(self.per_minute, self.concurrency)
            self.ceilings()
            self.openings()
        except DeclarationError as error:
            raise DeclarationError(f"{calling_place()}: Group(…): {error}") from None

    def ceilings(self) -> dict[str, Limit]:
        """Those of single groups, by the value's text. Raises DeclarationError."""
        if not isinstance(self.overrides, Mapping):
            raise DeclarationError(f"overrides must be {{value: Limit(…)}}, not {self.overrides!r}")
        for value, limit in self.overrides.items():
            if not isinstance(limit, Limit):
                raise DeclarationError(f"overrides must be {{value: Limit(…)}}; that of {value!r} is {limit!r}")
        return {_named(value): limit for value, limit in self.overrides.items()}

    def openings(self) -> dict[str, Hours]:
        """Opening hours by the value's text. Raises DeclarationError."""
        if not isinstance(self.hours, Mapping | None):
            raise DeclarationError(f"hours must be {{value: {opening.EXAMPLE}}}, not {self.hours!r}")
        found = {}
        for value, text in (self.hours or {}).items():
            try:
                found[_named(value)] = opening.parse(text)
            except BadHours as error:
                raise DeclarationError(f"hours of {value!r}: {error}") from None
        return found


def checked_limit(given: Any) -> Limit | None:
    """Raises DeclarationError."""
    if given is not None and not isinstance(given, Limit):
        raise DeclarationError(f"limit must be Limit(per_minute=…, concurrency=…), not {given!r}")
    return given


def checked_group(given: Any, known: dict[str, Group]) -> Group | None:
    """A group; a field's name is short for one, in one job always the same. Raises DeclarationError."""
    if given is None or isinstance(given, Group):
        return given
    if isinstance(given, str):
        return known.setdefault(given, Group(given))
    raise DeclarationError(f'group must be Group("field", …) or a field\'s name, not {given!r}')


def value_text(value: Any) -> str:
    """A record's value of the field as the text that names its group; empty without one. Raises DeclarationError."""
    if isinstance(value, Enum):
        value = value.value
    if value is None:
        return NO_VALUE
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str | int | Decimal):
        return str(value)
    if isinstance(value, date):
        return value.isoformat()
    raise DeclarationError(f"a group's value is text, a whole number or a date, not {type(value).__name__}")


def _named(value: Any) -> str:
    text = value_text(value)
    if text == NO_VALUE:
        raise DeclarationError(f"{value!r} names no group")
    return text


def _check_ceiling(per_minute: Any, concurrency: Any) -> None:
    if concurrency is not None:
        positive_int("concurrency", concurrency)
    if per_minute is None:
        return
    is_number = isinstance(per_minute, int | float) and not isinstance(per_minute, bool)
    if not is_number or not 0 < per_minute < math.inf:
        raise DeclarationError(f"per_minute must be a number above 0, not {per_minute!r}")
