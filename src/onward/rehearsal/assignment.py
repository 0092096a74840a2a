"""What a process of a rehearsal is told, and what it tells of its end."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Assignment:
    """`file`, `module` and `name` are the job's reference, `params` its params as JSON text. `folder` holds the
    scenario's store and trace. `at`: the point to die at; `wait`: seconds to stay for what is unconfirmed;
    `longest`: after so many seconds the run stops in any case."""

    file: str | None
    module: str | None
    name: str
    params: str | None
    folder: str
    records: int
    key_prefix: str
    at: str | None
    wait: float
    longest: float


STORE = "store.db"
TRACE = "trace.jsonl"
SAID = "said.txt"
