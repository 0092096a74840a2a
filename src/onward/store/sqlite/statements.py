"""SQL lives in `.sql` files as blocks that begin with `-- name: block`."""

from __future__ import annotations

import functools
from importlib import resources


@functools.cache
def load(file: str) -> dict[str, str]:
    """All blocks of one file by name."""
    text = resources.files("onward.store.sqlite").joinpath(file).read_text("utf-8")
    blocks: dict[str, str] = {}
    for block in text.split("-- name: ")[1:]:
        name, _, statement = block.partition("\n")
        blocks[name.strip()] = statement.strip()
    return blocks


def migrations() -> list[tuple[int, str]]:
    """The numbered schema scripts, in order."""
    folder = resources.files("onward.store.sqlite").joinpath("migrations")
    found = [
        (int(entry.name.split("_")[0]), entry.read_text("utf-8"))
        for entry in folder.iterdir()
        if entry.name.endswith(".sql")
    ]
    return sorted(found)
