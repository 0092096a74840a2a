"""Running an event loop so that what a step's own tasks raise does not end it."""

from __future__ import annotations

import asyncio
import logging
import signal
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

T = TypeVar("T")

_log = logging.getLogger("onward")


def run_to_end(runner: asyncio.Runner, work: Coroutine[Any, Any, T]) -> T:
    """Run `work` to its end, also past a SystemExit of others.

    asyncio lets a SystemExit out of any task or callback, so that one step's `sys.exit` in a task of its own would end
    every other record's call. Whoever awaits such a task hears of it all the same: the loop goes on from where it was.
    """
    tasks: list[asyncio.Task[T]] = []

    async def kept() -> T:
        task = asyncio.current_task()
        assert task is not None
        tasks.append(task)
        return await work

    interrupt = signal.getsignal(signal.SIGINT)
    try:
        return runner.run(kept())
    except SystemExit as error:
        if not tasks or tasks[0].done():
            raise
        _log.warning("a task or callback of a step called sys.exit(%s); the run goes on", error.code)
    try:
        return _go_on(runner.get_loop(), tasks[0])
    finally:  # the runner had one of its own while it ran
        if interrupt is not None and threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, interrupt)


def _go_on(loop: asyncio.AbstractEventLoop, task: asyncio.Task[T]) -> T:
    while True:
        try:
            return loop.run_until_complete(task)
        except SystemExit:
            if task.done():
                raise
