"""What a run may use of the ceilings that all runs of its instance are under.

A run that is alone has all of each and asks nobody. As soon as there is another it says of each ceiling what it keeps,
having stopped using more than that, and what it wants; the store answers what it has. So whatever is lost, late or dead
on the way, no two runs ever believe that they have the same.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import Future

from onward.engine.gates.ceiling import Ceiling
from onward.engine.gates.parts import LATELY, Part, Rate, parts_of
from onward.ports.work import Offer, Shared

EVERY = 1.0
WAITING = 0.5
SOON = 0.25
AT_ONCE = 0.02
"""Seconds between two exchanges: while something is in use, while a run that has nothing waits, while there is more to
be had, and at the least."""

Ask = Callable[[Sequence[Offer]], "Future[Shared]"]


class Shares:
    """`has_any`: the job has such ceilings. `waiting` is called to say again what waits (`blocked`), `changed` when
    more may begin; `is_stopping` tells that no more is to begin. `ask` asks the store; the answer may come in any
    thread."""

    def __init__(
        self, has_any: bool, waiting: Callable[[], None], changed: Callable[[], None], is_stopping: Callable[[], bool]
    ):
        self.is_on = False
        self._has_any = has_any
        self._waiting = waiting
        self.ask: Ask | None = None
        self._changed = changed
        self._is_stopping = is_stopping
        self._parts: dict[str, Part] = {}
        self._of: dict[Ceiling, list[Part]] = {}
        self._active: dict[str, Part] = {}
        self._new: set[Part] = set()
        self._is_asking = False
        self._asked_at = self._looked_at = -EVERY
        self._timer: asyncio.TimerHandle | None = None
        self._is_closed = False

    def add(self, ceiling: Ceiling, name: str) -> None:
        """A ceiling that all runs are under; its name is the same in all of them."""
        self._of[ceiling] = parts = parts_of(ceiling, name)
        ceiling.is_shared = any(part.whole for part in parts)
        for part in parts:
            self._parts[part.name] = part
            if self.is_on:
                _begin_anew(part, time.monotonic())

    @property
    def is_alone(self) -> bool:
        """Whether there are ceilings, of which this run has all until it hears of others."""
        return self._has_any and not self.is_on

    def begin(self) -> None:
        """Another run has all of each, or shares them: this one has nothing yet."""
        self.is_on = True
        for part in self._parts.values():
            _begin_anew(part, time.monotonic())

    def hear(self, others: bool) -> None:
        """Whether there are other runs. Where this one has had all of each, it keeps what it uses, and says so."""
        if not others or not self.is_alone:
            return
        self.is_on = True
        now = time.monotonic()
        for part in self._parts.values():
            part.begin(part.size if part.ceiling.taken else 0.0, now)
            if part.ceiling.taken:
                self._active[part.name] = part
        self._ask()

    def blocked(self, ceilings: Sequence[Ceiling], now: float) -> None:
        """A call waits for some of these. Of calls in progress no second ceiling is asked for before the first one has
        room, and all runs ask in one order: so no two wait for what the other holds."""
        if any(one.room == 0 and not one.is_shared for one in ceilings):
            return  # it is this run's own ceiling that is in the way
        may_block = True
        parts = [part for one in ceilings for part in self._of.get(one, ())]
        for part in sorted(parts, key=lambda part: part.name):
            if part.whole and not may_block:
                continue
            if not part.is_in_the_way(now):
                part.need(now)
            else:
                may_block = may_block and not part.whole
                part.block(now)
                if part.name not in self._active:
                    self._active[part.name] = part
                    self._new.add(part)
                    self._plan(AT_ONCE)

    def left(self, ceilings: Iterable[Ceiling]) -> None:
        """A call has ended: what others want of its room is given back at once."""
        now = time.monotonic()
        if any(part.returns(now) for one in ceilings for part in self._of.get(one, ())):
            self._plan(AT_ONCE)

    def close(self) -> None:
        self._is_closed = True
        if self._timer is not None:
            self._timer.cancel()

    def _plan(self, after: float) -> None:
        """Look whether to ask so many seconds after the last time, or now."""
        loop = asyncio.get_running_loop()
        due = loop.time() + max(self._looked_at + after - time.monotonic(), 0.0)
        if self._is_closed or self._is_asking or (self._timer is not None and self._timer.when() <= due):
            return
        if self._timer is not None:
            self._timer.cancel()
        self._timer = loop.call_at(due, self._look)

    def _look(self) -> None:
        """Ask, if there is a reason to."""
        self._timer = None
        if self._is_asking or self._is_closed:
            return
        self._waiting()
        now = self._looked_at = time.monotonic()
        for part in self._active.values():
            part.note(now)
        if any(self._is_due(part, now) for part in self._active.values()):
            self._ask()
        elif self._active:
            self._plan(SOON)

    def _is_due(self, part: Part, now: float) -> bool:
        seconds = now - self._asked_at
        if part in self._new or seconds >= EVERY or part.returns(now):
            return True
        if now - part.blocked_at >= LATELY:
            return False
        return seconds >= SOON if part.lacks else seconds >= WAITING and not part.held

    def _ask(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        if self._is_asking or self._is_closed or self.ask is None:
            return
        now = self._asked_at = self._looked_at = time.monotonic()
        self._is_asking = True
        self._new.clear()
        asked = list(self._active.values())
        loop = asyncio.get_running_loop()

        def answered(future: Future[Shared]) -> None:
            with contextlib.suppress(RuntimeError):  # the loop is gone
                loop.call_soon_threadsafe(self._answered, asked, future)

        self.ask([part.offer(now, self._is_stopping()) for part in asked]).add_done_callback(answered)

    def _answered(self, asked: list[Part], future: Future[Shared]) -> None:
        self._is_asking = False
        if self._is_closed or future.cancelled() or future.exception() is not None:
            return  # the journal tells what is wrong
        shared, now = future.result(), time.monotonic()
        if shared.alone:
            self._end(now)
            return
        has_grown = False
        for part in asked:
            has_grown = part.hear(shared.portions[part.name], now) or has_grown
            if not part.held and not part.wanted and part.blocked_at < self._asked_at:
                del self._active[part.name]
        if has_grown:
            self._changed()
        if self._new or any(part.returns(now) for part in self._active.values()):
            self._plan(AT_ONCE)
        elif self._active:
            self._plan(SOON)

    def _end(self, now: float) -> None:
        """There is no other run any more."""
        self.is_on = False
        self._active.clear()
        self._new.clear()
        for part in self._parts.values():
            part.end(now)
        self._changed()


def _begin_anew(part: Part, now: float) -> None:
    if isinstance(part, Rate):
        part.begin_with_nothing(now)
    else:
        part.begin(0.0, now)
