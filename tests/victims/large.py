"""Two hundred records whose outputs take 1.6 MB together: more than a small disk holds. VICTIM_FOLDER has the log."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Any

import onward
from judge import steplog

KEYS = list(range(200))
STEPS = ("one", "two")


def declare(folder: Path) -> onward.Job:
    log = str(folder / "steps.log")
    job = onward.Job(
        "large",
        source=onward.iterable(lambda: ({"id": key} for key in KEYS), key="id", version="1"),
        concurrency=8,
    )

    @job.step(version="1")
    async def one(record: Any) -> Any:
        steplog.log_start(log, record["id"], "one")
        return {"key": record["id"], "filling": "o" * 4000}

    @job.step(version="1")
    async def two(record: Any, one: Any) -> Any:
        steplog.log_start(log, record["id"], "two")
        return {"key": one["key"], "filling": "t" * 4000}

    return job


if "VICTIM_FOLDER" in os.environ:
    job = declare(Path(os.environ["VICTIM_FOLDER"]))
