"""The `onward` command. What a command needs is imported when it is called, so that starting is quick."""

from __future__ import annotations

import contextlib
import importlib
import os
import sys
import threading
from collections.abc import Sequence
from typing import NoReturn

from onward.cli import direct, errors, streams

EXIT_WAIT = 5.0


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Do what the command line says and end the process with its exit code."""
    streams.repair()
    code = call(list(sys.argv[1:] if arguments is None else arguments))
    streams.finish()
    _leave_in_time(code)
    sys.exit(code)


def _leave_in_time(code: int) -> None:
    """What a job has started may never end (a thread, a pool of processes): the interpreter would wait for it."""

    def leave() -> None:
        streams.err("onward: something that the job started does not end; the process ends without it")
        os._exit(code)

    timer = threading.Timer(EXIT_WAIT, leave)
    timer.daemon = True
    with contextlib.suppress(RuntimeError):  # no memory is left for another thread
        timer.start()


def call(words: list[str]) -> int:
    """The exit code of one command; whatever goes wrong is said in one line."""
    try:
        return _call(words)
    except BaseException as error:
        return errors.report(error, words)


def _call(words: list[str]) -> int:
    understood: direct.Call | int | None = direct.read(words, os.environ)
    if understood is None:
        from onward.cli import parser

        understood = parser.read(words)
    if isinstance(understood, int):
        return understood
    command, arguments = understood
    errors.set_debug(arguments.pop("debug"))
    module, function = command.home.split(":")
    code: int = getattr(importlib.import_module(f"onward.cli.{module}"), function)(**arguments)
    return code
