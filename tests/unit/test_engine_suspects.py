"""The inquest: the guilty record is found among its neighbours, and nobody else comes to harm."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest
from engine_bench import EngineBench, job

from onward import Retry
from onward.codec import loads
from onward.engine.attempt import Attempt
from onward.engine.outcomes import CallOutcome, Died, Returned
from onward.engine.processes import children
from onward.engine.processes.children import Assignment
from onward.engine.suspects import Inquest
from onward.model import Claimed, Fact, State
from onward.ports.work import Batch, ClaimWish
from onward.store.sqlite.work import SqliteWorkStore

ASSIGNMENT = Assignment("job.py", None, "job", None, 1, "", {})


class FakeChild:
    """A child in this process: a guilty record's call ends it, and every call in progress with it."""

    guilty: ClassVar[set[Any]] = set()
    short: ClassVar[set[Any]] = set()
    made: ClassVar[list[FakeChild]] = []
    began: ClassVar[Counter[Any]] = Counter()
    most_beside: ClassVar[int] = 0

    def __init__(self, assignment: Assignment, round: int, budgets: Any = None):
        self.dead, self.round = False, round
        self.closed = False
        self._calls: dict[asyncio.Future[CallOutcome], Attempt] = {}
        FakeChild.made.append(self)

    async def call(self, attempt: Attempt, value: str) -> CallOutcome:
        assert not self.dead
        assert not self.closed, "a call in a child that is told to end"
        key = loads(attempt.claimed.key)
        FakeChild.began[key] += 1
        loop = asyncio.get_running_loop()
        future: asyncio.Future[CallOutcome] = loop.create_future()
        self._calls[future] = attempt
        FakeChild.most_beside = max(FakeChild.most_beside, len(self._calls))
        if key in FakeChild.guilty:
            loop.call_later(0.004, self._die)
        elif key in FakeChild.short:
            future.set_result(Died("too big", (attempt.claimed.id,), survived=True))
        else:
            loop.call_later(0.012, self._answer, future, value)
        try:
            return await future
        finally:
            self._calls.pop(future, None)

    def _answer(self, future: asyncio.Future[CallOutcome], value: str) -> None:
        if not future.done():
            future.set_result(Returned(value))

    def _die(self) -> None:
        if self.dead:
            return
        self.dead = True
        beside = tuple(attempt.claimed.id for attempt in self._calls.values())
        for future in self._calls:
            if not future.done():
                future.set_result(Died("signal 11 (SIGSEGV)", beside))

    def close(self) -> None:
        self.closed = True

    def kill(self) -> None:
        self._die()


@pytest.fixture(autouse=True)
def fake_children(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    monkeypatch.setattr(children, "Child", FakeChild)
    FakeChild.short = set()
    FakeChild.guilty, FakeChild.made, FakeChild.began = set(), [], Counter()
    FakeChild.most_beside = 0
    yield


class Bench(EngineBench):
    """With an inquest, and records that had started at two deaths."""

    def __init__(self, keys: Any, concurrency: int = 8, others: Any = (), store: SqliteWorkStore | None = None):
        made = job()
        self.here: Counter[Any] = Counter()
        self.short: dict[Any, int] = {}

        @made.step(version="1", retry=Retry(base=0.01))
        async def one(record: Any) -> Any:
            self.here[record] += 1
            if self.here[record] <= self.short.get(record, 0):
                raise MemoryError("too big")
            assert record not in FakeChild.guilty, "a suspect is called in this process"
            return record

        super().__init__(made, [*keys, *others], concurrency, store)
        self.suspects = set(keys)
        if keys:
            self._make_suspects()

    def _make_suspects(self) -> None:
        claimed = self.store.write(self.run, Batch(wishes=[ClaimWish(10_000, 1 << 30)])).claimed[0]
        facts = [
            Fact(one.id, one.fence, 0, State.PENDING, step="one", deaths=2, hold="suspect")
            if loads(one.key) in self.suspects
            else Fact(one.id, one.fence, 0, State.PENDING, step="one")
            for one in claimed
        ]
        self.store.write(self.run, Batch(facts=facts))

    async def __aenter__(self) -> Bench:
        await super().__aenter__()
        self.inquest = Inquest(self.worker, ASSIGNMENT, lambda attempt: attempt.claimed.value or "null")
        return self

    async def judge(self) -> None:
        """Until nobody is left."""
        self.inquest.begin()
        await self.work(30)

    def ended(self) -> dict[str, set[Any]]:
        rows = self.ask(lambda: self.store._connection.execute("SELECT state, key FROM records").fetchall())
        found: dict[str, set[Any]] = {}
        for state, key in rows:
            found.setdefault(state, set()).add(loads(key))
        return found


def judged(bench: Bench) -> dict[str, set[Any]]:
    async def go() -> dict[str, set[Any]]:
        async with bench:
            await bench.judge()
            return bench.ended()

    return asyncio.run(go())


@pytest.mark.parametrize("guilty", [0, 31, 63])
@pytest.mark.parametrize("concurrency", [1, 3, 8, 64])
def test_one_guilty_record_among_many_is_found(guilty: int, concurrency: int) -> None:
    FakeChild.guilty = {guilty}
    ended = judged(Bench(range(64), concurrency))
    assert ended == {"succeeded": set(range(64)) - {guilty}, "quarantined": {guilty}}
    deaths = sum(child.dead for child in FakeChild.made)
    assert deaths <= 6 + 3


def test_the_guilty_record_died_alone_three_times() -> None:
    FakeChild.guilty = {5}
    bench = Bench(range(16))

    async def go() -> None:
        async with bench:
            await bench.judge()
            row = bench.row(5)
            assert row["failure"][0] == "system"
            assert "signal 11 (SIGSEGV)" in row["failure"][2]
            solo = bench.ask(
                lambda: bench.store._connection.execute("SELECT solo_deaths FROM records WHERE key = '5'").fetchone()
            )
            assert solo == (3,)

    asyncio.run(go())


@pytest.mark.parametrize("guilty", [{0, 1}, {3, 12}, {0, 7, 15}, set(range(16))])
def test_several_guilty_records_are_all_found(guilty: set[int]) -> None:
    FakeChild.guilty = guilty
    ended = judged(Bench(range(16), 4))
    assert ended.get("quarantined", set()) == guilty
    assert ended.get("succeeded", set()) == set(range(16)) - guilty


def test_the_innocent_are_cleared_and_forgotten() -> None:
    bench = Bench(range(20))

    async def go() -> None:
        async with bench:
            await bench.judge()
            assert bench.ended() == {"succeeded": set(range(20))}
            rows = bench.ask(
                lambda: bench.store._connection.execute(
                    "SELECT DISTINCT deaths, solo_deaths, hold FROM records"
                ).fetchall()
            )
            assert rows == [(0, 0, None)]

    asyncio.run(go())
    assert FakeChild.began == Counter(range(20))
    assert len(FakeChild.made) == 1
    assert FakeChild.made[0].closed
    assert bench.here == Counter()


def test_suspects_run_at_the_jobs_own_concurrency() -> None:
    judged(Bench(range(40), 10))
    assert FakeChild.most_beside == 10


def test_others_go_on_meanwhile_in_this_process() -> None:
    FakeChild.guilty = {"s3"}
    bench = Bench([f"s{number}" for number in range(8)], 4, others=[f"o{number}" for number in range(50)])
    ended = judged(bench)
    assert ended["quarantined"] == {"s3"}
    assert len(ended["succeeded"]) == 57
    assert bench.here == Counter(f"o{number}" for number in range(50))


def test_a_suspect_alone_is_not_tried_with_others() -> None:
    bench = Bench(["a", "b", "c"])
    bench.store._connection.execute("UPDATE records SET solo_deaths = 1 WHERE key = '\"b\"'")
    judged(bench)
    assert len(FakeChild.made) == 2


def test_a_conviction_goes_on_in_the_next_run() -> None:
    """Two deaths alone in a run that was then stopped, and one in the next."""
    FakeChild.guilty = {"k"}
    bench = Bench(["k", "l"])
    bench.store._connection.execute("UPDATE records SET solo_deaths = 2 WHERE key = '\"k\"'")
    assert judged(bench) == {"quarantined": {"k"}, "succeeded": {"l"}}
    assert FakeChild.began["k"] == 1


def test_suspects_are_given_back_as_such_when_the_run_stops() -> None:
    bench = Bench(range(10), 4)

    async def go() -> None:
        async with bench:
            bench.inquest.begin()
            await bench.until(lambda: len(FakeChild.began) >= 2)
            bench.worker.stop()
            bench.worker.slots.cut_all()
            bench.inquest.kill()
            await bench.until(lambda: not bench.worker.held)
            counts = bench.ask(lambda: bench.store.counts(1))
            assert counts.held.get("suspect", 0) == counts.of(State.PENDING)
            assert counts.of(State.QUARANTINED) == 0

    asyncio.run(go())


def test_a_limit_that_is_used_up_takes_up_no_suspects() -> None:
    bench = Bench(range(4))

    async def go() -> None:
        async with bench:
            bench.worker.share.left = 0
            bench.inquest.begin()
            await asyncio.sleep(0.05)
            assert not bench.inquest.is_busy
            assert bench.states() == {"pending": 4}

    asyncio.run(go())


def test_a_job_that_no_child_can_load_runs_its_suspects_here_one_at_a_time() -> None:
    bench = Bench(range(6))

    async def go() -> None:
        async with bench:
            bench.inquest.starts = None
            await bench.judge()
            assert bench.ended() == {"succeeded": set(range(6))}

    asyncio.run(go())
    assert FakeChild.made == []
    assert bench.here == Counter(range(6))


# Memory that runs out.


def worked_through(bench: Bench) -> dict[str, set[Any]]:
    async def go() -> dict[str, set[Any]]:
        async with bench:
            await bench.until(lambda: bench.inquest.begin() or bench._is_over())
            return bench.ended()

    return asyncio.run(go())


def test_memory_that_ran_out_once_is_nobodys_failure() -> None:
    bench = Bench((), others=range(6))
    bench.short = {3: 1}
    assert worked_through(bench) == {"succeeded": set(range(6))}
    assert bench.here[3] == 2
    assert FakeChild.made == []
    told = [fields for event, fields in bench.heard if event == "record_reset"]
    assert [(one["key"], one["kind"], one["error_type"], one["reason"]) for one in told] == [
        (3, "system", "MemoryError", "out of memory")
    ]


def test_a_record_for_which_memory_runs_out_twice_goes_on_in_a_child() -> None:
    bench = Bench((), others=range(6))
    bench.short = {3: 99}
    assert worked_through(bench) == {"succeeded": set(range(6))}
    assert (bench.here[3], FakeChild.began) == (2, Counter({3: 1}))


def test_a_record_for_which_memory_runs_out_alone_is_convicted_after_three_times() -> None:
    bench = Bench((), others=range(6))
    bench.short, FakeChild.short = {3: 99, 4: 99}, {3}

    async def go() -> None:
        async with bench:
            await bench.until(lambda: bench.inquest.begin() or bench._is_over())
            assert bench.ended() == {"succeeded": {0, 1, 2, 4, 5}, "quarantined": {3}}
            assert bench.row(3)["failure"][:3] == ("system", "MemoryError", '"too big"')
            assert bench.row(3)["failed_runs"] == 0

    asyncio.run(go())
    assert bench.here[3] == 2
    assert FakeChild.began[4] == 1
    assert not any(child.dead for child in FakeChild.made)


def test_in_a_notebook_it_is_convicted_here() -> None:
    bench = Bench((), others=range(6))
    bench.short = {3: 99}

    async def go() -> None:
        async with bench:
            bench.inquest.starts = None
            await bench.until(lambda: bench.inquest.begin() or bench._is_over())
            assert bench.ended() == {"succeeded": {0, 1, 2, 4, 5}, "quarantined": {3}}

    asyncio.run(go())
    assert bench.here[3] == 5


def test_a_bounded_step_keeps_its_bound_among_suspects() -> None:
    made = job()

    @made.step(version="1", concurrency=2)
    async def one(record: int) -> int:
        raise AssertionError("a suspect is called in this process")

    FakeChild.guilty = {3}
    bench = Bench(())
    bench.suspects = set(range(8))
    EngineBench.__init__(bench, made, range(8), 8, bench.store)
    bench._make_suspects()
    ended = judged(bench)
    assert ended == {"succeeded": set(range(8)) - {3}, "quarantined": {3}}
    assert FakeChild.most_beside <= 2
    assert bench.worker.admission.room == {"one": 2}


def test_suspects_whose_effects_are_open_begin_in_small_groups_and_stay_divided() -> None:
    """They leave the run between two tries and are claimed again; a division that was lost would never end."""
    made = job()

    @made.step(version="1")
    async def one(record: Any) -> Any: ...

    plan = made.plan(None)
    worker: Any = SimpleNamespace(submit=lambda fact: None, budgets=None, endings=SimpleNamespace())
    inquest = Inquest(worker, ASSIGNMENT, lambda attempt: "null")

    def come() -> list[Attempt]:
        attempts = [Attempt(plan, Claimed(n, 1, 0, str(n), n, "1", None, 1, 2, 0, 0), True) for n in range(20)]
        worker.on_suspects(attempts)
        return attempts

    def groups(attempts: list[Attempt]) -> list[list[int]]:
        found: dict[Any, list[int]] = {}
        for attempt in attempts:
            found.setdefault(attempt.home, []).append(attempt.claimed.id)
        return sorted(found.values())

    attempts = come()
    assert groups(attempts) == [[n, n + 1, n + 2] for n in range(0, 18, 3)] + [[18, 19]]
    for attempt in attempts[:3]:
        assert inquest.died(attempt, Died("signal 11 (SIGSEGV)", (0, 1, 2)))
    assert groups(attempts[:3]) == [[0, 1], [2]]
    assert groups(come()[:3]) == [[0, 1], [2]]
