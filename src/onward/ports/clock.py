"""The clock that everything asks."""

from __future__ import annotations

from typing import Protocol


class Clock(Protocol):
    """Time, handed in so that it can be simulated."""

    def now(self) -> float:
        """Seconds since 1970 in UTC; may jump."""

    def steady(self) -> float:
        """Seconds that only grow, also while the host sleeps. Comparable only within one `boot`."""

    @property
    def boot(self) -> str:
        """Identity of this boot of this host."""
