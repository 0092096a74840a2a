"""What the registry does wrong, how often, and to whom: drawn from a seed, not from the order of requests."""

from __future__ import annotations

import hashlib
import time
from collections import Counter
from datetime import UTC, datetime
from typing import Any

ALWAYS = 1_000_000_000
EVERYWHERE = "*"
CHANCES = {
    "late_landing": "hangs up at once and applies the filing `landing_after` seconds after it came in",
    "reset_after_apply": "applies the filing and resets the connection instead of answering",
    "reset_before_apply": "resets the connection and applies nothing",
    "error_after_apply": "applies the filing and answers 500",
    "truncated_reply": "applies the filing and hangs up in the middle of its answer",
    "slow_reply": "applies the filing and answers `reply_after` seconds later",
    "conflict_on_resend": "answers 409 to a key that it knows, instead of giving its first answer again",
    "throttle": "answers 429 with Retry-After and applies nothing",
    "lookup_error": "answers 500 to a lookup",
    "wrong_fee": "names another fee in the acknowledgement",
}
"""Each is a probability, or [probability, how often at most for one key]."""

SETTINGS: dict[str, Any] = {
    "seed": 1,
    "landing_after": 3.0,
    "reply_after": 30.0,
    "retry_after": 1.0,
    "retry_after_form": "seconds",  # or "date"
    "lookup_lag": 0.0,  # a filing is not found for so many seconds after it was applied
    "acknowledged_after": 0.0,
    "dedupe_window": 72 * 3600.0,  # how long a key is remembered; 0: not at all
    "outage": {},  # for so many seconds from now everything is answered with 503; or by jurisdiction, seconds from now
    "closed": {},  # by jurisdiction: "22:00-06:00" (UTC), or seconds from now
}


class Switches:
    """The registry's bad habits. They can be changed while it runs."""

    def __init__(self) -> None:
        self._chances: dict[str, tuple[float, int]] = dict.fromkeys(CHANCES, (0.0, 0))
        self._settings = dict(SETTINGS)
        self._asked: Counter[tuple[str, str]] = Counter()
        self._fired: Counter[tuple[str, str]] = Counter()

    def set(self, given: dict[str, Any]) -> None:
        """Change some; `reset` brings all back to their defaults first. Raises ValueError for what there is not."""
        if given.pop("reset", False):
            self.__init__()  # type: ignore[misc]
        unknown = given.keys() - CHANCES.keys() - SETTINGS.keys()
        if unknown:
            known = ", ".join([*CHANCES, *SETTINGS])
            raise ValueError(f"no switch {', '.join(sorted(unknown))}; there are {known}")
        for name, value in given.items():
            if name in CHANCES:
                chance, at_most = value if isinstance(value, list) else (value, ALWAYS)
                self._chances[name] = float(chance), int(at_most)
            elif name == "outage":
                by_place = value if isinstance(value, dict) else {EVERYWHERE: value}
                self._settings[name] = {place: time.time() + float(seconds) for place, seconds in by_place.items()}
            elif name == "closed":
                self._settings[name] = {place: _hours(hours) for place, hours in value.items()}
            else:
                self._settings[name] = type(SETTINGS[name])(value)

    def shown(self) -> dict[str, Any]:
        return {**{name: list(chance) for name, chance in self._chances.items() if chance[0]}, **self._settings}

    def __getitem__(self, setting: str) -> Any:
        return self._settings[setting]

    def fires(self, name: str, key: str) -> bool:
        """Whether the registry does it this time: the same for the same seed, key and number of times asked."""
        chance, at_most = self._chances[name]
        if not chance or self._fired[name, key] >= at_most:
            return False
        self._asked[name, key] += 1
        drawn = hashlib.blake2b(f"{self['seed']} {name} {key} {self._asked[name, key]}".encode(), digest_size=6)
        fires = int.from_bytes(drawn.digest()) < chance * (1 << 48)
        self._fired[name, key] += fires
        return fires

    def is_out(self, jurisdiction: str) -> bool:
        ends = self["outage"]
        return time.time() < max(ends.get(EVERYWHERE, 0.0), ends.get(jurisdiction, 0.0))

    def closed_for(self, jurisdiction: str) -> float:
        """Seconds until its office opens; 0 where it is open."""
        hours = self["closed"].get(jurisdiction)
        now = time.time()
        if hours is None:
            return 0.0
        if isinstance(hours, float):
            return max(hours - now, 0.0)
        closes, opens = hours
        today = datetime.fromtimestamp(now, UTC)
        minute = today.hour * 60 + today.minute + today.second / 60
        is_closed = closes <= minute < opens if closes <= opens else not opens <= minute < closes
        return (opens - minute) % (24 * 60) * 60 if is_closed else 0.0


def _hours(given: Any) -> float | tuple[int, int]:
    """`22:00-06:00` as minutes of the day, or seconds from now as the moment that they end."""
    if not isinstance(given, str):
        return time.time() + float(given)
    closes, opens = (int(hour) * 60 + int(minute) for hour, minute in (one.split(":") for one in given.split("-")))
    return closes, opens
