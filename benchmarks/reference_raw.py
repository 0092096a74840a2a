"""Reference: raw SQLite inserting a state row with the input and a result row a step, 1,000 records a transaction."""

from __future__ import annotations

import itertools
import time

import apsw
from common import COMMIT_EVERY, arguments, read_records, remove_store, report, set_durable

SCHEMA = """
CREATE TABLE records (id INTEGER PRIMARY KEY, key TEXT NOT NULL UNIQUE, state TEXT NOT NULL, input TEXT NOT NULL);
CREATE TABLE checkpoints (
    record INTEGER NOT NULL, step INTEGER NOT NULL, output TEXT NOT NULL, PRIMARY KEY (record, step)
) WITHOUT ROWID;
"""


def main() -> None:
    options = arguments(__doc__ or "").parse_args()
    connection = apsw.Connection(options.store)
    set_durable(connection)
    connection.execute(SCHEMA)
    records = iter(list(read_records(options.input, options.records)))  # reading and parsing are not measured
    number = 0
    started = time.perf_counter()
    while batch := list(itertools.islice(records, COMMIT_EVERY)):
        rows = [(number + at, key, "succeeded", line) for at, (key, line) in enumerate(batch)]
        results = [(row[0], step, "1") for row in rows for step in range(options.steps)]
        connection.execute("BEGIN IMMEDIATE")
        connection.executemany("INSERT INTO records VALUES (?, ?, ?, ?)", rows)
        connection.executemany("INSERT INTO checkpoints VALUES (?, ?, ?)", results)
        connection.execute("COMMIT")
        number += len(batch)
    seconds = time.perf_counter() - started
    connection.close()
    remove_store(options.store)
    report(rate=number / seconds, variant=f"apsw {apsw.apsw_version()}")


if __name__ == "__main__":
    main()
