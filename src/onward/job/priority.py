"""Priority: who is admitted first, as a field or function of the record."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from onward.errors import DeclarationError, MisfitRecord, UsageError
from onward.job.coding import record_decoder
from onward.job.fields import check_field, field_of
from onward.job.place import where
from onward.job.values import PLAIN, Shape
from onward.policy.rank import LAST, NoRank, rank

Priority = str | Callable[[Any], Any]


def check_priority(given: Any, record: Any) -> Priority | None:
    """Raises DeclarationError."""
    if isinstance(given, str) and given:
        check_field("priority", given, record)
    elif given is not None and not callable(given):
        raise DeclarationError(f"priority must be a field's name or a function of the record, not {given!r}")
    return given  # type: ignore[no-any-return]


def rank_reader(priority: Priority, record: Shape | None) -> Callable[[str], str]:
    """From a record's input (JSON text) to the text that it is ordered by. It raises UsageError where the job's
    function does, or gives what has no order."""
    decode = record_decoder(record or PLAIN)

    def rank_of(text: str) -> str:
        try:
            value = decode(text)
        except MisfitRecord:
            return LAST
        try:
            return rank(field_of(value, priority) if isinstance(priority, str) else priority(value))
        except NoRank as error:
            raise UsageError(f"{_title(priority)}: {error}") from None
        except Exception as error:
            raise UsageError(f"{_title(priority)} raised {type(error).__name__}: {error}") from error

    return rank_of


def _title(priority: Priority) -> str:
    return f"priority '{priority}'" if isinstance(priority, str) else f"{where(priority)}: the job's priority"
