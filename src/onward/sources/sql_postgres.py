"""A query to PostgreSQL, through psycopg 3: by a server-side cursor, from one snapshot that can change nothing."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Generator, Sequence
from typing import Any

import psycopg
from psycopg import errors
from psycopg.types.string import TextLoader

from onward.errors import SourceError, SourceLost
from onward.policy.addresses import Address
from onward.policy.refusals import refusal
from onward.sources import sql_types
from onward.sources.sql_rows import Pace, Row, size_of

CONNECT_SECONDS = 10
HAS_TRANSACTION_TIMEOUT = 170_000
_BEGIN = (
    "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY; SET LOCAL statement_timeout TO 0; "
    "SET LOCAL idle_in_transaction_session_timeout TO 0; SET LOCAL TimeZone TO 'UTC'; SET LOCAL DateStyle TO 'ISO'; "
    "SET LOCAL IntervalStyle TO 'iso_8601'; SET LOCAL bytea_output TO 'hex'; SET LOCAL extra_float_digits TO 1"
)
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


class PostgresRows:
    """`sources.sql.Rows`."""

    def __init__(self, address: Address, query: str):
        self._address = address
        self._query = query
        missing: dict[str, Any] = _missing(address)
        with self._in_words():
            self._connection = psycopg.connect(address.url, autocommit=True, **missing)
        try:
            with self._in_words():
                self._connection.execute(_BEGIN)
                if self._connection.info.server_version >= HAS_TRANSACTION_TIMEOUT:
                    self._connection.execute("SET LOCAL transaction_timeout TO 0")
                self._describe()
        except BaseException:
            self.close()
            raise

    def _describe(self) -> None:
        """The columns, without running the query."""
        connection = self._connection
        encoded = self._query.encode()
        prepared = connection.pgconn.prepare(b"", encoded)
        if prepared.status != psycopg.pq.ExecStatus.COMMAND_OK:
            raise psycopg.errors.error_from_result(prepared)
        told = connection.pgconn.describe_prepared(b"")
        self._columns = [(told.fname(place) or b"").decode() for place in range(told.nfields)]
        self._types = [told.ftype(place) for place in range(told.nfields)]
        asking = psycopg.RawCursor(connection)
        self._known = sql_types.kinds(asking.execute(sql_types.CATALOG.encode(), [sorted(set(self._types))]))
        self._refuse_unknown()
        for one in psycopg.adapters.types:
            for number in (one.oid, one.array_oid):
                if number:
                    connection.adapters.register_loader(number, TextLoader)

    def _refuse_unknown(self) -> None:
        for name, number in zip(self._columns, self._types, strict=True):
            kind = self._known.get(number)
            if kind is not None and kind.name in sql_types.UNKNOWN_ELEMENTS:
                raise SourceError(
                    f'column "{name}" is of type {kind.name}, which does not say what its elements are: cast it, as in '
                    f'"{name}"::text::text[]'
                )

    @property
    def columns(self) -> list[str]:
        return self._columns

    @property
    def convert(self) -> list[Callable[[Any], Any] | None]:
        return [sql_types.converter(number, self._known) for number in self._types]

    def pages(self) -> Generator[Sequence[Row]]:
        pace = Pace()
        with self._in_words(), self._connection.cursor(name="onward_rows") as cursor:
            cursor.execute(self._query.encode())
            while page := self._page(cursor, pace):
                yield page

    def _page(self, cursor: psycopg.ServerCursor[Row], pace: Pace) -> Sequence[Row]:
        began = time.monotonic()
        page = cursor.fetchmany(pace.wanted)
        pace.note(page, sum(map(size_of, page)), time.monotonic() - began)
        return page

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
        unreached = isinstance(error, psycopg.OperationalError) and error.sqlstate is None
        if unreached and (why := refusal(str(error))):
            return SourceError(f"{place} does not let us in: {why} ({said})")
        if unreached or isinstance(error, _LOST):
            return SourceLost(f"{place} cannot be reached, or was lost ({said}); run the same command again")
        if isinstance(error, errors.ReadOnlySqlTransaction):
            return SourceError(f"{place}: the query changes data ({said}); a source only reads")
        if isinstance(error, errors.UntranslatableCharacter | errors.CharacterNotInRepertoire):
            return SourceError(f"{place}: a text cannot be read as UTF-8 ({said})")
        return SourceError(f"{place}: the query cannot be run: {said}")


def _missing(address: Address) -> dict[str, str]:
    """Settings that the address leaves open; texts always come as UTF-8. Raises SourceError."""
    try:
        given = psycopg.conninfo.conninfo_to_dict(address.url)
    except psycopg.Error as error:
        said = address.masked(_first_line(error))
        raise SourceError(f"{address.shown} is not an address that PostgreSQL's library reads: {said}") from None
    kept = {
        "application_name": "onward",
        "connect_timeout": str(CONNECT_SECONDS),
        "keepalives_idle": "10",
        "keepalives_interval": "5",
        "keepalives_count": "3",
    }
    return {**{name: value for name, value in kept.items() if name not in given}, "client_encoding": "UTF8"}


def _first_line(error: psycopg.Error) -> str:
    said = error.diag.message_primary or str(error)
    return next((line.strip() for line in said.splitlines() if line.strip()), "no reason was given")
