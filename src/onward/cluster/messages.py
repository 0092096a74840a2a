"""What processes say to one another: JSON objects, one a line, through pipes that tell when the other one died."""

from __future__ import annotations

import contextlib
import json
import os
import queue
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any, BinaryIO

from onward.codec import dumps

MOST_WAITING = 10_000
LAST_WORDS = 5.0
CHUNK = 1 << 16


class Reports:
    """The way up: a thread writes, so that whoever says something never waits for a reader. What finds no room is
    counted (`lost`) and told with the next that does."""

    def __init__(self, number: int):
        os.set_inheritable(number, False)  # what is started from here must not hold it open
        self._out = os.fdopen(number, "wb", buffering=0)
        self._waiting: queue.Queue[bytes | None] = queue.Queue(MOST_WAITING)
        self._lost = 0
        self._thread = threading.Thread(target=self._write, name="onward-reports", daemon=True)
        self._thread.start()

    def say(self, what: str, **fields: Any) -> None:
        """Raises nothing, whoever is or is not there to hear it."""
        line = dumps({"what": what, "lost": self._lost, **fields}).encode() + b"\n"
        try:
            self._waiting.put_nowait(line)
            self._lost = 0
        except queue.Full:
            self._lost += 1

    def close(self) -> None:
        with contextlib.suppress(queue.Full):
            self._waiting.put(None, timeout=LAST_WORDS)
        self._thread.join(LAST_WORDS)

    def _write(self) -> None:
        while (line := self._waiting.get()) is not None:
            with contextlib.suppress(OSError):
                view = memoryview(line)
                while view:
                    view = view[self._out.write(view) or 0 :]


class Underling:
    """A process of onward's own that was given its orders by standard input, where no other process and no list of
    processes shows them. It is told to stop the same way, and stops when whoever began it dies."""

    def __init__(self, module: str, orders: str, errors: BinaryIO | int | None = None, output: int | None = None):
        read, write = os.pipe()
        try:
            self.process = subprocess.Popen(
                [sys.executable, "-P", "-m", module, str(write)],
                stdin=subprocess.PIPE,
                stdout=output,
                stderr=errors,
                pass_fds=(write,),
                process_group=0,
                env=_surroundings(),
            )
        except BaseException:
            os.close(read)
            raise
        finally:
            os.close(write)
        self._heard = os.fdopen(read, "rb")
        self._tell(orders)

    def _tell(self, line: str) -> None:
        assert self.process.stdin is not None
        with contextlib.suppress(OSError, ValueError):
            self.process.stdin.write(line.encode() + b"\n")
            self.process.stdin.flush()

    def stop(self, number: int) -> None:
        """Have it end in good order, as by this signal."""
        self._tell(str(number))

    def messages(self) -> Iterator[Mapping[str, Any]]:
        """Whatever it says until it has ended, or nobody is left who could say more."""
        for line in self._heard:
            with contextlib.suppress(ValueError):
                yield json.loads(line)

    def close(self) -> None:
        """Let go of it: if it still lives, it stops."""
        with contextlib.suppress(OSError):
            if self.process.stdin is not None:
                self.process.stdin.close()
        with contextlib.suppress(OSError):
            self._heard.close()


def _surroundings() -> dict[str, str]:
    """The environment, without the current folder among Python's paths: modules of a job's folder stand behind
    Python's own, and where they belong the job's loading puts them."""
    kept = dict(os.environ)
    paths = kept.get("PYTHONPATH", "").split(os.pathsep)
    kept["PYTHONPATH"] = os.pathsep.join(path for path in paths if path and os.path.realpath(path) != os.getcwd())  # noqa: PTH109
    return kept


def _hear_signals() -> None:
    """What is begun by a thread that blocks signals, as Ray's do, or a process that ignores them, does so, too."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())


class Orders:
    """In the underling: what it is told. Taken from standard input, which holds nothing from then on, so that what the
    job starts neither reads it nor holds it open."""

    def __init__(self) -> None:
        _hear_signals()
        self._number = os.dup(0)
        nothing = os.open(os.devnull, os.O_RDONLY)
        os.dup2(nothing, 0)
        os.close(nothing)
        self._lines = self._read()

    def first(self) -> bytes:
        return next(self._lines, b"")

    def listen(self, stop: Callable[[int], None], dies_after: float) -> None:
        """Hear, in a thread, when this process is to stop: by a signal's number, and SIGTERM where whoever began it
        died, which it then does not outlive by more than `dies_after` seconds."""

        def hear() -> None:
            for line in self._lines:
                stop(int(line))
            timer = threading.Timer(dies_after, lambda: os.kill(os.getpid(), signal.SIGKILL))
            timer.daemon = True
            timer.start()
            stop(signal.SIGTERM)

        threading.Thread(target=hear, name="onward-orders", daemon=True).start()

    def _read(self) -> Iterator[bytes]:
        held = b""
        while data := os.read(self._number, CHUNK):
            *lines, held = (held + data).split(b"\n")
            yield from lines
