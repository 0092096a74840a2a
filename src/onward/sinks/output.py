"""Bytes on their way out. Faults of the place they go to become ExportError with a plain reason."""

from __future__ import annotations

import contextlib
import errno
import os
import sys
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import IO, Protocol

from onward.errors import ExportError

BUFFER = 1 << 20

_WHY = {
    errno.ENOSPC: "the disk is full",
    errno.EFBIG: "the file became larger than this system allows",
    errno.EACCES: "no permission to write there",
    errno.EPERM: "no permission to write there",
    errno.EROFS: "the file system is read-only",
    errno.EISDIR: "it is a folder; give the name of a file",
    errno.ENAMETOOLONG: "the name is too long",
    errno.EPIPE: "the reader went away before all rows were written",
}
if sys.platform != "win32":
    _WHY[errno.EDQUOT] = "the disk quota is used up"

Explain = Callable[[OSError], ExportError]


class Output(Protocol):
    """What a format writes to. `tell` counts the bytes written so far."""

    closed: bool

    def write(self, data: bytes) -> int: ...

    def tell(self) -> int: ...

    def flush(self) -> None: ...

    def close(self) -> None: ...


def reason(error: OSError) -> str:
    """A fault of the operating system in words."""
    return _WHY.get(error.errno or 0) or error.strerror or type(error).__name__


class FileOutput:
    """An open file. It is not closed here: whoever opened it knows what closing means."""

    def __init__(self, file: IO[bytes], explain: Explain):
        self.closed = False
        self._write = file.write
        self._flush = file.flush
        self._explain = explain
        self._count = 0

    def write(self, data: bytes) -> int:
        """Raises ExportError."""
        try:
            self._write(data)
        except OSError as error:
            raise self._explain(error) from error
        self._count += len(data)
        return len(data)

    def tell(self) -> int:
        return self._count

    def flush(self) -> None:
        """Raises ExportError."""
        try:
            self._flush()
        except OSError as error:
            raise self._explain(error) from error

    def close(self) -> None:
        self.closed = True


class GzipOutput:
    """Compresses into another output. The header carries neither time nor name, so equal rows give equal bytes."""

    def __init__(self, output: Output):
        self.closed = False
        self._output = output
        self._compress = zlib.compressobj(6, zlib.DEFLATED, 16 + zlib.MAX_WBITS)
        self._count = 0

    def write(self, data: bytes) -> int:
        self._output.write(self._compress.compress(data))
        self._count += len(data)
        return len(data)

    def tell(self) -> int:
        return self._count

    def flush(self) -> None:
        """Nothing: a flush in mid-stream would change the bytes."""

    def close(self) -> None:
        """Write what completes the compressed stream."""
        if not self.closed:
            self.closed = True
            self._output.write(self._compress.flush())


@contextmanager
def standard_output() -> Iterator[Output]:
    """Standard output, row by row as they come: no rename, nothing to take back."""
    stream = sys.stdout
    binary = getattr(stream, "buffer", None)
    if binary is None:
        raise ExportError("standard output is closed or takes no bytes; export to a file instead")

    def explain(error: OSError) -> ExportError:
        _silence(binary)
        return ExportError(f"cannot write to standard output: {reason(error)}")

    output = FileOutput(binary, explain)
    try:
        stream.flush()
    except OSError as error:
        raise explain(error) from error
    yield output
    output.flush()


def _silence(binary: IO[bytes]) -> None:
    """Point a broken standard output at nothing, so that the interpreter's last flush does not complain again."""
    with contextlib.suppress(OSError, ValueError):
        nothing = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nothing, binary.fileno())
        os.close(nothing)


@contextmanager
def device(path: str) -> Iterator[Output]:
    """A pipe or a device that exists already: written through, since it cannot be replaced."""

    def explain(error: OSError) -> ExportError:
        return ExportError(f"cannot write to {path}: {reason(error)}")

    try:
        file = open(path, "wb", buffering=BUFFER)  # noqa: SIM115, PTH123 - closed below, where a fault has its words
    except OSError as error:
        raise explain(error) from error
    try:
        output = FileOutput(file, explain)
        yield output
        output.flush()
    finally:
        with contextlib.suppress(OSError):  # told of already
            file.close()
