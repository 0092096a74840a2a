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

    def next_at(self, now: float) -> float:
        """When a call may begin."""
        return now if self.available(now) else now + (1.0 - self.tokens) * 60.0 / self.per_minute
