"""Reference: procrastinate, one task a record, deferred in batches of 1,000 and worked on by one worker.

How many tasks a worker runs at once and whether it is told of new ones makes a difference, so each setting is tried
briefly and the fastest is measured. It keeps no outputs.
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import logging
import time
from importlib.metadata import version

import procrastinate
import psycopg
from common import COMMIT_EVERY, arguments, child, new_database, read_records, report

TRIAL = 300
VARIANTS = {"32 at once": 32, "8 at once": 8, "128 at once": 128}


async def measure(variant: str, records: list[str], server: str) -> float:
    """Records per second, from the first that is deferred to the last that is done."""
    database = new_database(server, "procrastinate")
    app = procrastinate.App(connector=procrastinate.PsycopgConnector(conninfo=database))

    @app.task
    async def step(record: str) -> int:
        return 1

    async with app.open_async():
        await app.schema_manager.apply_schema_async()
        waiting = iter(records)
        started = time.perf_counter()
        while batch := list(itertools.islice(waiting, COMMIT_EVERY)):
            await step.batch_defer_async(*[{"record": record} for record in batch])
        await app.run_worker_async(wait=False, concurrency=VARIANTS[variant], install_signal_handlers=False)
        seconds = time.perf_counter() - started
    with psycopg.connect(database) as connection:
        done = connection.execute("SELECT count(*) FROM procrastinate_jobs WHERE status = 'succeeded'").fetchone()
    if done != (len(records),):
        raise SystemExit(f"{done} of {len(records)} tasks succeeded")
    return len(records) / seconds


def try_all(options: argparse.Namespace) -> dict[str, float]:
    words = ("--records", min(TRIAL, options.records), "--input", options.input, "--store", options.store)
    return {name: child("reference_procrastinate.py", *words, "--variant", name)["rate"] for name in VARIANTS}


def main() -> None:
    logging.disable(logging.WARNING)
    parser = arguments(__doc__ or "")
    parser.add_argument("--variant", choices=VARIANTS, help="default: try all first")
    options = parser.parse_args()
    trials = {} if options.variant else try_all(options)
    best = options.variant or max(trials, key=lambda name: trials[name])
    records = [line for _key, line in read_records(options.input, options.records)]
    rate = asyncio.run(measure(best, records, options.store))
    report(rate=rate, choice=best, variant=f"procrastinate {version('procrastinate')}, {best}", trials=trials)


if __name__ == "__main__":
    main()
