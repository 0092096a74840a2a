"""The files of a folder as records: their paths and sizes, not their contents."""

from __future__ import annotations

import glob
import json
import os
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from onward.codec import canonical_key, dumps
from onward.errors import MisfitRecord, SourceError
from onward.model import FeedBlock, SourceRecord
from onward.ports.source import Resume, Validate

BLOCK = 1_000


def directory(path: str | os.PathLike[str], pattern: str = "*") -> Directory:
    """A record for each file in a folder that matches the pattern (`**/*.jpg`: at any depth), in order of name.

    The key is the path relative to the folder, with `/`; the value `{"path": absolute path, "size": bytes}`.
    """
    return Directory(os.fspath(path), pattern)


@dataclass(frozen=True)
class Directory:
    """Implements `ports.source.Source`. Names are held in memory while it is read; files themselves are not opened."""

    path: str
    pattern: str
    folder: str | None = None

    max_ahead = None
    key = ("path",)

    def based_at(self, folder: Path) -> Directory:
        """The same source with its relative path starting from `folder`."""
        return replace(self, folder=str(folder))

    @property
    def location(self) -> str:
        return str(self._root() / self.pattern)

    @property
    def title(self) -> str:
        return f"{self.path.rstrip('/')}/{self.pattern}"

    def where(self, position: int) -> str:
        return f"{self.title}:{position}"

    def resume(self, cursor: str | None, complete: bool) -> Resume:
        """A folder has no mark of its own: it is listed anew and matched by key."""
        self._existing_root()
        return Resume("again")

    def read(self, cursor: str | None, validate: Validate | None) -> Iterator[FeedBlock]:
        """See `ports.source.Source`. A file that goes away while the folder is read is not there."""
        root = self._existing_root()
        try:
            names = glob.glob(self.pattern, root_dir=root, recursive=True)  # noqa: PTH207 - has root_dir
        except ValueError as error:
            raise SourceError(f"the pattern {self.pattern} cannot be used: {error}") from error
        keys = sorted({name.replace(os.sep, "/") for name in names})
        records: list[SourceRecord] = []
        for position, key in enumerate(keys, 1):
            record = _record(root, key, position, validate)
            if record is not None:
                records.append(record)
            if len(records) >= BLOCK:
                yield FeedBlock(records, [], json.dumps({"files": position}))
                records = []
        yield FeedBlock(records, [], json.dumps({"files": len(keys)}), complete=True)

    def _existing_root(self) -> Path:
        root = self._root()
        if not root.is_dir():
            raise SourceError(f"there is no folder {self.path} (looked for {root})")
        return root

    def _root(self) -> Path:
        return Path(os.path.abspath(Path(self.folder or Path.cwd()) / self.path))  # noqa: PTH100 - keeps symlinks


def _record(root: Path, key: str, position: int, validate: Validate | None) -> SourceRecord | None:
    file = root / key
    try:
        if not file.is_file():
            return None
        value = {"path": file.as_posix(), "size": file.stat().st_size}
    except OSError:
        return None
    invalid = None
    try:
        if validate is not None:
            validate(value)
    except MisfitRecord as misfit:
        invalid = str(misfit)
    return SourceRecord(canonical_key(key), dumps(value), position, invalid)
