"""The asking and deciding side of the PostgreSQL store."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from typing import TypeVar

import psycopg

from onward.errors import StoreError
from onward.ports.clock import Clock
from onward.ports.desk import Shrunk
from onward.ports.facts import Verified
from onward.store.postgres import connection as connections
from onward.store.postgres import words
from onward.store.postgres.address import Address
from onward.store.postgres.line import LEDGER, Line, Lock
from onward.store.postgres.transaction import Connection, LeaseLife, PostgresTransaction
from onward.store.sql.desk import SqlDesk
from onward.store.sql.transaction import Life, Transaction

T = TypeVar("T")
VACUUMED = ("checkpoints", "inputs", "generations", "failures", "gates", "counts", "records", "effects", "runs")


class PostgresDesk(SqlDesk):
    """Asks through a connection that can change nothing; one that can is opened for the first act."""

    def __init__(self, address: Address, clock: Clock):
        super().__init__()
        self.address = address
        self._clock = clock
        self._life = LeaseLife()
        self._writer: Line | None = None
        self._reading: PostgresTransaction | None = None
        with self.explained():
            self._reader = connections.connect(address)
            try:
                connections.check_version(self._reader, address)
            except BaseException:
                self._reader.close()
                raise

    @property
    def store(self) -> str:
        return self.address.shown

    @property
    def life(self) -> Life:
        return self._life

    @contextlib.contextmanager
    def reading(self) -> Iterator[Transaction]:
        if self._reading is not None:
            yield self._reading
            return
        if self._reader.closed:
            self._reader = connections.connect(self.address)
        self._reader.execute(connections.reading(self._reader, self.address).encode())
        try:
            row = self._reader.execute("SELECT moment()").fetchone()
            assert row is not None
            self._reading = PostgresTransaction(self._reader, row[0])
            yield self._reading
        finally:
            self._reading = None
            connections.roll_back(self._reader)

    @contextlib.contextmanager
    def _in_words(self) -> Iterator[None]:
        try:
            yield
        except psycopg.Error as error:
            raise words.explain(error, self.address, StoreError) from error

    def explained(self) -> AbstractContextManager[None]:
        return self._in_words()

    def transact(self, make: Callable[[Transaction], T], instance: int) -> T:
        if self._writer is None:
            self._writer = Line(self.address, self._clock, create=False)
        with self._writer.explained():
            return self._writer.change(make, [(LEDGER, Lock.ALONE), (instance, Lock.ALONE)])

    def shrink(self) -> Shrunk:
        """Plain VACUUMs, beside which runs go on: the room is used again, and given back where it lies at the end of a
        table's file."""
        with self.explained(), connections.connect(self.address) as own:
            before = self._size(own)
            try:
                for table in VACUUMED:
                    own.execute(f"VACUUM (ANALYZE, SKIP_LOCKED) {self.address.quoted}.{table}".encode(), prepare=False)
            except psycopg.errors.QueryCanceled as error:
                return Shrunk(before, self._size(own), f"the server ended it ({error}); its autovacuum does the rest")
            return Shrunk(before, self._size(own))

    def _size(self, own: Connection) -> int:
        total = (
            "SELECT coalesce(sum(pg_total_relation_size(c.oid)), 0)::bigint FROM pg_class c "
            "JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = $1 AND c.relkind = 'r'"
        )
        row = own.execute(total.encode(), [self.address.schema]).fetchone()
        return int(row[0]) if row else 0

    def verify(self, instances: Sequence[int] | None, expected: str | None) -> Verified:
        """In one reading: numbers of entries do not tell in what order they became durable."""
        with self.explained(), self.reading():
            return super().verify(instances, expected)

    def close(self) -> None:
        self._reader.close()
        if self._writer is not None:
            self._writer.close()
