"""Steps that hang, swallow their cancellation or raise what nobody expects: one record's failure and no more."""

from __future__ import annotations

import asyncio
import threading
import time
import weakref
from collections import Counter
from typing import Any

import pytest
from engine_bench import EngineBench, job, work_through

import onward
from onward import Retry
from onward.engine import slots
from onward.engine.attempt import Attempt
from onward.engine.outcomes import Died, Raised
from onward.model import Kind
from onward.policy.failures import Classified
from onward.ports.work import Batch, ClaimWish

# Deadlines.


def test_an_async_step_is_cut_at_its_timeout_and_tried_again() -> None:
    tried, work = Counter[str](), job()

    @work.step(version="1", timeout=0.05, retry=Retry(attempts=2, base=0))
    async def one(record: str) -> str:
        tried[record] += 1
        if record == "slow":
            await asyncio.sleep(60)
        return record

    bench = EngineBench(work, ["slow", "quick"])

    async def go() -> None:
        async with bench:
            await bench.work()
            assert bench.row("slow")["failure"][:3] == (
                "transient",
                "TimeoutError",
                '"no answer within 0.05 seconds (timeout)"',
            )
            assert bench.states() == {"succeeded": 1, "failed": 1}

    asyncio.run(go())
    assert tried == {"slow": 2, "quick": 1}


def test_a_step_that_swallows_its_cancellation_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slots, "CUT_GRACE", 0.05)
    release, work = asyncio.Event(), job()

    @work.step(version="1", timeout=0.05, retry=Retry(attempts=1))
    async def one(record: str) -> str:
        while record == "stubborn" and not release.is_set():
            try:
                await asyncio.wait_for(release.wait(), 60)
            except asyncio.CancelledError:
                continue
        return record

    bench = EngineBench(work, ["stubborn", "a", "b", "c"], concurrency=1)

    async def go() -> None:
        async with bench:
            await bench.work()
            assert bench.states() == {"succeeded": 3, "failed": 1}
            assert [fields["reason"] for fields in bench.events("call_abandoned")] == ["it does not return"]
            release.set()
            await asyncio.sleep(0.05)
            assert bench.row("stubborn")["checkpoints"] == {}

    asyncio.run(go())


def test_a_step_that_is_cut_but_answers_all_the_same_has_answered() -> None:
    work = job()

    @work.step(version="1", timeout=0.05)
    async def one(record: str) -> str:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            return "just in time"
        return "never"

    bench = EngineBench(work, ["k"])

    async def go() -> None:
        async with bench:
            await bench.work()
            assert bench.row("k")["checkpoints"] == {(0, "one"): '"just in time"'}

    asyncio.run(go())


def test_a_sync_step_that_hangs_is_abandoned_and_the_rest_goes_on() -> None:
    release, work = threading.Event(), job()

    @work.step(version="1", timeout=0.05, retry=Retry(attempts=1))
    def one(record: str) -> str:
        if record == "hangs":
            release.wait(30)
        return record

    bench = EngineBench(work, ["hangs", "a", "b", "c"], concurrency=1)

    async def go() -> None:
        async with bench:
            await bench.work()
            assert bench.states() == {"succeeded": 3, "failed": 1}
            assert bench.local.threads.abandoned == 1
            assert [fields["reason"] for fields in bench.events("call_abandoned")] == ["its thread cannot be cut"]
            release.set()
            await bench.until(lambda: bench.local.threads.abandoned == 0)
            assert bench.row("hangs")["checkpoints"] == {}

    asyncio.run(go())


def test_a_loop_can_end_though_a_thread_never_does() -> None:
    release, work = threading.Event(), job()

    @work.step(version="1", timeout=0.05, retry=Retry(attempts=1))
    def one(record: str) -> str:
        release.wait(30)
        return record

    began = time.monotonic()
    work_through(EngineBench(work, ["hangs"]))
    assert time.monotonic() - began < 10
    release.set()


# Steps that misbehave.


class Mute(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no words")


MISDEEDS: dict[str, Any] = {
    "cancels itself": asyncio.CancelledError,
    "exits": SystemExit,
    "interrupts": KeyboardInterrupt,
    "is mute": Mute,
    "stops iterating": StopIteration,
    "ends a generator": GeneratorExit,
}


@pytest.mark.parametrize("kind", ["async", "sync"])
@pytest.mark.parametrize("misdeed", MISDEEDS)
def test_what_a_step_raises_is_its_records_failure_and_no_more(kind: str, misdeed: str) -> None:
    work = job()

    async def acts(record: str) -> str:
        if record == "bad":
            raise MISDEEDS[misdeed]
        return record

    def acts_in_a_thread(record: str) -> str:
        if record == "bad":
            raise MISDEEDS[misdeed]
        return record

    work.step(version="1")(acts if kind == "async" else acts_in_a_thread)
    bench = EngineBench(work, ["a", "bad", "b"], concurrency=1)

    async def go() -> None:
        async with bench:
            await bench.work()
            assert bench.states() == {"succeeded": 2, "failed": 1}
            assert bench.row("bad")["failure"][0] == "bug"

    asyncio.run(go())


def test_a_failure_is_told_with_the_place_in_the_steps_own_file() -> None:
    work = job()

    @work.step(version="1")
    async def one(record: str) -> str:
        raise ValueError("7 is odd")

    bench = EngineBench(work, ["k"])

    async def go() -> None:
        async with bench:
            await bench.work()
            message = bench.row("k")["failure"][2]
            assert message.startswith('"7 is odd (test_engine_steps.py:')

    asyncio.run(go())


def test_forbidden_for_one_record_among_others_is_its_own_though_a_child_cannot_know() -> None:
    work = job()

    @work.step(version="1")
    async def one(record: str) -> str:
        return record

    bench = EngineBench(work, ["a", "k"], concurrency=1)

    class Child:
        async def call(self, attempt: Any) -> Raised:
            return Raised(Classified(Kind.FATAL, "httpx.HTTPStatusError", "forbidden", status=403))

    async def go() -> None:
        async with bench:
            adopt = bench.worker.adopt

            def elsewhere(attempt: Any) -> None:
                attempt.home = Child() if attempt.claimed.key == '"k"' else None
                adopt(attempt)

            bench.worker.adopt = elsewhere  # type: ignore[method-assign]
            await bench.work()
            assert bench.states() == {"succeeded": 1, "quarantined": 1}
            assert bench.row("k")["failure"][0] == "rejected"

    asyncio.run(go())


def test_a_job_may_say_that_an_exception_ends_the_record_well() -> None:
    work = job(classify=lambda error: onward.Done("nothing to do") if isinstance(error, LookupError) else None)

    @work.step(version="1")
    async def one(record: str) -> str:
        return {"a": "b"}[record]

    bench = EngineBench(work, ["a", "c"])

    async def go() -> None:
        async with bench:
            await bench.work()
            assert bench.states() == {"succeeded": 2}
            told = [fields["reason"] for event, fields in bench.heard if event == "record_done"]
            assert told == ["nothing to do"]

    asyncio.run(go())


def test_what_filled_the_memory_is_let_go_though_its_error_is_still_held() -> None:
    work = job()
    kept: list[weakref.ref[Any]] = []

    @work.step(version="1")
    def hoard(record: str) -> None:
        much = threading.Event()
        kept.append(weakref.ref(much))
        raise MemoryError

    async def go() -> None:
        async with EngineBench(work, ["a"]) as bench:
            (claimed,) = bench.store.write(bench.run, Batch(wishes=[ClaimWish(1, 1 << 20)])).claimed[0]
            attempt = Attempt(bench.plan, claimed, started=True)
            try:
                hoard("a")
            except MemoryError as error:
                assert kept[0]() is not None
                assert isinstance(bench.local.raised(attempt, error), Died)
                assert kept[0]() is None

    asyncio.run(go())


def test_an_outage_does_not_shorten_the_wait_that_was_asked_for() -> None:
    work = job()
    work.step(version="1")(as_it_is)

    async def go() -> None:
        async with EngineBench(work, ["a"]) as bench:
            (claimed,) = bench.store.write(bench.run, Batch(wishes=[ClaimWish(1, 1 << 20)])).claimed[0]
            attempt = Attempt(bench.plan, claimed, started=True)
            attempt.pause = 2.0  # an outage spares it, and lets others go first
            asked = Classified(Kind.TRANSIENT, "Transient", "closed", retry_after=3000.0)
            fact = bench.worker.endings.failed(attempt, asked)
            assert fact.not_before > time.time() + 2900
            attempt.pause = 2.0
            fact = bench.worker.endings.failed(attempt, Classified(Kind.TRANSIENT, "ReadError", "reset"))
            assert fact.not_before < time.time() + 10

    asyncio.run(go())


def as_it_is(record: str) -> str:
    return record
