"""Processes that steps fork. One that comes back out of its step has no business in onward: it ends there."""

from __future__ import annotations

import contextlib
import os
import traceback
from typing import NoReturn


def end_if_forked(process: int, error: BaseException | None) -> None:
    """Where this is another process than `process`, end it: a step returned in it, or raised `error`."""
    if os.getpid() != process:
        _end(error)


def _end(error: BaseException | None) -> NoReturn:
    """End as Python does, but at once: what stands in buffers and is to be cleaned up is the parent's, too."""
    given = error.code if isinstance(error, SystemExit) else error
    if given is None or isinstance(given, int):
        os._exit((given or 0) & 0xFF)
    told = [f"{given}\n"] if isinstance(error, SystemExit) else traceback.format_exception(error)
    with contextlib.suppress(OSError):
        os.write(2, "".join(told).encode(errors="backslashreplace"))
    os._exit(1)
