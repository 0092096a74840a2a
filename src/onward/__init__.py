"""onward: write the loop body, kill it whenever you like, run it again."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from onward.api import (
        estimate,
        export,
        failures,
        reconcile,
        rehearse,
        release,
        rerun,
        results,
        retry,
        run,
        run_async,
        status,
    )
    from onward.errors import (
        DeclarationError,
        Done,
        Fatal,
        Invalid,
        OnwardError,
        Rejected,
        Transient,
        UsageError,
    )
    from onward.job.groups import Group, Limit
    from onward.job.job import Job
    from onward.model import ABSENT, UNKNOWN, Mismatch, Result, Retry, RunResult
    from onward.sources.csv_file import csv
    from onward.sources.directory import directory
    from onward.sources.iterable import iterable
    from onward.sources.jsonl import jsonl
    from onward.sources.parquet import parquet
    from onward.sources.sql import sql

__all__ = [
    "ABSENT",
    "UNKNOWN",
    "DeclarationError",
    "Done",
    "Fatal",
    "Group",
    "Invalid",
    "Job",
    "Limit",
    "Mismatch",
    "OnwardError",
    "Rejected",
    "Result",
    "Retry",
    "RunResult",
    "Transient",
    "UsageError",
    "csv",
    "directory",
    "estimate",
    "export",
    "failures",
    "iterable",
    "jsonl",
    "parquet",
    "reconcile",
    "rehearse",
    "release",
    "rerun",
    "results",
    "retry",
    "run",
    "run_async",
    "sql",
    "status",
]

# Names are loaded when they are first used: `import onward` alone costs next to nothing.
_HOMES = {
    "onward.api": (
        "estimate",
        "export",
        "failures",
        "reconcile",
        "rehearse",
        "release",
        "rerun",
        "results",
        "retry",
        "run",
        "run_async",
        "status",
    ),
    "onward.errors": (
        "DeclarationError",
        "Done",
        "Fatal",
        "Invalid",
        "OnwardError",
        "Rejected",
        "Transient",
        "UsageError",
    ),
    "onward.job.groups": ("Group", "Limit"),
    "onward.job.job": ("Job",),
    "onward.model": ("ABSENT", "UNKNOWN", "Mismatch", "Result", "Retry", "RunResult"),
    "onward.sources.csv_file": ("csv",),
    "onward.sources.directory": ("directory",),
    "onward.sources.iterable": ("iterable",),
    "onward.sources.jsonl": ("jsonl",),
    "onward.sources.parquet": ("parquet",),
    "onward.sources.sql": ("sql",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

_FACES = ("http", "testing")


def __getattr__(name: str) -> Any:
    if name in _FACES:
        return importlib.import_module(f"onward.{name}")
    if name not in _HOME_OF:
        raise AttributeError(f"module 'onward' has no attribute {name!r}")
    value = getattr(importlib.import_module(_HOME_OF[name]), name)
    globals()[name] = value
    return value
