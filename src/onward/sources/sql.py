"""Rows of a query as records, from PostgreSQL or SQLite.

| column | in the record |
|---|---|
| integers, floating-point numbers, booleans, text | as they are |
| `numeric` | text with its digits: `1.10` |
| `date`, `time`, `timestamp` | ISO 8601 text; with a time zone in UTC, as `Z` |
| `interval` | ISO 8601 text, as PostgreSQL writes it: `P1MT90S` |
| `bytea`, BLOB | Base64 text |
| `json`, `jsonb`, SQLite's columns declared JSON | the JSON value |
| `uuid`, enumerations, ranges, rows and all other types | the text that PostgreSQL writes |
| arrays | lists; their elements as above |
| domains | what they are made of |
| NULL | null |

What JSON cannot hold (NaN, infinity, dates before the year 1 or after 9999), and JSON of which something would get lost
(digits of a number, one of two members of one name), makes its row a bad line that names the column.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from onward.codec import dumps
from onward.errors import DeclarationError, OutputError, SourceError
from onward.model import BadLine, FeedBlock, SourceRecord
from onward.policy.addresses import Address, address_of
from onward.ports.source import Resume, Validate
from onward.sources.keys import RecordMaker, key_fields
from onward.sources.lines import bad_first
from onward.sources.sql_rows import Row, Rows, Unfit

MAX_RECORDS = 1_000
MAX_CHARACTERS = 4 << 20
SHOWN_COLUMNS = 50


def sql(query: str, url: str | os.PathLike[str], key: str | Sequence[str]) -> SqlSource:
    """A record for each row of a query: `postgresql://…`, read by a server-side cursor from one snapshot, or a SQLite
    database (`sqlite:///…` or a path), opened read-only.

    `key` names the column, or columns, that identify a row. Rows come in the order of the query: give it an ORDER BY.
    It is read anew at every run, and matched by key. Raises DeclarationError.
    """
    if not isinstance(query, str) or not query.strip():
        raise DeclarationError("sql() takes a query: sql('SELECT id, body FROM tickets ORDER BY id', url, key='id')")
    return SqlSource(query.strip().rstrip(";").rstrip(), os.fspath(url), key_fields(key))


@dataclass(frozen=True)
class SqlSource:
    """Implements `ports.source.Source`."""

    query: str
    url: str
    key: tuple[str, ...]
    folder: str | None = None

    max_ahead = None

    def based_at(self, folder: Path) -> SqlSource:
        """The same source with its relative path starting from `folder`."""
        return replace(self, folder=str(folder))

    @property
    def location(self) -> str:
        """The database and the query; a password is no part of it."""
        return json.dumps({"database": self._address.identity, "query": self.query}, ensure_ascii=False)

    @property
    def title(self) -> str:
        return self._address.name

    def where(self, position: int) -> str:
        return f"{self.title}:{position}"

    def resume(self, cursor: str | None, complete: bool) -> Resume:
        """A query has no mark of its own: it is read anew and matched by key. Its columns are looked at."""
        with closing(self._open()):
            return Resume("again")

    def read(self, cursor: str | None, validate: Validate | None) -> Iterator[FeedBlock]:
        """See `ports.source.Source`. SourceLost where the connection goes; what was read before it is kept."""
        maker = RecordMaker(self.title, self.key, validate)
        with closing(self._open()) as rows:
            position = 0
            converters = [(name, convert) for name, convert in zip(rows.columns, rows.convert, strict=True)]
            with closing(rows.pages()) as pages:
                for page in pages:  # whatever has come is handed over before more is asked for
                    items = (_item(row, converters, place, maker) for place, row in enumerate(page, position + 1))
                    for some in _bounded(items):
                        position += len(some)
                        yield from _blocks(some, position)
        yield FeedBlock([], [], _cursor(position), complete=True)

    @property
    def _address(self) -> Address:
        return address_of(self.url, self.folder)

    def _open(self) -> Rows:
        """Raises SourceError, also where columns have one name or a key's is missing."""
        address = self._address
        if address.file is not None:
            from onward.sources.sql_sqlite import SqliteRows

            rows: Rows = SqliteRows(address, self.query)
        else:
            try:
                from onward.sources.sql_postgres import PostgresRows
            except ImportError as error:
                raise SourceError(
                    f"reading from postgresql:// needs psycopg 3 ({error}): pip install 'onward[postgres]'"
                ) from error
            rows = PostgresRows(address, self.query)
        try:
            self._check(rows.columns)
        except BaseException:
            rows.close()
            raise
        return rows

    def _check(self, columns: Sequence[str]) -> None:
        if not columns:
            raise SourceError("the query gives no rows; it has to be a SELECT")
        if twice := next((name for name in columns if list(columns).count(name) > 1), None):
            raise SourceError(f'the query gives two columns named "{twice}"; give each a name of its own with AS')
        for field in self.key:
            if field not in columns:
                shown = ", ".join(f'"{name}"' for name in columns[:SHOWN_COLUMNS])
                raise SourceError(f'the query gives no column "{field}"; its columns are {shown}')


def _item(
    row: Row, converters: Sequence[tuple[str, Callable[[Any], Any] | None]], position: int, maker: RecordMaker
) -> SourceRecord | BadLine:
    value: dict[str, Any] = {}
    for (name, convert), part in zip(converters, row, strict=True):
        if part is None or convert is None:
            value[name] = part
            continue
        try:
            value[name] = convert(part)
        except Unfit as unfit:
            return maker.bad(position, f'column "{name}" {unfit}', repr(row))
    try:
        text = dumps(value)
    except OutputError as error:
        return maker.bad(position, f"column {error}", repr(row))
    return maker.make(value, text, position)


def _bounded(items: Iterator[SourceRecord | BadLine]) -> Iterator[list[SourceRecord | BadLine]]:
    some, size = list[SourceRecord | BadLine](), 0
    for item in items:
        some.append(item)
        size += len(item.value if isinstance(item, SourceRecord) else item.raw)
        if len(some) >= MAX_RECORDS or size >= MAX_CHARACTERS:
            yield some
            some, size = [], 0
    if some:
        yield some


def _blocks(items: list[SourceRecord | BadLine], position: int) -> Iterator[FeedBlock]:
    return (FeedBlock(records, bad, _cursor(position)) for records, bad in bad_first(items))


def _cursor(position: int) -> str:
    return json.dumps({"rows": position})
