"""Shared by the benchmark of AI jobs and its references: the tickets, the prompt, what a child is told.

Standard library only: two of the references run in environments of their own.
"""

from __future__ import annotations

import argparse
import json
import os
import random
from pathlib import Path

CONCURRENCY = 256
MODEL = "small"
PRICES = {"input": 1.0, "output": 4.0}
"""USD for a million tokens: invented."""
MOST_TOKENS = 100
USUAL_TOKENS = {"input": 90, "output": 34}
"""Of one ticket, about."""
TEMPLATE = "Say in one sentence what this customer wants.\n\n{{ ticket.body }}\n\n[[key={{ ticket.id }}]]"
WORDS = (
    "account address answer arrived battery bill blue box bought broken cable call card case change "
    "charge city customer date day delivery discount door email error evening exchange floor form half "
    "help house invoice item keyboard key late letter light line manual message minute model money month "
    "morning name network new night notice number office old order page paid paper part password phone "
    "picture place please postcode price printer question receipt refund reply return room screen second "
    "send service shop side sign size slow sound station store street table team telephone ticket time "
    "today tomorrow track train twice update urgent version wait week white window wrong year yesterday"
)


def write_tickets(path: Path, count: int) -> Path:
    """Write `count` tickets as JSON lines, of some 40 words each; the same ones each time."""
    drawn, words = random.Random(count), WORDS.split()
    with path.open("w", encoding="utf-8") as out:
        for number in range(count):
            body = " ".join(drawn.choices(words, k=40))
            out.write(json.dumps({"id": f"t{number:06}", "body": body}) + "\n")
    return path


def prompts(path: Path, count: int) -> list[tuple[str, str]]:
    """Key and prompt of each ticket, as onward's template makes them."""
    with path.open(encoding="utf-8") as lines:
        tickets = [json.loads(line) for _, line in zip(range(count), lines, strict=False)]
    return [(ticket["id"], filled(ticket)) for ticket in tickets]


def filled(ticket: dict[str, str]) -> str:
    return TEMPLATE.replace("{{ ticket.body }}", ticket["body"]).replace("{{ ticket.id }}", ticket["id"])


def arguments(description: str) -> argparse.ArgumentParser:
    """The flags that every child understands. The server's address and key are in its environment."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--records", type=int, required=True, help="how many of the input's tickets to use")
    parser.add_argument("--concurrency", type=int, default=CONCURRENCY)
    parser.add_argument("--input", type=Path, required=True, help="JSONL written by write_tickets")
    parser.add_argument("--store", type=Path, required=True, help="where results are kept; it must not exist")
    return parser


def base_url() -> str:
    return os.environ["OPENAI_BASE_URL"]
