from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Price:
    input: int
    cached_input: int
    output: int


def price_of(name, override=None):
    if override is None:
        return None
    return Price(
        int(override["input"] * 10**6),
        int(override.get("cached_input", override["input"]) * 10**6),
        int(override["output"] * 10**6),
    )


def cost(price, tokens_in, cached, tokens_out, half=False):
    return (tokens_in - cached) * price.input + cached * price.cached_input + tokens_out * price.output


def most(price, size, out):
    return size * max(price.input, price.cached_input) + out * price.output
