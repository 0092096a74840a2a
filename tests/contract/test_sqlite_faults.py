"""A disk that failed under a commit: the connection is not used again, but to close the run through a fresh one."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import apsw
import pytest

import onward
from clocks import HandClock
from onward import api
from onward.errors import StoreWriteError
from onward.model import FeedBlock, SourceRecord
from onward.ports.work import Batch, RunStart
from onward.store.sqlite import connection
from onward.store.sqlite.liveness import RunLocks
from onward.store.sqlite.work import SqliteWorkStore

BLOCK = Batch(blocks=[FeedBlock([SourceRecord('"a"', "1", 0)], [], "end", complete=True)])


class Disk:
    """Stands in for `transaction`: the commit of the transaction that it `fails_at` is one that the disk refuses."""

    def __init__(self) -> None:
        self.fails_at: int | None = None
        self.seen = 0
        self.used: list[apsw.Connection] = []
        self._real = connection.transaction

    @contextlib.contextmanager
    def transaction(self, through: apsw.Connection) -> Iterator[None]:
        self.seen += 1
        self.used.append(through)
        with self._real(through):
            yield
            if self.seen == self.fails_at:
                raise apsw.IOError("disk I/O error")


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> Disk:
    made = Disk()
    monkeypatch.setattr(connection, "transaction", made.transaction)
    return made


def test_after_a_fault_everything_is_refused_until_it_is_opened_anew(tmp_path: Path, disk: Disk) -> None:
    store = SqliteWorkStore(tmp_path / "onward.db", HandClock())
    begun = store.begin_run(RunStart("job", "", "host", "{}", "in", (), 3))
    store.take_feed(begun.run)
    store.begin_pass(begun.run, False, "")
    disk.fails_at = disk.seen + 1
    failed = store._connection
    with pytest.raises(StoreWriteError, match="the disk failed"):
        store.write(begun.run, BLOCK)
    used = len(disk.used)
    for verb in (
        lambda: store.write(begun.run, BLOCK),
        lambda: store.renew(begun.run),
        lambda: store.note_stop(begun.run, "x"),
        lambda: store.end_run(begun.run, 3, "x"),
        lambda: store.counts(begun.instance),
    ):
        with pytest.raises(StoreWriteError, match="the disk failed"):
            verb()
    assert len(disk.used) == used
    store.reopen()
    assert store.counts(begun.instance).total == 0
    store.end_run(begun.run, 3, "the disk failed")
    assert disk.used[-1] is not failed
    store.tidy()
    store.close()
    assert (tmp_path / "onward.db-wal").stat().st_size > 0, "a log that may lack pages was folded in"
    with contextlib.closing(apsw.Connection(str(tmp_path / "onward.db"))) as looking:
        assert looking.execute("SELECT exit_code FROM runs").fetchall() == [(3,)]


def test_other_refusals_are_no_faults(tmp_path: Path, disk: Disk, monkeypatch: pytest.MonkeyPatch) -> None:
    store = SqliteWorkStore(tmp_path / "onward.db", HandClock())
    begun = store.begin_run(RunStart("job", "", "host", "{}", "in", (), 3))
    same = store._connection
    store.reopen()
    assert store._connection is same
    monkeypatch.setattr(store, "_schema", -1)
    with pytest.raises(StoreWriteError, match="newer onward"):
        store.renew(begun.run)
    monkeypatch.undo()
    assert store.renew(begun.run)
    store.close()


@pytest.mark.timeout(60)
def test_a_run_under_which_the_disk_failed_is_closed_through_a_fresh_connection(tmp_path: Path, disk: Disk) -> None:
    place = str(tmp_path / "onward.db")
    job = onward.Job("j", source=onward.iterable(lambda: range(50), version="1"))

    @job.step(version="1")
    async def one(record: Any) -> Any:
        if record == 20 and disk.fails_at is None:
            disk.fails_at = disk.seen + 1
        return record

    result = onward.run(job, store=place)
    assert result.exit_code == 3
    assert "the disk failed" in result.reason
    assert disk.fails_at is not None
    assert disk.used[disk.fails_at - 1] not in disk.used[disk.fails_at :]
    assert api.status(job, store=place)["runs"][0]["exit_code"] == 3
    disk.fails_at = 0
    assert onward.run(job, store=place).exit_code == 0


def test_a_run_whose_end_cannot_be_written_shows_life_until_its_calls_have_ended(tmp_path: Path, disk: Disk) -> None:
    store = SqliteWorkStore(tmp_path / "onward.db", HandClock())
    run = store.begin_run(RunStart("job", "", "host", "{}", "in", (), 3)).run
    disk.fails_at = disk.seen + 1
    with pytest.raises(StoreWriteError, match="the disk failed"):
        store.end_run(run, 3, "stopped")
    store.close()
    assert RunLocks(tmp_path / "onward.db").is_held(run)
    store.sends_ended(run)
    assert not RunLocks(tmp_path / "onward.db").is_held(run)
