"""The SQLite store for the conformance suite."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import apsw
from store_conformance import LEASE
from table_stores import TableStores

from clocks import HandClock
from judge import chains
from onward.store.sqlite.desk import SqliteDesk
from onward.store.sqlite.work import SqliteWorkStore


class SqliteStores(TableStores):
    """`stores` on one file, or (path None) one in memory."""

    one_host = True

    def __init__(self, path: Path | None):
        self.path = path
        self.clock = HandClock()
        self.several = path is not None
        self._opened: list[SqliteWorkStore] = []
        self._reader: apsw.Connection | None = None

    def open(self, store_inputs: bool = True) -> SqliteWorkStore:
        if self._opened and not self.several:
            return self._opened[0]
        store = SqliteWorkStore(self.path, self.clock, LEASE, store_inputs=store_inputs)
        self._opened.append(store)
        return store

    def desk(self) -> SqliteDesk:
        if self.path is not None:
            return SqliteDesk(self.path, self.clock)
        # Without a file only the store knows who lives.
        return SqliteDesk(None, self.clock, self.connection, self._opened[0]._locks)

    def die(self, store: SqliteWorkStore, run: int) -> None:
        # In this process the lock is what tells a living run from a dead one; its end is never written.
        store._locks.drop(run)

    @property
    def connection(self) -> apsw.Connection:
        if self.path is None:
            return self._opened[0]._connection
        if self._reader is None:
            self._reader = apsw.Connection(str(self.path))
        return self._reader

    def query(self, sql: str, *bindings: Any) -> list[dict[str, Any]]:
        cursor = self.connection.cursor()
        cursor.row_trace = lambda at, row: {column[0]: value for column, value in zip(at.description, row, strict=True)}
        return cursor.execute(sql, bindings).fetchall()

    def broken_chains(self) -> list[str]:
        return chains.broken(self.connection)

    def close(self) -> None:
        for store in self._opened:
            store.close()
        if self._reader is not None:
            self._reader.close()
