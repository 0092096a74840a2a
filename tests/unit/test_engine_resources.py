"""Resources that misbehave: the run says so, closes the others and comes to its end."""

from __future__ import annotations

import asyncio
import sqlite3
import subprocess
import sys
import threading
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

import onward
from onward import api, runner
from onward.engine import resources

RAISED = [SystemExit(0), KeyboardInterrupt(), asyncio.CancelledError(), BaseExceptionGroup("g", [SystemExit(0)])]


def a_job(seen: list[str], opening: BaseException | None = None, closing: BaseException | None = None) -> onward.Job:
    job = onward.Job("j", source=onward.iterable(lambda: range(4), version="1"), concurrency=2)

    @job.resource
    def first() -> Iterator[int]:
        seen.append("first opened")
        yield 1
        seen.append("first closed")

    @job.resource
    async def second() -> AsyncIterator[int]:
        if opening is not None:
            raise opening
        yield 2
        if closing is not None:
            raise closing

    @job.step(version="1")
    async def one(record: int, first: int, second: int) -> int:
        return record

    return job


@pytest.mark.timeout(30)
@pytest.mark.parametrize("raised", RAISED, ids=lambda raised: type(raised).__name__)
def test_whatever_a_resource_raises_at_its_end_the_run_has_its_result(tmp_path: Path, raised: BaseException) -> None:
    seen: list[str] = []
    job, store = a_job(seen, closing=raised), str(tmp_path / "store.db")
    assert onward.run(job, store=store).exit_code == 0
    assert seen == ["first opened", "first closed"]
    assert api.status(job, store=store)["runs"][0]["exit_code"] == 0


@pytest.mark.timeout(30)
@pytest.mark.parametrize("raised", [*RAISED, ValueError("no such host")], ids=lambda raised: type(raised).__name__)
def test_whatever_a_resource_raises_at_its_beginning_no_record_is_blamed(tmp_path: Path, raised: BaseException) -> None:
    seen: list[str] = []
    result = onward.run(a_job(seen, opening=raised), store=str(tmp_path / "store.db"))
    assert (result.exit_code, result.counts["failed"], result.counts["quarantined"]) == (4, 0, 0)
    assert "the resource second could not be opened" in result.reason
    assert seen.count("first opened") == seen.count("first closed")


@pytest.mark.timeout(30)
def test_a_resource_that_does_not_close_does_not_keep_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resources, "LONGEST_CLOSE", 0.2)
    job = onward.Job("j", source=onward.iterable(lambda: range(4), version="1"))

    @job.resource
    async def stuck() -> AsyncIterator[int]:
        yield 1
        await asyncio.sleep(3600)

    @job.step(version="1")
    async def one(record: int, stuck: int) -> int:
        return record

    assert onward.run(job, store=str(tmp_path / "store.db")).exit_code == 0


@pytest.mark.timeout(30)
def test_a_plain_resource_that_blocks_at_its_end_is_left_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resources, "LONGEST_CLOSE", 0.2)
    release, seen, heard = threading.Event(), list[str](), list[str]()
    job = onward.Job("j", source=onward.iterable(lambda: range(4), version="1"))

    @job.resource
    def first() -> Iterator[int]:
        yield 1
        seen.append("first closed")

    @job.resource
    def stuck() -> Iterator[int]:
        yield 1
        release.wait()
        seen.append("let go")

    @job.step(version="1")
    def one(record: int, first: int, stuck: int) -> int:
        return record

    options = runner.Options(
        store=str(tmp_path / "store.db"),
        listeners=[(lambda event, fields: heard.append(fields.get("reason", "")), False)],
    )
    assert runner.run(job, job.bind(), options).exit_code == 0
    assert seen == ["first closed"]
    assert "the resource stuck failed to close: it took longer than 0.2 seconds" in heard
    release.set()


STUCK_ON_THE_LOOP = """
import signal, threading, time
from onward.engine import resources
import onward

resources.LONGEST_CLOSE = 0.2
resources.REPEAT_CUT = 0.1
job = onward.Job("j", source=onward.iterable(lambda: range(4), version="1"))

@job.resource
def stuck():
    thread = threading.get_ident()
    yield 1
    assert thread == threading.get_ident()
    try:
        time.sleep(3600)
    except BaseException:
        threading.Event().wait()

@job.step(version="1")
async def one(record, stuck):
    return record

if __name__ == "__main__":
    assert onward.run(job, store="store.db").exit_code == 0
    assert signal.getsignal(signal.SIGALRM) is signal.SIG_DFL
"""


def test_what_blocks_the_loop_at_its_end_is_cut(tmp_path: Path) -> None:
    (tmp_path / "job.py").write_text(STUCK_ON_THE_LOOP)
    subprocess.run([sys.executable, "job.py"], cwd=tmp_path, check=True, timeout=20)


@pytest.mark.timeout(30)
def test_a_plain_resource_of_async_steps_is_closed_in_the_loops_thread(tmp_path: Path) -> None:
    job, closed_in = onward.Job("j", source=onward.iterable(lambda: range(4), version="1")), list[int]()

    @job.resource
    def connection() -> Iterator[sqlite3.Connection]:
        made = sqlite3.connect(tmp_path / "other.db")
        yield made
        made.close()
        closed_in.append(threading.get_ident())

    @job.step(version="1")
    async def one(record: int, connection: sqlite3.Connection) -> list[int]:
        return list(connection.execute("SELECT 1").fetchone())

    assert onward.run(job, store=str(tmp_path / "store.db")).exit_code == 0
    assert closed_in == [threading.get_ident()]


@pytest.mark.timeout(30)
def test_a_resource_that_opens_slowly_takes_no_time_from_a_call(tmp_path: Path) -> None:
    seen: list[str] = []
    job = onward.Job("j", source=onward.iterable(lambda: range(1), version="1"))

    @job.resource
    def first() -> Iterator[int]:
        seen.append("opened")
        yield 1
        seen.append("closed")

    @job.resource
    async def slow(first: int) -> int:
        await asyncio.sleep(1.0)
        return 2

    @job.step(version="1", timeout=0.2, retry=onward.Retry(attempts=1))
    async def one(record: int, slow: int) -> int:
        return record

    assert onward.run(job, store=str(tmp_path / "store.db")).exit_code == 0
    assert seen == ["opened", "closed"]
