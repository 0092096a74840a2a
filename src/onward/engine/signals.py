"""Signals: the first stops a run in good order, the second ends the process."""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator

ONCE_WITHIN = 0.1


def stop_signals(
    loop: asyncio.AbstractEventLoop, stop: Callable[[int], None], before_exit: Callable[[], None] | None
) -> contextlib.AbstractContextManager[None]:
    """While it lasts, `stop` is called on the loop at the first signal; a second one is a crash that was announced."""
    return heard_signals(lambda number: loop.call_soon_threadsafe(stop, number), before_exit)


@contextlib.contextmanager
def heard_signals(first: Callable[[int], object], before_exit: Callable[[], None] | None) -> Iterator[None]:
    """While it lasts, `first` is called in the handler of the first signal, and the second ends the process.

    The same signal again within a moment is the first: `timeout` sends it to the process and then to its group.
    Handlers can be set in the main thread alone; elsewhere signals stay with whoever has them.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    seen: list[tuple[int, float]] = []
    process = os.getpid()

    def hear(number: int, frame: object) -> None:
        if os.getpid() != process:
            _as_if_unheard(number)
            return
        now = time.monotonic()
        if seen and (number == _HANGUP or (number == seen[0][0] and now - seen[0][1] < ONCE_WITHIN)):
            return  # a closed terminal, too, may be told of twice
        if seen:
            if before_exit is not None:
                before_exit()
            os._exit(128 + number)
        seen.append((number, now))
        first(number)

    before = {number: signal.signal(number, hear) for number in _stop_signals()}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def outlive_signals() -> None:
    """SIGINT and SIGTERM do nothing in this process from here on. They are not ignored: what it starts would inherit
    that, and could not be stopped by them either."""
    process = os.getpid()

    def hear(number: int, frame: object) -> None:
        if os.getpid() != process:
            _as_if_unheard(number)

    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, hear)


def _as_if_unheard(number: int) -> None:
    """In a process that a step forked: it dies of signals as any other does."""
    signal.signal(number, signal.default_int_handler if number == signal.SIGINT else signal.SIG_DFL)
    signal.raise_signal(number)


_HANGUP: int | None = getattr(signal, "SIGHUP", None)


def _stop_signals() -> list[int]:
    """A terminal that goes away stops a run in good order, too, unless it was started to outlive it (nohup)."""
    stops: list[int] = [signal.SIGINT, signal.SIGTERM]
    if _HANGUP is not None and signal.getsignal(_HANGUP) == signal.SIG_DFL:
        stops.append(_HANGUP)
    return stops
