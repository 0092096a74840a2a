"""Opening hours: what texts mean, and whether moments lie in them, across zones, nights, weekends and clock changes."""

from __future__ import annotations

from datetime import datetime
from zoneinfo import ZoneInfo

import pytest

from onward.policy.hours import BadHours, parse, standing

OFFICE = "Mon-Fri 08:00-18:00 America/New_York"
NIGHT = "22:00-06:00 Europe/Berlin"
WEEKEND = "Sat-Sun 10:00-14:00, Fri 20:00-24:00 UTC"
NEVER = None


def moment(text: str) -> float:
    """`2026-11-30 07:59 @NY`, UTC without a zone; `@NY` is New York; `+` behind a time: the second of two such."""
    day, clock, *zone = text.replace("@NY", "America/New_York").split()
    told = datetime.fromisoformat(f"{day} {clock.rstrip('+')}")
    return told.replace(tzinfo=ZoneInfo(zone[0] if zone else "UTC"), fold=clock.endswith("+")).timestamp()


@pytest.mark.parametrize(
    ("hours", "now", "is_open", "until"),
    [
        # 2026-11-30 is a Monday
        (OFFICE, "2026-11-30 07:59 @NY", False, "2026-11-30 08:00 @NY"),
        (OFFICE, "2026-11-30 08:00 @NY", True, "2026-11-30 18:00 @NY"),
        (OFFICE, "2026-11-30 17:59 @NY", True, "2026-11-30 18:00 @NY"),
        (OFFICE, "2026-11-30 18:00 @NY", False, "2026-12-01 08:00 @NY"),
        (OFFICE, "2026-12-04 18:00 @NY", False, "2026-12-07 08:00 @NY"),
        (OFFICE, "2026-11-30 12:59", False, "2026-11-30 13:00"),
        (OFFICE, "2026-07-06 12:01", True, "2026-07-06 22:00"),  # summer time: four hours behind UTC
        ("08:00-18:00", "2026-11-29 09:00", True, "2026-11-29 18:00"),  # every day, UTC
        (NIGHT, "2026-11-30 23:00 Europe/Berlin", True, "2026-12-01 06:00 Europe/Berlin"),
        (NIGHT, "2026-12-01 05:59 Europe/Berlin", True, "2026-12-01 06:00 Europe/Berlin"),
        (NIGHT, "2026-12-01 06:00 Europe/Berlin", False, "2026-12-01 22:00 Europe/Berlin"),
        ("Fri 22:00-02:00", "2026-12-05 01:00", True, "2026-12-05 02:00"),  # Friday's night
        ("Fri 22:00-02:00", "2026-12-04 01:00", False, "2026-12-04 22:00"),
        (WEEKEND, "2026-12-04 21:00", True, "2026-12-05 00:00"),
        (WEEKEND, "2026-12-05 00:00", False, "2026-12-05 10:00"),
        (WEEKEND, "2026-12-06 14:00", False, "2026-12-11 20:00"),
        ("Mon, Wed 09:00-10:00", "2026-11-30 10:00", False, "2026-12-02 09:00"),
        ("Fri-Mon 09:00-10:00", "2026-11-30 09:30", True, "2026-11-30 10:00"),
        ("Mon 09:00-12:00, Mon 12:00-15:00", "2026-11-30 10:00", True, "2026-11-30 15:00"),
        ("00:00-24:00 Asia/Kathmandu", "2026-11-30 10:00", True, NEVER),
        ("Mon-Sun 00:00-24:00", "2026-11-30 00:00", True, NEVER),
        # the clock jumps from 02:00 to 03:00 on 2026-03-08: 02:30 is 03:30
        ("02:30-05:00 @NY", "2026-03-08 03:29 @NY", False, "2026-03-08 03:30 @NY"),
        ("01:00-05:00 @NY", "2026-03-08 01:30 @NY", True, "2026-03-08 05:00 @NY"),
        # it goes back from 02:00 to 01:00 on 2026-11-01: an opening is the first, a closing the second
        ("01:30-05:00 @NY", "2026-11-01 01:29 @NY", False, "2026-11-01 01:30 @NY"),
        ("01:30-05:00 @NY", "2026-11-01 01:10+ @NY", True, "2026-11-01 05:00 @NY"),
        ("00:00-01:30 @NY", "2026-11-01 01:40 @NY", True, "2026-11-01 01:30+ @NY"),
    ],
)  # fmt: skip
def test_open_or_not_and_until_when(hours: str, now: str, is_open: bool, until: str | None) -> None:
    told = standing(parse(hours.replace("@NY", "America/New_York")), moment(now))
    assert told == (is_open, None if until is None else moment(until))


@pytest.mark.parametrize(
    ("hours", "complaint"),
    [
        ("", "opening hours are text"),
        ("Mon-Fri", "says no times"),
        ("Mon 8-9", "no day of the week"),
        ("Mon-Fri 08:00-18:00 America/Nowhere", "no time zone 'America/Nowhere'"),
        ("Mon-Fri 08:00-08:00", "whole day is 00:00-24:00"),
        ("Mon-Fri 08:00-25:00", "no clock shows"),
        ("Moonday 08:00-18:00", "no day of the week"),
        ("08:00-18:00,", "empty part"),
    ],
)
def test_texts_that_say_no_hours_are_refused(hours: str, complaint: str) -> None:
    with pytest.raises(BadHours, match=complaint):
        parse(hours)
