"""Running an event loop so that what steps do to it does not end it."""

from __future__ import annotations

import asyncio
import contextvars
import logging
import os
import signal
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

from onward.engine.forks import end_if_forked, forks

T = TypeVar("T")

_running: dict[asyncio.AbstractEventLoop, int] = {}
"""Loops that are ours, and the threads that they run in."""
_log = logging.getLogger("onward")


def run_to_end(runner: asyncio.Runner, work: Coroutine[Any, Any, T]) -> T:
    """Run `work` to its end, also past a SystemExit of others, or a step that stops the loop.

    asyncio lets a SystemExit out of any task or callback, so that one step's `sys.exit` in a task of its own would end
    every other record's call. Whoever awaits such a task hears of it all the same: the loop goes on from where it was.
    """
    tasks: list[asyncio.Task[T]] = []

    async def kept() -> T:
        task = asyncio.current_task()
        assert task is not None
        tasks.append(task)
        return await work

    interrupt, home = signal.getsignal(signal.SIGINT), forks()
    loop = runner.get_loop()
    _running[loop] = threading.get_ident()
    try:
        return runner.run(kept())
    except (SystemExit, RuntimeError) as error:
        end_if_forked(home, error)
        if not tasks or tasks[0].done():
            raise
        _log.warning("%s; the run goes on", _what_happened(error))
        return _go_on(loop, tasks[0], home)
    finally:
        del _running[loop]
        loop.set_task_factory(None)  # a step's, which may be of no use to others
        # The runner had a handler of its own while it ran.
        if interrupt is not None and threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, interrupt)


def is_ours(loop: asyncio.AbstractEventLoop) -> bool:
    """Whether nothing runs in the loop but a run, so that whatever happens in it is the doing of steps."""
    return loop in _running


def spawn(work: Coroutine[Any, Any, T], context: contextvars.Context | None = None) -> asyncio.Task[T]:
    """A task on the running loop, whatever makers of tasks a step has given to it."""
    return asyncio.Task(work, loop=asyncio.get_running_loop(), context=context)


def _what_happened(error: SystemExit | RuntimeError) -> str:
    if isinstance(error, SystemExit):
        return f"a task or callback of a step called sys.exit({error.code})"
    return "a step stopped the event loop"


def _leave_the_loop() -> None:
    """In a process that a step has forked: the loop's work is its parent's. Where the step awaits, the process ends."""
    for loop, thread in _running.items():
        if thread == threading.get_ident():
            ready = getattr(loop, "_ready", None)
            if ready is not None:
                ready.clear()
            loop.call_soon(os._exit, 0)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_leave_the_loop)


def _go_on(loop: asyncio.AbstractEventLoop, task: asyncio.Task[T], home: int) -> T:
    while True:
        try:
            return loop.run_until_complete(task)
        except (SystemExit, RuntimeError) as error:
            end_if_forked(home, error)
            if task.done():
                raise
