"""Resources: opened once a process, in the order of their declaration, and closed in the reverse order."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
import signal
import threading
from collections.abc import AsyncGenerator, Generator, Iterator
from typing import Any

from onward.engine.threads import Threads
from onward.errors import UsageError
from onward.job.plan import Plan, ResourcePlan

LONGEST_CLOSE = 60.0
REPEAT_CUT = 1.0


class _TooLong(BaseException):
    """Closing takes too long. No Exception, which the code that is to be cut might catch."""


class Resources:
    """The open resources of one process by name; `params` is offered beside them."""

    def __init__(self, plan: Plan, params: Any):
        self._plan = plan
        self.offered: dict[str, Any] = {"params": params}
        self._open: list[tuple[ResourcePlan, Any]] = []
        self.opened = False
        self._opening = asyncio.Lock()
        self._used_on_loop = _used_on_loop(plan)

    async def open(self) -> None:
        """Open all that some step uses. Raises UsageError naming the resource that failed; the others are closed."""
        async with self._opening:
            if not self.opened:
                await self._open_all()
                self.opened = True

    async def _open_all(self) -> None:
        for resource in self._plan.resources.values():
            given = {name: self.offered[name] for name in resource.parameters}
            try:
                self.offered[resource.name] = await self._enter(resource, given)
            except BaseException as error:
                await self.close()
                if isinstance(error, asyncio.CancelledError) and _cancels() > 0:
                    raise  # the call for which it was being opened was cut; the next one begins anew
                raise UsageError(f"the resource {resource.name} could not be opened: {_words(error)}") from error

    async def _enter(self, resource: ResourcePlan, given: dict[str, Any]) -> Any:
        made = resource.function(**given)
        if resource.kind == "generator":
            value = next(made)
            self._open.append((resource, made))
        elif resource.kind == "async generator":
            value = await anext(made)
            self._open.append((resource, made))
        elif resource.kind == "async value" or inspect.isawaitable(made):
            value = await made
        else:
            value = made
        return value

    async def close(self) -> list[str]:
        """Close all; what went wrong, a line each. A resource that fails to close keeps neither others open nor the run
        from its end, whatever it raises. One that does not return is cut where it awaits; plain code that blocks is
        left behind in its thread, or, where it belongs to the loop's thread, cut by a signal if that is possible."""
        faults, cancels, cancelled = [], _cancels(), None
        while self._open:
            resource, made = self._open.pop()
            try:
                async with asyncio.timeout(LONGEST_CLOSE) as bound:
                    await self._leave(resource, made)
            except BaseException as error:
                late = bound.expired() or isinstance(error, _TooLong)
                why = f"it took longer than {LONGEST_CLOSE:g} seconds" if late else _words(error)
                faults.append(f"the resource {resource.name} failed to close: {why}")
                if isinstance(error, asyncio.CancelledError) and _cancels() > cancels:
                    cancelled = error
        if cancelled is not None:
            raise cancelled
        return faults

    async def _leave(
        self, resource: ResourcePlan, made: AsyncGenerator[Any, None] | Generator[Any, None, None]
    ) -> None:
        if not isinstance(made, Generator):
            await anext(made, None)
            await made.aclose()
        elif resource.name in self._used_on_loop:
            with _cut_after(LONGEST_CLOSE):
                _finish(made)
        else:
            threads = Threads(asyncio.get_running_loop())
            await threads.call(_finish, [made], {})
            threads.close()


def _used_on_loop(plan: Plan) -> set[str]:
    """Resources that async steps or other resources use. They may be bound to the loop's thread, as a connection of
    sqlite3 is; those that only plain steps use were used in threads all along."""
    by_steps = {one.name for step in plan.steps if step.is_async for one in step.arguments if one.origin == "resource"}
    return by_steps.union(*(resource.parameters for resource in plan.resources.values()))


@contextlib.contextmanager
def _cut_after(seconds: float) -> Iterator[None]:
    """Cut plain code that blocks the main thread. Elsewhere, and where alarms are in use, nothing can."""
    in_main = threading.current_thread() is threading.main_thread()
    if not in_main or not hasattr(signal, "SIGALRM") or signal.getsignal(signal.SIGALRM) is not signal.SIG_DFL:
        yield
        return
    over = False

    def cut(number: int, frame: object) -> None:
        if not over:
            raise _TooLong

    signal.signal(signal.SIGALRM, cut)
    signal.setitimer(signal.ITIMER_REAL, seconds, REPEAT_CUT)
    try:
        yield
    finally:
        over = True
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, signal.SIG_DFL)


def _cancels() -> int:
    task = asyncio.current_task()
    return task.cancelling() if task is not None else 0


def _words(error: BaseException) -> str:
    return str(error) if isinstance(error, Exception) and str(error) else type(error).__name__


def _finish(made: Generator[Any, None, None]) -> None:
    next(made, None)
    made.close()
