"""What is told to those who wait is durable, and a commit that fails fails for all of them."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from concurrent.futures import Future
from pathlib import Path
from typing import Any

import apsw
import pytest

import onward
from onward import runner
from onward.clock import SystemClock
from onward.engine.journal import Journal
from onward.errors import LeaseLost, StoreWriteError
from onward.model import Claimed, Fact, FeedBlock, SourceRecord, State
from onward.ports.work import Batch, ClaimWish, Outcome, RunStart
from onward.store.sqlite.work import SqliteWorkStore


class Watched:
    """A real store that notes when a batch has become durable, and fails or dawdles when it is told to."""

    def __init__(self) -> None:
        self.store = SqliteWorkStore(None, SystemClock(), 30.0)
        start = RunStart(job="j", instance="", host="h", params="{}", location="here", steps=(), resume_cap=3)
        self.run = self.store.begin_run(start).run
        self.store.take_feed(self.run)
        self.durable: list[int] = []
        self.fails: Exception | None = None
        self.may_write = threading.Event()
        self.may_write.set()

    def write(self, run: int, batch: Batch) -> Outcome:
        assert self.may_write.wait(10)
        if self.fails is not None:
            raise self.fails
        outcome = self.store.write(run, batch)
        self.durable += [fact.record for fact in batch.facts]
        return outcome

    def __getattr__(self, name: str) -> Any:
        return getattr(self.store, name)

    def claimed(self, number: int) -> list[Claimed]:
        records = [SourceRecord(str(index), "{}", index) for index in range(number)]
        block = FeedBlock(records, [], "c", complete=True)
        outcome = self.store.write(self.run, Batch(blocks=[block], wishes=[ClaimWish(number, 1 << 20)]))
        return outcome.claimed[0]


class Hears:
    """A reader that notes what had become durable when it heard of it."""

    def __init__(self, store: Watched):
        self._store = store
        self.told: list[tuple[int, bool]] = []
        self.error: BaseException | None = None

    def committed(self, facts: list[Fact], outcome: Outcome) -> None:
        self.told += [(fact.record, fact.record in self._store.durable) for fact in facts]

    def broken(self, error: BaseException) -> None:
        self.error = error


def succeeded(claimed: Claimed) -> Fact:
    return Fact(claimed.id, claimed.fence, claimed.generation, State.SUCCEEDED, lineage=())


def a_journal(store: Watched, renew_every: float = 60.0) -> tuple[Journal, Hears]:
    hears = Hears(store)
    return Journal(store, store.run, SystemClock(), hears, renew_every), hears  # type: ignore[arg-type]


def until(true: Callable[[], object]) -> None:
    end = time.monotonic() + 10
    while not true():
        assert time.monotonic() < end
        time.sleep(0.002)


def test_nobody_hears_of_a_fact_before_its_commit_returned() -> None:
    store = Watched()
    claimed = store.claimed(20)
    journal, hears = a_journal(store)
    store.may_write.clear()
    journal.start()
    for one in claimed:
        journal.state(succeeded(one))
    journal.flush()
    time.sleep(0.05)
    assert hears.told == []
    store.may_write.set()
    until(lambda: len(hears.told) == 20)
    assert all(durable for _, durable in hears.told)
    journal.close()


def test_closing_commits_what_waits() -> None:
    store = Watched()
    claimed = store.claimed(5)
    journal, hears = a_journal(store)
    for one in claimed:
        journal.state(succeeded(one))
    journal.start()
    journal.close()
    assert len(store.durable) == len(hears.told) == 5
    assert store.store.counts(1).of(State.SUCCEEDED) == 5


def test_a_failed_commit_fails_all_who_wait_and_all_who_come_later() -> None:
    store = Watched()
    (claimed,) = store.claimed(1)
    journal, hears = a_journal(store)
    store.may_write.clear()
    store.fails = StoreWriteError("no space left")
    journal.start()
    journal.state(succeeded(claimed))
    journal.flush()
    block = FeedBlock([SourceRecord("9", "{}", 9)], [], "d", after="c")
    waiting: list[Future[Any]] = [journal.feed(block), journal.ask(lambda store: 1), journal.ask(lambda store: 2)]
    store.may_write.set()
    for future in waiting:
        with pytest.raises(StoreWriteError):
            future.result(5)
    until(lambda: hears.error)
    assert hears.told == []
    for future in (journal.feed(block), journal.ask(lambda store: 3)):
        with pytest.raises(StoreWriteError):
            future.result(5)
    assert store.store.counts(1).of(State.IN_PROGRESS) == 1


def test_a_question_that_fails_fails_all_who_wait() -> None:
    store = Watched()
    journal, hears = a_journal(store)

    def breaks(store: object) -> None:
        raise StoreWriteError("the disk failed")

    waiting = [journal.ask(breaks), journal.ask(lambda store: 1)]
    journal.start()
    for future in waiting:
        with pytest.raises(StoreWriteError):
            future.result(5)
    until(lambda: hears.error)


def test_the_lease_is_renewed_while_the_loop_is_alive_and_not_for_ever() -> None:
    store = Watched()
    journal, _ = a_journal(store, renew_every=0.0)
    renewed: list[float] = []
    real = store.store.renew
    store.renew = lambda run: renewed.append(time.monotonic()) or real(run)  # type: ignore[attr-defined, func-returns-value]
    journal.alive_until = SystemClock().steady() + 60
    journal.start()
    journal.flush()
    until(lambda: renewed)
    journal.alive_until = SystemClock().steady() - 1
    time.sleep(0.05)
    count = len(renewed)
    for _ in range(5):
        journal.flush()
        time.sleep(0.02)
    assert len(renewed) <= count + 1
    journal.close()


def test_a_run_that_was_taken_over_is_told_so_by_its_next_renewal() -> None:
    store = Watched()
    journal, hears = a_journal(store, renew_every=0.0)
    store.store.end_run(store.run, 0, "as if it had been buried")
    journal.start()
    journal.flush()
    until(lambda: hears.error)
    assert isinstance(hears.error, LeaseLost)


def test_no_step_begins_before_its_start_and_the_checkpoint_before_it_are_durable(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each step looks into the store through a connection of its own."""
    path, seen = tmp_path / "store.db", []
    job = onward.Job("j", source=onward.iterable(lambda: range(12), version="1"), concurrency=4)

    def look(key: int, step: str) -> None:
        connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)
        row = connection.execute(
            "SELECT started, attempts, step, (SELECT count(*) FROM checkpoints c WHERE c.record = r.id)"
            " FROM records r WHERE key = ?",
            (str(key),),
        ).fetchone()
        connection.close()
        seen.append((step, row))

    @job.step(version="1")
    def one(record: int) -> int:
        look(record, "one")
        return record

    @job.step(version="1")
    async def two(record: int, one: int) -> int:
        look(record, "two")
        return one

    @job.step(version="1", concurrency=1)
    def three(record: int, two: int) -> int:
        look(record, "three")
        return two

    real = SqliteWorkStore.write

    def slow(self: SqliteWorkStore, run: int, batch: Batch) -> Outcome:
        time.sleep(0.01)  # a step that does not wait for the commit begins within this
        return real(self, run, batch)

    monkeypatch.setattr(SqliteWorkStore, "write", slow)
    result = runner.run(job, job.bind(), runner.Options(store=str(path)))
    assert result.exit_code == 0
    assert len(seen) == 36
    for step, (started, attempts, told, checkpoints) in seen:
        assert (started, attempts) == (1, 1), step
        assert told in (None, step)
        assert checkpoints == ("one", "two", "three").index(step)
