"""The provider's limits: buckets that fill evenly, and the headers that tell of them."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from email.utils import formatdate

from .asked import Asked
from .bodies import Trouble
from .switches import Switches

Headers = list[tuple[str, str]]


class Bucket:
    """So much a minute, of which `burst_seconds` worth may lie ready."""

    def __init__(self, per_minute: float, burst_seconds: float, now: float):
        self.per_minute = per_minute
        self.size = max(1.0, per_minute * burst_seconds / 60)
        self.level = self.size
        self.filled = now

    def fill(self, now: float) -> None:
        self.level = min(self.size, self.level + (now - self.filled) * self.per_minute / 60)
        self.filled = now

    def lacking(self, amount: float) -> float:
        """Seconds until so much is there; what is more than the whole bucket fits a full one."""
        return max(0.0, (min(amount, self.size) - self.level) * 60 / self.per_minute)

    def headers(self, name: str) -> Headers:
        return [
            (f"x-ratelimit-limit-{name}", str(int(self.per_minute))),
            (f"x-ratelimit-remaining-{name}", str(max(0, math.floor(self.level)))),
            (f"x-ratelimit-reset-{name}", span((self.size - self.level) * 60 / self.per_minute)),
        ]


@dataclass(frozen=True)
class Limited:
    """A request that is over a limit."""

    trouble: Trouble
    wait: float


class Limits:
    def __init__(self, switches: Switches):
        now = time.monotonic()
        limits = (("requests", switches.requests_per_minute), ("tokens", switches.tokens_per_minute))
        self.buckets = {name: Bucket(most, switches.burst_seconds, now) for name, most in limits if most}

    def take(self, asked: Asked, tokens: int) -> Limited | None:
        """Let a request through and count it, or say what is over and for how long."""
        now = time.monotonic()
        wanted = {"requests": 1.0, "tokens": float(tokens)}
        for bucket in self.buckets.values():
            bucket.fill(now)
        for name, bucket in self.buckets.items():
            if wait := bucket.lacking(wanted[name]):
                words = f"Rate limit reached for {asked.model} on {name} per min: Limit {int(bucket.per_minute)}."
                return Limited(Trouble(429, words, name, "rate_limit_exceeded"), wait)
        for name, bucket in self.buckets.items():
            bucket.level -= wanted[name]
        return None

    def headers(self) -> Headers:
        return [header for name, bucket in self.buckets.items() for header in bucket.headers(name)]


def retry_after(wait: float, switches: Switches) -> Headers:
    """How long to wait, in the form that is set."""
    seconds = wait if switches.retry_after is None else switches.retry_after
    match switches.retry_after_form:
        case "none":
            return []
        case "ms":
            return [("retry-after-ms", str(math.ceil(seconds * 1000)))]
        case "date":
            return [("retry-after", formatdate(math.ceil(time.time() + seconds), usegmt=True))]
    return [("retry-after", str(math.ceil(seconds)))]


def span(seconds: float) -> str:
    """As the API writes it: `1m3.5s`, `20ms`."""
    if seconds < 1:
        return f"{math.ceil(seconds * 1000)}ms"
    minutes, rest = divmod(seconds, 60)
    return f"{int(minutes)}m{rest:.3g}s" if minutes else f"{rest:.4g}s"
