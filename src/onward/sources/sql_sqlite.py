"""A query to a SQLite database, which is opened read-only."""

from __future__ import annotations

import base64
import time
from collections.abc import Callable, Generator, Sequence
from typing import Any

import apsw
import apsw.ext

from onward.errors import SourceError, SourceLost
from onward.policy.addresses import Address
from onward.sources.sql_rows import MOST_CHARACTERS, PAGE_SECONDS, Pace, Row, size_of
from onward.sources.sql_values import json_value

BUSY_MILLISECONDS = 60_000


class SqliteRows:
    """`sources.sql.Rows`. One statement is one reading."""

    def __init__(self, address: Address, query: str):
        self._address = address
        self._query = query
        assert address.file is not None
        if not address.file.is_file():
            raise SourceError(f"there is no file {address.name} (looked for {address.file})")
        try:
            self._connection = apsw.Connection(str(address.file), flags=apsw.SQLITE_OPEN_READONLY)
        except apsw.Error as error:
            raise SourceError(f"{address.name} cannot be opened: {error}") from error
        try:
            self._connection.set_busy_timeout(BUSY_MILLISECONDS)
            self._connection.execute("PRAGMA query_only = 1")
            told = apsw.ext.query_info(self._connection, query, actions=False)
            if told.query_remaining is not None:
                raise SourceError("the query is more than one statement; give one SELECT")
            self._described = told.description
        except apsw.Error as error:
            self.close()
            raise self._said(error) from error
        except BaseException:
            self.close()
            raise

    @property
    def columns(self) -> list[str]:
        return [name for name, _ in self._described]

    @property
    def convert(self) -> list[Callable[[Any], Any] | None]:
        return [_json if (declared or "").upper() in ("JSON", "JSONB") else _plain for _, declared in self._described]

    def pages(self) -> Generator[Sequence[Row]]:
        number, pace = 0, Pace()
        page, size, began = list[Row](), 0, time.monotonic()
        try:
            for row in self._connection.execute(self._query):
                number += 1
                page.append(row)
                size += size_of(row)
                seconds = time.monotonic() - began
                if len(page) >= pace.wanted or size >= MOST_CHARACTERS or seconds > PAGE_SECONDS:
                    pace.note(page, size, seconds)
                    yield page
                    page, size, began = [], 0, time.monotonic()
        except apsw.Error as error:
            yield page
            raise self._said(error) from error
        except UnicodeDecodeError as error:
            yield page
            raise SourceError(f"{self._address.name}:{number + 1}: a text is not UTF-8: {error}") from error
        yield page

    def close(self) -> None:
        self._connection.close()

    def _said(self, error: apsw.Error) -> SourceError:
        if isinstance(error, apsw.BusyError | apsw.LockedError | apsw.IOError):
            return SourceLost(f"{self._address.name} cannot be read now ({error}); run the same command again")
        if isinstance(error, apsw.NotADBError | apsw.CorruptError):
            return SourceError(f"{self._address.name} is not a SQLite database, or is damaged: {error}")
        return SourceError(f"{self._address.name}: the query cannot be run: {error}")


def _plain(value: Any) -> Any:
    return base64.b64encode(value).decode() if isinstance(value, bytes) else value


def _json(value: Any) -> Any:
    return json_value(value) if isinstance(value, str) else _plain(value)
