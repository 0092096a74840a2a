"""Processes that steps fork. One that comes back out of its step has no business in onward: it ends there."""

from __future__ import annotations

import contextlib
import os
import traceback
from typing import NoReturn

_forks = 0


def forks() -> int:
    """How many forks lie between the first process and this one. Asking for its number would be a call of the system
    for each step."""
    return _forks


def end_if_forked(home: int, error: BaseException | None) -> None:
    """Where this process is further than `home` forks from the first, end it: a step returned in it, or raised
    `error`."""
    if _forks != home:
        _end(error)


def _forked() -> None:
    global _forks
    _forks += 1


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forked)


def _end(error: BaseException | None) -> NoReturn:
    """End as Python does, but at once: what stands in buffers and is to be cleaned up is the parent's, too."""
    given = error.code if isinstance(error, SystemExit) else error
    if given is None or isinstance(given, int):
        os._exit((given or 0) & 0xFF)
    told = [f"{given}\n"] if isinstance(error, SystemExit) else traceback.format_exception(error)
    with contextlib.suppress(OSError):
        os.write(2, "".join(told).encode(errors="backslashreplace"))
    os._exit(1)
