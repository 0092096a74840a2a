"""The writing side of the SQLite store."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TypeVar

import apsw

from onward.errors import OnwardError, StoreWriteError
from onward.ports.clock import Clock
from onward.store.sql.transaction import Life, Reach, Transaction
from onward.store.sql.work import LEASE_SECONDS as LEASE_SECONDS
from onward.store.sql.work import SqlWorkStore
from onward.store.sqlite import connection
from onward.store.sqlite.liveness import RunLocks
from onward.store.sqlite.transaction import SqliteLife, SqliteTransaction

TIDY_MILLISECONDS = 200
T = TypeVar("T")


class SqliteWorkStore(SqlWorkStore):
    """One process's writing connection. `lease` in seconds; `path` None keeps everything in memory. `waits` hears, in
    words for people, that another program holds the store.

    After a fault of the disk nothing says what of the log is on it: the connection is not used again, and the log is
    left as it is for who opens the store next.
    """

    def __init__(
        self,
        path: Path | None,
        clock: Clock,
        lease: float = LEASE_SECONDS,
        create: bool = True,
        store_inputs: bool = True,
        waits: Callable[[str], None] | None = None,
    ):
        super().__init__(lease, store_inputs)
        self.path = path
        self._clock = clock
        self._connection, self.new = connection.open_writer(path, create, waits=waits)
        self._schema = connection.schema_of(self._connection)
        self._identity = connection.identity_of(path)
        self._locks = RunLocks(path)
        self._life = SqliteLife(lambda: self._locks, lambda: self._clock)
        self._fault: OnwardError | None = None
        self._disk_failed = False

    @property
    def life(self) -> Life:
        return self._life

    @contextlib.contextmanager
    def reading(self) -> Iterator[Transaction]:
        self._check_fault()
        with connection.plain_errors(self.path), self._connection:
            yield SqliteTransaction(self._connection, self._clock)

    def transact(
        self, make: Callable[[Transaction], T], instance: int | None, reach: Reach = Reach.ALL, run: int | None = None
    ) -> T:
        """Writers take turns, however far their changes go."""
        self._check_fault()
        try:
            with connection.transaction(self._connection):
                # Its moment is that of the lock: others' commits while this one waited for it came before.
                transaction = SqliteTransaction(self._connection, self._clock)
                if connection.schema_of(self._connection) != self._schema:
                    raise StoreWriteError(
                        "a newer onward has brought the store up to date meanwhile; start again with that one"
                    )
                return make(transaction)
        except apsw.Error as error:
            told = connection.explain(error, self.path)
            if isinstance(error, apsw.IOError):  # a full disk refuses before anything is written
                self._fault, self._disk_failed = told, True
            raise told from error

    def _note_alive(self, run: int) -> None:
        self._locks.hold(run)

    def _note_over(self, run: int) -> None:
        self._locks.drop(run)

    def tidy(self) -> int:
        if self.path is None or self._disk_failed:
            return 0
        self._connection.set_busy_timeout(TIDY_MILLISECONDS)
        with contextlib.suppress(apsw.Error):  # busy, full or failing: what is not folded in now stays in the log
            self._connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
        self._connection.set_busy_timeout(connection.BUSY_MILLISECONDS)
        return self.log_bytes()

    def _check_place(self) -> None:
        """SQLite goes on writing to a file that has lost its name; whoever asks for it later finds nothing."""
        if connection.identity_of(self.path) != self._identity:
            raise StoreWriteError(f"{self.path} was deleted, moved or replaced while the run was at work")
        self._locks.look()

    def log_bytes(self) -> int:
        """Size of the write-ahead log."""
        if self.path is None:
            return 0
        log = self.path.with_name(self.path.name + "-wal")
        return log.stat().st_size if log.exists() else 0

    def reopen(self) -> None:
        if self._fault is not None and self.path is not None:
            distrusted, self._connection = self._connection, connection.reopen_writer(self.path)
            # Only now: the first to open a log reads in what was never committed, and needs room for shared memory.
            connection.close_untouched(distrusted)
            self._fault = None

    def close(self) -> None:
        for run in self._instances.keys() - self._sends_on:
            self._locks.drop(run)
        if self._disk_failed:
            connection.close_untouched(self._connection)
        else:
            self._connection.close()

    def _check_fault(self) -> None:
        if self._fault is not None:
            raise self._fault
