"""What asking models has cost, in the words of the contract."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from onward.job.models import PICO
from onward.model import Spent


def cost(parts: Iterable[Spent]) -> dict[str, Any]:
    """What requests to models came to: null for what is not known, zero where nothing was asked."""
    total = Spent("")
    for one in parts:
        total.add(one)
    tokens = {
        "tokens_in": total.tokens_in,
        "tokens_out": total.tokens_out,
        "cached_tokens": total.cached_tokens,
    }
    is_known = not total.unpriced and not total.uncounted
    return {
        "spent_usd": total.picodollars / PICO if is_known else None,
        **(dict.fromkeys(tokens) if total.uncounted else tokens),
        "requests": total.requests,
        "lost": total.lost,
    }


def spent(one: Spent) -> dict[str, Any]:
    return {"model": one.model, **cost([one]), "repairs": one.repairs}
