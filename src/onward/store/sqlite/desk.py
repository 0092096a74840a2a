"""The asking and deciding side of the SQLite store."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import apsw

from onward.ports.clock import Clock
from onward.store.sql.desk import SqlDesk
from onward.store.sql.transaction import Life, Transaction
from onward.store.sqlite import connection
from onward.store.sqlite.liveness import RunLocks
from onward.store.sqlite.transaction import LookingLife, SqliteTransaction

T = TypeVar("T")


class SqliteDesk(SqlDesk):
    """A store in memory has one connection, its writer's, and is asked through that (`shared`)."""

    def __init__(
        self,
        path: Path | None,
        clock: Clock,
        shared: apsw.Connection | None = None,
        locks: RunLocks | None = None,
    ):
        super().__init__()
        self.path = path
        self._clock = clock
        self._locks = locks or RunLocks(path)
        self._life = LookingLife(lambda: self._locks, lambda: self._clock)
        self._writer = shared
        if shared is None:
            assert path is not None, "a store in memory has no other connection"
            self._reader = connection.open_reader(path)
        else:
            self._reader = shared

    @property
    def store(self) -> str:
        return str(self.path.absolute()) if self.path else "sqlite://"

    @property
    def life(self) -> Life:
        return self._life

    @contextlib.contextmanager
    def reading(self) -> Iterator[Transaction]:
        with self._reader:
            yield SqliteTransaction(self._reader, self._clock)

    def explained(self) -> contextlib.AbstractContextManager[None]:
        return connection.plain_errors(self.path)

    def transact(self, make: Callable[[Transaction], T], instance: int) -> T:
        try:
            if self._writer is None:
                self._writer, _ = connection.open_writer(self.path, create=False)
            with connection.transaction(self._writer):
                return make(SqliteTransaction(self._writer, self._clock))
        except apsw.Error as error:
            raise connection.explain(error, self.path) from error

    def close(self) -> None:
        self._reader.close()
        if self._writer is not None:
            self._writer.close()
