"""What a provider's response headers say of its limits. Headers that say nothing sensible are as good as none."""

from __future__ import annotations

import email.utils
import math
import re
from dataclasses import dataclass
from datetime import UTC
from typing import Any

from onward.policy.pace import LONGEST_WAIT

_NUMBER = re.compile(r"[0-9]{1,15}")
_SECONDS = re.compile(r"[0-9]{1,6}(?:\.[0-9]*)?")
_DURATION = re.compile(r"(?:[0-9]{1,9}(?:\.[0-9]*)?(?:d|h|ms|m|us|µs|ns|s))+")
_DURATION_PART = re.compile(r"([0-9.]+)(d|h|ms|m|us|µs|ns|s)")
_UNITS = {"d": 86_400.0, "h": 3_600.0, "m": 60.0, "s": 1.0, "ms": 1e-3, "us": 1e-6, "µs": 1e-6, "ns": 1e-9}
_DAY = 86_400.0
_WEEK = 7 * _DAY
_NEARLY = 0.05


@dataclass(frozen=True, slots=True)
class Allowance:
    """One limit as it stands: how many there are in all, how many are left, and in how many seconds all are back,
    which may be longer than anybody should wait (LONGEST_WAIT)."""

    limit: int | None = None
    remaining: int | None = None
    reset: float | None = None

    @property
    def per_minute(self) -> int | None:
        """The limit, unless what was used comes back so slowly that it must be a day's."""
        if self.limit is None or self.remaining is None or not self.reset or self.remaining >= self.limit:
            return self.limit
        whole = self.limit * self.reset / (self.limit - self.remaining)
        return None if abs(whole / _DAY - 1) < _NEARLY else self.limit


@dataclass(frozen=True, slots=True)
class Rates:
    """What one response says. `retry_after`: seconds for which the provider wants to be left alone."""

    requests: Allowance = Allowance()
    tokens: Allowance = Allowance()
    retry_after: float | None = None


def rates(headers: Any, now: float) -> Rates:
    """Read `x-ratelimit-…` and Retry-After from a client's headers; `now` (UTC seconds) turns dates into seconds.

    `headers` is a mapping or has `items()`; the case of names does not matter.
    """
    known = _lowered(headers)
    return Rates(_allowance(known, "requests"), _allowance(known, "tokens"), _asked(known, now))


def retry_after(headers: Any, now: float) -> float | None:
    """Seconds asked for by `retry-after-ms` or `retry-after` (a number or a date), at most LONGEST_WAIT."""
    return _asked(_lowered(headers), now)


def _lowered(headers: Any) -> dict[str, str]:
    if not hasattr(headers, "items"):
        return {}
    known: dict[str, str] = {}
    for name, value in headers.items():
        known.setdefault(str(name).lower(), str(value))
    return known


def _allowance(headers: dict[str, str], of: str) -> Allowance:
    limit = _number(headers.get(f"x-ratelimit-limit-{of}"))
    remaining = _number(headers.get(f"x-ratelimit-remaining-{of}"))
    return Allowance(limit or None, remaining, _duration(headers.get(f"x-ratelimit-reset-{of}")))


def _number(text: str | None) -> int | None:
    found = _NUMBER.fullmatch(text.strip()) if text is not None else None
    return int(found[0]) if found else None


def _duration(text: str | None) -> float | None:
    """Seconds of `1s`, `6m0s`, `1h2m3.5s`, `120ms`, or of a bare number; at most a week."""
    text = (text or "").strip()
    if _SECONDS.fullmatch(text):
        return min(float(text), _WEEK)
    if not _DURATION.fullmatch(text):
        return None
    seconds = sum(float(number) * _UNITS[unit] for number, unit in _DURATION_PART.findall(text))
    return min(seconds, _WEEK)


def _asked(headers: dict[str, str], now: float) -> float | None:
    precise = _decimal(headers.get("retry-after-ms"))
    if precise is not None:
        return _bounded(precise / 1000.0)
    text = headers.get("retry-after")
    seconds = _decimal(text)
    if seconds is None and text is not None:
        try:
            moment = email.utils.parsedate_to_datetime(text)
        except (ValueError, TypeError):
            return None
        seconds = (moment if moment.tzinfo else moment.replace(tzinfo=UTC)).timestamp() - now
    return None if seconds is None else _bounded(seconds)


def _decimal(text: str | None) -> float | None:
    try:
        number = float(text) if text is not None else math.nan
    except ValueError:
        return None
    return None if math.isnan(number) else number


def _bounded(seconds: float) -> float:
    return min(max(seconds, 0.0), LONGEST_WAIT)
