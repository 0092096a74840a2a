"""A table in PostgreSQL, through psycopg 3."""

from __future__ import annotations

import contextlib
from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import psycopg
from psycopg import errors

from onward.errors import ExportError, UsageError
from onward.policy.addresses import Address
from onward.policy.refusals import refusal
from onward.sinks.table_misfits import LONGEST_INDEXED, LONGEST_SHOWN, Staged, is_of_a_row, misfit
from onward.sinks.table_target import KEY, Target, Type, quoted

CONNECT_SECONDS = 10
LONGEST_NAME = 63
HAS_TRANSACTION_TIMEOUT = 170_000
_STAGED = quoted("pg_temp", "onward_export")
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
_WAITS = {
    Type.TEXT: "text",
    Type.WHOLE: "bigint",
    Type.FLOAT: "double precision",
    Type.TRUTH: "boolean",
    Type.JSON: "text",
}
_FOUND = """
SELECT c.oid::int8, n.nspname::text, c.relname::text, c.relkind::text, c.relpersistence = 't'
FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace WHERE c.oid = to_regclass($1)
"""
_TABLES = ("r", "p", "f", "v")
"""Tables, partitioned or foreign ones, and views, which may pass on what is written to them."""
_COLUMNS = """
SELECT a.attname, format_type(a.atttypid, NULL) FROM pg_catalog.pg_attribute a
WHERE a.attrelid = $1::int8::oid AND a.attnum > 0 AND NOT a.attisdropped ORDER BY a.attnum
"""
_EXCLUDES = """
SELECT count(*) > 0 FROM pg_catalog.pg_constraint c
JOIN pg_catalog.pg_attribute a ON a.attrelid = c.conrelid AND c.conkey = ARRAY[a.attnum]
JOIN pg_catalog.pg_index i ON i.indexrelid = c.conindid
WHERE c.conrelid = $1::int8::oid AND c.contype = 'x' AND NOT c.condeferrable AND i.indpred IS NULL
    AND a.attname = $2 AND c.conexclop = ARRAY['pg_catalog.=(text,text)'::regoperator::oid]
"""
"""Whether equal keys are kept out by a constraint that takes keys of any length, as no unique index does."""
_PRIMARY = "SELECT conname FROM pg_catalog.pg_constraint WHERE conrelid = to_regclass($1) AND contype = 'p'"
_IS_STORE = """
SELECT count(*) = 4 FROM pg_catalog.pg_class c JOIN pg_catalog.pg_namespace n ON n.oid = c.relnamespace
WHERE n.nspname = $1 AND c.relname IN ('about', 'writers', 'checkpoints', 'history') AND c.relkind = 'r'
"""
_GONE = (
    errors.AdminShutdown,
    errors.CrashShutdown,
    errors.CannotConnectNow,
    errors.TooManyConnections,
    errors.ConnectionException,
)
_NOT_UPSERTED = (errors.ObjectNotInPrerequisiteState, errors.FeatureNotSupported, errors.WrongObjectType)


class PostgresTables:
    """`sinks.table_target.Database`. Rows are staged in a temporary table, so that one statement brings them in."""

    def __init__(self, address: Address, table: tuple[str, ...]):
        self._address = address
        self._table = table
        try:
            self._given = psycopg.conninfo.conninfo_to_dict(address.url)
        except psycopg.Error as error:
            said = address.masked(_first_line(error))
            if '"schema"' in said:
                raise UsageError(
                    "the address of --to names a database; leave out ?schema=, and write --table SCHEMA.NAME for a "
                    "table there"
                ) from None
            raise UsageError(f"{address.shown} is not an address that PostgreSQL's library reads: {said}") from None

    @contextmanager
    def transaction(self) -> Iterator[Target]:
        with self._in_words():
            settings: dict[str, Any] = {"connect_timeout": str(CONNECT_SECONDS), "application_name": "onward"}
            settings |= self._given
            connection = psycopg.connect(
                **{**settings, "client_encoding": "UTF8"}, autocommit=True, cursor_factory=psycopg.RawCursor
            )
            with contextlib.closing(connection):
                connection.prepare_threshold = None
                connection.execute(_BEGIN)
                if connection.info.server_version >= HAS_TRANSACTION_TIMEOUT:
                    connection.execute("SET LOCAL transaction_timeout TO 0")
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
        unreached = isinstance(error, psycopg.OperationalError) and error.sqlstate is None
        if unreached and (why := refusal(str(error))):
            return ExportError(f"{place} does not let us in: {why} ({said}); nothing was written")
        if unreached or isinstance(error, _GONE):
            return ExportError(
                f"{place} cannot be reached, or was lost ({said}); all was written or nothing: try again"
            )
        if isinstance(error, errors.InsufficientPrivilege):
            return ExportError(f"{place}: the user lacks rights ({said}); nothing was written")
        if isinstance(error, errors.InvalidSchemaName) and len(self._table) == 1:
            return ExportError(
                f"{place} has no schema where a table of this name would be made ({said}): write "
                f"schema.{self._table[0]}; nothing was written"
            )
        if isinstance(error, errors.InvalidSchemaName):
            return ExportError(f"{place} has no schema {self._table[0]!r}: make it first; nothing was written")
        if isinstance(error, errors.InvalidColumnReference):
            return ExportError(f"the column key of {'.'.join(self._table)} is not its primary key; nothing was written")
        if isinstance(error, _NOT_UPSERTED):
            return ExportError(f"rows cannot be upserted into {'.'.join(self._table)} ({said}); nothing was written")
        return ExportError(f"{place}: {said}; nothing was written")


class _PostgresTarget:
    def __init__(self, connection: psycopg.Connection[Any], table: tuple[str, ...]):
        self._connection = connection
        self._named = table
        self._table = quoted(*table)
        self._casts: dict[str, str] = {}
        self._is_made = self._excludes = False

    def columns(self) -> dict[str, Type] | None:
        _check_names(self._named)
        number = self._find()
        if number is None:
            return None
        self._excludes = bool(self._asked(_EXCLUDES, number, KEY))
        rows = self._connection.execute(_COLUMNS.encode(), [number]).fetchall()
        for name, declared in rows:
            if declared not in _KNOWN:
                raise ExportError(
                    f'column "{name}" of {self._shown} is of type {declared}, which an export does not write; nothing '
                    "was written"
                )
        self._casts = {name: f"::{declared}" if _KNOWN[declared] is Type.JSON else "" for name, declared in rows}
        return {name: _KNOWN[declared] for name, declared in rows} or None

    @property
    def _shown(self) -> str:
        return ".".join(self._named)

    def _find(self) -> int | None:
        """The table's number, where there is one. From here on it is named with its schema, so that no temporary table
        is taken for it. Raises ExportError for what no export may go to."""
        found = self._connection.execute(_FOUND.encode(), [self._table]).fetchone()
        if found is None:
            schema = self._named[0] if len(self._named) == 2 else self._asked("SELECT current_schema()")
            self._refuse_schema(schema, (schema or "").startswith("pg_temp"))
            return None
        number, schema, name, kind, is_temporary = found
        self._refuse_schema(schema, is_temporary)
        if kind not in _TABLES:
            raise ExportError(f"{self._shown} is there and is no table; nothing was written: give another --table")
        self._table = quoted(schema, name)
        return int(number)

    def _refuse_schema(self, schema: str | None, is_temporary: bool) -> None:
        if is_temporary:
            raise ExportError(
                f"{self._shown} would be a temporary table, which goes with the connection; nothing was written: give "
                "--table another schema"
            )
        if self._asked(_IS_STORE, schema):
            raise ExportError(
                f"the schema {schema} is a store of onward, where no other tables belong; nothing was written: give "
                "--table another schema"
            )

    def _asked(self, question: str, *parameters: str | int | None) -> Any:
        row = self._connection.execute(question.encode(), parameters).fetchone()
        return row[0] if row else None

    def create(self, columns: Mapping[str, Type]) -> None:
        _check_names(columns)
        listed = ", ".join(
            f"{quoted(name)} {_MADE[type_]}{' PRIMARY KEY' if name == KEY else ''}" for name, type_ in columns.items()
        )
        self._connection.execute(f"CREATE TABLE {self._table} ({listed})".encode())
        self.columns()
        self._is_made = True

    def _take_long_keys(self) -> None:
        """No unique index holds them, but equal ones can be kept out of a table, new and empty, by a hash."""
        name = self._asked(_PRIMARY, self._table)
        key = quoted(KEY)
        self._connection.execute(
            f"ALTER TABLE {self._table} DROP CONSTRAINT {quoted(name)}, ALTER {key} SET NOT NULL, "
            f"ADD EXCLUDE USING hash ({key} WITH OPERATOR(pg_catalog.=))".encode()
        )
        self._excludes = True

    def upsert(self, columns: Mapping[str, Type], rows: Iterable[Sequence[Any]]) -> tuple[int, int]:
        held = {name: f"c{place}" for place, name in enumerate(columns)}
        staged = Staged(_STAGED, self._table, held, self._casts)
        number = self._stage(staged, columns, rows)
        longest = f"SELECT coalesce(max(octet_length({held[KEY]})), 0) FROM {_STAGED}"
        if self._is_made and self._asked(longest) > LONGEST_INDEXED:
            self._take_long_keys()
        self._connection.execute("SAVEPOINT onward_export")
        try:
            return number, self._bring(staged, "true")
        except psycopg.Error as error:
            if not is_of_a_row(error):
                raise
            self._connection.execute("ROLLBACK TO SAVEPOINT onward_export")
            found = misfit(self._connection, staged, partial(self._bring, staged))
            if found is None:
                raise
            shown = found[0] if len(found[0]) <= LONGEST_SHOWN else f"{found[0][:LONGEST_SHOWN]}…"
            raise ExportError(
                f"the table {self._shown} does not take the record {shown}: {found[1]}. Nothing was written"
            ) from None

    def _stage(self, staged: Staged, columns: Mapping[str, Type], rows: Iterable[Sequence[Any]]) -> int:
        listed = ", ".join(f"{staged.held[name]} {_WAITS[type_]}" for name, type_ in columns.items())
        self._connection.execute(f"CREATE TEMPORARY TABLE {_STAGED} ({listed}) ON COMMIT DROP".encode())
        number = 0
        with self._connection.cursor() as cursor, cursor.copy(f"COPY {_STAGED} FROM STDIN".encode()) as copy:
            for number, row in enumerate(rows, 1):  # noqa: B007 - used behind the loop
                copy.write_row([_held(part) for part in row])
        return number

    def _bring(self, staged: Staged, where: str) -> int:
        """Bring in the rows of which a condition is true; how many changed something."""
        return sum(
            max(self._connection.execute(statement.encode()).rowcount, 0)
            for statement in (self._by_two(staged, where) if self._excludes else self._by_one(staged, where))
        )

    def _by_one(self, staged: Staged, where: str) -> tuple[str, ...]:
        names = ", ".join(quoted(name) for name in staged.held)
        values = ", ".join(staged.value(name) for name in staged.held)
        taken, differs = _changes(staged, "excluded")
        return (
            f"INSERT INTO {self._table} AS there ({names}) SELECT {values} FROM {staged.name} WHERE {where} "
            f"ON CONFLICT ({quoted(KEY)}) DO UPDATE SET {taken} WHERE {differs}",
        )

    def _by_two(self, staged: Staged, where: str) -> tuple[str, ...]:
        """ON CONFLICT knows unique indexes alone; exports take turns, so that nothing comes between these."""
        names = ", ".join(quoted(name) for name in staged.held)
        values = ", ".join(staged.value(name) for name in staged.held)
        named = ", ".join(f"{staged.value(name)} AS {quoted(name)}" for name in staged.held)
        taken, differs = _changes(staged, "here")
        key = quoted(KEY)
        return (
            f"UPDATE {self._table} AS there SET {taken} FROM (SELECT {named} FROM {staged.name} WHERE {where}) here "
            f"WHERE there.{key} = here.{key} AND ({differs})",
            f"INSERT INTO {self._table} ({names}) SELECT {values} FROM {staged.name} WHERE {where} "
            f"AND NOT EXISTS (SELECT FROM {self._table} there WHERE there.{key} = {staged.held[KEY]})",
        )


def _changes(staged: Staged, new: str) -> tuple[str, str]:
    """What sets a row's columns to its new values, and the condition that any of them is another."""
    others = [quoted(name) for name in staged.held if name != KEY]
    return (
        ", ".join(f"{name} = {new}.{name}" for name in others),
        " OR ".join(f"there.{name}::text IS DISTINCT FROM {new}.{name}::text" for name in others),
    )


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
