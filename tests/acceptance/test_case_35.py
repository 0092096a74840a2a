"""Our own readers do not make the write-ahead log grow; a foreign one does, is named, and it shrinks again after it."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import apsw
import pytest

import onward
from acceptance.jobs import Place, wait_until
from onward.engine import journal

MB = 1 << 20
JOB = """
job = onward.Job("case", source=onward.iterable(lambda: ({"id": n, "text": "x" * 2000} for n in range(%d)), key="id",
                 version="1"), concurrency=32)

@job.step
async def work(record):
    return len(record["text"])
"""


def log_of(place: Place) -> Path:
    return place.folder / ".onward" / "onward.db-wal"


def size(path: Path) -> int:
    try:
        return path.stat().st_size
    except FileNotFoundError:
        return 0


@contextmanager
def watched(path: Path) -> Iterator[list[int]]:
    """The sizes of a file, looked at many times a second."""
    sizes, ended = [0], threading.Event()

    def look() -> None:
        while not ended.wait(0.02):
            sizes.append(size(path))

    watcher = threading.Thread(target=look)
    watcher.start()
    yield sizes
    ended.set()
    watcher.join()


def test_status_in_a_loop_and_slow_exports_keep_the_log_small(tmp_path: Path) -> None:
    place = Place(tmp_path, JOB % 15_000)
    with watched(log_of(place)) as sizes:
        run = place.start("run", "job.py")
        wait_until(lambda: size(log_of(place)))
        wait_until(lambda: place.status()["counts"]["succeeded"] > 100)
        slow = onward.results("case", store=str(tmp_path / ".onward" / "onward.db"))
        read = [next(iter(slow)).key]
        while run.poll() is None:
            place.fine("status", "job.py", "--json")
            place.fine("export", "job.py", "--out", "so_far.jsonl")
    assert run.returncode == 0
    assert max(sizes) < 64 * MB
    assert size(log_of(place)) == 0
    assert read == [0]


def test_a_foreign_reader_is_named_and_the_log_shrinks_after_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In this process, so that the threshold can be lowered and the events heard."""
    from onward import runner

    monkeypatch.setattr(journal, "LARGE_LOG", 24 * MB)
    job = onward.Job(
        "case",
        source=onward.iterable(lambda: records(20_000), key="id", version="1"),
    )
    foreign: list[apsw.Connection] = []

    def records(number: int) -> Iterator[dict[str, object]]:
        for n in range(number):
            if n == 500:  # what is read from here on, 39 MB, goes into a log that cannot be folded in
                foreign.append(apsw.Connection(str(store), flags=apsw.SQLITE_OPEN_READONLY))
                foreign[0].execute("BEGIN")
                foreign[0].execute("SELECT count(*) FROM records").fetchall()
            yield {"id": n, "text": "x" * 2000}

    largest: list[int] = []

    @job.step
    async def work(record: dict[str, object]) -> int:
        largest.append(size(log))
        if record["id"] == 19_999:
            while not any(event == "log_grows" for event, _ in heard):
                await asyncio.sleep(0.01)
            foreign[0].close()
        return 1

    store, heard = tmp_path / "store.db", []
    log = store.with_name("store.db-wal")
    options = runner.Options(
        store=str(store), listeners=[(lambda event, fields: heard.append((event, fields.get("reason"))), False)]
    )
    monkeypatch.setenv("ONWARD_LEASE", "1")  # the log is looked at with each renewal
    result = runner.run(job, job.bind(), options)
    assert result.exit_code == 0
    assert max(largest) > 24 * MB
    (reason,) = [reason for event, reason in heard if event == "log_grows"]
    assert reason.startswith("another program keeps")
    assert size(log) == 0


def test_a_reader_that_stays_to_the_end_does_not_stop_the_run(tmp_path: Path) -> None:
    place = Place(tmp_path, JOB % 3_000)
    run = place.start("run", "job.py")
    wait_until(lambda: size(log_of(place)) > MB)
    store = str(tmp_path / ".onward" / "onward.db")
    foreign = apsw.Connection(store, flags=apsw.SQLITE_OPEN_READONLY)
    foreign.execute("BEGIN")
    foreign.execute("SELECT count(*) FROM records").fetchall()
    began = time.monotonic()
    assert run.wait(60) == 0
    assert time.monotonic() - began < 30
    assert place.status()["counts"]["succeeded"] == 3_000
    foreign.close()
    assert place.onward("run", "job.py").returncode == 0
    assert size(log_of(place)) == 0
