"""Models and budgets as they are declared."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Literal
from urllib.parse import urlsplit

from onward.codec import dumps
from onward.errors import DeclarationError
from onward.job.checks import positive_int, yes_or_no
from onward.job.models import AskedModel, Cap, ModelTraits, in_picodollars
from onward.job.place import calling_place
from onward.llm import chat, responses
from onward.llm.prices import Price, price_of
from onward.ports.batches import Provider

Api = Literal["responses", "chat"]
Mode = Literal["online", "batch"]
OFFICIAL = "api.openai.com"


@dataclass(frozen=True, slots=True)
class Budget:
    """The most that a model may cost for one instance of a job.

    Parameters
    ----------
    usd : US dollars.
    tokens : tokens in and out together.

    Raises DeclarationError where it says neither.
    """

    usd: float | Decimal | None = None
    tokens: int | None = None

    def __post_init__(self) -> None:
        if self.usd is None and self.tokens is None:
            raise DeclarationError("Budget(…) says neither usd nor tokens")
        if self.usd is not None:
            number = isinstance(self.usd, int | float | Decimal) and not isinstance(self.usd, bool)
            if not number or not math.isfinite(self.usd) or self.usd < 0:
                raise DeclarationError(f"Budget(usd=…) must be a number of dollars, not {self.usd!r}")
        if self.tokens is not None:
            positive_int("tokens", self.tokens)

    def cap(self) -> Cap:
        return Cap(None if self.usd is None else in_picodollars(self.usd), self.tokens)


class Declared(AskedModel):
    """What Model was given, checked; `price` None where it is not known."""

    def __init__(
        self,
        name: str,
        *,
        base_url: str | None = None,
        api: Api = "responses",
        requests_per_minute: float | None = None,
        tokens_per_minute: float | None = None,
        max_concurrency: int | None = None,
        max_output_tokens: int | None = None,
        temperature: float | None = None,
        budget: float | Budget | None = None,
        prices: Mapping[str, float] | None = None,
        mode: Mode = "online",
        dedupe: bool = False,
    ):
        try:
            _check(name, api, mode, requests_per_minute, tokens_per_minute, temperature)
            yes_or_no("dedupe", dedupe)
            for what, number in (("max_concurrency", max_concurrency), ("max_output_tokens", max_output_tokens)):
                if number is not None:
                    positive_int(what, number)
            if budget is not None and max_output_tokens is None:
                raise DeclarationError("a budget needs max_output_tokens: without it an answer may cost any amount")
            cap = None if budget is None else (budget if isinstance(budget, Budget) else Budget(usd=budget)).cap()
            self.price: Price | None = price_of(name, prices)
        except DeclarationError as error:
            raise DeclarationError(f"{calling_place()}: Model({name!r}): {error}") from None
        self.name = name
        self.api: Api = api
        self.mode: Mode = mode
        self.dedupe = dedupe
        self.max_output_tokens = max_output_tokens
        self.temperature = temperature
        self.declared_url = base_url
        self.traits = ModelTraits(
            name=name,
            title=f"model {name} at {urlsplit(self.base_url).hostname or OFFICIAL}",
            requests_per_minute=requests_per_minute,
            tokens_per_minute=tokens_per_minute,
            max_concurrency=max_concurrency,
            budget=cap,
            priced=self.price is not None,
            place=base_url or "",
            path=responses.PATH if api == "responses" else chat.PATH,
            batching=self.batches if mode == "batch" else None,
        )

    def batches(self) -> Provider:
        """What sends requests together."""
        raise NotImplementedError

    @property
    def base_url(self) -> str:
        return self.declared_url or os.environ.get("OPENAI_BASE_URL") or f"https://{OFFICIAL}/v1"

    def described(self) -> str:
        said = {"name": self.name, "max_output_tokens": self.max_output_tokens, "temperature": self.temperature}
        return f"model {dumps(said)}"

    def __repr__(self) -> str:
        return f"Model({self.name!r})"


def _check(name: Any, api: Any, mode: Any, *numbers: Any) -> None:
    if not isinstance(name, str) or not name.strip():
        raise DeclarationError("the model's name is missing")
    if api not in ("responses", "chat"):
        raise DeclarationError(f'api must be "responses" or "chat", not {api!r}')
    if mode not in ("online", "batch"):
        raise DeclarationError(f'mode must be "online" or "batch", not {mode!r}')
    for what, number in zip(("requests_per_minute", "tokens_per_minute", "temperature"), numbers, strict=True):
        if number is None:
            continue
        if isinstance(number, bool) or not isinstance(number, int | float) or not math.isfinite(number):
            raise DeclarationError(f"{what} must be a number, not {number!r}")
        if number < 0 or (number == 0 and what != "temperature"):
            raise DeclarationError(f"{what} must be more than zero, not {number!r}")
