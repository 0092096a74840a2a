"""From an exception to an exit code and one line for people."""

from __future__ import annotations

import os
import traceback
from collections.abc import Sequence
from typing import Any

from onward.cli import streams
from onward.cli.flags import COMMANDS
from onward.errors import OnwardError, OutOfMemory, is_out_of_memory

USAGE, STOPPED_EARLY, ONWARD_FAULT, INTERRUPTED = 2, 3, 70, 130

_debug = False


def set_debug(wanted: bool) -> None:
    """Whether tracebacks are shown from now on."""
    global _debug
    _debug = wanted


def report(error: BaseException, words: Sequence[str] = ()) -> int:
    """Say what went wrong on the error output; the exit code that it means. `words`: of the command line, if known."""
    if _debug:
        streams.err("".join(traceback.format_exception(error)))
    if is_out_of_memory(error):
        error = OutOfMemory()
    if isinstance(error, OnwardError):
        streams.err(f"onward: {error}")
        return error.exit_code
    if isinstance(error, KeyboardInterrupt):
        streams.err("onward: interrupted")
        return INTERRUPTED
    usage = _usage_message(error, words)
    if usage is not None:
        if usage:
            streams.err(f"onward: {usage}")
        return USAGE
    advice = "" if _debug else f"; {_where(error)}; run it again with --debug for the traceback"
    streams.err(f"onward: a fault of onward itself: {_named(error)}{advice}")
    return ONWARD_FAULT


def _usage_message(error: Any, command_line: Sequence[str]) -> str | None:
    """The words of the argument parser's own errors, empty where it has shown its help instead; None for others.

    Their class comes with typer or from beside it, so they are known by their form. Not all of them know their command.
    """
    words = getattr(error, "format_message", None)
    if words is None or not words():
        return None if words is None else ""
    command = " ".join(["onward", *(word for word in command_line[:1] if word in COMMANDS)])
    path = getattr(getattr(error, "ctx", None), "command_path", command)
    return f"{words().rstrip('.')} (try: {path} --help)"


def _named(error: BaseException) -> str:
    """Kind and first line of an unexpected exception."""
    text = str(error).strip().splitlines()
    return f"{type(error).__name__}: {text[0]}" if text else type(error).__name__


def _where(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    return f"in {os.path.basename(frames[-1].filename)}:{frames[-1].lineno}" if frames else "nowhere"  # noqa: PTH119
