"""Sees which call opens a network connection: Python tells its audit hooks of every one.

A call is known by its context, which tasks and `asyncio.to_thread` take over, and for threads that it starts by who
started them. What a program that a step starts does, or a library that has sockets of its own, is not seen.
"""

from __future__ import annotations

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
_NEW_THREADS = ("_thread.start_new_thread", "_thread.start_joinable_thread")


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
        if event in _CONNECTIONS:
            call = UNDER_WAY.get() or _started_by.get(threading.current_thread())
            if call is not None and (address := _address(*arguments[:2])) is not None:
                noticed(call, address, _line(call.step.function))
        elif event in _NEW_THREADS and (call := UNDER_WAY.get()) is not None:
            owner = getattr(arguments[0], "__self__", None)
            if isinstance(owner, threading.Thread):
                _started_by[owner] = call

    def hook(event: str, arguments: tuple[Any, ...]) -> None:
        try:
            heard(event, arguments)
        except Exception:  # what is raised here would be raised in the step
            return

    sys.addaudithook(hook)


def _address(connection: Any, address: Any) -> str | None:
    """`host:port`; None for a socket that leads nowhere beyond this machine's files."""
    if connection.family not in (socket.AF_INET, socket.AF_INET6) or not isinstance(address, tuple):
        return None
    host = f"[{address[0]}]" if connection.family == socket.AF_INET6 else address[0]
    return f"{host}:{address[1]}"


def _line(function: Callable[..., Any]) -> int | None:
    """The line in the function's own file from which it came to this; None where it did not come from there."""
    own = getattr(getattr(inspect.unwrap(function), "__code__", None), "co_filename", None)
    frame: FrameType | None = sys._getframe(2)
    while frame is not None:
        if frame.f_code.co_filename == own:
            return frame.f_lineno
        frame = frame.f_back
    return None
