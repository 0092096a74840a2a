"""The SQL of SQLite."""

from __future__ import annotations

from onward.store.sql import statements

PACKAGE = "onward.store.sqlite"


def blocks() -> dict[str, str]:
    """All blocks by name."""
    return statements.blocks(PACKAGE)


def migrations() -> list[tuple[int, str]]:
    """The numbered schema scripts, in order."""
    return statements.migrations(PACKAGE)
