"""Where in the user's code something is declared."""

from __future__ import annotations

import inspect
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from types import FrameType
from typing import Any, NamedTuple


class Place(NamedTuple):
    """A spot in the user's code: `globals` and `locals` are what names mean there."""

    file: str
    line: int
    globals: Mapping[str, Any]
    locals: Mapping[str, Any]

    def __str__(self) -> str:
        return f"{self.file}:{self.line}"

    @property
    def module(self) -> str:
        """The module's name, also where it is run by `python -m`."""
        name = str(self.globals.get("__name__", ""))
        spec = self.globals.get("__spec__")
        return str(spec.name) if name == "__main__" and spec is not None else name

    @property
    def path(self) -> Path | None:
        """The module's file; None in a notebook and at an interactive prompt."""
        file = _file_of(self.globals)
        return whole_path(Path(file)) if file is not None else None


def whole_path(path: Path) -> Path:
    """The path from the root on, without `..`; links in it stay, unless `..` would step back over them."""
    whole = path.absolute()
    return whole.resolve() if ".." in whole.parts else whole


def calling_place() -> Place:
    """The nearest spot outside onward on the way to this call."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None and frame.f_back is not None and _is_ours(frame):
        frame = frame.f_back
    assert frame is not None
    inside_function = frame.f_locals is not frame.f_globals
    names = dict(frame.f_locals) if inside_function else {}
    return Place(frame.f_code.co_filename, frame.f_lineno, frame.f_globals, names)


def _is_ours(frame: FrameType) -> bool:
    name = frame.f_globals.get("__name__", "")
    return isinstance(name, str) and name.split(".", 1)[0] == "onward"


def in_notebook(names: Mapping[str, Any]) -> bool:
    """Whether these globals are those of a notebook or an interactive prompt: `__main__` without a file."""
    return names.get("__name__") == "__main__" and _file_of(names) is None


def _file_of(names: Mapping[str, Any]) -> str | None:
    """`__file__`, unless it is no file: a program read from standard input has `<stdin>`."""
    file = names.get("__file__")
    return file if isinstance(file, str) and not (file.startswith("<") and file.endswith(">")) else None


def where(function: Callable[..., Any]) -> str:
    """`file:line` of a function, for messages; empty where it has none."""
    code = getattr(inspect.unwrap(function), "__code__", None)
    return f"{code.co_filename}:{code.co_firstlineno}" if code is not None else ""
