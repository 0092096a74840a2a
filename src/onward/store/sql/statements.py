"""SQL lives in `.sql` files as blocks that begin with `-- name: block`; a dialect has its own, with the same names."""

from __future__ import annotations

import functools
from importlib import resources

FILES = (
    "work.sql",
    "ledger.sql",
    "gates.sql",
    "spending.sql",
    "batching.sql",
    "deciding.sql",
    "reconciling.sql",
    "asking.sql",
    "reading.sql",
    "billing.sql",
    "operating.sql",
    "sharing.sql",
    "moving.sql",
)
PACKAGE = "onward.store.sql"
ALTERED = (
    "{place} cannot be brought up to date: its tables are not those of the schema that it says it has ({said}). It was "
    "altered by hand; it was left as it is: undo that, or restore a backup"
)
SHARED = ("parcels.sql",)
"""Blocks that every dialect has as they are."""


@functools.cache
def load(package: str, file: str) -> dict[str, str]:
    """All blocks of one file by name."""
    text = resources.files(package).joinpath(file).read_text("utf-8")
    blocks: dict[str, str] = {}
    for block in text.split("-- name: ")[1:]:
        name, _, statement = block.partition("\n")
        blocks[name.strip()] = statement.strip()
    return blocks


@functools.cache
def blocks(package: str) -> dict[str, str]:
    """All blocks of a dialect by name."""
    found: dict[str, str] = {}
    for home, file in [(package, file) for file in FILES] + [(PACKAGE, file) for file in SHARED]:
        for name, statement in load(home, file).items():
            assert name not in found, f"two blocks have the name {name}"
            found[name] = statement
    return found


def migrations(package: str) -> list[tuple[int, str]]:
    """The numbered schema scripts of a dialect, in order."""
    folder = resources.files(package).joinpath("migrations")
    found = [
        (int(entry.name.split("_")[0]), entry.read_text("utf-8"))
        for entry in folder.iterdir()
        if entry.name.endswith(".sql")
    ]
    return sorted(found)
