"""What the model says to a question, and how many tokens that took: always the same to the same question."""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from typing import Any

from .asked import TOKENS_A_MESSAGE, Asked
from .schemas import Maker
from .switches import Switches, drawn, share

BIG = 2_000_000
SHORTEST, LONGEST = 8, 60
CUT_OFF = ("incomplete", "incomplete_empty")
MISFIT = {"misfit": '{"not_in_the_schema": []}', "misfit_json": "Sure! Here is what you asked for: {"}


@dataclass(frozen=True)
class Answer:
    """`end`: stop, length, refusal, content_filter or failed. Output tokens include those of reasoning."""

    text: str
    end: str
    input_tokens: int
    cached_tokens: int
    output_tokens: int
    reasoning_tokens: int


class Answers:
    """Remembers which system texts it has read: those are cached."""

    def __init__(self) -> None:
        self._read: set[str] = set()

    def answer(self, asked: Asked, fault: str, switches: Switches) -> Answer:
        text, end = said(asked, fault, switches), ending(fault)
        tokens, most = tokens_of(text, switches) + switches.reasoning_tokens, asked.max_output_tokens
        if most is not None and tokens > most:
            text = text[: int(max(0, most - switches.reasoning_tokens) * switches.chars_per_token)]
            tokens, end = most, "length"
        return Answer(
            text=text,
            end=end,
            input_tokens=input_tokens(asked, switches),
            cached_tokens=self._cached(asked, switches),
            output_tokens=tokens,
            reasoning_tokens=min(switches.reasoning_tokens, tokens),
        )

    def _cached(self, asked: Asked, switches: Switches) -> int:
        tokens = tokens_of(asked.system, switches)
        if tokens < switches.cached_from:
            return 0
        if asked.system in self._read:
            return tokens // 128 * 128
        self._read.add(asked.system)
        return 0


def tokens_of(text: str, switches: Switches) -> int:
    return math.ceil(len(text) / switches.chars_per_token)


def input_tokens(asked: Asked, switches: Switches) -> int:
    """Those of all texts, and those of the schema."""
    texts = [text for text in (asked.system, *asked.texts) if text]
    schema = tokens_of(json.dumps(asked.schema), switches) if asked.schema else 0
    return sum(tokens_of(text, switches) + TOKENS_A_MESSAGE for text in texts) + schema


def ending(fault: str) -> str:
    if fault in CUT_OFF:
        return "length"
    return fault if fault in ("refusal", "content_filter", "failed") else "stop"


def said(asked: Asked, fault: str, switches: Switches) -> str:
    if fault in ("incomplete_empty", "content_filter", "failed"):
        return ""
    if fault == "refusal":
        return "I'm sorry, but I can't help with that."
    if fault in MISFIT:
        return MISFIT[fault]
    text = structured(asked) if asked.schema is not None or asked.any_json else plain(asked, switches)
    if fault == "big":
        return text + " " * (BIG - len(text)) if text.startswith("{") else (text * (BIG // len(text) + 1))[:BIG]
    return text[: len(text) // 2] if fault == "incomplete" else text


def structured(asked: Asked) -> str:
    if asked.schema is None:
        return json.dumps({"answer": " ".join(asked.text().split()[:12])}, ensure_ascii=False)
    instance: Any = Maker(asked.schema, asked.seed, asked.text().split()[:200]).make()
    return json.dumps(instance, ensure_ascii=False)


def plain(asked: Asked, switches: Switches) -> str:
    """Words of the question, as many as the answer is to have tokens."""
    wanted = float(asked.markers.get("tokens", 0)) or (
        SHORTEST + (LONGEST - SHORTEST) * share(switches.seed, asked.seed)
        if switches.answer_tokens is None
        else drawn(switches.answer_tokens, switches.seed, asked.seed)
    )
    length = max(1, int(int(wanted) * switches.chars_per_token))
    source = "Answered: " + (" ".join(asked.text().split()) or "nothing was asked") + ". "
    return (source * (length // len(source) + 1))[:length]
