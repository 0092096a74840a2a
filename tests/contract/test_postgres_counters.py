"""Counters of runs that have ended become one: a sum stays one of few rows, however many runs there were."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from postgres_stores import PostgresStores
from store_conformance import Bench, advanced, finished

from helpers import postgres

SCHEMA = postgres.new_schema()


@pytest.fixture
def stores(database: str) -> Iterator[PostgresStores]:
    made = PostgresStores(database, SCHEMA)
    yield made
    made.close()


def test_whoever_begins_makes_one_of_them(bench: Bench, stores: PostgresStores) -> None:
    keys = [f"k{number}" for number in range(12)]
    run = bench.start(*keys)
    for _ in range(6):
        for one in bench.claim(run, 2):
            bench.state(run, advanced(one))
            bench.state(run, finished(one))
        bench.store.end_run(run, 3, "stopped")
        run = bench.begin().run
    assert bench.states() == {"succeeded": 12}
    runs = {row["run"] for row in stores.query("SELECT DISTINCT run FROM counts WHERE instance = 1")}
    assert runs <= {0, run}


def test_those_of_runs_at_work_stay_their_own(bench: Bench, stores: PostgresStores) -> None:
    run = bench.start("k", "l")
    (one,) = bench.claim(run, 1)
    bench.state(run, advanced(one))
    bench.begin(bench.another())
    own = stores.query("SELECT what FROM counts WHERE run = ?", run)
    assert own
    bench.state(run, finished(one))
    assert bench.states() == {"pending": 1, "succeeded": 1}
