"""CSV after RFC 4180 in UTF-8 without a mark, lines ended by a line feed.

Text is written as it is, numbers with their own digits; null and a missing field are an empty cell, empty text is
`""`. A cell that a spreadsheet would take for a formula (`=1+1`) is not altered: this file is for programs.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from onward.ports.sink import ExportRow
from onward.sinks import cells
from onward.sinks.flat import gathered
from onward.sinks.place import Place

HEADER = ("key", "input", "outputs", "state", "versions", "generation")

_NEEDS_QUOTES = re.compile(r'[",\r\n]')


class CsvSink:
    """Without `flat` the columns key, input, outputs and versions hold JSON text."""

    def __init__(self, place: Place, flat: bool = False):
        self._place = place
        self._flat = flat

    def write(self, rows: Iterable[ExportRow]) -> int:
        """Write all rows and return their number. Raises ExportError."""
        return self._write_flat(rows) if self._flat else self._write(rows)

    def _write(self, rows: Iterable[ExportRow]) -> int:
        count = 0
        with self._place.open() as output:
            output.write(line(HEADER))
            for row in rows:
                whole = (cells.outputs_text(row), row.state, cells.versions_text(row), str(row.generation))
                output.write(line((row.key, row.input, *whole)))
                count += 1
        return count

    def _write_flat(self, rows: Iterable[ExportRow]) -> int:
        with self._place.open() as output, gathered(self._place, rows) as table:
            output.write(line(table.names))
            for row in table.read():
                output.write(line([None if cell is None else cells.as_text(cell) for cell in row]))
        return table.rows


def line(row: Iterable[str | None]) -> bytes:
    """One row as a line, with its line feed."""
    return (",".join(map(_quoted, row)) + "\n").encode("utf-8", "backslashreplace")


def _quoted(cell: str | None) -> str:
    if cell is None:
        return ""
    if not cell or _NEEDS_QUOTES.search(cell):
        return '"' + cell.replace('"', '""') + '"'
    return cell
