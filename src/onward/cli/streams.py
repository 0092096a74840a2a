"""Standard streams that may be closed, broken or narrow: a lost reader never changes what a command does or returns.

A reader who is there and does not get what was asked for, because a disk is full, hears of it.
"""

from __future__ import annotations

import contextlib
import io
import os
import sys
from collections.abc import Iterator
from typing import TextIO

from onward.errors import OnwardError


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


class AnswerLost(OnwardError):
    """What was asked for could not be written to standard output."""

    @classmethod
    def by(cls, error: OSError) -> AnswerLost:
        return cls(f"standard output cannot be written: {error.strerror or error}")


def write(stream: TextIO, text: str) -> OSError | None:
    """Write whole lines; once that has failed, all that follows goes nowhere.

    What went wrong, unless it is only that nobody reads.
    """
    try:
        stream.write(text if text.endswith("\n") else text + "\n")
        stream.flush()
    except BrokenPipeError:
        silence(stream)
    except OSError as error:
        silence(stream)
        return error
    except ValueError:  # closed
        silence(stream)
    return None


def answer(text: str, stream: TextIO | None = None) -> None:
    """What was asked for, to standard output. Raises AnswerLost."""
    error = write(stream or sys.stdout, text)
    if error is not None:
        raise AnswerLost.by(error) from error


def out(text: str) -> None:
    """To standard output, beside the point: that it could not be written is only said."""
    error = write(sys.stdout, text)
    if error is not None:
        err(f"onward: {AnswerLost.by(error)}")


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


@contextlib.contextmanager
def kept_clean() -> Iterator[TextIO]:
    """While it lasts whatever is printed, by jobs and their libraries too, goes to the error output; what is written
    to the stream that it yields still reaches standard output."""
    finish()
    number = os.dup(1)
    with os.fdopen(os.dup(1), "w", encoding="utf-8", errors="backslashreplace") as stream:
        os.dup2(2, 1)
        try:
            yield stream
        finally:
            finish()
            os.dup2(number, 1)
            os.close(number)
            with contextlib.suppress(OSError, ValueError):
                stream.flush()
