"""Where an export goes: a file that is replaced as a whole, a device, or standard output (`-`)."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO

from onward.errors import ExportError
from onward.sinks.output import (
    BUFFER,
    Explain,
    FileOutput,
    GzipOutput,
    Output,
    device,
    reason,
    standard_output,
)
from onward.sinks.whole_file import whole_file

_STANDARD_OUTPUT = ("-", "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1")


def is_standard_output(path: str) -> bool:
    return path in _STANDARD_OUTPUT


class Scratch:
    """Lines kept aside, written once and read as often as wanted. Faults are ExportErrors."""

    def __init__(self, file: IO[bytes], explain: Explain):
        self._file = file
        self._explain = explain
        self._output = FileOutput(file, explain)

    def write(self, line: bytes) -> None:
        self._output.write(line)

    def lines(self) -> Iterator[bytes]:
        """All lines from the first on."""
        try:
            self._file.seek(0)
            yield from self._file
        except OSError as error:
            raise self._explain(error) from error


@dataclass(frozen=True, slots=True)
class Place:
    """One destination. `gzip`: what is written there is compressed."""

    path: str
    gzip: bool = False

    @contextmanager
    def open(self) -> Iterator[Output]:
        """Yield what to write to; leaving the block well makes it final. Raises ExportError."""
        with self._plain() as output:
            if not self.gzip:
                yield output
                return
            compressed = GzipOutput(output)
            yield compressed
            compressed.close()

    @contextmanager
    def scratch(self) -> Iterator[Scratch]:
        """A nameless file beside the destination, gone when it is closed, even by a kill. Raises ExportError."""
        import tempfile  # heavy, and seldom wanted

        folder = None if self._passes_by() else os.path.dirname(os.path.realpath(self.path))  # noqa: PTH120
        try:
            file = tempfile.TemporaryFile(dir=folder, prefix=".onward-", buffering=BUFFER)  # noqa: SIM115
        except OSError as error:
            raise self._no_scratch(error) from error
        try:
            yield Scratch(file, self._no_scratch)
        finally:
            with contextlib.suppress(OSError):  # on a full disk closing tries once more to write
                file.close()

    def _plain(self) -> AbstractContextManager[Output]:
        if is_standard_output(self.path):
            return standard_output()
        return device(self.path) if _is_device(self.path) else whole_file(Path(self.path))

    def _passes_by(self) -> bool:
        return is_standard_output(self.path) or _is_device(self.path)

    def _no_scratch(self, error: OSError) -> ExportError:
        return ExportError(f"cannot write the export {self.path}: {reason(error)} (while gathering its columns)")


def _is_device(path: str) -> bool:
    try:
        mode = Path(path).stat().st_mode
    except OSError:
        return False
    return not (stat.S_ISREG(mode) or stat.S_ISDIR(mode))
