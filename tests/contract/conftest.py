"""The stores that the suite is held against."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.register_assert_rewrite("store_conformance", "sqlite_stores", "postgres_stores", "table_stores")

from sqlite_stores import SqliteStores  # noqa: E402
from store_conformance import Bench, Stores  # noqa: E402

from helpers import postgres  # noqa: E402

SCHEMA = postgres.new_schema()


@pytest.fixture(params=["sqlite file", "sqlite in memory", "postgres"])
def stores(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Stores]:
    if request.param == "postgres":
        url = request.getfixturevalue("database")
        from postgres_stores import PostgresStores

        made: Stores = PostgresStores(url, SCHEMA)
    else:
        made = SqliteStores(tmp_path / "onward.db" if request.param == "sqlite file" else None)
    yield made
    made.close()


@pytest.fixture
def bench(stores: Stores) -> Bench:
    return Bench(stores)
