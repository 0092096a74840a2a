"""A table in a SQLite database."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import apsw

from onward.errors import ExportError, OnwardError
from onward.sinks.table_target import KEY, Target, Type, quoted

BUSY_MILLISECONDS = 60_000
LONGEST_SHOWN = 60
OWN = 0x6F6E7764
"""What marks a store of onward, where no other tables belong."""
_DECLARED = {
    Type.TEXT: "TEXT",
    Type.WHOLE: "INTEGER",
    Type.FLOAT: "REAL",
    Type.TRUTH: "BOOLEAN",
    Type.JSON: "JSON TEXT",  # a type that were JSON alone would turn "1.0" into 1
}
_SIGNS = (
    ("JSON", Type.JSON),
    ("TEXT", Type.TEXT),
    ("CHAR", Type.TEXT),
    ("BOOL", Type.TRUTH),
    ("INT", Type.WHOLE),
    ("REAL", Type.FLOAT),
    ("DOUB", Type.FLOAT),
    ("FLOA", Type.FLOAT),
)


class SqliteTables:
    """`sinks.table_target.Database`."""

    def __init__(self, file: Path, table: tuple[str, ...]):
        self._file = file
        self._table = table

    @contextmanager
    def transaction(self) -> Iterator[Target]:
        new = self._made()
        try:
            with self._in_words(), contextlib.closing(apsw.Connection(str(self._file))) as connection:
                connection.set_busy_timeout(BUSY_MILLISECONDS)
                connection.execute("BEGIN IMMEDIATE")
                try:
                    self._refuse_own(connection)
                    yield _SqliteTarget(connection, self._table)
                    connection.execute("COMMIT")
                except BaseException:
                    if connection.in_transaction:
                        connection.execute("ROLLBACK")
                    raise
        except BaseException:
            if new:
                with contextlib.suppress(OSError):
                    self._file.unlink()
            raise

    def _made(self) -> bool:
        """Whether the file had to be made; only its owner may read it."""
        try:
            os.close(os.open(self._file, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
        except FileExistsError:
            return False
        except OSError as error:
            raise ExportError(f"cannot make {self._file}: {error.strerror}") from error
        return True

    def _refuse_own(self, connection: apsw.Connection) -> None:
        row = connection.execute("PRAGMA application_id").fetchone()
        if row == (OWN,):
            raise ExportError(f"{self._file} is a store of onward; give another file with --to")

    @contextmanager
    def _in_words(self) -> Iterator[None]:
        try:
            yield
        except apsw.Error as error:
            raise self._said(error) from error

    def _said(self, error: apsw.Error) -> OnwardError:
        if isinstance(error, apsw.BusyError | apsw.LockedError):
            return ExportError(f"{self._file} is locked by another program; nothing was written, try again")
        if isinstance(error, apsw.FullError | apsw.IOError):
            return ExportError(f"{self._file} cannot be written ({error}); nothing was written")
        if isinstance(error, apsw.NotADBError | apsw.CorruptError):
            return ExportError(f"{self._file} is not a SQLite database, or is damaged: {error}")
        if "ON CONFLICT clause does not match" in str(error):
            return ExportError(f"the column key of {'.'.join(self._table)} is not its primary key; nothing was written")
        return ExportError(f"{self._file}: {error}; nothing was written")


class _SqliteTarget:
    def __init__(self, connection: apsw.Connection, table: tuple[str, ...]):
        self._connection = connection
        self._table = table

    def columns(self) -> dict[str, Type] | None:
        if len(self._table) == 2 and self._table[0].lower() == "temp":
            raise ExportError(
                f"{'.'.join(self._table)} would be a temporary table, which goes with the connection; nothing was "
                "written"
            )
        schema = self._table[0] if len(self._table) == 2 else "main"
        asked = "SELECT name, type FROM pragma_table_info(?, ?)"
        rows = list(self._connection.execute(asked, (self._table[-1], schema)))
        return {name: self._type(name, declared) for name, declared in rows} or None

    def _type(self, name: str, declared: str) -> Type:
        for sign, found in _SIGNS:
            if sign in declared.upper():
                return found
        raise ExportError(
            f'column "{name}" of {".".join(self._table)} is declared {declared or "without a type"}, which an '
            "export does not write; nothing was written"
        )

    def create(self, columns: Mapping[str, Type]) -> None:
        alike: dict[str, str] = {}
        for name in columns:
            other = alike.setdefault(name.lower(), name)
            if other != name:
                raise ExportError(f'"{other}" and "{name}" are one column to SQLite; export without --flat')
        listed = ", ".join(
            f"{quoted(name)} {_DECLARED[type_]}{' PRIMARY KEY NOT NULL' if name == KEY else ''}"
            for name, type_ in columns.items()
        )
        self._connection.execute(f"CREATE TABLE {quoted(*self._table)} ({listed})")

    def upsert(self, columns: Mapping[str, Type], rows: Iterable[Sequence[Any]]) -> tuple[int, int]:
        others = [quoted(name) for name in columns if name != KEY]
        statement = (
            f"INSERT INTO {quoted(*self._table)} AS there ({', '.join(quoted(name) for name in columns)}) "
            f"VALUES ({', '.join('?' * len(columns))}) ON CONFLICT ({quoted(KEY)}) DO UPDATE SET "
            f"{', '.join(f'{name} = excluded.{name}' for name in others)} "
            f"WHERE {' OR '.join(f'there.{name} IS NOT excluded.{name}' for name in others)}"
        )
        counted = _Counted(rows)
        before = self._connection.total_changes()
        try:
            self._connection.executemany(statement, counted)
        except (apsw.ConstraintError, apsw.TooBigError, apsw.MismatchError) as error:
            shown = counted.key if len(counted.key) <= LONGEST_SHOWN else f"{counted.key[:LONGEST_SHOWN]}…"
            raise ExportError(
                f"the table {'.'.join(self._table)} does not take the record {shown}: {error}. Nothing was written"
            ) from error
        return counted.number, self._connection.total_changes() - before


class _Counted:
    """Rows on their way, how many there were, and the key of the last of them."""

    def __init__(self, rows: Iterable[Sequence[Any]]):
        self.number = 0
        self.key = ""
        self._rows = rows

    def __iter__(self) -> Iterator[Sequence[Any]]:
        for self.number, row in enumerate(self._rows, 1):  # noqa: B020
            self.key = row[0]
            yield row
