"""Slots: as many calls at the same time as the job allows, each with its deadline."""

from __future__ import annotations

import asyncio
import contextvars
import time
from collections import deque
from collections.abc import Awaitable, Callable
from typing import Literal

from onward.engine.attempt import Attempt
from onward.engine.loops import spawn

TURN = 0.01
CUT_GRACE = 1.0
START_WITHIN = 600.0
Perform = Callable[["Slot", Attempt], Awaitable[None]]
Fault = Callable[[BaseException], None]


class Slot:
    """One place for one call. `cut` says why its call is being cancelled; `turn` is what it waits for while it is idle:
    another call, or (False) that it is no longer needed."""

    __slots__ = ("attempt", "began", "cut", "cut_at", "deadline", "given_up", "task", "turn")

    def __init__(self) -> None:
        self.attempt: Attempt | None = None
        self.began = 0.0
        self.deadline = 0.0
        self.cut: Literal["timeout", "stop"] | None = None
        self.cut_at = 0.0
        self.given_up = False
        self.task: asyncio.Task[None] | None = None
        self.turn: asyncio.Future[bool] | None = None

    def start_clock(self) -> None:
        """The step's function is about to be called: its timeout begins."""
        if self.attempt is not None and self.attempt.step is not None:
            self.deadline = time.monotonic() + self.attempt.step.timeout


class Slots:
    """Runs `perform` for attempts in order, at most `limit` at a time.

    Once a turn of the event loop has begun calls for `TURN` seconds, it begins no more: what has been answered
    meanwhile may be an outage, and is heard first.

    A call that does not return after being cancelled keeps its slot's task; the slot is given up and replaced, and
    whatever the call still does is not heard.
    """

    def __init__(self, limit: int, perform: Perform, give_up: Callable[[Slot, Attempt], None], fault: Fault):
        self.ready: deque[Attempt] = deque()
        self.limit = limit
        self.paused = False
        self.moved_at = time.monotonic()
        self._perform = perform
        self._fault = fault
        self._give_up = give_up
        self._slots: list[Slot] = []
        self._idle: list[Slot] = []
        self._closed = False
        self._turn_ends: float | None = None
        self._context = contextvars.copy_context()

    @property
    def calls(self) -> int:
        """Calls in progress."""
        return len(self._slots) - len(self._idle)

    @property
    def free(self) -> int:
        return self.limit - self.calls

    def put(self, attempt: Attempt, first: bool = False) -> None:
        """An attempt whose start is durable."""
        if first:
            self.ready.appendleft(attempt)
        else:
            self.ready.append(attempt)
        self._wake()

    def _wake(self) -> None:
        while self._idle:
            if self._tell(self._idle.pop(), True):
                return
        if len(self._slots) < self.limit and not self._closed:
            slot = Slot()
            self._slots.append(slot)
            slot.task = spawn(self._work(slot), self._context.copy())
            slot.task.add_done_callback(lambda task: self._ended(slot, task))

    @staticmethod
    def _tell(slot: Slot, goes_on: bool) -> bool:
        """End a slot's waiting; False where it has ended already."""
        if slot.turn is None or slot.turn.done():
            return False
        slot.turn.set_result(goes_on)
        return True

    def resize(self, limit: int) -> None:
        """Allow so many calls at a time from now on. Calls in progress go on to their end: while they are more than
        that, no other begins."""
        self.limit = limit
        while len(self._slots) > limit and self._idle:
            slot = self._idle.pop()
            self._slots.remove(slot)
            self._tell(slot, False)
        if not self.paused:
            for _ in range(min(len(self.ready), limit - len(self._slots))):
                self._wake()

    def _ended(self, slot: Slot, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self._fault(error)
        elif slot in self._slots and not self._closed:  # what a step left behind cancelled it between two calls
            self._slots.remove(slot)
            self._idle = [one for one in self._idle if one.turn is not None and not one.turn.done()]
            if self.ready and not self.paused:
                self._wake()

    def _turn_is_over(self, now: float) -> bool:
        if self._turn_ends is None:
            self._turn_ends = now + TURN
            asyncio.get_running_loop().call_soon(self._next_turn)
        return now >= self._turn_ends

    def _next_turn(self) -> None:
        self._turn_ends = None

    async def _work(self, slot: Slot) -> None:
        while not self._closed:
            if len(self._slots) > self.limit:
                self._slots.remove(slot)
                return
            if not self.ready or self.paused:
                slot.turn = asyncio.get_running_loop().create_future()
                self._idle.append(slot)
                if not await slot.turn:
                    return
                continue
            now = time.monotonic()
            if self._turn_is_over(now):
                await asyncio.sleep(0)
                continue
            attempt = self.ready.popleft()
            self.moved_at = now
            assert attempt.step is not None
            slot.attempt = attempt
            slot.began = now
            slot.deadline = slot.began + START_WITHIN
            attempt.called = slot.start_clock
            await self._perform(slot, attempt)
            slot.attempt = None
            if slot.given_up:
                return
            if contextvars.copy_context() != self._context:
                self._replace(slot)
                return

    def _replace(self, slot: Slot) -> None:
        """What a step left in context variables stays with it: the next record's call gets a new task."""
        self._slots.remove(slot)
        if self.ready:
            self._wake()

    def is_stuck(self, seconds: float) -> bool:
        """Whether all slots are busy and nobody's turn has come for so long."""
        return bool(self.ready) and self.free <= 0 and time.monotonic() - self.moved_at > seconds

    def unpause(self) -> None:
        self.paused = False
        for _ in range(min(len(self.ready), self.limit)):
            self._wake()

    def sweep(self) -> None:
        """Cancel calls past their deadline; give up those that do not let themselves be cancelled."""
        now = time.monotonic()
        for slot in list(self._slots):
            if slot.attempt is None:
                continue
            if slot.cut is None and now >= slot.deadline:
                self._cut(slot, "timeout", now)
            elif slot.cut is not None and now >= slot.cut_at + CUT_GRACE:
                self._abandon(slot)

    def others_at(self, step: str) -> bool:
        """Whether another call of the step is in progress, beside the one whose end is being looked at."""
        current = asyncio.current_task()
        return any(
            slot.task is not current and slot.attempt is not None and slot.attempt.step is not None
            and slot.attempt.step.name == step
            for slot in self._slots
        )  # fmt: skip

    def cut_all(self) -> None:
        """Cancel every call in progress: the run stops."""
        now = time.monotonic()
        for slot in self._slots:
            if slot.attempt is not None and slot.cut is None:
                self._cut(slot, "stop", now)

    def _cut(self, slot: Slot, why: Literal["timeout", "stop"], now: float) -> None:
        slot.cut, slot.cut_at = why, now
        if slot.task is not None:
            slot.task.cancel()

    def _abandon(self, slot: Slot) -> None:
        attempt = slot.attempt
        assert attempt is not None
        slot.given_up = True
        self._slots.remove(slot)
        self._give_up(slot, attempt)
        if self.ready:
            self._wake()

    def longest(self) -> tuple[Attempt, float] | None:
        """The call in progress that began first, and when (monotonic seconds)."""
        busy = [slot for slot in self._slots if slot.attempt is not None]
        oldest = min(busy, key=lambda slot: slot.began, default=None)
        if oldest is None or oldest.attempt is None:
            return None
        return oldest.attempt, oldest.began

    def close(self) -> None:
        """End all idle slots."""
        self._closed = True
        for slot in self._idle:
            self._tell(slot, True)
        self._idle.clear()
