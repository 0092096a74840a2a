"""How many requests go together, and how often is asked how they stand."""

from __future__ import annotations

MOST_REQUESTS = 50_000
"""In a file: what providers take."""
MOST_BYTES = 64 << 20
"""Of bodies in a file: providers take some 200 MB; more files of less are answered side by side."""
FIRST_LOOK = 0.25
LONGEST_PAUSE = 60.0
SHARE_OF_AGE = 0.1
NO_ROOM_CODES = frozenset({"token_limit_exceeded"})
"""By which a provider says that too much waits there already."""
WINDOW = 24 * 3600.0
"""Seconds that a provider takes at most."""
MUCH_LATER = WINDOW + 3600.0


def is_full(requests: int, size: int, most_requests: int = MOST_REQUESTS) -> bool:
    """Whether more would not go into the same file: it need not wait for others."""
    return requests >= most_requests or size >= MOST_BYTES


def pause_before_look(watched: float) -> float:
    """Seconds until a batch that has been watched for so long is looked at again."""
    return min(max(watched * SHARE_OF_AGE, FIRST_LOOK), LONGEST_PAUSE)


def is_forgotten(at: float, now: float) -> bool:
    """Whether a batch that the provider does not know must be long over, and not be one of another account."""
    return now > at + MUCH_LATER


def fewer(requests: int, others: int) -> int | None:
    """How many to send together after the provider had no room for so many beside `others`; None where one alone was
    too much."""
    return max(requests // 2, 1) if requests > 1 or others else None
