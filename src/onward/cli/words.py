"""Numbers, keys and causes as people read them."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import Any

SHOWN_STATES = ("succeeded", "failed", "quarantined", "unconfirmed", "in_progress", "pending")


LONGEST_KEY = 100
LONGEST_TEXT = 1000


def key_text(key: Any) -> str:
    """A key as it is typed: text plainly, the rest as JSON; nothing that could steer a terminal, long ones cut."""
    from onward.codec import dumps

    if isinstance(key, str) and key.isprintable():
        return short(key, LONGEST_KEY)
    return short(dumps(key), LONGEST_KEY).encode("ascii", "backslashreplace").decode()


def short(text: str, most: int) -> str:
    """At most so many letters: of a longer text the middle is left out."""
    end = most // 3
    return text if len(text) <= most else f"{text[: most - end - 1]}…{text[-end:]}"


def brief(text: str) -> str:
    """Foreign text as a part of a line: printable, and not without end."""
    return printable(short(text, LONGEST_TEXT))


def printable(text: str) -> str:
    """Foreign text on one line, without anything that could steer a terminal."""
    return "".join(letter if letter.isprintable() else repr(letter)[1:-1] for letter in text)


def first_line(text: str) -> str:
    """What an error says in a table; some go on with advice of their own."""
    return text.strip().partition("\n")[0].rstrip()


def records(number: int) -> str:
    return f"{number:,} record" if number == 1 else f"{number:,} records"


def have(number: int) -> str:
    return "has" if number == 1 else "have"


def counted(counts: Mapping[str, int], total: int, vanished: int = 0, stale: int = 0) -> str:
    """`99,880 succeeded, 12 failed of 99,892`; states without records are left out."""
    to_go = counts.get("pending", 0) + counts.get("in_progress", 0)
    parts = [f"{counts.get('succeeded', 0):,} succeeded"]
    parts += [f"{counts[state]:,} {state}" for state in ("failed", "quarantined", "unconfirmed") if counts.get(state)]
    parts += [f"{to_go:,} to go"] if to_go else []
    parts[-1] += f" of {total:,}"
    parts += [f"{number:,} {what}" for number, what in ((vanished, "vanished"), (stale, "stale")) if number]
    return ", ".join(parts)


def rate(per_second: float) -> str:
    """Records a second, a minute or an hour, whichever gives a number that says something."""
    if per_second >= 10:
        return f"{per_second:,.0f}/s"
    if not per_second:
        return "0/s"
    if per_second >= 1:
        return f"{per_second:.1f}/s"
    if per_second >= 1 / 60:
        return f"{per_second * 60:.0f}/min"
    return f"{per_second * 3600:.0f}/h"


def rates(own: float, every: float) -> str:
    """A run's rate, and that of all together where others do a part of it."""
    return f"{rate(own)} here, {rate(every)} in all" if every > own * 1.2 and own else rate(own)


def duration(value: float) -> str:
    """Seconds as people say them: `4.2 s`, `7 min 45 s`, `3 h 12 min`, `2 d 4 h`."""
    if value < 9.95:
        return f"{value:.1f} s"
    whole = round(value)
    if whole < 60:
        return f"{whole} s"
    for size, name, below, lesser in ((86400, "d", 3600, "h"), (3600, "h", 60, "min")):
        if whole >= size:
            return _two(whole // size, name, whole % size // below, lesser)
    return _two(whole // 60, "min", whole % 60, "s")


def _two(number: int, name: str, rest: int, lesser: str) -> str:
    return f"{number} {name} {rest} {lesser}" if rest else f"{number} {name}"


def clock(moment: float) -> str:
    """A moment (UTC seconds) by the clock."""
    return time.strftime("%Y-%m-%d %H:%M", time.gmtime(moment)) + " UTC"


def rough(value: float, beside: float = 0.0) -> str:
    """Seconds, no finer than a guess can be; in minutes where what stands `beside` is."""
    if beside >= 90 and value < 90:
        return f"{max(round(value / 60), 1)} min"
    if value < 90:
        return f"{max(round(value / 5) * 5, 5)} s"
    if value < 3600:
        return f"{round(value / 60)} min"
    return duration(round(value / 600) * 600 if value > 36000 else round(value / 60) * 60)


def between(first: str, last: str) -> str:
    """`27–36`, `3–6 min`: what both have in common is said once."""
    if first == last:
        return first
    number, _, unit = first.partition(" ")
    return f"{number}–{last}" if unit and last.partition(" ")[2] == unit and " " not in unit else f"{first}–{last}"


def held_elsewhere(number: int) -> str:
    return f"waiting for {records(number)} with other runs (of one that died they come back when its lease is over)"


def left(eta: float, ends: tuple[float, float, float] | None = None) -> str:
    """A guess of the time left, no finer than a guess can be, and its P10 and P90: `about 4 min left (3–6 min)`."""
    if eta < 10:
        return "a few seconds left"
    span = rough(eta) if ends is None else between(rough(ends[0], eta), rough(ends[2]))
    return f"about {rough(eta)} left" + ("" if span == rough(eta) else f" ({span})")
