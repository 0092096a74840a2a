"""Parquet through pyarrow, which is imported only when it is asked for (`pip install 'onward[parquet]'`).

Flat columns are typed by all their values: int64 or float64 where every number fits without losing a digit, bool,
text; numbers that do not fit and mixtures are JSON text. Without `flat`, the columns key, input, outputs and versions
are JSON text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from onward.errors import UsageError
from onward.ports.sink import ExportRow
from onward.sinks import cells
from onward.sinks.flat import Table, gathered
from onward.sinks.kinds import kind
from onward.sinks.output import Output
from onward.sinks.place import Place

_MOST_ROWS = 10_000
_MOST_CELLS = 1_000_000
_MOST_CHARACTERS = 32 << 20
_NAMES = ("key", "input", "outputs", "state", "versions", "generation")

Decode = Callable[[str], Any]


class ParquetSink:
    """Raises UsageError at once where pyarrow is missing."""

    def __init__(self, place: Place, flat: bool = False):
        _pyarrow()
        self._place = place
        self._flat = flat

    def write(self, rows: Iterable[ExportRow]) -> int:
        """Write all rows and return their number. Raises ExportError."""
        with self._place.open() as output:
            if not self._flat:
                types = ["string"] * (len(_NAMES) - 1) + ["int64"]
                return _write(output, list(_NAMES), types, map(_plain, rows))
            with gathered(self._place, rows) as table:
                decoders = list(_decoders(table))
                return _write(output, table.names, [name for name, _ in decoders], _typed(table, decoders))


def _pyarrow() -> Any:
    try:
        import pyarrow
        import pyarrow.parquet
    except ImportError as error:
        raise UsageError("Parquet needs pyarrow; install it with: pip install 'onward[parquet]'") from error
    return pyarrow


def _plain(row: ExportRow) -> list[Any]:
    return [row.key, row.input, cells.outputs_text(row), row.state, cells.versions_text(row), row.generation]


def _typed(table: Table, decoders: list[tuple[str, Decode]]) -> Iterator[list[Any]]:
    decode = [decoder for _, decoder in decoders]
    for row in table.read():
        yield [None if cell is None or cell == "null" else decode[index](cell) for index, cell in enumerate(row)]


def _write(output: Output, names: list[str], types: list[str], rows: Iterable[list[Any]]) -> int:
    pyarrow = _pyarrow()
    schema = pyarrow.schema([(name, getattr(pyarrow, kind)()) for name, kind in zip(names, types, strict=True)])
    count = 0
    with pyarrow.parquet.ParquetWriter(output, schema) as writer:
        for group in _groups(rows, len(names)):
            columns = zip(*group, strict=True)
            arrays = [pyarrow.array(column, type=field.type) for column, field in zip(columns, schema, strict=True)]
            writer.write_table(pyarrow.Table.from_arrays(arrays, schema=schema))
            count += len(group)
    return count


def _groups(rows: Iterable[list[Any]], width: int) -> Iterator[list[list[Any]]]:
    """Row groups that are bounded in rows, cells and characters. Their borders depend on the rows alone."""
    group: list[list[Any]] = []
    characters = 0
    for row in rows:
        group.append(row)
        characters += sum(len(cell) for cell in row if type(cell) is str)
        if len(group) >= min(_MOST_ROWS, max(1, _MOST_CELLS // width)) or characters >= _MOST_CHARACTERS:
            yield group
            group, characters = [], 0
    if group:
        yield group


def _decoders(table: Table) -> Iterator[tuple[str, Decode]]:
    """For each column its Parquet type and what makes a value of a cell."""
    kinds: list[set[str]] = [set() for _ in table.names]
    for row in table.read():
        for index, cell in enumerate(row):
            if cell is not None and cell != "null":
                kinds[index].add(kind(cell))
    for found in kinds:
        yield _decoder(found)


def _decoder(kinds: set[str]) -> tuple[str, Decode]:
    if kinds == {"text"}:
        return "string", _text
    if kinds == {"bool"}:
        return "bool_", _bool
    if kinds and kinds <= {"small", "int"}:
        return "int64", int
    if kinds and kinds <= {"small", "float"}:
        return "float64", float
    return "string", str


def _text(cell: str) -> str:
    return cells.as_text(cell) or ""


def _bool(cell: str) -> bool:
    return cell == "true"
