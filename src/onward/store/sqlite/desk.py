"""The asking and deciding side of the SQLite store."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import apsw

from onward.ports.clock import Clock
from onward.ports.desk import Shrunk
from onward.store.sql.desk import SqlDesk
from onward.store.sql.transaction import Life, Transaction
from onward.store.sqlite import connection
from onward.store.sqlite.liveness import RunLocks
from onward.store.sqlite.transaction import LookingLife, SqliteTransaction

T = TypeVar("T")
LEAST_GAPS = 1 << 20
"""Bytes; for less a file is not written anew."""


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
            with connection.transaction(writer := self._writing()):
                return make(SqliteTransaction(writer, self._clock))
        except apsw.Error as error:
            raise connection.explain(error, self.path) from error

    def _writing(self) -> apsw.Connection:
        if self._writer is None:
            self._writer, _ = connection.open_writer(self.path, create=False)
        return self._writer

    def shrink(self) -> Shrunk:
        """The file is written anew without its gaps, while no run is at work: one that begins meanwhile waits."""
        try:
            writer = self._writing()
            before, gaps = connection.sizes(writer)
            if gaps < LEAST_GAPS or self.path is None:
                return Shrunk(before, before)
            if why_not := self._why_not_shrink(before - gaps):
                return Shrunk(before, before, why_not)
            writer.execute("VACUUM")
            with contextlib.suppress(apsw.BusyError):
                writer.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
            return Shrunk(before, connection.sizes(writer)[0])
        except apsw.Error as error:
            raise connection.explain(error, self.path) from error

    def _why_not_shrink(self, size: int) -> str | None:
        """`size`: bytes that will be left."""
        assert self.path is not None
        with self.reading() as transaction:
            runs = transaction.rows("all_open_runs", {})
            alive = [str(run) for run, *lease in runs if self._life.is_alive(transaction, run, *lease)]
        if alive:
            at_work = f"run {alive[0]} is" if len(alive) == 1 else f"runs {', '.join(alive)} are"
            return f"{at_work} at work: the file stays as large, and what was freed is used again"
        if (free := connection.space_left(self.path)) < 2 * size:
            return f"to write it anew takes room for twice its {size >> 20:,} MiB, and {free >> 20:,} MiB are free"
        return None

    def close(self) -> None:
        self._reader.close()
        if self._writer is not None:
            self._writer.close()
