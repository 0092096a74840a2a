"""Sees which call opens a network connection: Python tells its audit hooks of every one.

A call is known by its context, which tasks and `asyncio.to_thread` take over, and for threads that it starts by who
started them. What a program that a step starts does, or a library that has sockets of its own, is not seen.
"""

from __future__ import annotations

import contextlib
import inspect
import socket
import sys
import threading
from collections.abc import Callable
from contextvars import ContextVar
from dataclasses import dataclass
from types import FrameType
from typing import Any
from weakref import WeakKeyDictionary

from onward.job.plan import StepPlan

_CONNECTIONS = ("socket.connect", "socket.sendto")


@dataclass(frozen=True, slots=True, eq=False)
class Call:
    """One call in progress. `record` is its number in the store, `key` the plain JSON value of its key."""

    step: StepPlan
    phase: str
    record: int
    generation: int
    key: Any


UNDER_WAY: ContextVar[Call | None] = ContextVar("rehearsed_call", default=None)
_started_by: WeakKeyDictionary[threading.Thread, Call] = WeakKeyDictionary()


def watch(noticed: Callable[[Call, str, int | None], None]) -> None:
    """From now on tell of each connection: whose call it was, the address, and the line in the step's own file."""

    def heard(event: str, arguments: tuple[Any, ...]) -> None:
        call = UNDER_WAY.get() or _started_by.get(threading.current_thread())
        if call is not None and (address := _address(*arguments[:2])) is not None:
            noticed(call, address, _line(call.step.function))

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        if event in _CONNECTIONS:
            with contextlib.suppress(Exception):  # which would be raised in the step
                heard(event, arguments)

    _mark_threads()
    sys.addaudithook(hook)


def _mark_threads() -> None:
    """Not every Python tells its audit hooks of new threads; this one is thrown away, and may be changed."""
    start = threading.Thread.start

    def marked_start(self: threading.Thread) -> None:
        if (call := UNDER_WAY.get()) is not None:
            _started_by[self] = call
        start(self)

    threading.Thread.start = marked_start  # type: ignore[method-assign]


def _address(connection: Any, address: Any) -> str | None:
    """`host:port`; None for a socket that leads nowhere beyond this machine's files."""
    if connection.family not in (socket.AF_INET, socket.AF_INET6) or not isinstance(address, tuple):
        return None
    host = f"[{address[0]}]" if connection.family == socket.AF_INET6 else address[0]
    return f"{host}:{address[1]}"


def _line(function: Callable[..., Any]) -> int | None:
    """The line of the function, else of another in its file, from which it came to this; None where it came from
    neither."""
    own = getattr(inspect.unwrap(function), "__code__", None)
    beside: int | None = None
    frame: FrameType | None = sys._getframe(3)
    while frame is not None and own is not None:
        if frame.f_code is own:
            return frame.f_lineno
        if beside is None and frame.f_code.co_filename == own.co_filename:
            beside = frame.f_lineno
        frame = frame.f_back
    return beside
