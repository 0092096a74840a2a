"""Which files a source means: paths, several paths, patterns, relative to a folder."""

from __future__ import annotations

import glob
import json
import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from onward.errors import DeclarationError, SourceError

PathSpec = str | os.PathLike[str] | Sequence[str | os.PathLike[str]]


@dataclass(frozen=True, slots=True)
class File:
    """One input file: where it is, what people call it, and its place among the files of its source."""

    path: Path
    name: str
    ordinal: int


@dataclass(frozen=True, slots=True)
class Paths:
    """The paths and patterns of a source as they were given, and the folder that relative ones start from."""

    given: tuple[str, ...]
    folder: str | None = None

    @classmethod
    def of(cls, spec: PathSpec) -> Paths:
        items = [spec] if isinstance(spec, str | os.PathLike) else list(spec)
        given = tuple(os.fspath(item) for item in items)
        if not given or not all(isinstance(item, str) and item for item in given):
            raise DeclarationError('a source needs a path, several paths or a pattern such as "parts/*.jsonl"')
        return cls(given)

    def based_at(self, folder: Path) -> Paths:
        return replace(self, folder=str(folder))

    @property
    def location(self) -> str:
        """Absolute; one path as it is, several as a JSON list."""
        places = [os.path.abspath(self._absolute(item)) for item in self.given]  # noqa: PTH100 - keeps symlinks
        return places[0] if len(places) == 1 else json.dumps(places, ensure_ascii=False)

    @property
    def title(self) -> str:
        return self.given[0] if len(self.given) == 1 else f"{self.given[0]} and {len(self.given) - 1} more"

    def files(self) -> list[File]:
        """The files that are there now: in the order given, those of a pattern by name, none twice.

        Raises SourceError where a path is missing, is a folder, or a pattern matches nothing.
        """
        found: dict[str, str] = {}
        for item in self.given:
            for name in self._names(item):
                found.setdefault(os.path.abspath(self._absolute(name)), name)  # noqa: PTH100
        return [File(Path(path), name, ordinal) for ordinal, (path, name) in enumerate(found.items())]

    def _absolute(self, item: str) -> str:
        return str(Path(self.folder or Path.cwd()) / item)

    def _names(self, item: str) -> list[str]:
        path = Path(self._absolute(item))
        if not glob.has_magic(item) or path.exists():
            return [_regular(path, item)]
        matches = glob.glob(item, root_dir=self.folder or Path.cwd(), recursive=True)  # noqa: PTH207 - has root_dir
        names = sorted(name for name in matches if Path(self._absolute(name)).is_file())
        if not names:
            raise SourceError(f"no file matches {item} in {self.folder or Path.cwd()}")
        return names


def _regular(path: Path, item: str) -> str:
    try:
        if path.is_file():
            return item
        if path.is_dir():
            raise SourceError(f'{item} is a folder; name the files in it with a pattern such as "{item}/*"')
        if path.exists():
            raise SourceError(f"{item} is not a regular file: it could not be read again after a stop")
    except OSError as error:
        raise cannot_read(item, error) from error
    raise SourceError(f"there is no file {item} (looked for {path})")


def cannot_read(name: str, error: OSError) -> SourceError:
    return SourceError(f"cannot read {name}: {error.strerror or error}")
