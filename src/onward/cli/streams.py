"""Standard streams that may be closed, broken or narrow: a lost reader never changes what a command does or returns."""

from __future__ import annotations

import contextlib
import io
import os
import sys
from typing import TextIO


def repair() -> None:
    """Open closed standard descriptors on nothing, so that no file of ours gets their number; let any text through."""
    for number in (0, 1, 2):
        try:
            os.fstat(number)
        except OSError:
            _open_on_nothing(number)
    sys.stdin = sys.stdin or open(os.devnull)  # noqa: SIM115, PTH123 - lasts as long as the process
    sys.stdout = _tolerant(sys.stdout)
    sys.stderr = _tolerant(sys.stderr)


def _open_on_nothing(number: int) -> None:
    opened = os.open(os.devnull, os.O_RDWR)
    if opened != number:
        os.dup2(opened, number)
        os.close(opened)


def _tolerant(stream: TextIO | None) -> TextIO:
    if stream is None:
        return open(os.devnull, "w")  # noqa: PTH123 - lasts as long as the process
    if isinstance(stream, io.TextIOWrapper):
        stream.reconfigure(errors="backslashreplace")
    return stream


def write(stream: TextIO, text: str) -> None:
    """Write whole lines; once nobody reads, all that follows goes nowhere."""
    try:
        stream.write(text if text.endswith("\n") else text + "\n")
        stream.flush()
    except (OSError, ValueError):
        silence(stream)


def out(text: str) -> None:
    """To standard output."""
    write(sys.stdout, text)


def err(text: str) -> None:
    """To the error output."""
    write(sys.stderr, text)


def silence(stream: TextIO) -> None:
    """Point a stream that nobody reads at nothing, so that the interpreter's last flush does not complain."""
    with contextlib.suppress(OSError, ValueError):
        nothing = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nothing, stream.fileno())
        os.close(nothing)


def finish() -> None:
    """Flush what is left."""
    for stream in (sys.stdout, sys.stderr):
        try:
            stream.flush()
        except (OSError, ValueError):
            silence(stream)


class OneLineOut:
    """While it lasts whatever is printed, by steps and their libraries too, goes to the error output; `say` alone
    still reaches standard output."""

    def __enter__(self) -> OneLineOut:
        sys.stdout.flush()
        self._number = os.dup(1)
        self._stream = open(self._number, "w", encoding="utf-8", errors="backslashreplace", closefd=True)  # noqa: PTH123
        os.dup2(2, 1)
        return self

    def say(self, text: str) -> None:
        write(self._stream, text)

    def __exit__(self, *_: object) -> None:
        finish()
        os.dup2(self._number, 1)
        with contextlib.suppress(OSError, ValueError):
            self._stream.close()
