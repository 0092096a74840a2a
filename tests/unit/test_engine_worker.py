"""The worker: bounds on what goes on at a time, stopping, old and new holds, what resumes."""

from __future__ import annotations

import asyncio
import threading
import time
from collections import Counter
from typing import Any

import pytest
from engine_bench import EngineBench, job, work_through

from onward import Done, Rejected, Retry, Transient
from onward.engine import pacer, worker
from onward.model import Fact, State
from onward.ports.work import Batch, ClaimWish


class Gauge:
    """How many are inside at a time."""

    def __init__(self) -> None:
        self.now = 0
        self.most = 0
        self._lock = threading.Lock()

    def __enter__(self) -> None:
        with self._lock:
            self.now += 1
            self.most = max(self.most, self.now)

    def __exit__(self, *error: object) -> None:
        with self._lock:
            self.now -= 1


# Bounds.


@pytest.mark.parametrize("concurrency", [1, 7])
def test_no_more_calls_at_a_time_than_allowed(concurrency: int) -> None:
    gauge, work = Gauge(), job()

    @work.step(version="1")
    async def one(record: int) -> int:
        with gauge:
            await asyncio.sleep(0.001)
        return record

    @work.step(version="1")
    async def two(record: int, one: int) -> int:
        with gauge:
            await asyncio.sleep(0)
        return one

    bench = EngineBench(work, range(150), concurrency)
    work_through(bench)
    assert gauge.most == concurrency


def test_no_more_threads_at_a_time_than_allowed() -> None:
    gauge, work = Gauge(), job()

    @work.step(version="1")
    def one(record: int) -> int:
        with gauge:
            time.sleep(0.001)
        return record

    work_through(EngineBench(work, range(100), 5))
    assert 2 <= gauge.most <= 5


def test_a_step_is_never_called_more_often_at_a_time_than_it_says() -> None:
    gauges, work = {name: Gauge() for name in ("one", "two", "three")}, job()

    @work.step(version="1")
    async def one(record: int) -> int:
        with gauges["one"]:
            await asyncio.sleep(0)
        return record

    @work.step(version="1", concurrency=2)
    async def two(record: int, one: int) -> int:
        with gauges["two"]:
            await asyncio.sleep(0.001)
        return one

    @work.step(version="1", concurrency=3)
    async def three(record: int, two: int) -> int:
        with gauges["three"]:
            await asyncio.sleep(0.001)
        return two

    bench = EngineBench(work, range(120), 16)
    work_through(bench)
    assert (gauges["two"].most, gauges["three"].most) == (2, 3)


@pytest.mark.parametrize("failing", [True, False])
def test_a_steps_room_is_given_back_however_its_calls_end(failing: bool) -> None:
    gauge, work = Gauge(), job()
    tried: Counter[int] = Counter()

    @work.step(version="1", concurrency=2, retry=Retry(attempts=2, base=0), timeout=0.05 if failing else 60)
    async def one(record: int) -> int:
        with gauge:
            tried[record] += 1
            what = record % 5
            if what == 0:
                raise Transient("later")
            if what == 1:
                raise Rejected("no")
            if what == 2:
                raise Done("enough")
            if what == 3 and failing:
                await asyncio.sleep(60)
        return record

    bench = EngineBench(work, range(40), 8)
    work_through(bench)
    assert gauge.most <= 2
    assert tried[0] == 2


def test_a_step_that_comes_next_because_others_have_outputs_keeps_its_bound() -> None:
    """Two steps were swapped since an earlier run: after `one` comes `three`, for `two` has its output."""
    gauge = Gauge()

    def plan(first: list[str]) -> Any:
        made = job()
        for name in first:
            made.step(version="1", concurrency=1 if name == "three" else None)(_named(name, gauge))
        return made

    before = EngineBench(plan(["two", "one"]), range(20), 8)
    claimed = before.store.write(before.run, Batch(wishes=[ClaimWish(20, 1 << 20)])).claimed[0]
    made = [
        Fact(one.id, one.fence, 0, State.IN_PROGRESS, "two", "1", one.key, step="one", attempts=0) for one in claimed
    ]
    before.store.write(before.run, Batch(facts=made))
    before.store.end_run(before.run, 3, "")
    after = EngineBench(plan(["one", "two", "three"]), (), 8, store=before.store)
    work_through(after)
    assert gauge.most == 1


def _named(name: str, gauge: Gauge) -> Any:
    async def step(record: int) -> int:
        if name == "three":
            with gauge:
                await asyncio.sleep(0.002)
        return record

    step.__name__ = name
    return step


def _hold_commits(bench: EngineBench, gate: threading.Event) -> None:
    write = bench.store.write

    def waits(*given: Any) -> Any:
        assert gate.wait(10)
        return write(*given)

    bench.store.write = waits  # type: ignore[method-assign]


def test_calls_stop_while_too_much_waits_for_its_commit(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(worker, "MOST_WAITING", 40)
    monkeypatch.setattr(pacer, "claim_ahead", lambda calls, seconds: 200)
    gate, called, work = threading.Event(), Counter[int](), job()

    @work.step(version="1")
    async def one(record: int) -> int:
        called[record] += 1
        return record

    bench = EngineBench(work, range(200), 5)

    async def go() -> None:
        async with bench:
            bench.worker.claim_more()
            while not bench.worker.held:
                await asyncio.sleep(0)
            _hold_commits(bench, gate)
            await asyncio.sleep(0.3)
            assert bench.worker.slots.paused
            assert len(called) <= 40 + 5
            gate.set()
            await bench.work()

    asyncio.run(go())
    assert called == Counter(range(200))


# Stopping.


def test_what_is_cut_when_the_run_stops_is_given_back_with_its_attempt_uncounted() -> None:
    began, work = Counter[int](), job()

    @work.step(version="1")
    async def one(record: int) -> int:
        began[record] += 1
        await asyncio.sleep(60)
        return record

    bench = EngineBench(work, range(10), concurrency=4)

    async def go() -> None:
        async with bench:
            await bench.until(lambda: len(began) == 4)
            await bench.stop()
            assert bench.states() == {"pending": 10}
            for number in range(10):
                row = bench.row(number)
                assert (row["attempts"], row["started"], row["failure"]) == (0, 0, None)

    asyncio.run(go())
    assert sorted(began) == [0, 1, 2, 3]


def test_what_ends_within_its_grace_is_kept() -> None:
    release, began, work = asyncio.Event(), Counter[int](), job()

    @work.step(version="1")
    async def one(record: int) -> int:
        began[record] += 1
        await release.wait()
        return record

    @work.step(version="1")
    async def two(record: int, one: int) -> int:
        return one

    bench = EngineBench(work, range(6), concurrency=3)

    async def go() -> None:
        async with bench:
            await bench.until(lambda: len(began) == 3)
            bench.worker.stop()
            release.set()
            await bench.until(lambda: not bench.worker.held)
            assert bench.states() == {"pending": 6}
            assert [set(bench.row(number)["checkpoints"]) for number in range(6)] == [{(0, "one")}] * 3 + [set()] * 3
            assert bench.row(0)["step"] == "two"
            assert bench.row(0)["attempts"] == 0

    asyncio.run(go())


def test_a_worker_that_stops_claims_nothing_more() -> None:
    work = job()

    @work.step(version="1")
    async def one(record: int) -> int:
        return record

    bench = EngineBench(work, range(5))

    async def go() -> None:
        async with bench:
            bench.worker.stop()
            bench.worker.claim_more()
            await asyncio.sleep(0.05)
            assert bench.states() == {"pending": 5}

    asyncio.run(go())


# Input that changes while calls go on.


def test_a_record_whose_input_changes_during_its_call_is_done_anew_and_the_old_answer_is_dropped() -> None:
    release, seen, work = asyncio.Event(), Counter[str](), job()

    @work.step(version="1")
    async def one(record: str) -> str:
        seen[record] += 1
        if record == "old":
            await release.wait()
        return f"made of {record}"

    bench = EngineBench(work, [("k", "old"), ("other", "other")], concurrency=4)

    async def go() -> None:
        async with bench:
            await bench.until(lambda: seen["old"])
            bench.ask(lambda: bench.feed(("k", "new"), ("other", "other"), again=True))
            await bench.until(lambda: seen["new"])
            await bench.until(lambda: bench.row("k")["state"] == "succeeded")
            release.set()
            await bench.work()
            row = bench.row("k")
            assert row["checkpoints"] == {(1, "one"): '"made of new"'}
            assert len(bench.events("lease_lost")) == 1
            assert not bench.worker.held

    asyncio.run(go())


def test_old_and_new_answers_of_a_record_in_one_commit() -> None:
    release, seen, work = asyncio.Event(), Counter[str](), job()

    @work.step(version="1", concurrency=2)
    async def one(record: str) -> str:
        seen[record] += 1
        await release.wait()
        return f"made of {record}"

    bench = EngineBench(work, [("k", "old")], concurrency=4)

    async def go() -> None:
        async with bench:
            await bench.until(lambda: seen["old"])
            bench.ask(lambda: bench.feed(("k", "new"), again=True))
            await bench.until(lambda: seen["new"])
            release.set()
            await bench.work()
            assert bench.row("k")["checkpoints"] == {(1, "one"): '"made of new"'}

    asyncio.run(go())
    assert bench.worker.admission.room == {"one": 2}


def test_a_record_that_vanishes_during_its_call_is_dropped() -> None:
    release, seen, work = asyncio.Event(), Counter[str](), job()

    @work.step(version="1")
    async def one(record: str) -> str:
        seen[record] += 1
        if record == "k":
            await release.wait()
        return record

    bench = EngineBench(work, ["k", "stays"], concurrency=4)

    async def go() -> None:
        async with bench:
            await bench.until(lambda: seen["k"])
            bench.ask(lambda: bench.feed("stays", again=True))
            release.set()
            await bench.work()
            assert bench.row("k")["checkpoints"] == {}
            assert bench.states() == {"succeeded": 1}

    asyncio.run(go())


# What resumes.


def test_a_resumed_record_begins_with_its_first_step_without_output() -> None:
    calls, work = Counter[str](), job()

    @work.step(version="1")
    async def one(record: str) -> str:
        calls["one"] += 1
        return "1"

    @work.step(version="1", retry=Retry(attempts=1))
    async def two(record: str, one: str) -> str:
        calls["two"] += 1
        if calls["two"] == 1:
            raise ValueError("the first time")
        return one + "2"

    first = EngineBench(work, ["k"])
    work_through(first)
    first.store.end_run(first.run, 1, "")
    second = EngineBench(work, (), store=first.store)

    async def go() -> None:
        async with second:
            await second.work()
            assert second.row("k")["checkpoints"] == {(0, "one"): '"1"', (0, "two"): '"12"'}
            assert [fields["step"] for fields in second.events("record_resumed")] == ["two"]

    asyncio.run(go())
    assert calls == {"one": 1, "two": 2}


def test_a_limit_takes_up_so_many_and_their_retries() -> None:
    tried, work = Counter[int](), job()

    @work.step(version="1", retry=Retry(attempts=3, base=0))
    async def one(record: int) -> int:
        tried[record] += 1
        if tried[record] < 3:
            raise Transient("later")
        return record

    bench = EngineBench(work, range(10))

    async def go() -> None:
        async with bench:
            bench.worker.share.left = 4
            await bench.until(lambda: bench.states().get("succeeded") == 4)
            await asyncio.sleep(0.05)
            assert bench.states() == {"succeeded": 4, "pending": 6}

    asyncio.run(go())
    assert tried == {0: 3, 1: 3, 2: 3, 3: 3}
