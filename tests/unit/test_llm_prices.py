"""Prices: known ones, the user's own, and exact sums that never exceed what was said beforehand."""

from __future__ import annotations

import math
import re
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from onward.errors import UsageError
from onward.llm.prices import AS_OF, PICODOLLARS, Price, cost, most, price_of

MILLION = 1_000_000
TOKENS = st.integers(0, 10**9)
RATES = st.integers(0, 10**9)
PRICES = st.builds(Price, RATES, RATES, RATES)
USD = st.decimals(min_value=0, max_value=1000, places=6) | st.integers(0, 1000) | st.floats(0, 1000)


def test_known_models_have_the_list_prices_of_a_named_month() -> None:
    assert re.fullmatch(r"20\d\d-[01]\d", AS_OF)
    assert price_of("gpt-4o-mini") == Price(150_000, 75_000, 600_000)
    assert price_of("gpt-5-nano") == Price(50_000, 5_000, 400_000)
    assert price_of("o4-mini") == Price(1_100_000, 275_000, 4_400_000)
    a_million_each = price_of("gpt-4.1")
    assert a_million_each is not None
    assert cost(a_million_each, MILLION, 0, MILLION) == 10 * PICODOLLARS


def test_a_dated_snapshot_costs_what_its_model_does_unless_it_has_a_price_of_its_own() -> None:
    assert price_of("gpt-5-mini-2025-08-07") == price_of("gpt-5-mini") is not None
    assert price_of("gpt-4o-2024-08-06") == price_of("gpt-4o")
    assert price_of("gpt-4o-2024-05-13") == Price(5_000_000, 5_000_000, 15_000_000)


@pytest.mark.parametrize("model", ["", "gpt", "gpt-5-x", "my/gpt-5", "ft:gpt-4o:me", "gpt-5-2025-08", "2025-08-07"])
def test_an_unknown_price_is_unknown(model: str) -> None:
    assert price_of(model) is None


def test_the_users_own_prices_hold_for_every_model() -> None:
    given = {"input": 4.0, "cached_input": 1.0, "output": 12.0}
    assert price_of("gpt-5", given) == price_of("mine", given) == Price(4_000_000, 1_000_000, 12_000_000)
    assert price_of("mine", {"input": 0, "output": Decimal("0.3")}) == Price(0, 0, 300_000)
    assert price_of("mine", {"input": 0.1, "output": 0.3}) == Price(100_000, 100_000, 300_000)
    assert price_of("mine", {"input": 2.5, "output": 1e-9}) == Price(2_500_000, 2_500_000, 1)


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({}, ["'input' and 'output'"]),
        ({"input": 1.0}, ["lacks 'output'"]),
        ({"input": 1.0, "output": 1.0, "inptu": 1.0, 3: 1.0}, ["no 'inptu', '3'", "input, cached_input, output"]),
        ({"input": -0.1, "output": 1.0}, ["'input'", "from 0", "-0.1"]),
        ({"input": 1.0, "output": math.nan}, ["'output'", "nan"]),
        ({"input": 1.0, "output": Decimal("sNaN")}, ["'output'"]),
        ({"input": 1.0, "output": 1.0, "cached_input": math.inf}, ["'cached_input'", "inf"]),
        ({"input": 2_000_000, "output": 1.0}, ["'input'", "1,000,000"]),
        ({"input": True, "output": 1.0}, ["'input'", "not bool"]),
        ({"input": "1", "output": 1.0}, ["'input'", "not str"]),
        ({"input": 1.0, "output": None}, ["'output'", "not NoneType"]),
        (4.0, ["mapping", "not float"]),
    ],
)
def test_what_is_no_price_is_refused_with_an_example(given: Any, words: list[str]) -> None:
    with pytest.raises(UsageError) as caught:
        price_of("gpt-5", given)
    for word in [*words, 'prices={"input": 4.0']:
        assert word in str(caught.value)


@given(USD, USD, USD, TOKENS, TOKENS, TOKENS)
def test_sums_are_exact(dear: Any, cheap: Any, out: Any, fresh: int, cached: int, tokens_out: int) -> None:
    price = price_of("mine", {"input": dear, "cached_input": cheap, "output": out})
    assert price is not None
    whole = sum(Decimal(str(rate)) * number for rate, number in ((dear, fresh), (cheap, cached), (out, tokens_out)))
    exact = whole * PICODOLLARS / MILLION
    paid = cost(price, fresh + cached, cached, tokens_out)
    assert exact <= paid < exact + fresh + cached + tokens_out + 1
    if all(Decimal(str(rate)) * MILLION % 1 == 0 for rate in (dear, cheap, out)):
        assert paid == exact


@given(PRICES, TOKENS, TOKENS, TOKENS, TOKENS, TOKENS, st.booleans())
def test_no_call_costs_more_than_was_said(
    price: Price, tokens_in: int, more_bytes: int, cached: int, tokens_out: int, more_tokens: int, half: bool
) -> None:
    said = most(price, tokens_in + more_bytes, tokens_out + more_tokens, half)
    assert 0 <= cost(price, tokens_in, cached, tokens_out, half) <= said
    assert most(price, tokens_in, tokens_out, half) <= said


@given(PRICES, TOKENS, TOKENS, TOKENS)
def test_half_is_half_rounded_up(price: Price, tokens_in: int, cached: int, tokens_out: int) -> None:
    whole = cost(price, tokens_in, cached, tokens_out)
    assert whole <= 2 * cost(price, tokens_in, cached, tokens_out, half=True) <= whole + 1
    assert whole == cost(price, tokens_in, 0, 0) - cached_saving(price, tokens_in, cached) + tokens_out * price.output


def cached_saving(price: Price, tokens_in: int, cached: int) -> int:
    return min(cached, tokens_in) * (price.input - price.cached_input)
