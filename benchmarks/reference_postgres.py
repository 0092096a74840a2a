"""Reference: raw PostgreSQL writing the rows that are left of a record, 1,000 records a transaction through unnest.

A row with key, place and state, one with the input, and one a step with its output. It is a bound and not a rival: it
knows nothing of starts, leases or attempts, and could not resume.
"""

from __future__ import annotations

import itertools
import time

import psycopg
from common import COMMIT_EVERY, arguments, read_records, report

SCHEMA = "raw_reference"
TABLES = f"""
DROP SCHEMA IF EXISTS {SCHEMA} CASCADE;
CREATE SCHEMA {SCHEMA};
SET search_path TO {SCHEMA};
CREATE TABLE records (id bigint PRIMARY KEY, key text COLLATE "C" NOT NULL UNIQUE, position bigint NOT NULL,
    state text NOT NULL);
CREATE TABLE inputs (record bigint PRIMARY KEY, value text NOT NULL);
CREATE TABLE checkpoints (record bigint, step bigint, output text NOT NULL, PRIMARY KEY (record, step));
"""
RECORDS = "INSERT INTO records SELECT id, key, id, 'succeeded' FROM unnest(%s::bigint[], %s::text[]) AS f(id, key)"
INPUTS = "INSERT INTO inputs SELECT * FROM unnest(%s::bigint[], %s::text[])"
CHECKPOINTS = "INSERT INTO checkpoints SELECT record, %s, '1' FROM unnest(%s::bigint[]) AS f(record)"


def main() -> None:
    options = arguments(__doc__ or "").parse_args()
    records = iter(list(read_records(options.input, options.records)))  # reading and parsing are not measured
    number = 0
    with psycopg.connect(options.store, autocommit=True) as connection:
        connection.execute(TABLES)
        durable = [connection.execute(f"SHOW {name}".encode()).fetchone() for name in ("synchronous_commit", "fsync")]
        if durable != [("on",), ("on",)]:
            raise SystemExit(f"what this server commits is not durable: {durable}")
        started = time.perf_counter()
        while batch := list(itertools.islice(records, COMMIT_EVERY)):
            ids = list(range(number, number + len(batch)))
            with connection.transaction():
                connection.execute(RECORDS, [ids, [key for key, _line in batch]])
                connection.execute(INPUTS, [ids, [line for _key, line in batch]])
                for step in range(options.steps):
                    connection.execute(CHECKPOINTS, [step, ids])
            number += len(batch)
        seconds = time.perf_counter() - started
        connection.execute(f"DROP SCHEMA {SCHEMA} CASCADE".encode())
    report(rate=number / seconds, variant=f"psycopg {psycopg.__version__}")


if __name__ == "__main__":
    main()
