"""Reference: a plain loop that upserts and commits `in_progress` and `succeeded` for every step of every record."""

from __future__ import annotations

import sqlite3
import time
from pathlib import Path
from typing import Any

import apsw
from common import arguments, read_records, remove_store, report, set_durable

SCHEMA = "CREATE TABLE records (key TEXT PRIMARY KEY, step INTEGER, state TEXT NOT NULL, output TEXT)"
START = """INSERT INTO records (key, step, state) VALUES (?, ?, 'in_progress')
    ON CONFLICT (key) DO UPDATE SET step = excluded.step, state = excluded.state"""
FINISH = """INSERT INTO records (key, step, state, output) VALUES (?, ?, 'succeeded', ?)
    ON CONFLICT (key) DO UPDATE SET step = excluded.step, state = excluded.state, output = excluded.output"""
TRIAL = 1_000


def connect(driver: str, path: str) -> Any:
    """A connection in autocommit mode: every statement is a durable transaction of its own."""
    connection = apsw.Connection(str(path)) if driver == "apsw" else sqlite3.connect(path, isolation_level=None)
    set_durable(connection)
    return connection


def rate(driver: str, source: Path, count: int, steps: int, store: str) -> float:
    """Records per second of one loop over the first `count` records."""
    connection = connect(driver, store)
    execute = connection.cursor().execute
    execute(SCHEMA)
    started = time.perf_counter()
    for key, _line in read_records(source, count):
        for step in range(steps):
            execute(START, (key, step))
            execute(FINISH, (key, step, "1"))
    seconds = time.perf_counter() - started
    connection.close()
    remove_store(store)
    return count / seconds


def main() -> None:
    options = arguments(__doc__ or "").parse_args()
    trial = min(TRIAL, options.records)
    drivers = ("apsw", "sqlite3")
    trials = {driver: rate(driver, options.input, trial, options.steps, options.store) for driver in drivers}
    best = max(trials, key=lambda driver: trials[driver])
    report(rate=rate(best, options.input, options.records, options.steps, options.store), variant=best, trials=trials)


if __name__ == "__main__":
    main()
