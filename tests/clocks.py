"""A clock that stands still until it is told otherwise."""

from __future__ import annotations


class HandClock:
    """`ports.clock.Clock` moved by hand. Wall time may jump, steady time only grows, a reboot starts it anew."""

    def __init__(self, now: float = 1_700_000_000.0, steady: float = 1000.0):
        self._now = now
        self._steady = steady
        self._boots = 1

    def now(self) -> float:
        return self._now

    def steady(self) -> float:
        return self._steady

    @property
    def boot(self) -> str:
        return f"boot-{self._boots}"

    def pass_time(self, seconds: float) -> None:
        self._now += seconds
        self._steady += seconds

    def jump(self, seconds: float) -> None:
        """The wall clock is set; no time has passed."""
        self._now += seconds

    def reboot(self, seconds: float = 30.0) -> None:
        self._now += seconds
        self._steady = 1.0
        self._boots += 1
