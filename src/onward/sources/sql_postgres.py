"""A query to PostgreSQL, through psycopg 3: by a server-side cursor, from one snapshot that can change nothing."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Generator
from typing import Any

import psycopg
from psycopg import errors
from psycopg.types.string import TextLoader

from onward.errors import SourceError, SourceLost
from onward.policy.addresses import Address
from onward.sources import sql_values
from onward.sources.sql_rows import Row

CONNECT_SECONDS = 10
FIRST_ROWS = 100
MOST_ROWS = 2_000
MOST_CHARACTERS = 4 << 20
_BEGIN = (
    "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SET LOCAL statement_timeout TO 0; "
    "SET LOCAL idle_in_transaction_session_timeout TO 0; SET LOCAL TimeZone TO 'UTC'; SET LOCAL DateStyle TO 'ISO'; "
    "SET LOCAL IntervalStyle TO 'iso_8601'; SET LOCAL bytea_output TO 'hex'; SET LOCAL extra_float_digits TO 1"
)
_CONVERT: dict[str, Callable[[str], Any]] = {
    "bool": sql_values.boolean,
    "int2": int,
    "int4": int,
    "int8": int,
    "oid": int,
    "float4": float,
    "float8": float,
    "numeric": sql_values.numeric,
    "json": sql_values.json_value,
    "jsonb": sql_values.json_value,
    "bytea": sql_values.octets,
    "date": sql_values.date,
    "timestamp": sql_values.timestamp,
    "timestamptz": sql_values.timestamp,
    "time": sql_values.time,
    "timetz": sql_values.time,
}
_LOST = (
    errors.AdminShutdown,
    errors.CrashShutdown,
    errors.CannotConnectNow,
    errors.TooManyConnections,
    errors.ConnectionException,
    errors.IdleInTransactionSessionTimeout,
    errors.TransactionTimeout,
    errors.SerializationFailure,
    errors.InsufficientResources,
)
_REFUSED = (
    "password",
    "does not exist",
    "no pg_hba.conf entry",
    "is not permitted to log in",
    "could not translate host",
)


class PostgresRows:
    """`sources.sql.Rows`."""

    def __init__(self, address: Address, query: str):
        self._address = address
        self._query = query
        with self._in_words():
            self._connection = psycopg.connect(
                address.url,
                autocommit=True,
                **_missing(address.url),  # type: ignore[arg-type]
            )
        try:
            with self._in_words():
                self._connection.execute(_BEGIN)
                self._describe()
        except BaseException:
            self.close()
            raise

    def _describe(self) -> None:
        """The columns, without running the query."""
        connection, adapters = self._connection, self._connection.adapters
        for one in psycopg.adapters.types:
            for number in (one.oid, one.array_oid):
                if number:
                    adapters.register_loader(number, TextLoader)
        encoded = self._query.encode()
        prepared = connection.pgconn.prepare(b"", encoded)
        if prepared.status != psycopg.pq.ExecStatus.COMMAND_OK:
            raise psycopg.errors.error_from_result(prepared)
        told = connection.pgconn.describe_prepared(b"")
        self._columns = [(told.fname(place) or b"").decode() for place in range(told.nfields)]
        self._types = [told.ftype(place) for place in range(told.nfields)]

    @property
    def columns(self) -> list[str]:
        return self._columns

    @property
    def convert(self) -> list[Callable[[Any], Any] | None]:
        return [_converter(number) for number in self._types]

    def rows(self) -> Generator[Row]:
        with self._in_words(), self._connection.cursor(name="onward_rows") as cursor:
            cursor.execute(self._query.encode())
            wanted = FIRST_ROWS
            while page := cursor.fetchmany(wanted):
                yield from page
                size = sum(len(part) for row in page for part in row if isinstance(part, str))
                wanted = max(1, min(MOST_ROWS, wanted * 2, MOST_CHARACTERS * len(page) // max(size, 1)))

    def close(self) -> None:
        with contextlib.suppress(psycopg.Error):
            self._connection.close()

    @contextlib.contextmanager
    def _in_words(self) -> Generator[None]:
        try:
            yield
        except psycopg.Error as error:
            raise self._said(error) from None  # its text may hold the password

    def _said(self, error: psycopg.Error) -> SourceError:
        place, said = self._address.shown, self._address.masked(_first_line(error))
        if isinstance(error, _LOST) or (
            isinstance(error, psycopg.OperationalError)
            and error.sqlstate is None
            and not any(sign in str(error) for sign in _REFUSED)
        ):
            return SourceLost(f"{place} cannot be reached, or was lost ({said}); run the same command again")
        if isinstance(error, psycopg.OperationalError) and error.sqlstate is None:
            return SourceError(f"{place} does not let us in: {said}")
        if isinstance(error, errors.ReadOnlySqlTransaction):
            return SourceError(f"{place}: the query changes data ({said}); a source only reads")
        if isinstance(error, errors.UntranslatableCharacter | errors.CharacterNotInRepertoire):
            return SourceError(f"{place}: a text cannot be read as UTF-8 ({said})")
        return SourceError(f"{place}: the query cannot be run: {said}")


def _missing(url: str) -> dict[str, str]:
    """Settings that the address leaves open; texts always come as UTF-8."""
    given = psycopg.conninfo.conninfo_to_dict(url)
    kept = {
        "application_name": "onward",
        "connect_timeout": str(CONNECT_SECONDS),
        "keepalives_idle": "10",
        "keepalives_interval": "5",
        "keepalives_count": "3",
    }
    return {**{name: value for name, value in kept.items() if name not in given}, "client_encoding": "UTF8"}


def _converter(number: int) -> Callable[[Any], Any] | None:
    known = psycopg.adapters.types.get(number)
    if known is None:
        return None
    if known.array_oid == number:
        return sql_values.array_of(_CONVERT.get(known.name), known.delimiter)
    return _CONVERT.get(known.name)


def _first_line(error: psycopg.Error) -> str:
    said = error.diag.message_primary or str(error)
    return next((line.strip() for line in said.splitlines() if line.strip()), "no reason was given")
