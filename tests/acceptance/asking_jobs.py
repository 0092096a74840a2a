"""Jobs that ask a model, and the server that answers them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from acceptance.jobs import Place
from helpers.llm import LlmServer, llm_server

ASKING = """
from pydantic import BaseModel
from onward.llm import Model, Prompt

class Summary(BaseModel):
    summary: str

model = Model("small", prices={"input": 4.0, "output": 12.0})
prompt = Prompt("In one sentence: {{ text }}")
job = onward.Job("case", source=onward.jsonl("in.jsonl", key="id"), concurrency=8)

@job.step
async def summarise(record) -> Summary:
    started(record["id"], "summarise")
    return await model.ask(prompt, text=record["text"], returns=Summary)
"""


def rows(number: int) -> list[dict[str, Any]]:
    """Records of different lengths, so that they cost different amounts."""
    return [{"id": f"r{n:03}", "text": f"ticket {n} " + "word " * (n % 17)} for n in range(number)]


@contextmanager
def asked(folder: Path, job: str = ASKING, **switches: Any) -> Iterator[tuple[Place, LlmServer]]:
    """A folder with the job, and a server; run it with `server.environment`."""
    with llm_server(folder, **{"latency": 0.01, **switches}) as server:
        yield Place(folder, job), server
