"""Small checks of declared numbers and names; each raises DeclarationError with what was given."""

from __future__ import annotations

import math
from typing import Any

from onward.errors import DeclarationError

MOST_CALLS = 1_000_000
"""As many calls in progress are more than any process can make."""


def positive_int(name: str, value: Any) -> int:
    if type(value) is not int or value < 1:
        raise DeclarationError(f"{name} must be a whole number of at least 1, not {value!r}")
    return value


def calls_at_once(value: Any) -> int:
    """How many calls may be in progress."""
    if positive_int("concurrency", value) > MOST_CALLS:
        raise DeclarationError(f"concurrency must be at most {MOST_CALLS:,}, not {value!r}")
    return int(value)


def positive_seconds(name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value < math.inf:
        raise DeclarationError(f"{name} must be a number of seconds above 0, not {value!r}")
    return float(value)


def seconds_from_zero(name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < math.inf:
        raise DeclarationError(f"{name} must be a number of seconds, 0 or more, not {value!r}")
    return float(value)


def yes_or_no(name: str, value: Any) -> bool:
    if type(value) is not bool:
        raise DeclarationError(f"{name} must be True or False, not {value!r}")
    return value


def job_name(value: Any) -> str:
    if not isinstance(value, str) or not value.strip():
        raise DeclarationError(f"a job's name must be text that is not empty, not {value!r}")
    if "/" in value or not value.isprintable():
        raise DeclarationError(f"a job's name must not contain '/' or control characters: {value!r}")
    return value
