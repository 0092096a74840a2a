"""A table in PostgreSQL, through psycopg 3."""

from __future__ import annotations

import contextlib
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any

import psycopg
from psycopg import errors

from onward.errors import ExportError
from onward.policy.addresses import Address
from onward.sinks.table_target import KEY, Target, Type, quoted

CONNECT_SECONDS = 10
LONGEST_NAME = 63
_STAGED = quoted("onward_export")
_BEGIN = (
    "BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL statement_timeout TO 0; SET LOCAL lock_timeout TO '60s'; "
    "SET LOCAL idle_in_transaction_session_timeout TO 0; SET LOCAL synchronous_commit TO on"
)
_MADE = {
    Type.TEXT: 'text COLLATE "C"',
    Type.WHOLE: "bigint",
    Type.FLOAT: "double precision",
    Type.TRUTH: "boolean",
    Type.JSON: "json",  # jsonb would drop digits and order
}
_KNOWN = {
    "text": Type.TEXT,
    "character varying": Type.TEXT,
    "bigint": Type.WHOLE,
    "integer": Type.WHOLE,
    "double precision": Type.FLOAT,
    "boolean": Type.TRUTH,
    "json": Type.JSON,
    "jsonb": Type.JSON,
}
_COLUMNS = """
SELECT a.attname, format_type(a.atttypid, NULL) FROM pg_attribute a
WHERE a.attrelid = to_regclass($1) AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum
"""
_GONE = (
    errors.AdminShutdown,
    errors.CrashShutdown,
    errors.CannotConnectNow,
    errors.TooManyConnections,
    errors.ConnectionException,
)


class PostgresTables:
    """`sinks.table_target.Database`. Rows are staged in a temporary table, so that one statement brings them in."""

    def __init__(self, address: Address, table: tuple[str, ...]):
        self._address = address
        self._table = table

    @contextmanager
    def transaction(self) -> Iterator[Target]:
        with self._in_words():
            given = psycopg.conninfo.conninfo_to_dict(self._address.url)
            settings: dict[str, Any] = {"connect_timeout": str(CONNECT_SECONDS), "application_name": "onward", **given}
            connection = psycopg.connect(
                **{**settings, "client_encoding": "UTF8"}, autocommit=True, cursor_factory=psycopg.RawCursor
            )
            with contextlib.closing(connection):
                connection.prepare_threshold = None
                connection.execute(_BEGIN)
                # Two exports that make the same table take turns.
                connection.execute("SELECT pg_advisory_xact_lock(hashtextextended($1, 0))", [quoted(*self._table)])
                yield _PostgresTarget(connection, self._table)
                if connection.execute("COMMIT").statusmessage != "COMMIT":
                    raise ExportError(f"{self._address.shown} undid the export without a reason")

    @contextmanager
    def _in_words(self) -> Generator[None]:
        try:
            yield
        except psycopg.Error as error:
            raise self._said(error) from None  # its text may hold the password

    def _said(self, error: psycopg.Error) -> ExportError:
        place = self._address.shown
        said = self._address.masked(_first_line(error))
        if isinstance(error, _GONE) or (isinstance(error, psycopg.OperationalError) and error.sqlstate is None):
            return ExportError(
                f"{place} cannot be reached, or was lost ({said}); all was written or nothing: try again"
            )
        if isinstance(error, errors.InsufficientPrivilege):
            return ExportError(f"{place}: the user lacks rights ({said}); nothing was written")
        if isinstance(error, errors.InvalidSchemaName):
            return ExportError(f"{place} has no schema {self._table[0]!r}: make it first; nothing was written")
        if isinstance(error, errors.InvalidColumnReference):
            return ExportError(f"the column key of {'.'.join(self._table)} is not its primary key; nothing was written")
        return ExportError(f"{place}: {said}; nothing was written")


class _PostgresTarget:
    def __init__(self, connection: psycopg.Connection[Any], table: tuple[str, ...]):
        self._connection = connection
        self._table = table

    def columns(self) -> dict[str, Type] | None:
        _check_names(self._table)
        rows = self._connection.execute(_COLUMNS.encode(), [quoted(*self._table)]).fetchall()
        for name, declared in rows:
            if declared not in _KNOWN:
                raise ExportError(
                    f'column "{name}" of {".".join(self._table)} is of type {declared}, which an export does not '
                    "write; nothing was written"
                )
        return {name: _KNOWN[declared] for name, declared in rows} or None

    def create(self, columns: Mapping[str, Type]) -> None:
        _check_names(columns)
        listed = ", ".join(
            f"{quoted(name)} {_MADE[type_]}{' PRIMARY KEY' if name == KEY else ''}" for name, type_ in columns.items()
        )
        self._connection.execute(f"CREATE TABLE {quoted(*self._table)} ({listed})".encode())

    def upsert(self, columns: Sequence[str], rows: Iterable[Sequence[Any]]) -> tuple[int, int]:
        names = ", ".join(quoted(name) for name in columns)
        others = [quoted(name) for name in columns if name != KEY]
        table = quoted(*self._table)
        self._connection.execute(f"CREATE TEMPORARY TABLE {_STAGED} (LIKE {table}) ON COMMIT DROP".encode())
        number = 0
        with (
            self._connection.cursor() as cursor,
            cursor.copy(f"COPY {_STAGED} ({names}) FROM STDIN".encode()) as copy,
        ):
            for number, row in enumerate(rows, 1):  # noqa: B007 - used behind the loop
                copy.write_row([_held(part) for part in row])
        differs = " OR ".join(f"there.{name}::text IS DISTINCT FROM excluded.{name}::text" for name in others)
        taken = ", ".join(f"{name} = excluded.{name}" for name in others)
        statement = (
            f"INSERT INTO {table} AS there ({names}) SELECT {names} FROM {_STAGED} "
            f"ON CONFLICT ({quoted(KEY)}) DO UPDATE SET {taken} WHERE {differs}"
        )
        return number, max(self._connection.execute(statement.encode()).rowcount, 0)


def _held(part: Any) -> Any:
    """PostgreSQL has no NUL in texts: it stays the escape that it is in JSON."""
    return part.replace("\0", "\\u0000") if isinstance(part, str) and "\0" in part else part


def _check_names(names: Iterable[str]) -> None:
    """PostgreSQL would cut long ones, and have none that are empty."""
    for name in names:
        if not 0 < len(name.encode()) <= LONGEST_NAME:
            raise ExportError(
                f"{name!r} cannot be a name in PostgreSQL (1 to {LONGEST_NAME} bytes); nothing was written"
            )


def _first_line(error: psycopg.Error) -> str:
    said = error.diag.message_primary or str(error)
    return next((line.strip() for line in said.splitlines() if line.strip()), "no reason was given")
