"""A SQLite store gives disk space back while nobody works on it, and where there is room to do so."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest
from sqlite_stores import SqliteStores
from store_conformance import Bench, advanced, finished

from onward.store.sqlite import connection

MANY = 200


@pytest.fixture
def stores(tmp_path: Path) -> Iterator[SqliteStores]:
    made = SqliteStores(tmp_path / "onward.db")
    yield made
    made.close()


@pytest.fixture
def run(bench: Bench) -> int:
    """A run with large results that nobody needs: they are removed here by hand."""
    begun = bench.start(*(f"k{number}" for number in range(MANY)))
    for one in bench.claim(begun, MANY):
        bench.state(begun, advanced(one, output='"' + "x" * 20_000 + '"'))
        bench.state(begun, finished(one))
    connection_of(bench).execute("UPDATE checkpoints SET output = '1' WHERE record % 2 = 0")
    return begun


def connection_of(bench: Bench) -> apsw.Connection:
    own: apsw.Connection = bench.store.store._connection
    return own


def size(bench: Bench) -> int:
    return bench.stores.path.stat().st_size  # type: ignore[attr-defined,no-any-return]


def test_the_file_gets_smaller_and_stays_the_store_that_it_was(bench: Bench, run: int) -> None:
    bench.store.end_run(run, 0, "all done")
    bench.store.tidy()
    before, place = size(bench), bench.stores.path.stat().st_ino  # type: ignore[attr-defined]
    bench.stores.desk().shrink()
    shrunk = bench.stores.desk().shrink()
    assert size(bench) < before * 0.7
    assert (shrunk.before, shrunk.after, shrunk.why_not) == (size(bench), size(bench), None)
    assert bench.stores.path.stat().st_ino == place  # type: ignore[attr-defined]
    again = bench.begin()
    assert (again.run, again.new_instance, bench.states()) == (run + 1, False, {"succeeded": MANY})
    assert bench.stores.desk().verify(None, None).misfit is None
    connection._check_header(bench.stores.path)  # type: ignore[attr-defined]


def test_it_is_left_as_it_is_while_a_run_is_at_work(bench: Bench, run: int) -> None:
    bench.store.tidy()
    before = size(bench)
    shrunk = bench.stores.desk().shrink()
    assert (shrunk.before, shrunk.after) == (before, before)
    assert f"run {run} is at work" in (shrunk.why_not or "")
    assert size(bench) == before


def test_it_is_left_as_it_is_where_there_is_no_room(bench: Bench, run: int, monkeypatch: pytest.MonkeyPatch) -> None:
    bench.store.end_run(run, 0, "all done")
    monkeypatch.setattr(connection, "space_left", lambda path: connection.LEAST_ROOM)
    assert "room for twice" in (bench.stores.desk().shrink().why_not or "")


def test_for_next_to_nothing_it_is_not_written_anew(bench: Bench) -> None:
    bench.store.end_run(bench.start("k"), 0, "all done")
    shrunk = bench.stores.desk().shrink()
    assert (shrunk.after, shrunk.why_not) == (shrunk.before, None)
