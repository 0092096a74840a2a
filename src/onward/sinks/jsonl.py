"""JSON Lines: one object a line, stored JSON spliced in as it is."""

from __future__ import annotations

from collections.abc import Iterable

import orjson

from onward import codec
from onward.ports.sink import ExportRow
from onward.sinks import cells
from onward.sinks.flat import gathered
from onward.sinks.place import Place


class JsonlSink:
    def __init__(self, place: Place, flat: bool = False):
        self._place = place
        self._flat = flat

    def write(self, rows: Iterable[ExportRow]) -> int:
        """Write all rows and return their number. Raises ExportError."""
        return self._write_flat(rows) if self._flat else self._write(rows)

    def _write(self, rows: Iterable[ExportRow]) -> int:
        count = 0
        with self._place.open() as output:
            for row in rows:
                output.write(line(row))
                count += 1
        return count

    def _write_flat(self, rows: Iterable[ExportRow]) -> int:
        with self._place.open() as output, gathered(self._place, rows) as table:
            names = [codec.dumps(name) for name in table.names]
            for row in table.read():
                members = [f"{name}:{_value(cell)}" for name, cell in zip(names, row, strict=True) if cell is not None]
                output.write(f"{{{','.join(members)}}}\n".encode())
        return table.rows


def line(row: ExportRow) -> bytes:
    """One row as a line, with its line feed."""
    text = orjson.dumps(
        {
            "key": orjson.Fragment(row.key),
            "input": None if row.input is None else orjson.Fragment(row.input),
            "outputs": {step: orjson.Fragment(output) for step, output in row.outputs.items()},
            "state": row.state,
            "versions": row.versions,
            "generation": row.generation,
        },
        option=orjson.OPT_APPEND_NEWLINE,
    )
    return _on_one_line(text) if text.find(b"\n") < len(text) - 1 or b"\r" in text else text


def _on_one_line(text: bytes) -> bytes:
    """JSON stored in several lines, put on one: a bare line feed is never part of a JSON string."""
    return text[:-1].replace(b"\n", b" ").replace(b"\r", b" ") + b"\n"


def _value(cell: str) -> str:
    return codec.dumps(cell) if cells.is_nested(cell) else cell
