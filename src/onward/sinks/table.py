"""Exports into a table of a database: one row a record, upserted by its key, all in one transaction.

The column `key` is the record's key as JSON text, so that `7` and `"7"` are two rows. Without `flat` the others are
`input`, `outputs` and `versions` (JSON), `state` (text) and `generation`. With it, fields of records and outputs are
columns, typed by all their values when the table is made: text, whole numbers, floating-point numbers, truth values,
and JSON for whatever is mixed, nested, too long a number, or nothing but null.

A table that is there must have exactly these columns, and its types decide: a value that does not fit is an error.
Rows of records that are not among those exported stay as they are.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any

import orjson

from onward.errors import ExportError, UsageError
from onward.policy.addresses import Address, address_of
from onward.ports.sink import ExportRow
from onward.sinks import cells
from onward.sinks.flat import Table, gathered
from onward.sinks.kinds import kind
from onward.sinks.place import Place
from onward.sinks.table_target import KEY, Database, Type

LONGEST_SHOWN = 60
_PART = re.compile(r'"((?:[^"]|"")+)"|([^".]+)')


_FITS: Mapping[Type, frozenset[str]] = {
    Type.TEXT: frozenset({"text"}),
    Type.WHOLE: frozenset({"small", "int"}),
    Type.FLOAT: frozenset({"small", "float"}),
    Type.TRUTH: frozenset({"bool"}),
}
_DECODE: Mapping[Type, Callable[[str], Any]] = {
    Type.TEXT: cells.as_text,
    Type.WHOLE: int,
    Type.FLOAT: float,
    Type.TRUTH: lambda cell: cell == "true",
}
_WHOLE_COLUMNS = {
    KEY: Type.TEXT,
    "input": Type.JSON,
    "outputs": Type.JSON,
    "state": Type.TEXT,
    "versions": Type.JSON,
    "generation": Type.WHOLE,
}


class TableSink:
    """Implements `ports.sink.Sink`. `changed`: how many rows the last `write` has made or changed."""

    def __init__(self, url: str, table: str, flat: bool):
        """Raises UsageError."""
        self.changed = 0
        self._flat = flat
        self._name = table
        self._database = _database(address_of(url, None), parts_of(table))

    def write(self, rows: Iterable[ExportRow]) -> int:
        """Write all rows and return their number. Raises ExportError, and has then changed nothing."""
        if not self._flat:
            return self._write(_WHOLE_COLUMNS, map(_whole, rows))
        with gathered(Place("-"), rows) as table:
            return self._write(_typed(table), table.read())

    def _write(self, columns: Mapping[str, Type], rows: Iterator[list[str | None]]) -> int:
        strange = next((name for name in columns if "\0" in name or not _is_unicode(name)), None)
        if strange is not None:
            raise ExportError(f"{strange!r} cannot be the name of a column; export without --flat")
        with self._database.transaction() as target:
            there = target.columns()
            if there is None:
                target.create(columns)
            else:
                self._check(list(there), list(columns))
            types = [(name, (there or columns)[name]) for name in columns]
            number, self.changed = target.upsert(dict(types), (self._row(types, row) for row in rows))
        return number

    def _check(self, there: Sequence[str], wanted: Sequence[str]) -> None:
        missing, besides = _named(set(wanted) - set(there)), _named(set(there) - set(wanted))
        if missing or besides:
            said = [f"it has no {missing}"] if missing else []
            said += [f"it has {besides} besides"] if besides else []
            raise ExportError(
                f"the table {self._name} has other columns than this export: {'; '.join(said)}. Nothing was written: "
                "give another --table, or drop that one"
            )

    def _row(self, types: Sequence[tuple[str, Type]], row: Sequence[str | None]) -> list[Any]:
        """Cells (JSON texts) as values for the columns; the first is the key, which stays JSON text."""
        rest = zip(types[1:], row[1:], strict=True)
        return [row[0], *(self._value(name, type_, cell, row[0]) for (name, type_), cell in rest)]

    def _value(self, name: str, type_: Type, cell: str | None, key: str | None) -> Any:
        if cell is None or cell == "null":
            return None
        if type_ is Type.JSON:
            return cell
        if kind(cell) not in _FITS[type_]:
            shown = cell if len(cell) <= LONGEST_SHOWN else f"{cell[:LONGEST_SHOWN]}…"
            raise ExportError(
                f'column "{name}" of the table {self._name} holds {type_.value}, and the record {key} has {shown} '
                "there. Nothing was written: give another --table, or drop that one"
            )
        return _DECODE[type_](cell)


def _whole(row: ExportRow) -> list[str | None]:
    state = orjson.dumps(row.state).decode()
    return [row.key, row.input, cells.outputs_text(row), state, cells.versions_text(row), str(row.generation)]


def _typed(table: Table) -> dict[str, Type]:
    """A type for each column, by all its values."""
    kinds: list[set[str]] = [set() for _ in table.names]
    for row in table.read():
        for found, cell in zip(kinds, row, strict=True):
            if cell is not None and cell != "null":
                found.add(kind(cell))
    typed = {name: _type_of(found) for name, found in zip(table.names, kinds, strict=True)}
    return {**typed, KEY: Type.TEXT, "state": Type.TEXT, "generation": Type.WHOLE}


def _type_of(kinds: set[str]) -> Type:
    return next((one for one, fitting in _FITS.items() if kinds and kinds <= fitting), Type.JSON)


def _is_unicode(name: str) -> bool:
    try:
        name.encode()
    except UnicodeEncodeError:
        return False
    return True


def _named(names: Iterable[str]) -> str:
    return ", ".join(f'"{name}"' for name in sorted(names))


def parts_of(table: str) -> tuple[str, ...]:
    """Of `orders` or `sales.orders` the name, or schema and name; parts in double quotes may hold anything. Raises
    UsageError."""
    found, at = [], 0
    while part := _PART.match(table, at):
        found.append(part[1].replace('""', '"') if part[1] is not None else part[2])
        at = part.end()
        if table[at : at + 1] != "." or at + 1 == len(table):
            break
        at += 1
    if at != len(table) or not 1 <= len(found) <= 2 or any("\0" in part for part in found):
        raise UsageError(f'{table!r} is no name of a table; write orders, sales.orders or "odd.name"')
    return tuple(found)


def _database(address: Address, table: tuple[str, ...]) -> Database:
    if address.file is not None:
        from onward.sinks.table_sqlite import SqliteTables

        return SqliteTables(address.file, table)
    try:
        from onward.sinks.table_postgres import PostgresTables
    except ImportError as error:
        raise UsageError(
            f"a table at postgresql:// needs psycopg 3 ({error}): pip install 'onward[postgres]'"
        ) from error
    return PostgresTables(address, table)
