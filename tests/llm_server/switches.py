"""What the server can be told, and what is drawn by chance."""

from __future__ import annotations

import hashlib
import math
from dataclasses import asdict, dataclass, field, fields
from statistics import NormalDist
from typing import Any

FAULTS = frozenset(
    (
        *("400", "401", "403", "408", "409", "422", "429", "500", "502", "503", "504", "quota", "model", "context"),
        *("schema", "html", "html_503", "empty", "broken_json", "cut", "reset", "lost", "hang", "late", "incomplete"),
        *("incomplete_empty", "refusal", "content_filter", "failed", "misfit", "misfit_json", "big"),
    )
)
OUTAGES = frozenset({"503", "html", "html_503", "hang", "reset", "refused"})
Spread = float | dict[str, float]


@dataclass
class Switches:
    """See the package's docstring for each."""

    latency: Spread = 0.05
    latency_per_open: float = 0.0
    seed: int = 1
    answer_tokens: Spread | None = None
    reasoning_tokens: int = 0
    chars_per_token: float = 4.0
    cached_from: int = 1024
    key: str | None = None
    forbidden_tenants: list[str] = field(default_factory=list)
    models: list[str] | None = None
    context_tokens: int = 400_000
    requests_per_minute: float | None = None
    tokens_per_minute: float | None = None
    burst_seconds: float = 60.0
    most_open: int | None = None
    retry_after: float | None = None
    retry_after_form: str = "seconds"
    rate_headers: bool = True
    outage: str | None = None
    outage_seconds: float | None = None
    chances: dict[str, Any] = field(default_factory=dict)
    at: dict[str, str] = field(default_factory=dict)
    late_after: float = 5.0
    chat_only: bool = False
    strict_schemas: bool = True
    batch_validating: float = 0.1
    batch_running: float = 0.3
    batch_finalizing: float = 0.1
    batch_end: str = "completed"
    batch_done: float = 1.0
    batch_lost: int = 0
    batch_list_lag: float = 0.0
    end_batches: str | None = None

    def changed(self, words: dict[str, Any]) -> Switches:
        """These switches with others in their places. Raises ValueError for a name or a fault that there is not."""
        known = {one.name for one in fields(self)}
        if unknown := set(words) - known:
            raise ValueError(f"no such switch: {', '.join(sorted(unknown))}; there are {', '.join(sorted(known))}")
        new = Switches(**{**asdict(self), **words})
        new.outage = None if new.outage is None else str(new.outage)
        named = {*new.chances, *(split(spec)[0] for spec in new.at.values())}
        if wrong := named - FAULTS:
            raise ValueError(f"no such fault: {', '.join(sorted(wrong))}; there are {', '.join(sorted(FAULTS))}")
        if new.outage is not None and new.outage not in OUTAGES:
            raise ValueError(f"no such outage: {new.outage}; there are {', '.join(sorted(OUTAGES))}")
        return new


def split(spec: str) -> tuple[str, float]:
    """`misfit*2` → the fault's name and how often it strikes."""
    name, star, times = spec.partition("*")
    return name, float(times) if star else math.inf


def share(*words: object) -> float:
    """A number between 0 and 1 (neither of them) that these words always give."""
    digest = hashlib.blake2b("\0".join(map(str, words)).encode(), digest_size=7).digest()
    return (int.from_bytes(digest) + 0.5) / 2.0**56


def drawn(spread: Spread, *words: object) -> float:
    """The number itself, or one of the lognormal distribution that it describes."""
    if isinstance(spread, dict):
        return spread["median"] * math.exp(spread.get("sigma", 0.5) * NormalDist().inv_cdf(share(*words)))
    return spread
