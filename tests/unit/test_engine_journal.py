"""The group commit and those who wait for it: order, cancellation, failure, the end, the lease."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from typing import Any

import pytest

from clocks import HandClock
from onward.engine.journal import FLUSH_AT, Journal
from onward.errors import LeaseLost, OnwardError, StoreWriteError
from onward.model import Fact, FeedBlock, FeedOutcome, SourceRecord, State
from onward.ports.work import Batch, ClaimWish, Outcome

RUN = 1


class FakeStore:
    """Answers from memory; `gate` holds a write back, `fails` makes it fail."""

    def __init__(self) -> None:
        self.batches: list[Batch] = []
        self.renewals = 0
        self.renews = True
        self.fails: BaseException | None = None
        self.gate = threading.Event()
        self.gate.set()
        self.writing = threading.Event()

    def write(self, run: int, batch: Batch) -> Outcome:
        self.writing.set()
        assert self.gate.wait(10)
        if self.fails is not None:
            raise self.fails
        self.batches.append(batch)
        fed = [FeedOutcome(added=len(block.records)) for block in batch.blocks]
        return Outcome(claimed=[[] for _ in batch.wishes], fed=fed)

    def renew(self, run: int) -> bool:
        self.renewals += 1
        return self.renews

    def log_bytes(self) -> int:
        return 0


class Hears:
    def __init__(self) -> None:
        self.facts: list[int] = []
        self.claims = 0
        self.errors: list[BaseException] = []

    def committed(self, facts: list[Fact], outcome: Outcome) -> None:
        self.facts += [fact.record for fact in facts]
        self.claims += len(outcome.claimed)

    def broken(self, error: BaseException) -> None:
        self.errors.append(error)


class Bench:
    def __init__(self, renew_every: float = 60.0) -> None:
        self.store = FakeStore()
        self.hears = Hears()
        self.clock = HandClock()
        self.journal = Journal(self.store, RUN, self.clock, self.hears, renew_every)  # type: ignore[arg-type]

    def hold(self) -> None:
        """Whatever is written from now on waits; returns once a write does."""
        self.store.gate.clear()
        self.store.writing.clear()
        self.journal.state(fact(0))
        self.journal.flush()
        assert self.store.writing.wait(10)


@pytest.fixture
def bench() -> Iterator[Bench]:
    made = Bench()
    made.journal.start()
    yield made
    made.store.gate.set()
    made.journal.close(10)


def fact(record: int) -> Fact:
    return Fact(record, 1, 0, State.SUCCEEDED, lineage=())


def block(number: int = 1) -> FeedBlock:
    return FeedBlock([SourceRecord(str(place), "1", place) for place in range(number)], [], "c")


def until(true: Callable[[], object]) -> None:
    end = time.monotonic() + 10
    while not true():
        assert time.monotonic() < end
        time.sleep(0.002)


def test_everything_that_waits_is_one_commit(bench: Bench) -> None:
    bench.hold()
    for number in range(1, 6):
        bench.journal.state(fact(number))
    bench.journal.wish(ClaimWish(3, 100))
    fed = bench.journal.feed(block(4))
    bench.store.gate.set()
    assert fed.result(10).added == 4
    first, second = bench.store.batches
    assert [one.record for one in first.facts] == [0]
    assert [one.record for one in second.facts] == [1, 2, 3, 4, 5]
    assert (len(second.wishes), len(second.blocks)) == (1, 1)


def test_facts_keep_their_order_over_many_commits(bench: Bench) -> None:
    for number in range(5000):
        bench.journal.state(fact(number))
        if number % 97 == 0:
            bench.journal.flush()
    bench.journal.flush()
    until(lambda: len(bench.hears.facts) == 5000)
    assert bench.hears.facts == list(range(5000))


def test_a_full_batch_needs_no_flush(bench: Bench) -> None:
    for number in range(FLUSH_AT):
        bench.journal.state(fact(number))
    until(lambda: len(bench.hears.facts) == FLUSH_AT)


def test_questions_are_answered_in_order_and_after_the_facts_before_them(bench: Bench) -> None:
    bench.hold()
    seen: list[tuple[int, int]] = []
    bench.journal.state(fact(1))
    asked = [bench.journal.ask(_note(seen, number, bench)) for number in range(20)]
    bench.store.gate.set()
    for number, future in enumerate(asked):
        assert future.result(10) == number
    assert seen == [(number, 2) for number in range(20)]


def _note(seen: list[tuple[int, int]], number: int, bench: Bench) -> Callable[[Any], int]:
    def question(store: Any) -> int:
        seen.append((number, len(bench.hears.facts)))
        return number

    return question


# Those who no longer wait.


def test_a_question_that_nobody_waits_for_any_more_breaks_nothing(bench: Bench) -> None:
    bench.hold()
    given_up = bench.journal.ask(lambda store: 1)
    after = bench.journal.ask(lambda store: 2)
    assert given_up.cancel()
    bench.store.gate.set()
    assert after.result(10) == 2
    assert bench.hears.errors == []


def test_a_block_that_nobody_waits_for_any_more_breaks_nothing(bench: Bench) -> None:
    bench.hold()
    given_up, after = bench.journal.feed(block()), bench.journal.feed(block(2))
    assert given_up.cancel()
    bench.store.gate.set()
    assert after.result(10).added == 2
    assert bench.hears.errors == []


def test_a_task_that_is_cancelled_while_it_waits_breaks_nothing(bench: Bench) -> None:
    async def waits() -> None:
        asked = asyncio.wrap_future(bench.journal.ask(lambda store: 1))
        task = asyncio.ensure_future(asked)
        await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

    bench.hold()
    asyncio.run(waits())
    bench.store.gate.set()
    assert bench.journal.ask(lambda store: 2).result(10) == 2
    assert bench.hears.errors == []


def test_a_failure_reaches_the_others_though_one_gave_up(bench: Bench) -> None:
    bench.hold()
    given_up, waits = bench.journal.feed(block()), bench.journal.feed(block())
    asked = bench.journal.ask(lambda store: 1)
    given_up.cancel()
    bench.store.fails = StoreWriteError("no space left")
    bench.store.gate.set()
    for future in (waits, asked):
        with pytest.raises(StoreWriteError):
            future.result(10)
    until(lambda: bench.hears.errors)
    assert bench.hears.errors == [bench.store.fails]


# Failure.


def test_a_failed_commit_fails_all_who_wait_and_is_told_once(bench: Bench) -> None:
    bench.hold()
    bench.journal.state(fact(1))
    waiting: list[Future[Any]] = [bench.journal.feed(block()), bench.journal.ask(lambda store: 1)]
    bench.store.fails = StoreWriteError("no space left")
    bench.store.gate.set()
    for future in waiting:
        with pytest.raises(StoreWriteError, match="no space left"):
            future.result(10)
    until(lambda: bench.hears.errors)
    later: list[Future[Any]] = [bench.journal.feed(block()), bench.journal.ask(lambda store: 1)]
    for future in later:
        with pytest.raises(StoreWriteError, match="no space left"):
            future.result(10)
    time.sleep(0.05)
    assert len(bench.hears.errors) == 1
    assert bench.hears.facts == []


def test_many_ask_while_it_breaks_and_all_are_told(bench: Bench) -> None:
    bench.hold()
    futures: list[Future[int]] = []
    stop = threading.Event()

    def asks() -> None:
        while not stop.is_set():
            futures.append(bench.journal.ask(lambda store: 1))

    threads = [threading.Thread(target=asks) for _ in range(3)]
    for thread in threads:
        thread.start()
    bench.store.fails = StoreWriteError("no space left")
    bench.store.gate.set()
    until(lambda: bench.hears.errors)
    time.sleep(0.02)
    stop.set()
    for thread in threads:
        thread.join()
    for future in futures:
        with pytest.raises(StoreWriteError):
            future.result(5)


def test_a_question_that_raises_ends_the_journal(bench: Bench) -> None:
    with pytest.raises(ZeroDivisionError):
        bench.journal.ask(lambda store: 1 // 0).result(10)
    until(lambda: bench.hears.errors)
    assert isinstance(bench.hears.errors[0], ZeroDivisionError)


# The end.


def test_closing_commits_the_rest_and_answers(bench: Bench) -> None:
    bench.hold()
    bench.journal.state(fact(1))
    asked = bench.journal.ask(lambda store: 7)
    closing = threading.Thread(target=bench.journal.close)
    closing.start()
    bench.store.gate.set()
    closing.join(10)
    assert asked.result(0) == 7
    assert bench.hears.facts == [0, 1]


def test_who_asks_after_the_end_is_told_so_and_does_not_wait_for_ever(bench: Bench) -> None:
    bench.journal.close()
    waiting: list[Future[Any]] = [bench.journal.ask(lambda store: 1), bench.journal.feed(block())]
    for future in waiting:
        with pytest.raises(OnwardError, match="ended"):
            future.result(5)
    assert bench.hears.errors == []


# The lease.


def test_the_lease_is_renewed_while_nothing_happens() -> None:
    bench = Bench(renew_every=0.0)
    bench.journal.start()
    until(lambda: bench.store.renewals >= 2)
    bench.journal.close()


def test_the_lease_is_renewed_though_there_is_no_end_of_what_waits() -> None:
    bench = Bench(renew_every=0.0)
    committed = bench.hears.committed

    def more(facts: list[Fact], outcome: Outcome) -> None:
        committed(facts, outcome)
        if len(bench.hears.facts) < 50:
            bench.journal.state(fact(len(bench.hears.facts)))
            bench.journal.flush()

    bench.hears.committed = more  # type: ignore[method-assign]
    bench.journal.state(fact(0))
    bench.journal.start()
    bench.journal.flush()
    until(lambda: len(bench.hears.facts) >= 50)
    assert bench.store.renewals >= 45
    bench.journal.close()


def test_the_lease_is_not_renewed_for_a_loop_that_hangs_longer_than_it_may() -> None:
    bench = Bench(renew_every=0.0)
    bench.journal.alive_until = bench.clock.steady() + 100
    bench.journal.start()
    bench.journal.ask(lambda store: None).result(10)
    until(lambda: bench.store.renewals)
    bench.clock.pass_time(101)
    bench.journal.ask(lambda store: None).result(10)
    before = bench.store.renewals
    for _ in range(5):
        bench.journal.ask(lambda store: None).result(10)
    assert bench.store.renewals == before
    bench.journal.alive_until = bench.clock.steady() + 100
    bench.journal.ask(lambda store: None).result(10)
    until(lambda: bench.store.renewals > before)
    bench.journal.close()


def test_a_lease_that_went_to_another_run_ends_the_journal() -> None:
    bench = Bench(renew_every=0.0)
    bench.store.renews = False
    bench.journal.start()
    until(lambda: bench.hears.errors)
    assert isinstance(bench.hears.errors[0], LeaseLost)
    with pytest.raises(LeaseLost):
        bench.journal.ask(lambda store: 1).result(10)
