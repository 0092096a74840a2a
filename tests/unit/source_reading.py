"""How the tests of sources read: everything at once, or with a stop after every block."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from onward.model import BadLine, FeedBlock, SourceRecord
from onward.ports.source import Source
from onward.sources import csv_file, files, jsonl, lines, marks, parquet, streams

CASES = Path(__file__).parent.parent / "cases" / "files"


class Reading:
    """What a pass brought."""

    def __init__(self, blocks: list[FeedBlock]):
        self.blocks = blocks
        self.records: list[SourceRecord] = [record for block in blocks for record in block.records]
        self.bad: list[BadLine] = [bad for block in blocks for bad in block.bad]
        self.complete = blocks[-1].complete
        self.cursor = blocks[-1].cursor

    @property
    def keys(self) -> list[str]:
        return [record.key for record in self.records]

    @property
    def lines(self) -> list[int]:
        return [record.position & ((1 << 40) - 1) for record in self.records]

    @property
    def reasons(self) -> dict[int, str]:
        return {bad.position & ((1 << 40) - 1): bad.reason for bad in self.bad}

    def same_as(self, other: Reading) -> bool:
        return self.records == other.records and self.bad == other.bad and self.complete == other.complete


def read_all(source: Source, cursor: str | None = None, validate: Any = None) -> Reading:
    blocks = list(source.read(cursor, validate))
    assert all(not block.complete for block in blocks[:-1])
    for block in blocks:
        places = sorted([*(r.position for r in block.records), *(b.position for b in block.bad)])
        assert not block.bad or places[0] == block.bad[0].position, "a block with bad places begins with one"
    return Reading(blocks)


def read_with_stops(source: Source, validate: Any = None) -> Reading:
    """Read one block, forget everything but the cursor, resume, and so on."""
    blocks: list[FeedBlock] = []
    cursor: str | None = None
    while True:
        resume = source.resume(cursor, False)
        assert resume.how == ("continue" if blocks else "again")
        block = next(iter(source.read(resume.cursor, validate)))
        blocks.append(block)
        if block.complete or (block.bad and block.cursor == cursor):
            return Reading(blocks)
        cursor = block.cursor


def use_tiny_blocks(patch: pytest.MonkeyPatch) -> None:
    """So that a small file has many blocks, chunks and segments."""
    patch.setattr(marks, "SEGMENT", 16)
    patch.setattr(lines, "SEGMENT", 16)
    patch.setattr(streams, "CHUNK", 11)
    patch.setattr(files, "MAX_RECORDS", 3)
    for form in (jsonl, csv_file, parquet):
        patch.setattr(form, "MAX_PIECE", 2)
