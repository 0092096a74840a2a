"""What a server said, whatever its dialect: frozen values."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeVar

T = TypeVar("T")
Finish = Literal["done", "cut off", "filtered", "refused", "called", "unknown", "failed"]
"""Among them "called": the model wants a tool to be used; "unknown": for a reason that no such server gives."""
MOST_TOKENS = 2**53
"""Counts from here on are none."""
_CALLED: Mapping[type, str] = {dict: "object", list: "list", str: "text", int: "whole number"}


class Misshapen(Exception):
    """A server said something that is not what its API says; the text tells where."""


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens as the provider counts them; `cached` are among `tokens_in`."""

    tokens_in: int
    tokens_out: int
    cached: int


@dataclass(frozen=True, slots=True)
class Answer:
    """`text` is what came, whole or not or none; `usage` None where the server does not say. `code`: of an answer that
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


def given(said: Mapping[str, Any], name: str, kind: type[T], default: T | None = None) -> T:
    """What a server said under a name; `default` where that is nothing. Raises Misshapen for another type."""
    value = said.get(name)
    if value is None and default is not None:
        return default
    if not isinstance(value, kind) or isinstance(value, bool):
        raise Misshapen(f"{name!r} is no {_CALLED[kind]}")
    return value


def objects(said: Mapping[str, Any], name: str, default: list[Any] | None = None) -> list[dict[str, Any]]:
    """The same of a list of objects."""
    found: list[Any] = given(said, name, list, default)
    if not all(isinstance(one, dict) for one in found):
        raise Misshapen(f"{name!r} has in it what is no object")
    return found


def usage_of(said: Mapping[str, Any], tokens_in: str, tokens_out: str) -> Usage | None:
    """What a server counted, under these names. None where any of it is no count: what is unknown is not zero."""
    try:
        counts = given(said, "usage", dict)
        details = given(counts, f"{tokens_in}_details", dict, {})
        return Usage(_count(counts, tokens_in), _count(counts, tokens_out), _count(details, "cached_tokens", 0))
    except Misshapen:
        return None


def _count(said: Mapping[str, Any], name: str, default: int | None = None) -> int:
    number = given(said, name, int, default)
    if not 0 <= number < MOST_TOKENS:
        raise Misshapen(f"{name!r} is no count")
    return number
