"""In which order modules are looked for: Python's own, those of a job's folder, those that are installed.

Were the folder first, as Python has it for scripts, a `glob.py` or `rich.py` beside a job would come in the way of what
onward imports when it is needed. It imports nothing that such a file could replace.
"""

from __future__ import annotations

import importlib
import os
import sys

_INSTALLED = ("site-packages", "dist-packages")
_NEEDED_LATER = (
    "annotated_types",
    "apsw",
    "attr",
    "attrs",
    "click",
    "httpx2",
    "jinja2",
    "jsonschema",
    "jsonschema_specifications",
    "markdown_it",
    "markupsafe",
    "mdurl",
    "openai",
    "orjson",
    "psycopg",
    "pyarrow",
    "pydantic",
    "pydantic_core",
    "pygments",
    "referencing",
    "rich",
    "rpds",
    "shellingham",
    "structlog",
    "typer",
    "typing_extensions",
    "typing_inspection",
)


def make_importable(folder: str) -> None:
    """Let modules come from a folder; those of its names that onward itself needs are taken from elsewhere first."""
    known = folder in sys.path
    place = sys.path.index(folder) if known else _behind_python()
    if known:
        del sys.path[place]
    for name in _NEEDED_LATER:
        module = os.path.join(folder, name)  # noqa: PTH118
        if os.path.isfile(f"{module}.py") or os.path.isfile(os.path.join(module, "__init__.py")):  # noqa: PTH113, PTH118
            try:
                importlib.import_module(name)
            except ImportError:
                continue
    sys.path.insert(place, folder)


def put_first_folder_back() -> None:
    """`python -m` puts the current folder first of all: put it where a job's folder stands."""
    here = os.getcwd()  # noqa: PTH109
    if not sys.flags.safe_path and sys.path and sys.path[0] in ("", here):
        del sys.path[0]
        make_importable(here)


def belongs_to_others(name: str) -> bool:
    """Whether a module's name is one of Python's own, or of those that onward needs."""
    return name in sys.stdlib_module_names or name in _NEEDED_LATER


def _behind_python() -> int:
    """The place in `sys.path` before what is installed."""
    installed = (place for place, entry in enumerate(sys.path) if os.path.basename(entry) in _INSTALLED)  # noqa: PTH119
    return next(installed, len(sys.path))
