"""How far ahead of the calls records are claimed."""

from __future__ import annotations

import math

MOST_AHEAD = 4000
FACTOR = 8.0


def claim_ahead(calls_per_second: float, commit_seconds: float) -> int:
    """Records to hold ready, beyond the calls in progress, so that no slot idles through a commit.

    Little's law, with room for commits that grow with what they hold. Slow calls hold next to nothing ready.
    """
    return min(MOST_AHEAD, math.ceil(FACTOR * calls_per_second * commit_seconds))
