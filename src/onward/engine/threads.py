"""Sync steps run in daemon threads; a thread whose call was given up is abandoned, never joined."""

from __future__ import annotations

import asyncio
import contextvars
import queue
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from onward.engine.forks import end_if_forked, forks
from onward.errors import is_out_of_memory

_Work = tuple[asyncio.Future[Any], Callable[..., Any], Sequence[Any], Mapping[str, Any], contextvars.Context, bool]

_MEAN_SOMETHING_ELSE = (StopIteration, GeneratorExit, asyncio.CancelledError)
"""To who awaits: a call that raises CancelledError, of a loop of its own, is not the caller's being cancelled."""


class Threads:
    """Threads are made when needed and reused; there are never more than calls at the same time."""

    def __init__(self, loop: asyncio.AbstractEventLoop):
        self._loop = loop
        self._queue: queue.SimpleQueue[_Work | None] = queue.SimpleQueue()
        self._idle = 0
        self._count = 0
        self._home = forks()
        self._abandoned: set[asyncio.Future[Any]] = set()
        self._guard = threading.Lock()
        self._sends = 0
        self._tell: Callable[[], None] | None = None

    def when_sent(self, tell: Callable[[], None]) -> None:
        """Have `tell` called once no call is going on any more that was to be waited for to its end; now, or in the
        thread of the last one, which may return long after the run has ended."""
        with self._guard:
            is_sending = self._sends > 0
            self._tell = tell if is_sending else None
        if not is_sending:
            tell()

    def _sent(self) -> None:
        with self._guard:
            self._sends -= 1
            tell = self._tell if not self._sends else None
        if tell is not None:
            tell()

    @property
    def abandoned(self) -> int:
        """Calls that were given up and are still going on."""
        return len(self._abandoned)

    async def call(
        self, function: Callable[..., Any], first: Sequence[Any], others: Mapping[str, Any], to_the_end: bool = False
    ) -> Any:
        """The function's result. When the caller is cancelled the call goes on unheard, in an abandoned thread;
        `to_the_end`: the call is waited for all the same, since what it does cannot be taken back."""
        future: asyncio.Future[Any] = self._loop.create_future()
        if self._idle:
            self._idle -= 1
        else:
            self._start()
        with self._guard:
            self._sends += to_the_end
        self._queue.put((future, function, first, others, contextvars.copy_context(), to_the_end))
        while True:
            try:
                return await (asyncio.shield(future) if to_the_end else future)
            except asyncio.CancelledError:
                self._abandoned.add(future)
                task = asyncio.current_task()
                if not to_the_end or task is None:
                    raise
                task.uncancel()

    def _start(self) -> None:
        """Raises MemoryError where there is no room for another thread."""
        try:
            threading.Thread(target=self._work, name=f"onward-step-{self._count + 1}", daemon=True).start()
        except RuntimeError as error:
            if is_out_of_memory(error):
                raise MemoryError("no room for another thread") from error
            raise
        self._count += 1

    def close(self) -> None:
        for _ in range(self._idle):
            self._queue.put(None)

    def _work(self) -> None:
        while (work := self._queue.get()) is not None:
            future, function, first, others, context, to_the_end = work
            result, error = None, None
            try:
                result = context.run(function, *first, **others)
            except BaseException as raised:
                error = raised
            end_if_forked(self._home, error)
            if to_the_end:
                self._sent()
            try:
                self._loop.call_soon_threadsafe(self._ended, future, result, error)
            except RuntimeError:  # the loop has closed: nobody waits any more
                return
            del future, function, first, others, context, work, result, error

    def _ended(self, future: asyncio.Future[Any], result: Any, error: BaseException | None) -> None:
        self._idle += 1
        self._abandoned.discard(future)
        if future.done():
            return
        if error is None:
            future.set_result(result)
        elif isinstance(error, _MEAN_SOMETHING_ELSE):
            future.set_exception(RuntimeError(f"the step raised {type(error).__name__}"))
        else:
            future.set_exception(error)
