"""Files as streams of UTF-8 bytes: plain, gzip by suffix, or carried over from another encoding."""

from __future__ import annotations

import codecs
import os
import time
import zlib
from io import FileIO
from typing import Protocol

from onward.errors import SourceError
from onward.sources.marks import Stat
from onward.sources.paths import File, cannot_read

CHUNK = 1 << 20
BOM = b"\xef\xbb\xbf"
_COMPRESSED_CHUNK = 1 << 16
_CLOCK_TICK = 0.02

_WIDE_MARKS = (
    (b"\xff\xfe\x00\x00", "UTF-32"),
    (b"\x00\x00\xfe\xff", "UTF-32"),
    (b"\xff\xfe", "UTF-16"),
    (b"\xfe\xff", "UTF-16"),
)
_OTHER_FORMATS = (
    (b"\x1f\x8b", "gzip data; give it a name that ends in .gz"),
    (b"PAR1", "a Parquet file; read it with parquet(…)"),
    (b"PK\x03\x04", "a ZIP archive or a spreadsheet; export it as CSV in UTF-8"),
    (b"\x28\xb5\x2f\xfd", "zstd data; decompress it or use gzip"),
    (b"BZh", "bzip2 data; decompress it or use gzip"),
    (b"\xfd7zXZ", "xz data; decompress it or use gzip"),
    (b"SQLite format 3\x00", "a SQLite database"),
)


class Damaged(Exception):
    """The stream cannot be read any further; the message is the reason for people."""


class Stream(Protocol):
    """Bytes in order. `stat` is the file as it was when it was opened."""

    stat: Stat

    def read(self) -> bytes:
        """Some next bytes, empty at the end. Raises Damaged, SourceError."""

    def skip_to(self, offset: int) -> bool:
        """Go to an offset at once if that is possible."""

    def close(self) -> None: ...


def open_stream(file: File, encoding: str = "utf-8") -> Stream:
    """Open a file for reading. Raises SourceError where it is missing or plainly something else."""
    raw = RawStream(file)
    try:
        head = raw.head()
        stream: Stream = raw
        if file.path.suffix.lower() == ".gz":
            if not b"\x1f\x8b".startswith(head[:2]):
                raise SourceError(f"{file.name} is not gzip data although its name ends in .gz; rename or compress it")
            stream = GzipStream(raw)
            head = _inflated(head)
        _refuse_other_formats(file, head)
        if encoding != "utf-8":
            return Transcoded(stream, encoding)
        _refuse_wide(file, head)
        return stream
    except BaseException:
        raw.close()
        raise


class RawStream:
    """A file's own bytes."""

    def __init__(self, file: File):
        self._file = file
        try:
            self._io = FileIO(file.path, "rb")
            self.stat = self._settled()
        except OSError as error:
            raise cannot_read(file.name, error) from error

    def _settled(self) -> Stat:
        """A file written this very moment could change again without a trace in its times: wait for the next tick."""
        found = os.fstat(self._io.fileno())
        if time.time() - max(found.st_mtime, found.st_ctime) < _CLOCK_TICK:
            time.sleep(_CLOCK_TICK)
            found = os.fstat(self._io.fileno())
        return Stat.of(found)

    def head(self) -> bytes:
        data = self.read(4096)
        self.skip_to(0)
        return data

    def read(self, size: int | None = None) -> bytes:
        try:
            return self._io.read(size or CHUNK) or b""
        except OSError as error:
            raise cannot_read(self._file.name, error) from error

    def skip_to(self, offset: int) -> bool:
        self._io.seek(offset)
        return True

    def close(self) -> None:
        self._io.close()


class GzipStream:
    """Decompressed bytes of all members. What lies before a damaged place is delivered before Damaged is raised."""

    def __init__(self, raw: RawStream):
        self.stat = raw.stat
        self._raw = raw
        self._input = b""
        self._inflate: zlib._Decompress | None = None
        self._members = 0

    def read(self) -> bytes:
        while True:
            at_end = not self._input and not self._fill()
            if self._inflate is None and not self._begin_member():
                if at_end:
                    return self._end()
                continue
            if data := self._decompress():
                return data
            if at_end and self._inflate is not None:
                raise Damaged("the file is cut off: its gzip data ends before its end mark, so records are missing")

    def _fill(self) -> bool:
        self._input = self._raw.read(_COMPRESSED_CHUNK)
        return bool(self._input)

    def _begin_member(self) -> bool:
        if self._members:
            self._input = self._input.lstrip(b"\x00")  # padding after a member, as the gzip program allows it
        if self._input:
            self._inflate = zlib.decompressobj(wbits=31)
            self._members += 1
        return bool(self._input)

    def _end(self) -> bytes:
        if not self._members:
            raise Damaged("the file is cut off: it is empty, which gzip data never is")
        return b""

    def _decompress(self) -> bytes:
        assert self._inflate is not None
        try:
            data = self._inflate.decompress(self._input, CHUNK)
        except zlib.error as error:
            raise Damaged("the gzip data is damaged from here on, so records are missing") from error
        if self._inflate.eof:
            self._input = self._inflate.unused_data
            self._inflate = None
        else:
            self._input = self._inflate.unconsumed_tail
        return data

    def skip_to(self, offset: int) -> bool:
        return offset == 0

    def close(self) -> None:
        self._raw.close()


class Transcoded:
    """Another encoding as UTF-8. What cannot be decoded becomes bytes that are not UTF-8, so that its line is bad."""

    def __init__(self, stream: Stream, encoding: str):
        self.stat = stream.stat
        self._stream = stream
        self._decoder = codecs.getincrementaldecoder(encoding)("onward-bad-byte")
        self._ended = False

    def read(self) -> bytes:
        while not self._ended:
            data = self._stream.read()
            self._ended = not data
            text = self._decoder.decode(data, self._ended)
            if text:
                return text.encode("utf-8", "surrogatepass")
        return b""

    def skip_to(self, offset: int) -> bool:
        return offset == 0

    def close(self) -> None:
        self._stream.close()


def _bad_byte(error: UnicodeError) -> tuple[str, int]:
    if not isinstance(error, UnicodeDecodeError):
        raise error
    return "\udcff", error.end


codecs.register_error("onward-bad-byte", _bad_byte)


def _inflated(head: bytes) -> bytes:
    try:
        return zlib.decompressobj(wbits=31).decompress(head, 16)
    except zlib.error:
        return b""


def _refuse_other_formats(file: File, head: bytes) -> None:
    if file.path.suffix.lower() != ".gz" or not head.startswith(b"\x1f\x8b"):
        for mark, what in _OTHER_FORMATS:
            if head.startswith(mark):
                raise SourceError(f"{file.name} is {what}")


def _refuse_wide(file: File, head: bytes) -> None:
    wide = next((name for mark, name in _WIDE_MARKS if head.startswith(mark)), None)
    if wide is None and b"\x00" in head[:4]:
        wide = "UTF-16 or UTF-32"
    if wide is not None:
        raise SourceError(
            f"{file.name} is encoded as {wide}, not UTF-8; save it as UTF-8 "
            f"(iconv -f {wide.split()[0]} -t UTF-8), or for CSV pass encoding={wide.split()[0].lower()!r}"
        )
