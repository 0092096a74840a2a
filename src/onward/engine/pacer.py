"""How fast calls and claims go, so that records are claimed ahead of the calls, and no further than they are quick."""

from __future__ import annotations

import time

from onward.policy.pace import claim_ahead

MEASURE_EVERY = 0.05
FIRST_CLAIM = 0.002


class Pacer:
    def __init__(self) -> None:
        self._claim_seconds = FIRST_CLAIM
        self._claim_began = 0.0
        self._calls_per_second = 0.0
        self._calls_counted = 0
        self._counted_at = time.monotonic()

    def ahead(self, calls_done: int) -> int:
        """Records to hold ready; `calls_done` so far."""
        now = time.monotonic()
        elapsed = now - self._counted_at
        if elapsed >= MEASURE_EVERY:
            self._calls_per_second += 0.5 * ((calls_done - self._calls_counted) / elapsed - self._calls_per_second)
            self._calls_counted = calls_done
            self._counted_at = now
        return claim_ahead(self._calls_per_second, self._claim_seconds)

    def claim_begins(self) -> None:
        self._claim_began = time.monotonic()

    def claim_ends(self) -> None:
        self._claim_seconds += 0.3 * (time.monotonic() - self._claim_began - self._claim_seconds)

    def calls_are_slow(self) -> None:
        """They have turned out so: nothing is held ready until they are quick again."""
        self._calls_per_second = 0.0
