"""A fault of onward itself ends the run; it never leaves it waiting for what will not come."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import os
import signal
import threading
import time
from pathlib import Path
from typing import Any

import apsw
import pytest

import onward
from onward import api, runner
from onward.cli import errors
from onward.engine import govern
from onward.engine.attempt import Attempt
from onward.engine.suspects import Inquest
from onward.engine.worker import Worker
from onward.store.sqlite.work import SqliteWorkStore
from torture import looking


def a_job() -> onward.Job:
    job = onward.Job("j", source=onward.iterable(lambda: range(20), version="1"), concurrency=4)

    @job.step(version="1")
    async def one(record: int) -> int:
        return record

    return job


@pytest.mark.timeout(30)
@pytest.mark.parametrize("owner, name", [(Worker, "_settled"), (Worker, "_take"), (Attempt, "completed")])
def test_a_fault_on_the_loop_ends_the_run(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, owner: type, name: str
) -> None:
    job, store = a_job(), str(tmp_path / "store.db")
    real = getattr(owner, name)
    calls = []

    def breaks(self: Any, *arguments: Any, **others: Any) -> Any:
        calls.append(1)
        if len(calls) == 3:
            raise ZeroDivisionError("a mistake in onward")
        return real(self, *arguments, **others)

    monkeypatch.setattr(owner, name, breaks)
    with pytest.raises(ZeroDivisionError):
        runner.run(job, job.bind(), runner.Options(store=store))
    monkeypatch.undo()
    assert runner.run(job, job.bind(), runner.Options(store=store)).exit_code == 0
    assert len(looking.export_lines(store)) == 20


@pytest.mark.timeout(30)
def test_a_fault_of_the_inquest_ends_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    job, store = a_job(), str(tmp_path / "store.db")
    assert onward.run(job, store=store).exit_code == 0
    connection = apsw.Connection(store)
    connection.execute("UPDATE records SET state = 'pending', deaths = 2, hold = 'suspect'")
    connection.execute("DELETE FROM counts WHERE what = 'state' AND name = 'pending'")
    connection.execute("UPDATE counts SET name = 'pending' WHERE what = 'state' AND name = 'succeeded'")
    connection.close()

    def breaks(self: Inquest, attempts: list[Attempt]) -> None:
        raise ZeroDivisionError("a mistake in onward")

    monkeypatch.setattr(Inquest, "_form", breaks)
    with pytest.raises(ZeroDivisionError):
        runner.run(job, job.bind(), runner.Options(store=store))


@pytest.mark.timeout(30)
def test_a_run_that_cannot_be_announced_has_ended(tmp_path: Path) -> None:
    job, store = a_job(), str(tmp_path / "store.db")

    def breaks(announcement: Any) -> None:
        raise BrokenPipeError

    with pytest.raises(BrokenPipeError):
        runner.run(job, job.bind(), runner.Options(store=store, announce=breaks))
    seen: list[Any] = []
    result = runner.run(job, job.bind(), runner.Options(store=store, announce=seen.append))
    assert result.exit_code == 0
    assert (seen[0].begun.others, seen[0].begun.dead_runs) == (0, [])


@pytest.mark.timeout(30)
def test_a_signal_is_noted_though_the_run_stops_for_another_reason(tmp_path: Path) -> None:
    store, told, both = str(tmp_path / "store.db"), [], asyncio.Event()
    job = onward.Job("j", source=onward.iterable(lambda: range(2), version="1"), max_failures=0)

    @job.step(version="1")
    async def one(record: int) -> int:
        if record == 0:
            await asyncio.wait_for(both.wait(), 10)
            raise onward.Rejected("never")
        both.set()
        with contextlib.closing(apsw.Connection(store)) as looking:
            while looking.execute("SELECT count(*) FROM records WHERE state = 'quarantined'").fetchone() == (0,):
                await asyncio.sleep(0.01)
            await asyncio.sleep(0.2)
            os.kill(os.getpid(), signal.SIGTERM)
            await asyncio.sleep(0.3)
            told.extend(looking.execute("SELECT told FROM runs").fetchone())
        return record

    result = onward.run(job, store=store)
    assert result.exit_code == 4
    assert result.reason.startswith("1 records failed")
    assert told == ["SIGTERM"]


@pytest.mark.timeout(30)
def test_a_limited_run_does_not_say_that_all_is_done(tmp_path: Path) -> None:
    for number in range(5):
        result = onward.run(a_job(), store=str(tmp_path / f"{number}.db"), limit=1)
        assert (result.exit_code, result.reason) == (0, "as many as the limit allows are done")


@pytest.mark.timeout(30)
def test_a_run_without_memory_for_another_thread_ends_in_good_order(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = str(tmp_path / "store.db")
    job = onward.Job("j", source=onward.iterable(lambda: range(20), version="1"), concurrency=4)

    @job.step(version="1", retry=onward.Retry(attempts=1))
    async def one(record: int) -> int:
        return await asyncio.to_thread(int, record)

    async def refuses(self: asyncio.BaseEventLoop) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(asyncio.BaseEventLoop, "shutdown_default_executor", refuses)
    assert onward.run(job, store=store).exit_code == 0


@pytest.mark.timeout(30)
def test_the_end_of_a_run_needs_no_thread(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async def refuses(*arguments: Any) -> None:
        raise RuntimeError("can't start new thread")

    monkeypatch.setattr(asyncio, "to_thread", refuses)
    assert onward.run(a_job(), store=str(tmp_path / "store.db")).exit_code == 0


@pytest.mark.timeout(30)
def test_a_step_without_memory_for_its_thread_has_run_out_of_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = str(tmp_path / "store.db")
    job = onward.Job("j", source=onward.iterable(lambda: range(3), version="1"))

    @job.step(version="1")
    def one(record: int) -> int:
        return record

    real, refused = threading.Thread.start, []

    def starts(self: threading.Thread) -> None:
        if self.name.startswith("onward-step") and not refused:
            refused.append(self.name)
            raise RuntimeError("can't start new thread")
        real(self)

    monkeypatch.setattr(threading.Thread, "start", starts)
    assert onward.run(job, store=store).exit_code == 0
    assert refused


def test_memory_that_runs_out_anywhere_is_told_in_words(capsys: pytest.CaptureFixture[str]) -> None:
    for error in (MemoryError(), RuntimeError("can't start new thread"), OSError(errno.ENOMEM, "no")):
        assert errors.report(error) == 3
    assert capsys.readouterr().err.count("memory ran out") == 3
    assert errors.report(RuntimeError("else")) == 70


def test_interrupted_as_it_opens_it_ends_as_later_on(tmp_path: Path) -> None:
    """asyncio's own handler hears the signal then, and cancels; the step's calls begin after that, if at all."""
    store = str(tmp_path / "store.db")
    job = onward.Job("j", source=onward.iterable(lambda: range(3), version="1"))

    @job.step(version="1")
    async def work(number: int) -> int:
        return number

    def interrupted(said: object) -> None:
        signal.raise_signal(signal.SIGINT)

    result = runner.run(job, job.bind(), runner.Options(store=store, announce=interrupted))
    assert (result.exit_code, result.reason) == (3, "SIGINT")
    (run,) = api.status(job, store=store)["runs"]
    assert (run["exit_code"], run["reason"]) == (3, "SIGINT")
    assert onward.run(job, store=store).counts["succeeded"] == 3


def test_a_run_that_is_told_to_stop_keeps_its_lease_until_its_last_call_has_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """However long that takes: the loop is looked at all the time, not until the signal alone."""
    monkeypatch.setattr(govern, "RESPONSIVE_WITHIN", 0.5 - 60.0)
    monkeypatch.setenv("ONWARD_LEASE", "0.3")
    store = str(tmp_path / "store.db")
    renewed: list[float] = []
    renew = SqliteWorkStore.renew

    def noted(self: SqliteWorkStore, run: int) -> bool:
        renewed.append(time.monotonic())
        return renew(self, run)

    monkeypatch.setattr(SqliteWorkStore, "renew", noted)
    told: list[float] = []
    job = onward.Job("j", source=onward.iterable(lambda: range(1), version="1"))

    @job.step(version="1", timeout=60)
    async def one(record: int) -> int:
        os.kill(os.getpid(), signal.SIGINT)
        told.append(time.monotonic())
        while not renewed or renewed[-1] < told[0] + 1.0:
            assert time.monotonic() < told[0] + 20.0, "its lease was not renewed any more"
            await asyncio.sleep(0.05)
        return record

    result = onward.run(job, store=store)
    assert (result.exit_code, result.counts["succeeded"]) == (3, 1)
