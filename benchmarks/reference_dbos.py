"""Reference: dbos, one workflow with one step a record, in the fastest of its durable settings.

On SQLite the database is WAL with synchronous=FULL (dbos's default is a rollback journal, which is slower); on
PostgreSQL each measurement makes a database of its own on the server of `--store`. Which way of starting workflows is
fastest depends on the machine, so each is tried briefly and the winner is measured.
"""

from __future__ import annotations

import argparse
import asyncio
import sqlite3
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from importlib.metadata import version

from common import arguments, child, is_address, new_database, read_records, remove_store, report
from dbos import DBOS

TRIAL = 300
WARM_UP = 20
FULL = 2
CONCURRENCY = 32
FEW = 4
POLLING = 0.01


@DBOS.step()
def step(record: str) -> int:
    return 1


@DBOS.workflow()
def workflow(record: str) -> int:
    return step(record)


@DBOS.step()
async def async_step(record: str) -> int:
    return 1


@DBOS.workflow()
async def async_workflow(record: str) -> int:
    return await async_step(record)


def one_by_one(records: list[str]) -> None:
    for record in records:
        workflow(record)


def few_threads(records: list[str]) -> None:
    with ThreadPoolExecutor(FEW) as pool:
        list(pool.map(workflow, records))


def many_threads(records: list[str]) -> None:
    with ThreadPoolExecutor(CONCURRENCY) as pool:
        list(pool.map(workflow, records))


def async_tasks(records: list[str]) -> None:
    async def run() -> None:
        slots = asyncio.Semaphore(CONCURRENCY)

        async def one(record: str) -> None:
            async with slots:
                await async_workflow(record)

        await asyncio.gather(*map(one, records))

    asyncio.run(run())


def async_one_by_one(records: list[str]) -> None:
    async def run() -> None:
        for record in records:
            await async_workflow(record)

    asyncio.run(run())


def queue(records: list[str]) -> None:
    DBOS.register_queue("records", worker_concurrency=CONCURRENCY, polling_interval_sec=POLLING)
    handles = [DBOS.enqueue_workflow("records", workflow, record) for record in records]
    for handle in handles:
        handle.get_result(polling_interval_sec=POLLING)


VARIANTS: dict[str, Callable[[list[str]], None]] = {
    variant.__name__: variant
    for variant in (one_by_one, few_threads, many_threads, async_one_by_one, async_tasks, queue)
}


def prepare_file(path: str) -> str:
    """Make the file WAL before dbos opens it; that lasts. synchronous=FULL is the default, made sure of here."""
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA journal_mode=WAL")
    connection.execute("CREATE TABLE made_beforehand (id)")
    if connection.execute("PRAGMA synchronous").fetchone()[0] != FULL:
        raise SystemExit("the standard library's SQLite does not default to synchronous=FULL")
    connection.close()
    return f"sqlite:///{path}"


def count_done(database: str) -> int:
    """How many workflows have succeeded; what is read here is what is durable."""
    question = "SELECT count(*) FROM {}workflow_status WHERE status = 'SUCCESS'"
    if database.startswith("sqlite:///"):
        connection = sqlite3.connect(database.removeprefix("sqlite:///"))
        done, mode = connection.execute(question.format("")).fetchone()[0], "PRAGMA journal_mode"
        if connection.execute(mode).fetchone()[0] != "wal":
            raise SystemExit("dbos has changed the journal mode")
        connection.close()
        return int(done)
    import psycopg

    with psycopg.connect(database) as own:
        row = own.execute(question.format("dbos.").encode()).fetchone()
    return int(row[0]) if row else 0


def measure(variant: str, records: list[str], store: str) -> float:
    """Records per second of one variant, after a few records to warm up."""
    database = new_database(store, "dbos") if is_address(store) else prepare_file(store)
    DBOS(config={"name": "benchmark", "system_database_url": database, "log_level": "ERROR"})
    DBOS.launch()
    VARIANTS[variant](records[:WARM_UP])
    started = time.perf_counter()
    VARIANTS[variant](records)
    seconds = time.perf_counter() - started
    done, expected = count_done(database), len(records) + len(records[:WARM_UP])
    if done != expected:
        raise SystemExit(f"{done} of {expected} workflows succeeded")
    DBOS.destroy()
    if not is_address(store):
        remove_store(store)
    return len(records) / seconds


def try_all(options: argparse.Namespace) -> dict[str, float]:
    """Each variant's records per second over a few records, each in a process and a database of its own."""
    rates = {}
    for name in VARIANTS:
        words = ("--records", min(TRIAL, options.records), "--input", options.input, "--store", options.store)
        rates[name] = child("reference_dbos.py", *words, "--variant", name)["rate"]
    return rates


def main() -> None:
    parser = arguments(__doc__ or "")
    parser.add_argument("--variant", choices=VARIANTS, help="the way to start workflows; default: try all first")
    options = parser.parse_args()
    trials = {} if options.variant else try_all(options)
    best = options.variant or max(trials, key=lambda name: trials[name])
    records = [line for _key, line in read_records(options.input, options.records)]
    rate = measure(best, records, options.store)
    report(rate=rate, choice=best, variant=f"dbos {version('dbos')}, {best}", trials=trials)


if __name__ == "__main__":
    main()
