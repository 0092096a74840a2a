"""The stores that the suite is held against."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.register_assert_rewrite("store_conformance", "sqlite_stores")

from sqlite_stores import SqliteStores  # noqa: E402
from store_conformance import Bench, Stores  # noqa: E402


@pytest.fixture(params=["sqlite file", "sqlite in memory"])
def stores(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Stores]:
    made = SqliteStores(tmp_path / "onward.db" if request.param == "sqlite file" else None)
    yield made
    made.close()


@pytest.fixture
def bench(stores: Stores) -> Bench:
    return Bench(stores)
