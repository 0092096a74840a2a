"""Helps tests of jobs: a source without input, and job files that are written, loaded and forgotten."""

from __future__ import annotations

import sys
import textwrap
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from onward.model import FeedBlock
from onward.ports.source import Resume, Validate

HEADER = """
from onward.job.job import Job
from job_files import EmptySource
"""


class EmptySource:
    """A source with a path and nothing in it."""

    max_ahead = None

    def __init__(self, path: str | Path = "in.jsonl"):
        self.path = Path(path)

    @property
    def location(self) -> str:
        return str(self.path)

    @property
    def title(self) -> str:
        return self.path.name

    def resume(self, cursor: str | None, complete: bool) -> Resume:
        return Resume("again")

    def read(self, cursor: str | None, validate: Validate | None) -> Iterator[FeedBlock]:
        yield from ()

    def where(self, position: int) -> str:
        return f"{self.path}:{position}"

    def based_at(self, folder: Path) -> EmptySource:
        return EmptySource(folder / self.path)


def write(path: Path, text: str) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(HEADER + textwrap.dedent(text))
    return path


@contextmanager
def fresh_imports() -> Iterator[None]:
    """Modules and import folders that come meanwhile are forgotten afterwards."""
    modules, folders = dict(sys.modules), list(sys.path)
    try:
        yield
    finally:
        for name in set(sys.modules) - set(modules):
            if not name.startswith(("pydantic", "onward", "annotated_types", "typing")):
                del sys.modules[name]
        sys.path[:] = folders


def notebook(source: str, cell: int, names: dict[str, Any]) -> None:
    """Runs `source` as a notebook runs a cell: in `__main__` without a file, its text known to linecache."""
    import linecache

    name = f"<cell {cell} {id(names)}>"
    text = textwrap.dedent(source)
    linecache.cache[name] = (len(text), None, text.splitlines(keepends=True), name)
    names.setdefault("__name__", "__main__")
    exec(compile(text, name, "exec", dont_inherit=True), names)
