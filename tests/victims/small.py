"""A small fixed job: six records, two steps, one failure that passes and one that does not.

Its input stands in VICTIM_INPUT, its logs in VICTIM_FOLDER.
"""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import onward
from judge import steplog

KEYS = [1, 2, 3, 4, 5, 6]
FLAKY, REJECTED = 3, 5
STEPS = ("one", "two")


def write_input(path: Path) -> None:
    path.write_text("".join(json.dumps({"id": key, "text": "x" * 40}) + "\n" for key in KEYS))


def undisturbed_lines() -> list[bytes]:
    """What the job exports."""
    rows = [
        {
            "key": key,
            "input": {"id": key, "text": "x" * 40},
            "outputs": {"one": {"by": "one", "key": key}, "two": {"by": "two", "key": key, "after": "one"}},
            "state": "succeeded",
            "versions": {"one": "1", "two": "1"},
            "generation": 0,
        }
        for key in KEYS
        if key != REJECTED
    ]
    return [json.dumps(row).encode() for row in rows]


def declare(folder: Path) -> onward.Job:
    log, run = str(folder / "steps.log"), int(os.environ.get("VICTIM_RUN", os.getpid()))
    job = onward.Job("small", source=onward.jsonl(os.environ["VICTIM_INPUT"], key="id"), concurrency=2)

    @job.step(version="1", retry=onward.Retry(attempts=2, base=0.005, cap=0.005))
    async def one(record: Any, context: Any) -> Any:
        steplog.log_start(log, record["id"], "one", pid=run)
        if record["id"] == FLAKY and context.attempt == 1:
            raise onward.Transient("not yet")
        steplog.log_end(log, record["id"], "one", pid=run)
        return {"by": "one", "key": record["id"]}

    @job.step(version="1")
    def two(record: Any, one: Any) -> Any:
        steplog.log_start(log, record["id"], "two", pid=run)
        if record["id"] == REJECTED:
            raise onward.Rejected("never")
        steplog.log_end(log, record["id"], "two", pid=run)
        return {"by": "two", "key": record["id"], "after": one["by"]}

    return job


if "VICTIM_FOLDER" in os.environ:
    job = declare(Path(os.environ["VICTIM_FOLDER"]))
