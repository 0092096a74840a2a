"""Which records are suspected of killing the process, and how the guilty one is found among them."""

from __future__ import annotations

from collections.abc import Sequence

SUSPECT = "suspect"
DEATHS_TO_SUSPECT = 2
DEATHS_TO_CONVICT = 3


def is_suspect(deaths: int, solo_deaths: int) -> bool:
    return deaths >= DEATHS_TO_SUSPECT or solo_deaths > 0


def is_convicted(solo_deaths: int) -> bool:
    return solo_deaths >= DEATHS_TO_CONVICT


def halves(group: Sequence[int]) -> list[list[int]]:
    """The groups to try next after a child died with `group` started: two halves, or the one alone."""
    if len(group) <= 1:
        return [list(group)] if group else []
    middle = (len(group) + 1) // 2
    return [list(group[:middle]), list(group[middle:])]
