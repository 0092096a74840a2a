"""Opening hours: whether a moment lies in them, and when that changes."""

from __future__ import annotations

import re
from collections.abc import Iterator
from datetime import UTC, date, datetime, timedelta, tzinfo
from typing import NamedTuple

DAYS = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_TIMES = re.compile(r"(\d{1,2}):(\d{2})\s*[-–]\s*(\d{1,2}):(\d{2})$")
_DAYS_AHEAD = 8
EXAMPLE = '"Mon-Fri 08:00-18:00 America/New_York"'


class BadHours(ValueError):
    """Text that says no opening hours; the message tells what is wrong with it."""


class Span(NamedTuple):
    """Minutes of the day, on these days of the week (0 is Monday). `end` lies past 1440 where it is on the next day."""

    days: frozenset[int]
    begin: int
    end: int


class Hours(NamedTuple):
    spans: tuple[Span, ...]
    zone: str

    @property
    def tzinfo(self) -> tzinfo:
        return zone_of(self.zone)


def zone_of(name: str) -> tzinfo:
    """Raises KeyError or ValueError for a zone that there is not."""
    if name == "UTC":
        return UTC
    from zoneinfo import ZoneInfo  # only here: it takes a millisecond that most jobs need not spend

    return ZoneInfo(name)


class Standing(NamedTuple):
    """`until`: when it changes (UTC seconds); None where it never does."""

    is_open: bool
    until: float | None


def parse(text: str) -> Hours:
    """`Mon-Fri 08:00-18:00, Sat 09:00-12:00 America/New_York`: days and times, several of them with commas between.

    Without days every day, without a zone UTC. A time that ends before it begins ends on the next day. Raises BadHours.
    """
    if not isinstance(text, str) or not text.strip():
        raise BadHours(f"opening hours are text such as {EXAMPLE}, not {text!r}")
    said, zone = _zone(text.strip())
    spans: list[Span] = []
    days: set[int] = set()
    for part in said.split(","):
        times = _TIMES.search(part.strip())
        named = part.strip()[: times.start()].strip() if times else part.strip()
        days |= _days(named, text) if named else set()
        if times:
            spans.append(_span(days or set(range(7)), [int(number) for number in times.groups()], text))
            days = set()
        elif not named:
            raise BadHours(f"{text!r} has an empty part")
    if days or not spans:
        raise BadHours(f"{text!r} says no times; write it like {EXAMPLE}")
    return Hours(tuple(spans), zone)


def _zone(text: str) -> tuple[str, str]:
    """The text before the zone, and the zone."""
    before, _, last = text.rpartition(" ")
    if not before or not last[:1].isalpha() or last[:3].lower() in DAYS:
        return text, "UTC"
    try:
        zone_of(last)
    except (KeyError, ValueError, OSError):
        raise BadHours(f"there is no time zone {last!r} here (zones are named like America/New_York)") from None
    return before, last


def _days(named: str, text: str) -> set[int]:
    ends = [one.strip().lower()[:3] for one in re.split(r"[-–]", named)]
    if len(ends) > 2 or any(one not in DAYS for one in ends):
        raise BadHours(f"{named!r} in {text!r} is no day of the week (Mon, or Mon-Fri)")
    first, last = DAYS.index(ends[0]), DAYS.index(ends[-1])
    return {(first + n) % 7 for n in range((last - first) % 7 + 1)}


def _span(days: set[int], numbers: list[int], text: str) -> Span:
    hour, minute, end_hour, end_minute = numbers
    begin, end = hour * 60 + minute, end_hour * 60 + end_minute
    if minute > 59 or end_minute > 59 or begin >= 1440 or end > 1440:
        raise BadHours(f"{text!r} has a time that no clock shows (00:00 to 24:00)")
    if begin == end:
        raise BadHours(f"{text!r} begins and ends at the same time; the whole day is 00:00-24:00")
    return Span(frozenset(days), begin, end if end > begin else end + 1440)


def standing(hours: Hours, now: float) -> Standing:
    """Whether it is open at `now` (UTC seconds).

    Times are those of the zone's clock. One that the clock jumps over in spring is as much later: 02:30 is 03:30. Of
    one that comes twice in autumn an opening means the first and a closing the second.
    """
    is_open, until = False, None
    for begin, end in _intervals(hours, now):
        if end <= now:
            continue
        if begin <= (until if until is not None and is_open else now):
            is_open, until = True, max(end, until or end)
        else:
            return Standing(True, until) if is_open else Standing(False, begin)
    if is_open and until is not None and until < now + (_DAYS_AHEAD - 2) * 86400:
        return Standing(True, until)
    return Standing(is_open, None)


def _intervals(hours: Hours, now: float) -> Iterator[tuple[float, float]]:
    """Openings (UTC seconds) from yesterday on, in order of their beginning."""
    zone = hours.tzinfo
    today = datetime.fromtimestamp(now, zone).date()
    found = []
    for ahead in range(-1, _DAYS_AHEAD + 1):
        day = today + timedelta(days=ahead)
        for span in hours.spans:
            if day.weekday() in span.days:
                begin, end = _moment(day, span.begin, zone, 0), _moment(day, span.end, zone, 1)
                if begin < end:  # a span that the clock jumps over whole is none
                    found.append((begin, end))
    return iter(sorted(found))


def _moment(day: date, minutes: int, zone: tzinfo, fold: int) -> float:
    wall = datetime(day.year, day.month, day.day) + timedelta(minutes=minutes)
    moment = wall.replace(tzinfo=zone, fold=fold).timestamp()
    exists = datetime.fromtimestamp(moment, zone).replace(tzinfo=None) == wall
    return moment if exists else wall.replace(tzinfo=zone, fold=0).timestamp()
