"""Money and tokens as people read them."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from rich.console import RenderableType

from onward.cli.grid import table

CENTS = 2
UNKNOWN = "unknown"


def dollars(usd: float | None) -> str:
    """`$3.21`, `$0.0042`; what is less than ten cents with two digits that say something."""
    return UNKNOWN if usd is None else f"${usd:,.{max(CENTS, _places(usd))}f}"


def _places(usd: float) -> int:
    """Decimal places for two digits of an amount; none from ten dollars on."""
    if usd >= 10:
        return 0
    if usd >= 0.1 or usd <= 0:
        return CENTS
    return min(1 - math.floor(math.log10(usd)), 8)


def usage(used: Sequence[Mapping[str, Any]]) -> Iterator[RenderableType]:
    """What a generation's requests to models came to, a row for each step and model."""
    rows = [
        (
            one["step"],
            one["model"],
            f"{one['requests']:,}" + _besides(one),
            _count(one["tokens_in"]) + (f" ({one['cached_tokens']:,} cached)" if one["cached_tokens"] else ""),
            _count(one["tokens_out"]),
            dollars(one["spent_usd"]),
            f"{one['seconds']:.2f}",
        )
        for one in used
    ]
    yield from table("step", "model", "requests", "tokens in", "tokens out:", "cost:", "seconds:", rows=rows)


def _besides(one: Mapping[str, Any]) -> str:
    parts = [f"{one[name]:,} {said}" for name, said in (("repairs", "to repair"), ("lost", "lost")) if one[name]]
    return f" ({', '.join(parts)})" if parts else ""


def _count(number: int | None) -> str:
    return UNKNOWN if number is None else f"{number:,}"
