"""What an export is written to."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True, slots=True)
class ExportRow:
    """One record as it leaves the store. `key`, `input` and `outputs` are JSON text, exactly as stored."""

    key: str
    input: str | None
    outputs: dict[str, str]
    state: str
    versions: dict[str, str]
    generation: int


class Sink(Protocol):
    """Writes rows to one file that appears whole or not at all."""

    def write(self, rows: Iterable[ExportRow]) -> int:
        """Write all rows, make them durable under the final name, return their number."""
