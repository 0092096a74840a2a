"""Whole lines out of streams of bytes, split at 0x0A only, and how far they were consumed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import closing
from dataclasses import dataclass

from onward.errors import SourceError
from onward.model import BadLine, SourceRecord
from onward.sources.marks import SEGMENT, Mark, PrefixHash, Stat
from onward.sources.paths import File
from onward.sources.streams import BOM, Damaged, Stream, open_stream

MAX_PIECE = 2_000


@dataclass(slots=True)
class Piece:
    """Some records of one file and how far the file is read with them. A bad place, if any, stands at its beginning.

    `damaged`: nothing behind the mark can be read, so that the pass is not complete.
    """

    records: list[SourceRecord]
    bad: list[BadLine]
    size: int
    mark: Mark
    damaged: bool = False


def bad_first(items: Iterable[SourceRecord | BadLine]) -> Iterator[tuple[list[SourceRecord], list[BadLine]]]:
    """Items in source order, cut before each bad one that follows a record."""
    records: list[SourceRecord] = []
    bad: list[BadLine] = []
    for item in items:
        if isinstance(item, SourceRecord):
            records.append(item)
        elif records:
            yield records, bad
            records, bad = [], [item]
        else:
            bad.append(item)
    if records or bad:
        yield records, bad


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """A file's content up to an offset: its hash (None if the file is shorter), and what follows."""

    stat: Stat
    digest: str | None
    following: bytes = b""


class Track:
    """How far one stream of lines is consumed."""

    def __init__(self, file: File, stat: Stat):
        self._name = file.name
        self._stat = stat
        self._hash = PrefixHash()
        self._open_end = False
        self.offset = 0
        self.line = 0

    def take(self, data: bytes | memoryview, lines: int) -> None:
        """`data` was consumed: so many lines, or what is none (a byte order mark, an end of line)."""
        self._hash.update(data)
        self.offset += len(data)
        self.line += lines
        ends_line = data[-1:] == b"\n"
        if lines or ends_line:
            self._open_end = not ends_line

    def go_to(self, mark: Mark, stream: Stream) -> bytes:
        """Bring stream and track to the mark; returns bytes behind it that had to be read already."""
        boundary = mark.offset - mark.offset % SEGMENT
        if stream.skip_to(boundary):
            self._hash = PrefixHash(mark.chain)
            self.offset = boundary
        rest = hash_to(stream, self._hash, mark.offset - self.offset)
        if rest is None:
            raise SourceError(f"{self._name} became shorter while it was being read; start again")
        self.offset, self.line, self._open_end = mark.offset, mark.line, mark.open_end
        return rest

    def mark(self, ended: bool = False) -> Mark:
        hashes = self._hash.digest, self._hash.chain
        return Mark(self._name, self._stat, self.offset, self.line, *hashes, ended, self._open_end)


def hash_to(stream: Stream, prefix: PrefixHash, length: int | None) -> bytes | None:
    """Hash the next `length` bytes (None: all); returns what was read behind them, None if there are fewer."""
    while length is None or length > 0:
        data = stream.read()
        if not data:
            return b"" if length is None else None
        prefix.update(data if length is None else memoryview(data)[:length])
        if length is not None:
            if len(data) > length:
                return data[length:]
            length -= len(data)
    return b""


def fingerprint(file: File, length: int | None, encoding: str = "utf-8") -> Fingerprint:
    """Hash a file's first `length` bytes behind decompression (None: all of them). Raises SourceError."""
    with closing(open_stream(file, encoding)) as stream:
        prefix = PrefixHash()
        try:
            following = hash_to(stream, prefix, length)
            if following is None:
                return Fingerprint(stream.stat, None)
            return Fingerprint(stream.stat, prefix.digest, following or _next(stream))
        except Damaged:
            return Fingerprint(stream.stat, None)


def _next(stream: Stream) -> bytes:
    try:
        return stream.read()
    except Damaged:
        return b"\x00"  # something is there, whatever it is


def whole_lines(stream: Stream, rest: bytes = b"") -> Iterator[bytes]:
    """Runs of whole lines. Only the very last may lack its newline, and only where the stream ended soundly."""
    held: list[bytes] = []
    data = rest or stream.read()
    while data:
        cut = data.rfind(b"\n") + 1
        if cut:
            yield b"".join([*held, data[:cut]])
            held = [data[cut:]] if cut < len(data) else []
        else:
            held.append(data)
        data = stream.read()
    if held:
        yield b"".join(held)


class LineReader:
    """Reads the lines of one file from a mark on, and keeps track of how far they were consumed."""

    def __init__(self, file: File, mark: Mark | None, encoding: str = "utf-8"):
        self._stream = open_stream(file, encoding)
        self.track = Track(file, self._stream.stat)
        self._mark = mark

    def runs(self) -> Iterator[bytes]:
        """Runs of whole lines behind the mark. Raises Damaged where the stream cannot be read further."""
        rest = self.track.go_to(self._mark, self._stream) if self._mark else b""
        fresh = self.track.offset == 0
        open_end = self._mark is not None and self._mark.open_end
        for run in whole_lines(self._stream, rest):
            if fresh:
                run = self._without(run, BOM)
            elif open_end:  # what ends the last line that was read, which had no newline then
                run = self._without(run, b"\r\n", b"\n")
            fresh = open_end = False
            if run:
                yield run

    def _without(self, run: bytes, *beginnings: bytes) -> bytes:
        for beginning in beginnings:
            if run.startswith(beginning):
                self.track.take(beginning, 0)
                return run[len(beginning) :]
        return run

    def close(self) -> None:
        self._stream.close()
