"""A job that asks a model about each of its records, and a server that it asks."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

from acceptance.jobs import Place, Ran
from helpers.llm import LlmServer

PRICES = 'prices={"input": 4.0, "cached_input": 1.0, "output": 12.0}'
JOB = """
from pydantic import BaseModel
from onward.llm import Budget, Model, Prompt

class Summary(BaseModel):
    title: str
    urgent: bool

job = onward.Job("triage", source=onward.jsonl("in.jsonl", key="id"), concurrency=20)
model = Model("small", MODEL)
prompt = Prompt("Summarise [[key={{ row.id }}]] {{ row.text }}")

@job.step(STEP)
async def answer(row) -> RETURNS:
    started(row["id"], "answer")
    return await model.ask(prompt, row=row, returns=RETURNS)
"""
RETRY = "retry=onward.Retry(attempts=3, base=0.1)"


class Asking:
    """The folder of such a job; its commands know where the server is."""

    def __init__(
        self, folder: Path, server: LlmServer, records: int = 20, model: str = PRICES, returns: str = "str",
        step: str = RETRY, faults: dict[int, str] | None = None,
    ):  # fmt: skip
        self.server = server
        self.place = Place(folder, text(model, returns, step))
        self.rows = [{"id": n, "text": f"ticket {n} {_marker(faults, n)}"} for n in range(records)]
        self.place.write("in.jsonl", self.rows)

    def run(self, *words: str, **options: Any) -> Ran:
        return self.place.run(*words, env=self.environment, **options)

    @property
    def environment(self) -> dict[str, str]:
        return self.server.environment

    @property
    def asked(self) -> Counter[str]:
        """How often each record's question reached the server."""
        return Counter(line["key"] for line in self.server.log() if line["key"] is not None)

    def job(self, model: str = PRICES, returns: str = "str", step: str = RETRY) -> None:
        self.place.job(text(model, returns, step))


def text(model: str, returns: str, step: str) -> str:
    return JOB.replace("MODEL", model).replace("STEP", step).replace("RETURNS", returns)


def _marker(faults: dict[int, str] | None, number: int) -> str:
    fault = (faults or {}).get(number)
    return f"[[fault={fault}]]" if fault else ""


def spent_by_log(server: LlmServer, *, since: int = 0) -> dict[str, int]:
    """Tokens of the answers that the server gave, by its own log."""
    lines = [line for line in server.log()[since:] if line["status"] == 200 and line["input_tokens"] is not None]
    return {
        "tokens_in": sum(line["input_tokens"] for line in lines),
        "tokens_out": sum(line["output_tokens"] for line in lines),
        "cached_tokens": sum(line["cached_tokens"] for line in lines),
    }


def events(said: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in said.splitlines() if line.startswith("{")]
