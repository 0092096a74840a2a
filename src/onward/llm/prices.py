"""What tokens cost: a small dated table, prices of the user's own, and sums without rounding errors.

Money is counted in whole picodollars (a millionth of a millionth of a dollar): a dollar for a million tokens is a
million picodollars a token.
"""

from __future__ import annotations

import math
import re
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any

from onward.errors import UsageError
from onward.llm.answers import Usage
from onward.model import Spent

PICODOLLARS = 10**12
"""In a dollar."""
AS_OF = "2025-09"
"""The month whose list prices the table has: standard tier, text, USD for a million tokens."""

_TABLE: dict[str, tuple[str, str, str]] = {  # input, cached input, output
    "gpt-4o": ("2.50", "1.25", "10.00"),
    "gpt-4o-2024-05-13": ("5.00", "5.00", "15.00"),
    "gpt-4o-mini": ("0.15", "0.075", "0.60"),
    "gpt-4.1": ("2.00", "0.50", "8.00"),
    "gpt-4.1-mini": ("0.40", "0.10", "1.60"),
    "gpt-4.1-nano": ("0.10", "0.025", "0.40"),
    "o3": ("2.00", "0.50", "8.00"),
    "o4-mini": ("1.10", "0.275", "4.40"),
    "gpt-5": ("1.25", "0.125", "10.00"),
    "gpt-5-mini": ("0.25", "0.025", "2.00"),
    "gpt-5-nano": ("0.05", "0.005", "0.40"),
}
_DATE = re.compile(r"-\d{4}-\d{2}-\d{2}$")
_NEEDED = ("input", "output")
_CHOICES = ("input", "cached_input", "output")
_EXAMPLE = 'prices={"input": 4.0, "cached_input": 1.0, "output": 12.0}, USD for a million tokens'
_HIGHEST = 1_000_000
MOST_FOR_ONE = 2**53
"""Picodollars, some $9,000: no answer costs so much, and sums of many must not overflow."""


@dataclass(frozen=True, slots=True)
class Price:
    """Picodollars for one token of each sort; `cached` input is that which the provider had seen before."""

    input: int
    cached_input: int
    output: int


def price_of(model: str, override: Mapping[str, Any] | None = None) -> Price | None:
    """The price of a model; None where it is unknown, which is never taken for free.

    `override`: the user's own, `{"input": …, "cached_input": …, "output": …}` in USD for a million tokens; without
    `cached_input` that costs what input does. Finer prices than a picodollar a token are rounded up. A model's dated
    snapshot (`gpt-4o-2024-08-06`) has the price of the model. Raises UsageError for an override that is no price.
    """
    if override is not None:
        return _overridden(override)
    known = _TABLE.get(model) or _TABLE.get(_DATE.sub("", model))
    return None if known is None else Price(*(_picodollars(Decimal(text)) for text in known))


def cost(price: Price, tokens_in: int, cached: int, tokens_out: int, half: bool = False) -> int:
    """Picodollars for a call. `tokens_in` has the `cached` ones in it. `half`: the batch price, rounded up."""
    cached = min(cached, tokens_in)
    whole = (tokens_in - cached) * price.input + cached * price.cached_input + tokens_out * price.output
    return (whole + 1) // 2 if half else whole


def most(price: Price, bytes_in: int, max_output_tokens: int, half: bool = False) -> int:
    """The most picodollars that a call can cost, known before it is made: a token is at least one byte.

    `bytes_in`: of the whole request body, so that what the provider puts around each message is covered as well.
    """
    dearest = max(price.input, price.cached_input)
    whole = bytes_in * dearest + max_output_tokens * price.output
    return (whole + 1) // 2 if half else whole


def charge(spent: Spent, price: Price | None, usage: Usage | None, half: bool = False) -> None:
    """Write down what an answer cost; what is unknown is counted as that, never as zero."""
    picodollars = (
        0 if usage is None or price is None else cost(price, usage.tokens_in, usage.cached, usage.tokens_out, half)
    )
    if usage is None or picodollars >= MOST_FOR_ONE:
        spent.uncounted = 1
        return
    spent.tokens_in, spent.tokens_out, spent.cached_tokens = usage.tokens_in, usage.tokens_out, usage.cached
    spent.unpriced, spent.picodollars = int(price is None), picodollars


def _overridden(given: Mapping[str, Any]) -> Price:
    if not isinstance(given, Mapping):
        raise UsageError(f"prices= is a mapping like {_EXAMPLE}, not {type(given).__name__}")
    unknown = [str(name) for name in given if name not in _CHOICES]
    if unknown:
        listed = ", ".join(map(repr, unknown))
        raise UsageError(f"prices= has no {listed} (choices: {', '.join(_CHOICES)}); write {_EXAMPLE}")
    absent = [repr(name) for name in _NEEDED if name not in given]
    if absent:
        raise UsageError(f"prices= lacks {' and '.join(absent)}; write {_EXAMPLE}")
    amounts = {name: _picodollars(_amount(value, f"prices= {name!r}")) for name, value in given.items()}
    return Price(amounts["input"], amounts.get("cached_input", amounts["input"]), amounts["output"])


def _amount(value: Any, name: str) -> Decimal:
    """The decimal number that was written, not the binary one beside it."""
    if isinstance(value, bool) or not isinstance(value, int | float | Decimal):
        raise UsageError(f"{name} is a number of USD, not {type(value).__name__}; write {_EXAMPLE}")
    amount = Decimal(repr(value)) if isinstance(value, float) else Decimal(value)
    if not amount.is_finite() or amount < 0 or amount > _HIGHEST:
        raise UsageError(f"{name} is a number of USD from 0 to {_HIGHEST:,}, not {value}; write {_EXAMPLE}")
    return amount


def _picodollars(usd_per_million: Decimal) -> int:
    return math.ceil(Fraction(usd_per_million) * PICODOLLARS / 1_000_000)
