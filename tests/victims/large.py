"""Two hundred records whose outputs take 1.6 MB together, and cannot be packed: more than a small disk holds.
VICTIM_FOLDER has the log; VICTIM_PACE: seconds that each step takes."""

from __future__ import annotations

import asyncio
import os
import random
from pathlib import Path
from typing import Any

import onward
from judge import steplog

KEYS = list(range(200))
STEPS = ("one", "two")
PACE = float(os.environ.get("VICTIM_PACE", "0"))


def filling(seed: int) -> str:
    return random.Random(seed).randbytes(2000).hex()


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
        await asyncio.sleep(PACE)
        return {"key": record["id"], "filling": filling(record["id"])}

    @job.step(version="1")
    async def two(record: Any, one: Any) -> Any:
        steplog.log_start(log, record["id"], "two")
        await asyncio.sleep(PACE)
        return {"key": one["key"], "filling": filling(-1 - one["key"])}

    return job


if "VICTIM_FOLDER" in os.environ:
    job = declare(Path(os.environ["VICTIM_FOLDER"]))
