"""Slots and admission: who is called next, and what makes room."""

from __future__ import annotations

import asyncio
import itertools
import time
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
from engine_bench import job

from onward.engine import slots
from onward.engine.attempt import Attempt
from onward.engine.gates.admission import Admission
from onward.engine.slots import Slot, Slots
from onward.job.plan import Plan
from onward.model import Claimed


def a_plan(timeout: float = 60.0, concurrency: int | None = None) -> Plan:
    made = job()

    @made.step(version="1", timeout=timeout, concurrency=concurrency)
    async def one(record: int) -> int:
        return record

    return made.plan(None)


def attempts(number: int, plan: Plan | None = None, started: bool = True) -> list[Attempt]:
    made = plan or a_plan()
    return [Attempt(made, Claimed(n, 1, 0, str(n), n, "1", None, 1, 0, 0, 0), started) for n in range(number)]


class Bench:
    """Slots whose calls wait until they are let go."""

    def __init__(self, limit: int) -> None:
        self.begun: list[int] = []
        self.given_up: list[int] = []
        self.faults: list[BaseException] = []
        self.release = asyncio.Event()
        self.perform: Callable[[Slot, Attempt], Awaitable[None]] = self._perform
        self.slots = Slots(limit, self._call, self._give_up, self.faults.append)

    async def _call(self, slot: Slot, attempt: Attempt) -> None:
        self.begun.append(attempt.claimed.id)
        attempt.called()
        await self.perform(slot, attempt)
        slot.cut = None

    async def _perform(self, slot: Slot, attempt: Attempt) -> None:
        await self.release.wait()

    def _give_up(self, slot: Slot, attempt: Attempt) -> None:
        self.given_up.append(attempt.claimed.id)


async def settle() -> None:
    for _ in range(5):
        await asyncio.sleep(0)


def test_so_many_at_a_time_and_in_order() -> None:
    async def go() -> None:
        bench = Bench(3)
        for attempt in attempts(8):
            bench.slots.put(attempt)
        await settle()
        assert (bench.begun, bench.slots.calls, bench.slots.free) == ([0, 1, 2], 3, 0)
        bench.release.set()
        await settle()
        assert bench.begun == list(range(8))
        assert (bench.slots.calls, bench.slots.free) == (0, 3)
        bench.slots.close()

    asyncio.run(go())


def test_a_record_that_goes_on_comes_before_those_that_begin() -> None:
    async def go() -> None:
        bench = Bench(1)
        first, second, third = attempts(3)
        bench.slots.put(first)
        await settle()
        bench.slots.put(second)
        bench.slots.put(third, first=True)
        bench.release.set()
        await settle()
        assert bench.begun == [0, 2, 1]
        bench.slots.close()

    asyncio.run(go())


def test_nothing_new_begins_while_paused() -> None:
    async def go() -> None:
        bench = Bench(2)
        bench.release.set()
        bench.slots.paused = True
        for attempt in attempts(4):
            bench.slots.put(attempt)
        await settle()
        assert bench.begun == []
        bench.slots.unpause()
        await settle()
        assert bench.begun == [0, 1, 2, 3]
        bench.slots.close()

    asyncio.run(go())


def sleeps_until_cut(seen: list[Any]) -> Callable[[Slot, Attempt], Awaitable[None]]:
    """A call that lasts until it is cancelled, and notes why."""

    async def perform(slot: Slot, attempt: Attempt) -> None:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            seen.append(slot.cut)

    return perform


def test_a_call_past_its_deadline_is_cancelled_and_says_why() -> None:
    seen: list[Any] = []

    async def go() -> None:
        bench = Bench(1)

        bench.perform = sleeps_until_cut(seen)
        for attempt in attempts(2, a_plan(timeout=0.02)):
            bench.slots.put(attempt)
        await settle()
        bench.slots.sweep()
        assert seen == []
        await asyncio.sleep(0.03)
        bench.slots.sweep()
        await settle()
        assert seen == ["timeout"]
        assert bench.begun == [0, 1]
        bench.slots.cut_all()
        await settle()
        assert seen == ["timeout", "stop"]
        bench.slots.close()

    asyncio.run(go())


def test_a_call_that_cannot_be_cancelled_loses_its_slot_to_the_next(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slots, "CUT_GRACE", 0.01)

    async def go() -> None:
        bench = Bench(1)
        over = asyncio.Event()

        async def perform(slot: Slot, attempt: Attempt) -> None:
            while attempt.claimed.id == 0 and not over.is_set():
                try:
                    await over.wait()
                except asyncio.CancelledError:
                    continue

        bench.perform = perform
        for attempt in attempts(2):
            bench.slots.put(attempt)
        await settle()
        bench.slots.cut_all()
        await asyncio.sleep(0.02)
        bench.slots.sweep()
        await settle()
        assert (bench.given_up, bench.begun) == ([0], [0, 1])
        over.set()
        await settle()
        assert bench.slots.calls == 0
        assert bench.faults == []
        bench.slots.close()

    asyncio.run(go())


def test_a_fault_in_a_slot_is_told() -> None:
    async def go() -> None:
        bench = Bench(1)

        async def perform(slot: Slot, attempt: Attempt) -> None:
            raise ZeroDivisionError

        bench.perform = perform
        bench.slots.put(attempts(1)[0])
        await settle()
        assert isinstance(bench.faults[0], ZeroDivisionError)

    asyncio.run(go())


def test_the_call_in_progress_the_longest() -> None:
    async def go() -> None:
        bench = Bench(3)
        assert bench.slots.longest() is None
        for attempt in attempts(3):
            bench.slots.put(attempt)
            await settle()
            await asyncio.sleep(0.002)
        found = bench.slots.longest()
        assert found is not None
        assert found[0].claimed.id == 0
        assert 0 < time.monotonic() - found[1] < 10
        bench.release.set()
        await settle()
        assert bench.slots.longest() is None
        bench.slots.close()

    asyncio.run(go())


def test_other_tasks_have_their_turn_among_calls_that_never_wait() -> None:
    async def go() -> None:
        bench = Bench(1)

        async def perform(slot: Slot, attempt: Attempt) -> None:
            """Does not give way."""
            time.sleep(0.0002)

        bench.perform = perform
        turns = 0

        async def another() -> None:
            nonlocal turns
            while True:
                turns += 1
                await asyncio.sleep(0)

        task = asyncio.ensure_future(another())
        for attempt in attempts(1000):
            bench.slots.put(attempt)
        while len(bench.begun) < 1000:
            await asyncio.sleep(0)
        assert turns >= 10
        task.cancel()
        bench.slots.close()

    asyncio.run(go())


def test_what_comes_meanwhile_is_heard_before_all_that_is_ready_has_begun() -> None:
    async def go() -> None:
        bench = Bench(100)
        turns: list[int] = []

        async def slow_to_begin(slot: Slot, attempt: Attempt) -> None:
            time.sleep(0.002)
            await bench.release.wait()

        bench.perform = slow_to_begin
        for attempt in attempts(100):
            bench.slots.put(attempt)
        while len(bench.begun) < 100 and len(turns) < 1_000:
            turns.append(len(bench.begun))
            await asyncio.sleep(0)
        most = slots.TURN / 0.002 + 1
        assert max(after - before for before, after in itertools.pairwise([*turns, 100])) <= most
        assert bench.begun == list(range(100)), "all begin, in order"
        bench.release.set()
        await settle()
        assert bench.slots.calls == 0
        bench.slots.close()

    asyncio.run(go())


# Admission.


def test_without_bounds_everything_starts_with_its_claim() -> None:
    begun: list[Attempt] = []
    admission = Admission(a_plan(), begun.append)
    assert admission.start_with_claim
    for attempt in attempts(3, started=False):
        admission.add(attempt)
    assert len(begun) == 3
    assert admission.waiting == 0


def test_a_bounded_step_lets_in_as_many_as_it_has_room_for() -> None:
    plan, begun = a_plan(concurrency=2), list[int]()
    admission = Admission(plan, lambda attempt: begun.append(attempt.claimed.id))
    assert not admission.start_with_claim
    assert admission.limits(plan.steps[0])
    first, second, third, *rest = attempts(5, plan, started=False)
    for attempt in (first, second, third, *rest):
        admission.add(attempt)
    assert (begun, admission.waiting) == ([0, 1], 3)
    admission.release(first)
    admission.release(first)
    assert begun == [0, 1, 2]
    admission.release(second)
    admission.release(third)
    assert (begun, admission.waiting) == ([0, 1, 2, 3, 4], 0)


def test_who_waits_may_be_sent_away() -> None:
    plan, begun = a_plan(concurrency=1), list[int]()
    admission = Admission(plan, lambda attempt: begun.append(attempt.claimed.id))
    first, *rest = attempts(3, plan, started=False)
    for attempt in (first, *rest):
        admission.add(attempt)
    assert [attempt.claimed.id for attempt in admission.clear()] == [1, 2]
    admission.release(first)
    assert begun == [0]


def test_a_slot_that_was_cancelled_between_calls_is_replaced() -> None:
    """A step that leaves a timer behind which cancels its task: the task is a slot's, and other records come after."""

    async def go() -> None:
        bench = Bench(1)

        async def plants(slot: Slot, attempt: Attempt) -> None:
            task = asyncio.current_task()
            if attempt.claimed.id == 0 and task is not None:
                asyncio.get_running_loop().call_later(0.01, task.cancel)

        bench.perform = plants
        first, second, third = attempts(3)
        bench.slots.put(first)
        await asyncio.sleep(0.05)
        bench.slots.put(second)
        await settle()
        bench.slots.put(third)
        await settle()
        assert (bench.begun, bench.slots.calls, bench.slots.free) == ([0, 1, 2], 0, 1)

    asyncio.run(go())


# More or fewer calls at a time.


def test_calls_beyond_a_lower_limit_go_on_and_no_others_begin_meanwhile() -> None:
    async def main() -> None:
        bench = Bench(8)
        gates = {number: asyncio.Event() for number in range(20)}

        async def perform(slot: Slot, attempt: Attempt) -> None:
            await gates[attempt.claimed.id].wait()

        bench.perform = perform
        for attempt in attempts(20):
            bench.slots.put(attempt)
        await settle()
        assert bench.slots.calls == 8
        bench.slots.resize(2)
        for number in range(6):
            gates[number].set()
        await settle()
        assert (bench.begun, bench.slots.calls, bench.slots.free) == (list(range(8)), 2, 0)
        gates[6].set()
        await settle()
        assert (bench.begun[8:], bench.slots.calls) == ([8], 2)
        for gate in gates.values():
            gate.set()
        await settle()
        assert (bench.begun, bench.slots.calls) == (list(range(20)), 0)
        assert bench.given_up == bench.faults == []

    asyncio.run(main())


def test_a_higher_limit_begins_what_is_ready() -> None:
    async def main() -> None:
        bench = Bench(1)
        for attempt in attempts(10):
            bench.slots.put(attempt)
        await settle()
        bench.slots.resize(4)
        await settle()
        assert (bench.begun, bench.slots.calls) == ([0, 1, 2, 3], 4)
        bench.release.set()
        await settle()
        assert bench.begun == list(range(10))

    asyncio.run(main())


def test_idle_slots_go_with_a_lower_limit_and_the_rest_serve_all() -> None:
    async def main() -> None:
        bench = Bench(16)
        bench.release.set()
        for attempt in attempts(16):
            bench.slots.put(attempt)
        await settle()
        assert bench.slots.calls == 0
        bench.slots.resize(1)
        bench.release.clear()
        bench.begun.clear()
        for attempt in attempts(5):
            bench.slots.put(attempt)
        await settle()
        assert bench.begun == [0]
        bench.release.set()
        await settle()
        assert bench.begun == [0, 1, 2, 3, 4]
        assert bench.slots.free == 1

    asyncio.run(main())


def test_a_limit_that_goes_up_and_down_loses_no_attempt() -> None:
    async def main() -> None:
        bench = Bench(3)

        async def perform(slot: Slot, attempt: Attempt) -> None:
            await asyncio.sleep(0.001 * (attempt.claimed.id % 3))

        bench.perform = perform
        waiting = attempts(300)
        while waiting:
            bench.slots.resize(1 + len(waiting) * 7 % 11)
            for attempt in waiting[:3]:
                bench.slots.put(attempt)
            del waiting[:3]
            await asyncio.sleep(0)
        for _ in range(500):
            if len(bench.begun) == 300 and not bench.slots.calls:
                break
            await asyncio.sleep(0.01)
        assert sorted(bench.begun) == list(range(300))
        assert bench.faults == []

    asyncio.run(main())
