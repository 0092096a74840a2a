"""How far ahead of the calls records are claimed, and how calls are spread over a minute."""

from __future__ import annotations

import math
from dataclasses import dataclass

MOST_AHEAD = 4000
LONGEST_WAIT = 3600.0
"""Seconds: no wait that somebody else asks for is longer."""
FACTOR = 8.0


def claim_ahead(calls_per_second: float, commit_seconds: float) -> int:
    """Records to hold ready, beyond the calls in progress, so that no slot idles through a commit.

    Little's law, with room for commits that grow with what they hold. Slow calls hold next to nothing ready.
    """
    return min(MOST_AHEAD, math.ceil(FACTOR * calls_per_second * commit_seconds))


BURST_SECONDS = 0.2


@dataclass(slots=True)
class Bucket:
    """A token bucket: `per_minute` calls, evenly spread. What a late look leaves unused is made up for within a fifth
    of a second's worth, so that no minute has more than its share and that. `now` in seconds of one clock."""

    per_minute: float
    tokens: float = 1.0
    filled_at: float | None = None

    def available(self, now: float) -> int:
        """Calls that may begin now."""
        if self.filled_at is None:
            self.filled_at = now
        most = max(1.0, self.per_minute / 60.0 * BURST_SECONDS)
        self.tokens = min(most, self.tokens + max(now - self.filled_at, 0.0) * self.per_minute / 60.0)
        self.filled_at = now
        return int(self.tokens + 1e-9)

    def take(self) -> None:
        self.tokens -= 1.0

    def set_rate(self, per_minute: float, now: float) -> None:
        """From `now` on it fills at this rate, 0 for not at all."""
        self.available(now)
        self.per_minute = per_minute

    def empty(self, now: float) -> None:
        """Nothing has come yet."""
        self.tokens, self.filled_at = 0.0, now

    def next_at(self, now: float) -> float:
        """When a call may begin."""
        return now if self.available(now) else now + (1.0 - self.tokens) * 60.0 / self.per_minute


@dataclass(slots=True)
class DebtBucket:
    """A bucket for what is known only afterwards, such as the tokens of an answer: an estimate is taken before, the
    difference corrected after, and what was too little is owed before the next call.

    A take waits until it is covered, but never for more than half of what the bucket holds, a fifth of a second's
    worth: so a late look loses nothing, and large takes need no saving up. What comes back from estimates that were
    too high may be taken at once, beyond what the bucket holds; left alone it goes as fast as it would have come.

    No minute has more than `per_minute`, a fifth of a second's worth, what its largest take has beyond half of that,
    and what the calls under way when it began were estimated wrongly by. `now` in seconds of one clock.
    """

    per_minute: float
    _level: float | None = None
    _filled_at: float = 0.0

    def set_rate(self, per_minute: float, now: float) -> None:
        """From `now` on it fills at this rate, 0 for not at all."""
        self.available(now)
        self.per_minute = per_minute

    def empty(self, now: float) -> None:
        """Nothing has come yet."""
        self._level, self._filled_at = 0.0, now

    @property
    def holds(self) -> float:
        return max(1.0, self.per_minute / 60.0 * BURST_SECONDS)

    def available(self, now: float) -> float:
        """What is left now; negative while something is owed."""
        if self._level is None:
            self._level, self._filled_at = self.holds / 2, now
        comes = max(now - self._filled_at, 0.0) * self.per_minute / 60.0
        room = self.holds - self._level
        self._level += min(comes, room) if room > 0 else max(-comes, room)
        self._filled_at = now
        return self._level

    def take(self, number: float) -> None:
        """Take as many as a call is thought to need, whatever is left."""
        self._level = self._now() - number

    def correct(self, more: float) -> None:
        """A call has needed `more` than was taken for it; negative where it needed fewer."""
        self._level = self._now() - more

    def next_at(self, now: float, number: float) -> float:
        """When a call that is thought to need so many may begin: `now`, or later."""
        short = min(number, self.holds / 2) - self.available(now)
        return now if short <= self.holds * 1e-9 else now + short * 60.0 / self.per_minute

    def _now(self) -> float:
        return self.holds / 2 if self._level is None else self._level
