"""Reference: pgqueuer, a chain of steps a record: each job puts the next one into the queue.

Records are put in 1,000 at a time. Its driver and the size of the batches that it takes make a difference, so each
setting is tried briefly and the fastest is measured. Outputs are not kept.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import logging
import time
from datetime import timedelta
from importlib.metadata import version
from typing import Any

import asyncpg
import psycopg
from common import COMMIT_EVERY, arguments, child, new_database, read_records, report
from pgqueuer import QueueManager
from pgqueuer.db import AsyncpgPoolDriver, PsycopgDriver
from pgqueuer.models import Job
from pgqueuer.queries import Queries
from pgqueuer.types import QueueExecutionMode

TRIAL = 300
CONCURRENT = 64
VARIANTS = {
    f"{driver}, batches of {size}": (driver, size) for driver in ("asyncpg", "psycopg") for size in (10, 32, 100)
}


async def driver_of(kind: str, database: str) -> Any:
    if kind == "asyncpg":
        return AsyncpgPoolDriver(await asyncpg.create_pool(database, min_size=4, max_size=16))
    return PsycopgDriver(await psycopg.AsyncConnection.connect(database, autocommit=True))


async def measure(variant: str, records: list[str], steps: int, server: str) -> float:
    """Records per second, from the first that is put in to the last that is through."""
    kind, size = VARIANTS[variant]
    database = new_database(server, "pgqueuer")
    installing = await driver_of("psycopg", database)
    await Queries(installing).install()
    queries = Queries(await driver_of(kind, database))
    manager = QueueManager(queries)
    done, ended = 0, 0.0

    def chain(number: int) -> None:
        @manager.entrypoint(f"step-{number}")
        async def step(job: Job) -> None:
            nonlocal done, ended
            if number + 1 < steps:
                await queries.enqueue(f"step-{number + 1}", job.payload)
            else:
                done, ended = done + 1, time.perf_counter()

    for number in range(steps):
        chain(number)
    waiting = iter(records)
    started = time.perf_counter()
    while batch := list(itertools.islice(waiting, COMMIT_EVERY)):
        await queries.enqueue(["step-0"] * len(batch), [record.encode() for record in batch], [0] * len(batch))
    await manager.run(
        dequeue_timeout=timedelta(seconds=1),
        batch_size=size,
        mode=QueueExecutionMode.drain,
        max_concurrent_tasks=max(CONCURRENT, 2 * size),
    )
    if done != len(records):
        raise SystemExit(f"{done} of {len(records)} records are through")
    return len(records) / (ended - started)


def try_all(options: argparse.Namespace) -> dict[str, float]:
    words = ["--records", min(TRIAL, options.records), "--input", options.input, "--store", options.store]
    words += ["--steps", options.steps]
    return {name: child("reference_pgqueuer.py", *words, "--variant", name)["rate"] for name in VARIANTS}


def main() -> None:
    logging.disable(logging.WARNING)
    parser = arguments(__doc__ or "")
    parser.add_argument("--variant", choices=VARIANTS, help="default: try all first")
    options = parser.parse_args()
    trials = {} if options.variant else try_all(options)
    best = options.variant or max(trials, key=lambda name: trials[name])
    records = [line for _key, line in read_records(options.input, options.records)]
    rate = asyncio.run(measure(best, records, options.steps, options.store))
    report(rate=rate, choice=best, variant=f"pgqueuer {version('pgqueuer')}, {best}", trials=trials)


if __name__ == "__main__":
    main()
