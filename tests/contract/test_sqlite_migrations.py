"""Migrations: once, wholly, in order, by whoever comes first; a kill in the middle leaves the old store."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
from pathlib import Path

import apsw
import pytest
from store_conformance import finished, records

from clocks import HandClock
from onward.errors import StoreError, StoreWriteError
from onward.model import FeedBlock, State
from onward.ports.work import Batch, ClaimWish, RunStart
from onward.store.sqlite import statements
from onward.store.sqlite.connection import migrate, newest, open_reader, open_writer
from onward.store.sqlite.work import SqliteWorkStore

SECOND = "ALTER TABLE runs ADD COLUMN colour TEXT; CREATE TABLE extra (n INTEGER); INSERT INTO extra VALUES (1);"
# Long enough to be killed in: half of the script is done before it, half behind it.
SLOW = (
    "ALTER TABLE runs ADD COLUMN colour TEXT; CREATE TABLE extra (n INTEGER);"
    "INSERT INTO extra WITH RECURSIVE long(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM long WHERE n < 30000000)"
    " SELECT max(n) FROM long; ALTER TABLE extra ADD COLUMN m INTEGER;"
)
TODAY = newest()
OPEN = """
import json, sys
from pathlib import Path
from onward.store.sqlite import statements
first = statements.migrations()
statements.migrations = lambda: [*first, (len(first) + 1, json.loads(sys.argv[2]))]
from onward.store.sqlite.connection import open_writer
print("opening", flush=True)
open_writer(Path(sys.argv[1]))[0].close()
print("open", flush=True)
"""


@pytest.fixture
def place(tmp_path: Path) -> Path:
    """A store of today's schema with work in it: 10 records, 4 of them done."""
    path = tmp_path / "onward.db"
    store = SqliteWorkStore(path, HandClock())
    run = store.begin_run(RunStart("job", "", "host", "{}", "in", (), 3)).run
    store.take_feed(run)
    store.begin_pass(run, False, "")
    store.write(run, Batch(blocks=[FeedBlock(records(*range(10)), [], "end", complete=True)]))
    held = store.write(run, Batch(wishes=[ClaimWish(4, 1 << 20)])).claimed[0]
    store.write(run, Batch(facts=[finished(one) for one in held]))
    store.end_run(run, 3, "")
    store.close()
    return path


def opener(place: Path, script: str) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", OPEN, str(place), json.dumps(script)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def with_second(monkeypatch: pytest.MonkeyPatch, script: str = SECOND) -> None:
    first = statements.migrations()
    monkeypatch.setattr(statements, "migrations", lambda: [*first, (len(first) + 1, script)])


def version(place: Path) -> int:
    at = apsw.Connection(str(place))
    try:
        return int(at.execute("PRAGMA user_version").fetchone()[0])
    finally:
        at.close()


def counts(place: Path) -> dict[State, int]:
    store = SqliteWorkStore(place, HandClock())
    try:
        return {state: n for state, n in store.counts(1).states.items() if n}
    finally:
        store.close()


def test_the_scripts_are_numbered_without_gaps() -> None:
    numbers = [number for number, _ in statements.migrations()]
    assert numbers == list(range(1, len(numbers) + 1))
    assert newest() == numbers[-1]


def test_a_store_is_brought_up_to_date_and_keeps_its_counts(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = counts(place)
    with_second(monkeypatch)
    assert counts(place) == before
    assert version(place) == TODAY + 1


def test_migrating_again_does_nothing(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with_second(monkeypatch)
    for _ in range(3):
        at, _new = open_writer(place)
        assert at.execute("SELECT count(*) FROM extra").fetchone() == (1,)
        at.close()


def test_a_reader_does_not_migrate(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with_second(monkeypatch)
    with pytest.raises(StoreError, match=rf"older schema {TODAY}; `onward run` brings it up to date"):
        open_reader(place)
    assert version(place) == TODAY


def test_a_script_that_fails_leaves_the_store_as_it_was(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before = counts(place)
    with monkeypatch.context() as patched:
        with_second(patched, "CREATE TABLE extra (n); CREATE TABLE records (again);")
        with pytest.raises(StoreError):
            open_writer(place)
    assert version(place) == TODAY
    assert counts(place) == before


def test_a_store_whose_tables_are_not_those_of_its_number_is_left_as_it_was_in_words_that_help(place: Path) -> None:
    at = apsw.Connection(str(place))
    at.execute(f"PRAGMA user_version = {TODAY - 1}")
    at.close()
    with pytest.raises(StoreError, match=r"altered by hand.*left as it is.*restore a backup"):
        open_writer(place)
    assert version(place) == TODAY - 1


def test_several_processes_migrate_at_once_and_the_script_runs_once(place: Path) -> None:
    openers = [opener(place, SECOND) for _ in range(4)]
    ended = [(one.communicate(timeout=60), one.returncode) for one in openers]
    assert [(out.split(), code) for (out, _), code in ended] == [(["opening", "open"], 0)] * 4, ended
    at = apsw.Connection(str(place))
    assert at.execute("SELECT count(*) FROM extra").fetchone() == (1,)
    at.close()


def test_several_processes_make_a_new_store_at_once(tmp_path: Path) -> None:
    openers = [opener(tmp_path / "new.db", SECOND) for _ in range(4)]
    ended = [(one.communicate(timeout=60), one.returncode) for one in openers]
    assert [code for _, code in ended] == [0] * 4, ended
    assert version(tmp_path / "new.db") == TODAY + 1


def test_a_kill_in_the_middle_leaves_the_old_store_and_the_next_start_migrates(
    place: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    before = counts(place)
    victim = opener(place, SLOW)
    assert victim.stdout is not None
    assert victim.stdout.readline() == "opening\n"
    _wait_until_locked(place)
    time.sleep(0.1)
    victim.send_signal(signal.SIGKILL)
    out, _ = victim.communicate()
    assert out == "", "it was killed too late"
    assert version(place) == TODAY
    assert counts(place) == before
    with_second(monkeypatch)
    assert counts(place) == before
    assert version(place) == TODAY + 1


def _wait_until_locked(place: Path) -> None:
    """Until somebody is in a writing transaction."""
    at = apsw.Connection(str(place))
    until = time.monotonic() + 30
    while time.monotonic() < until:
        try:
            at.execute("BEGIN IMMEDIATE")
            at.execute("ROLLBACK")
        except apsw.BusyError:
            at.close()
            return
        time.sleep(0.005)
    raise AssertionError("nobody began to migrate")


def test_a_worker_of_the_old_schema_stops_once_the_store_is_of_a_newer_one(place: Path) -> None:
    old = SqliteWorkStore(place, HandClock())
    run = old.begin_run(RunStart("job", "", "host", "{}", "in", (), 3)).run
    at = apsw.Connection(str(place))
    migrate(at, [*statements.migrations(), (TODAY + 1, SECOND)])
    at.close()
    with pytest.raises(StoreWriteError, match="newer onward"):
        old.write(run, Batch(wishes=[ClaimWish(1, 1 << 20)]))
    with pytest.raises(StoreWriteError, match="newer onward"):
        old.begin_run(RunStart("job", "", "host", "{}", "in", (), 3))
    old.close()
