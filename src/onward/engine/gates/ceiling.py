"""A ceiling: how many calls may be in progress, and how many may begin in a minute."""

from __future__ import annotations

import math

from onward.job.groups import Limit
from onward.policy.pace import Bucket

MOST_AHEAD = 32


class Ceiling:
    """Room for calls in progress, and a rate at which they may begin.

    `begun`: how many have; `peak`: the most that were in progress since that was last set back. `is_shared`: the room
    is what this run has of what all runs of the instance may take together.
    """

    __slots__ = ("_most", "begun", "bucket", "is_shared", "peak", "taken")

    def __init__(self, concurrency: int | None, per_minute: float | None = None):
        self._most = concurrency
        self.taken = 0
        self.peak = 0
        self.begun = 0
        self.is_shared = False
        self.bucket = None if per_minute is None else Bucket(per_minute)

    @classmethod
    def of(cls, limit: Limit | None) -> Ceiling | None:
        return None if limit is None else cls(limit.concurrency, limit.per_minute)

    @property
    def most(self) -> int | None:
        """How many calls may be in progress."""
        return self._most

    def bound(self, most: int) -> None:
        """So many calls may be in progress from now on."""
        self._most = most

    @property
    def room(self) -> int | None:
        """For how many more calls there is room; None: for any number."""
        return None if self.most is None else max(self.most - self.taken, 0)

    def is_free(self, now: float) -> bool:
        return self.room != 0 and (self.bucket is None or self.bucket.available(now) > 0)

    def free_at(self, now: float) -> float | None:
        """When the rate allows another call; None where something else does not."""
        if self.bucket is None or self.room == 0 or not self.bucket.per_minute:
            return None
        return self.bucket.next_at(now)

    def take(self, now: float) -> None:
        self.taken += 1
        self.begun += 1
        if self.taken > self.peak:
            self.peak = self.taken
        if self.bucket is not None:
            self.bucket.take()

    def give_back(self) -> None:
        self.taken -= 1

    @property
    def ahead(self) -> int:
        """How many may stand in line, so that no room stays empty through a commit."""
        by_rate = MOST_AHEAD if self.bucket is None else math.ceil(self.bucket.per_minute / 60.0) + 1
        by_room = MOST_AHEAD if self.most is None else max(self.most, 1)  # who stands in line tells that it is wanted
        return min(MOST_AHEAD, by_rate, by_room)
