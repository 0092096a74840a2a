"""How far the files of a source were read, as small values that a later run can check against the files."""

from __future__ import annotations

import hashlib
import json
import os
from dataclasses import dataclass, field
from typing import Any

SEGMENT = 1 << 20
FOLD_ABOVE = 64
_VERSION = 1


@dataclass(frozen=True, slots=True)
class Stat:
    """What changes whenever a file is written or replaced."""

    size: int
    mtime_ns: int
    ctime_ns: int
    inode: int

    @classmethod
    def of(cls, found: os.stat_result) -> Stat:
        return cls(found.st_size, found.st_mtime_ns, found.st_ctime_ns, found.st_ino)

    def numbers(self) -> tuple[int, int, int, int]:
        return (self.size, self.mtime_ns, self.ctime_ns, self.inode)


@dataclass(frozen=True, slots=True)
class Mark:
    """How far one file was read.

    `offset` counts bytes behind decompression (rows in Parquet), `line` lines (rows). `digest` is the hash of all
    before `offset`, `chain` the hash up to the last whole segment before it: from there the digest can be carried
    on without reading the file anew. `ended`: the end was reached; `open_end`: the last line had no newline.
    """

    name: str
    stat: Stat
    offset: int
    line: int
    digest: str
    chain: str = ""
    ended: bool = False
    open_end: bool = False


class PrefixHash:
    """BLAKE2b in a chain over segments of fixed size, so that it depends on the content alone and can be taken up
    again at any segment (a hash object itself cannot be stored)."""

    def __init__(self, chain: str = ""):
        self.chain = chain
        self._room = SEGMENT
        self._hash = hashlib.blake2b(bytes.fromhex(chain), digest_size=16)

    def update(self, data: bytes | memoryview) -> None:
        while len(data) >= self._room:
            self._hash.update(data[: self._room])
            data = data[self._room :]
            self.chain = self._hash.hexdigest()
            self._hash = hashlib.blake2b(bytes.fromhex(self.chain), digest_size=16)
            self._room = SEGMENT
        self._hash.update(data)
        self._room -= len(data)

    @property
    def digest(self) -> str:
        return self._hash.hexdigest()


def chained(previous: str, *parts: object) -> str:
    """The next link of a chain of hashes over JSON texts."""
    text = json.dumps([previous, *parts], ensure_ascii=True)
    return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()


@dataclass(frozen=True, slots=True)
class Fold:
    """Many files that were read to their ends, as three hashes: a cursor stays small however many files there are."""

    count: int = 0
    names: str = ""
    stats: str = ""
    contents: str = ""

    def with_file(self, name: str, stat: Stat, digest: str) -> Fold:
        return Fold(
            self.count + 1,
            chained(self.names, name),
            chained(self.stats, stat.numbers()),
            chained(self.contents, digest),
        )


@dataclass(slots=True)
class Cursor:
    """How far a whole source was read: `fold` holds the oldest files, `marks` the others, the last being read now.

    `reads` says how the files were read (format, key); another way of reading makes another input of them.
    """

    reads: str
    fold: Fold = field(default_factory=Fold)
    marks: list[Mark] = field(default_factory=list)

    def advance(self, mark: Mark) -> None:
        if self.marks and self.marks[-1].name == mark.name:
            self.marks[-1] = mark
            return
        self.marks.append(mark)
        if len(self.marks) > FOLD_ABOVE:
            oldest, self.marks = self.marks[: FOLD_ABOVE // 2], self.marks[FOLD_ABOVE // 2 :]
            for old in oldest:
                self.fold = self.fold.with_file(old.name, old.stat, old.digest)

    def text(self) -> str:
        fold = self.fold
        return json.dumps(
            {
                "v": _VERSION,
                "reads": self.reads,
                "fold": [fold.count, fold.names, fold.stats, fold.contents] if fold.count else None,
                "files": [_mark_list(mark) for mark in self.marks],
            },
            separators=(",", ":"),
        )

    @classmethod
    def parse(cls, text: str) -> Cursor | None:
        """The cursor, or None where the text is none of this version."""
        try:
            found = json.loads(text)
            if found["v"] != _VERSION:
                return None
            fold = Fold(*found["fold"]) if found["fold"] else Fold()
            return cls(found["reads"], fold, [_mark(item) for item in found["files"]])
        except (ValueError, TypeError, KeyError, IndexError):
            return None


def _mark_list(mark: Mark) -> list[Any]:
    flags = int(mark.ended) + 2 * int(mark.open_end)
    return [mark.name, *mark.stat.numbers(), mark.offset, mark.line, mark.digest, mark.chain, flags]


def _mark(item: list[Any]) -> Mark:
    name, size, mtime, ctime, inode, offset, line, digest, chain, flags = item
    if not all(type(number) is int for number in (size, mtime, ctime, inode, offset, line, flags)):
        raise ValueError("not a mark")
    stat = Stat(size, mtime, ctime, inode)
    return Mark(str(name), stat, offset, line, str(digest), str(chain), bool(flags & 1), bool(flags & 2))
