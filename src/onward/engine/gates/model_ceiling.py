"""The ceiling of all calls that ask one model: requests and tokens a minute, and how many may be in progress, which
adapts to how the provider answers."""

from __future__ import annotations

import time
from collections.abc import Sequence

from onward.engine.gates.ceiling import Ceiling
from onward.job.models import ModelTraits
from onward.model import Kind, Spent
from onward.policy.adaptive import Adaptive
from onward.policy.failures import Classified
from onward.policy.pace import Bucket, DebtBucket
from onward.policy.rates import Rates

GUESS = 1000
"""Tokens of a request, before any has told."""
WEIGHT = 0.05


class ModelCeiling(Ceiling):
    """A call takes the tokens that requests have come to so far, and the difference once it has told its own."""

    __slots__ = ("_adaptive", "_expected", "_may_learn", "name", "throttled", "tokens")

    def __init__(self, model: ModelTraits, concurrency: int, patient: bool):
        super().__init__(None, model.requests_per_minute if patient else None)
        self.name = model.name
        self.throttled: float | None = None  # the last time, in UTC seconds
        self.tokens = DebtBucket(model.tokens_per_minute) if model.tokens_per_minute and patient else None
        self._adaptive = Adaptive(min(model.max_concurrency or concurrency, concurrency))
        self._expected = float(GUESS)
        self._may_learn = patient and model.requests_per_minute is None and model.tokens_per_minute is None

    @property
    def most(self) -> int:
        return self._adaptive.limit

    def is_free(self, now: float) -> bool:
        return super().is_free(now) and self.has_tokens(now)

    def has_tokens(self, now: float) -> bool:
        """Whether a call may begin as far as its tokens go."""
        if self.tokens is None:
            return True
        return self.tokens.per_minute > 0 and self.tokens.next_at(now, self._expected) <= now

    @property
    def expected(self) -> float:
        """Tokens of the next call, as far as can be told."""
        return self._expected

    def free_at(self, now: float) -> float | None:
        by_requests = super().free_at(now) if self.bucket is not None else now
        if self.room == 0 or by_requests is None or (self.tokens is not None and not self.tokens.per_minute):
            return None
        return by_requests if self.tokens is None else max(by_requests, self.tokens.next_at(now, self._expected))

    def take(self, now: float) -> None:
        super().take(now)
        if self.tokens is not None:
            self.tokens.take(self._expected)

    def heard(self, spent: Sequence[Spent], failure: Classified | None, now: float) -> None:
        """A call has ended, with these requests."""
        requests = sum(one.requests for one in spent)
        tokens = sum(one.tokens_in + one.tokens_out for one in spent)
        if self.bucket is not None:
            for _ in range(1, requests):
                self.bucket.take()
        if self.tokens is not None:
            self.tokens.correct(tokens - self._expected)
        began = now - (sum(one.seconds for one in spent) / requests if requests else 0.0)
        if failure is not None and failure.throttled:
            self.throttled = time.time()
            self._adaptive.throttled(now, began)
        elif failure is not None and failure.kind is Kind.TRANSIENT:
            self._adaptive.failed()
        elif requests:
            self._expected += WEIGHT * (tokens - self._expected)
            self._adaptive.answered(now, began, self.taken)

    def learn(self, rates: Rates) -> None:
        """Limits that the job does not declare are those that the provider tells."""
        if not self._may_learn:
            return
        requests, tokens = rates.requests.per_minute, rates.tokens.per_minute
        if requests and (self.bucket is None or self.bucket.per_minute != requests):
            self.bucket = Bucket(requests)
        if tokens and (self.tokens is None or self.tokens.per_minute != tokens):
            self.tokens = DebtBucket(tokens)
