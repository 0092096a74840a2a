"""What of a ceiling is counted, and divided among the runs that are under it."""

from __future__ import annotations

import hashlib
import math
from abc import ABC, abstractmethod

from onward.engine.gates.ceiling import Ceiling
from onward.engine.gates.model_ceiling import ModelCeiling
from onward.policy.pace import Bucket, DebtBucket
from onward.ports.work import Offer, Portion

LATELY = 1.0
BRIEFLY = 0.25
"""Seconds for which a run wants more after it could have used more, and some after it has used some; the latter where
others want room for calls."""
LONGEST_NAME = 200
RESERVE = 1.5
LEAST = 0.01
SLACK = 0.02
"""Of a rate: how much more than it used lately a run keeps, which part of all is the least that it wants, and which
part is not worth an exchange of its own."""


class Part(ABC):
    """One quantity of a ceiling, `size` for all runs together; `held` is this run's, and of that it uses no more than
    `target`, what it is to have. Times are monotonic seconds."""

    whole = False

    def __init__(self, name: str, size: float, ceiling: Ceiling):
        self.name = name if len(name) <= LONGEST_NAME else hashlib.sha256(name.encode()).hexdigest()
        self.size = size
        self.ceiling = ceiling
        self.held = self.target = size
        self.wanted = 0.0
        self.blocked_at = self._used_at = -math.inf

    def begin(self, held: float, now: float) -> None:
        """From now on runs share it."""
        self._have(held, held, now)

    def end(self, now: float) -> None:
        """There is nobody to share it with."""
        self._have(self.size, self.size, now)

    def offer(self, now: float, stopping: bool) -> Offer:
        """What the run keeps and wants; from here on it uses no more than it keeps."""
        self.wanted = self._in_use if stopping else max(self._wanted(now), self._in_use)
        may_go_on = self.wanted > 0 and not stopping
        keep = max(self._in_use, min(self.held, self.target) if may_go_on else 0.0)
        self._have(keep, self.target if self.wanted else 0.0, now)
        return Offer(self.name, self.size, keep, self.wanted, self.whole)

    def hear(self, portion: Portion, now: float) -> bool:
        """What has come of the offer; whether the run may use more than it could."""
        before = min(self.held, self.target)
        self._have(portion.held, portion.target, now)
        return min(self.held, self.target) > before

    def block(self, now: float) -> None:
        """A call could begin if there were more of it."""
        self.blocked_at = now

    def need(self, now: float) -> None:
        """A call could begin if there were more of something else as well."""
        self._used_at = now

    @property
    def lacks(self) -> bool:
        """Whether there is more to be had, now or once others have given it back."""
        return self.held + self._slack < self.target or self.wanted < self.size

    def returns(self, now: float) -> bool:
        """Whether the run holds what others want and it does not use any more."""
        return self.held - self._slack > max(self.target, self._in_use)

    @property
    def _slack(self) -> float:
        """So much of a rate comes and goes with what others happen to use: it can wait."""
        return 0.0 if self.whole else self.size * SLACK

    def _have(self, held: float, target: float, now: float) -> None:
        self.held, self.target = held, target
        self._bound(min(held, target), now)

    @property
    @abstractmethod
    def _in_use(self) -> float:
        """What cannot be given back now."""

    def note(self, now: float) -> None:  # noqa: B027 - not everything has to be looked at so often
        """Look whether it is used."""

    @abstractmethod
    def is_in_the_way(self, now: float) -> bool:
        """Whether there is none left for another call."""

    @abstractmethod
    def _wanted(self, now: float) -> float: ...

    @abstractmethod
    def _bound(self, most: float, now: float) -> None:
        """Use no more than this."""


class Calls(Part):
    """Calls in progress."""

    whole = True

    def __init__(self, name: str, size: float, ceiling: Ceiling):
        super().__init__(name, size, ceiling)
        self._peak = 0

    def need(self, now: float) -> None:
        super().need(now)
        self._peak = max(self._peak, 1)

    def is_in_the_way(self, now: float) -> bool:
        return self.ceiling.room == 0

    @property
    def _in_use(self) -> float:
        return float(self.ceiling.taken)

    def _wanted(self, now: float) -> float:
        self.note(now)
        if now - self.blocked_at < LATELY:
            return self.size
        return 0.0 if self._is_idle(now) else float(self._peak)

    def note(self, now: float) -> None:
        if self.ceiling.peak:
            self._peak, self._used_at = self.ceiling.peak, now
            self.ceiling.peak = self.ceiling.taken

    def returns(self, now: float) -> bool:
        return super().returns(now) or (self.held > 0 and self._is_idle(now) and now - self.blocked_at >= LATELY)

    def _is_idle(self, now: float) -> bool:
        others_want = self.target < self.size
        return now - self._used_at >= (BRIEFLY if others_want else LATELY)

    def _bound(self, most: float, now: float) -> None:
        self.ceiling.bound(int(most))


class Rate(Part):
    """Calls that begin in a minute."""

    def __init__(self, name: str, size: float, ceiling: Ceiling):
        super().__init__(name, size, ceiling)
        self._begun, self._counted_at, self._used = 0, -math.inf, 0.0

    @property
    def _bucket(self) -> Bucket | DebtBucket:
        assert self.ceiling.bucket is not None
        return self.ceiling.bucket

    def begin_with_nothing(self, now: float) -> None:
        """One that is met for the first time while runs share: what others may have used meanwhile is not there."""
        self._bucket.empty(now)
        self.begin(0.0, now)

    def is_in_the_way(self, now: float) -> bool:
        assert self.ceiling.bucket is not None
        return self.ceiling.bucket.available(now) < 1

    @property
    def _in_use(self) -> float:
        return 0.0

    @property
    def _a_call(self) -> float:
        """What one call uses."""
        return 1.0

    def _owes(self, now: float) -> bool:
        """Whether calls have used, or may turn out to have used, more than was there."""
        return self.ceiling.taken > 0 or self._bucket.available(now) < 0

    def _wanted(self, now: float) -> float:
        self._count(now)
        if now - self.blocked_at < LATELY:
            return self.size
        if now - self._used_at < LATELY or self._owes(now):
            return min(max(self._used * RESERVE, self.size * LEAST), self.size)
        return 0.0

    def _count(self, now: float) -> None:
        begun, seconds = self.ceiling.begun - self._begun, now - self._counted_at
        if begun:
            self._used_at = now
        if seconds >= LATELY / 2:
            lately = begun * self._a_call * 60.0 / seconds
            self._used = max(lately, (lately + self._used) / 2)
            self._begun, self._counted_at = self.ceiling.begun, now

    def _bound(self, most: float, now: float) -> None:
        self._bucket.set_rate(most, now)


class Tokens(Rate):
    """Tokens that are used in a minute."""

    ceiling: ModelCeiling

    @property
    def _bucket(self) -> DebtBucket:
        assert self.ceiling.tokens is not None
        return self.ceiling.tokens

    @property
    def _a_call(self) -> float:
        return self.ceiling.expected

    def is_in_the_way(self, now: float) -> bool:
        return not self.ceiling.has_tokens(now)


def parts_of(ceiling: Ceiling, name: str) -> list[Part]:
    """The quantities of a ceiling that all runs of an instance are under."""
    found: list[Part] = []
    if isinstance(ceiling, ModelCeiling):
        if ceiling.bucket is not None:
            found.append(Rate(f"requests of {name}", ceiling.bucket.per_minute, ceiling))
        if ceiling.tokens is not None:
            found.append(Tokens(f"tokens of {name}", ceiling.tokens.per_minute, ceiling))
        return found
    if ceiling.most is not None:
        found.append(Calls(f"calls at {name}", ceiling.most, ceiling))
    if ceiling.bucket is not None:
        found.append(Rate(f"rate of {name}", ceiling.bucket.per_minute, ceiling))
    return found
