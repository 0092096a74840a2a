"""Amounts of money, tokens and time as people read them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import Any

from onward.cli.words import between, rough

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


def about(usd: float, p10: float, p90: float, what: str = "") -> str:
    """`about $31 (27–36)`, or `about $31 to finish (27–36)`: all three to the places of the first."""
    places = _places(usd)
    expected, least, most = (f"{value:,.{places}f}" for value in (usd, p10, p90))
    span = "" if least == most == expected else f" ({between(least, most)})"
    return f"about ${expected}{what}{span}"


def about_time(seconds: float, p10: float, p90: float) -> str:
    """`about 4 min (3–6 min)`."""
    span = between(rough(p10, seconds), rough(p90))
    return f"about {rough(seconds)}" + (f" ({span})" if span != rough(seconds) else "")


def spent(cost: Mapping[str, Any]) -> str:
    """`$3.21 spent (1,204,331 tokens in, 88,120 out)`."""
    amount = "an unknown amount" if cost["spent_usd"] is None else dollars(cost["spent_usd"])
    return f"{amount} spent ({tokens(cost)})"


def tokens(cost: Mapping[str, Any]) -> str:
    """`1,204,331 tokens in, 88,120 out`."""
    found = [f"{count(cost['tokens_in'])} tokens in", f"{count(cost['tokens_out'])} out"]
    if cost["cached_tokens"]:
        found.insert(1, f"{cost['cached_tokens']:,} of them cached")
    if cost["lost"]:
        found.append(f"{cost['lost']:,} {'request' if cost['lost'] == 1 else 'requests'} lost")
    return ", ".join(found)


def to_finish(finish: Mapping[str, Any]) -> str:
    if finish["usd"] is None:
        return f"what the rest costs cannot be told: {finish['why']}"
    return about(finish["usd"], finish["p10"], finish["p90"], " to finish")


def count(number: int | None) -> str:
    return UNKNOWN if number is None else f"{number:,}"
