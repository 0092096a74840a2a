"""What a server said, whatever its dialect: frozen values."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Finish = Literal["done", "cut off", "filtered", "refused", "failed"]


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens as the provider counts them; `cached` are among `tokens_in`."""

    tokens_in: int
    tokens_out: int
    cached: int


@dataclass(frozen=True, slots=True)
class Answer:
    """`text` is what came, whole or not; `usage` None where the server does not say. `code`: of an answer that
    "failed"."""

    text: str
    finish: Finish
    usage: Usage | None
    reason: str = ""
    code: str = ""


@dataclass(frozen=True, slots=True)
class Turn:
    role: Literal["user", "assistant"]
    text: str


@dataclass(frozen=True, slots=True)
class Request:
    """One request, before it is put into a dialect. `schema`: (name, JSON schema, whether it is strict)."""

    model: str
    system: str | None
    turns: tuple[Turn, ...]
    schema: tuple[str, dict[str, object], bool] | None
    max_output_tokens: int | None
    temperature: float | None


def whole(number: object) -> int:
    """A count of tokens that a server gave, or 0."""
    return number if isinstance(number, int) and not isinstance(number, bool) and number > 0 else 0
