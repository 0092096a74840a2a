"""What exports into tables ask of a database."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from enum import Enum
from typing import Any, Protocol

KEY = "key"


class Type(Enum):
    """What a column holds, in words for people."""

    TEXT = "text"
    WHOLE = "whole numbers"
    FLOAT = "floating-point numbers"
    TRUTH = "truth values"
    JSON = "JSON"


class Target(Protocol):
    """A table inside one transaction."""

    def columns(self) -> dict[str, Type] | None:
        """Those that are there; None without a table. Raises ExportError for a type that no export writes."""

    def create(self, columns: Mapping[str, Type]) -> None:
        """Make the table, with `key` as its primary key."""

    def upsert(self, columns: Mapping[str, Type], rows: Iterable[Sequence[Any]]) -> tuple[int, int]:
        """How many rows there were, and how many of them changed something."""


class Database(Protocol):
    """Where a table is. Raises ExportError in words for people, and has then changed nothing."""

    def transaction(self) -> AbstractContextManager[Target]: ...


def quoted(*parts: str) -> str:
    """A name as SQL has it."""
    return ".".join('"' + part.replace('"', '""') + '"' for part in parts)
