"""A source made of files: how far they were read, whether they are still the same, and their records in blocks."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Protocol

from onward.errors import SourceError
from onward.model import BadLine, FeedBlock, SourceRecord
from onward.ports.source import Resume, Validate
from onward.sources.keys import LINE_BITS, LINE_MASK
from onward.sources.lines import Fingerprint, Piece
from onward.sources.marks import Cursor, Fold, Mark, Stat
from onward.sources.paths import File, Paths, cannot_read

MAX_RECORDS = 2_000
MAX_BYTES = 4 << 20


class Format(Protocol):
    """How the files of a source are read. `unit` is what a mark's `line` counts: line or row."""

    unit: str

    @property
    def key(self) -> tuple[str, ...]:
        """The fields that identify a record."""

    @property
    def reads(self) -> str:
        """How files are read, in words that change when the same file would give other records."""

    def check(self, file: File) -> None:
        """Raise SourceError where a file is plainly not what is expected, before any file is read."""

    def columns(self, file: File) -> list[str] | None:
        """The names of its records' fields, as far as they are known before it is read: of a header or schema, of the
        first record; None where there is none. Raises SourceError."""

    def pieces(self, file: File, mark: Mark | None, validate: Validate | None) -> Iterator[Piece]:
        """Read a file from behind the mark. The last piece's mark has `ended`, or the piece is `damaged`."""

    def fingerprint(self, file: File, length: int | None) -> Fingerprint:
        """Hash a file's content up to a mark's `offset` (None: all of it)."""


class Changed(Exception):
    """The input is no longer what was read; the message says how."""


class FileSource:
    """Implements `ports.source.Source` for files of one format."""

    max_ahead: int | None = None

    def __init__(self, paths: Paths, form: Format):
        self._paths = paths
        self._format = form
        self._names: list[str] | None = None

    def based_at(self, folder: Path) -> FileSource:
        """The same source with its relative paths starting from `folder`."""
        other = copy.copy(self)
        other._paths = self._paths.based_at(folder)
        other._names = None
        return other

    @property
    def key(self) -> tuple[str, ...]:
        """The fields that identify a record."""
        return self._format.key

    def columns(self) -> list[str] | None:
        """The names of the fields of its first file's records; None where it begins with no record. Raises
        SourceError."""
        return self._format.columns(self._paths.files()[0])

    @property
    def location(self) -> str:
        return self._paths.location

    @property
    def title(self) -> str:
        return self._paths.title

    def where(self, position: int) -> str:
        if self._names is None:
            self._names = [file.name for file in self._paths.files()]
        ordinal, line = position >> LINE_BITS, position & LINE_MASK
        name = self._names[ordinal] if ordinal < len(self._names) else self.title
        return f"{name}:{line}"

    def resume(self, cursor: str | None, complete: bool) -> Resume:
        """See `ports.source.Source`. Files whose size, times and inode are unchanged are not read."""
        files = self._paths.files()
        if cursor is None:
            return Resume("again")
        stored = Cursor.parse(cursor)
        if stored is None:
            return Resume("again", why="the stored place in the input is of another version of onward")
        if stored.reads != self._format.reads:
            return Resume("again", why=f"the input was read as {stored.reads}, and is now read as {self._format.reads}")
        try:
            more = self._compare(stored, files)
        except Changed as change:
            return Resume("again", why=str(change))
        return Resume("continue" if more or not complete else "done", cursor=stored.text())

    def read(self, cursor: str | None, validate: Validate | None) -> Iterator[FeedBlock]:
        """See `ports.source.Source`. A block that has bad places begins with one: whoever stops at a bad place keeps
        the cursor of the block before it and loses nothing. Behind damage, the files that follow are still read, but
        no cursor covers them: the damaged one may be replaced and is then read on from where it broke off."""
        files = self._paths.files()
        self._names = [file.name for file in files]
        state = Cursor.parse(cursor) if cursor is not None else Cursor(self._format.reads)
        if state is None:
            raise SourceError("the stored place in the input cannot be read; start from the beginning")
        block, damaged = _Block(), False
        for piece in self._pieces(files, state, validate):
            if block.must_go_before(piece):
                yield block.made(state.text(), partial=damaged)
                block = _Block()
            damaged = damaged or piece.damaged
            if not damaged:
                state.advance(piece.mark)
            block.add(piece)
            if block.is_full:
                yield block.made(state.text(), partial=damaged)
                block = _Block()
        yield block.made(state.text(), complete=not damaged, partial=damaged)

    def _pieces(self, files: list[File], state: Cursor, validate: Validate | None) -> Iterator[Piece]:
        mark = state.marks[-1] if state.marks else None
        begun = state.fold.count + len(state.marks)
        if mark is not None:
            begun -= 1
            if mark.ended and _stat(files[begun]) == mark.stat:
                mark, begun = None, begun + 1
        for file in files[begun:]:
            self._format.check(file)
        for file in files[begun:]:
            yield from self._format.pieces(file, mark, validate)
            mark = None

    def _compare(self, stored: Cursor, files: list[File]) -> bool:
        """Whether there is more to read than was read. Brings the marks' stats up to date; raises Changed."""
        folded, later = files[: stored.fold.count], files[stored.fold.count :]
        if stored.fold.count:
            stored.fold = self._compare_fold(stored.fold, folded)
        more = False
        for number, mark in enumerate(stored.marks):
            if number >= len(later) or later[number].name != mark.name:
                raise Changed(_moved(mark.name, later[number:]))
            if more:
                raise Changed(f"{stored.marks[number - 1].name} has grown, and {mark.name} behind it was already read")
            stored.marks[number], more = self._compare_mark(mark, later[number])
        return more or len(later) > len(stored.marks)

    def _compare_mark(self, mark: Mark, file: File) -> tuple[Mark, bool]:
        """The mark with today's stat, and whether more can be read behind it."""
        if _stat(file) == mark.stat:
            return mark, not mark.ended
        found = self._format.fingerprint(file, mark.offset)
        if found.digest is None and not mark.ended:
            raise Changed(f"{mark.name} ends before {self._format.unit} {mark.line + 1:,}, where reading had stopped")
        if found.digest is None:
            raise Changed(f"{mark.name} is shorter than it was")
        grown_line = mark.open_end and found.following and not found.following.startswith((b"\n", b"\r\n"))
        if found.digest != mark.digest or grown_line:
            changed = mark.line if grown_line else mark.line + 1
            raise Changed(f"{mark.name} changed {'at' if grown_line else 'before'} {self._format.unit} {changed:,}")
        ended = mark.ended and not found.following
        return replace(mark, stat=found.stat, ended=ended), not ended

    def _compare_fold(self, fold: Fold, files: list[File]) -> Fold:
        today = Fold()
        for file in files:
            today = today.with_file(file.name, _stat(file), "")
        if (today.count, today.names) != (fold.count, fold.names):
            raise Changed(f"the first {fold.count:,} files are no longer the same ones")
        if today.stats == fold.stats:
            return fold
        today = Fold()
        for file in files:
            found = self._format.fingerprint(file, None)
            today = today.with_file(file.name, found.stat, found.digest or "")
        if today.contents != fold.contents:
            raise Changed(f"one of the first {fold.count:,} files changed")
        return today


class _Block:
    """Pieces on their way to becoming one block."""

    def __init__(self) -> None:
        self._records: list[SourceRecord] = []
        self._bad: list[BadLine] = []
        self._size = 0

    def must_go_before(self, piece: Piece) -> bool:
        if not self._records and not self._bad:
            return False
        if piece.bad and self._records:
            return True
        count = len(self._records) + len(self._bad) + len(piece.records) + len(piece.bad)
        return count > MAX_RECORDS or self._size + piece.size > MAX_BYTES

    @property
    def is_full(self) -> bool:
        return len(self._records) + len(self._bad) >= MAX_RECORDS // 2 or self._size >= MAX_BYTES

    def add(self, piece: Piece) -> None:
        if self._records or self._bad:
            self._records.extend(piece.records)
            self._bad.extend(piece.bad)
        else:
            self._records, self._bad = piece.records, piece.bad
        self._size += piece.size

    def made(self, cursor: str, complete: bool = False, partial: bool = False) -> FeedBlock:
        return FeedBlock(self._records, self._bad, cursor, complete, partial)


def _stat(file: File) -> Stat:
    try:
        return Stat.of(file.path.stat())
    except OSError as error:
        raise cannot_read(file.name, error) from error


def _moved(expected: str, files: list[File]) -> str:
    if any(file.name == expected for file in files):
        return f"{files[0].name} is new and comes before {expected}, which was already read"
    return f"{expected} is gone"
