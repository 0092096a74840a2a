"""A writing connection that outlasts the loss of its server: changes are made whole, once, or not at all."""

from __future__ import annotations

import contextlib
import time
import uuid
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import Enum
from typing import TypeVar

import psycopg
from psycopg import errors

from onward.errors import HistoryLost, StoreError
from onward.ports.clock import Clock
from onward.store.postgres import connection as connections
from onward.store.postgres import words
from onward.store.postgres.address import Address
from onward.store.postgres.transaction import BOOT as BOOT
from onward.store.postgres.transaction import FORESEEN, OWN, Connection, Foreseen, PostgresTransaction, foreseeing
from onward.store.sql.transaction import Row

T = TypeVar("T")
LEDGER = 0
MOST_TRIES = 20
FIRST_PAUSE = 0.01
OLD_WRITERS = 30 * 86400
COME_BACK = 10.0
"""Seconds that runs get at least to come back after an outage, however short their leases."""


class Lock(Enum):
    """How a lock is taken; others that take it SHARED do not wait for one another."""

    ALONE = "pg_advisory_xact_lock"
    SHARED = "pg_advisory_xact_lock_shared"


class Entangled(Exception):
    """A change of what one run holds could touch what others hold: it has to be made alone."""


class Line:
    """Writes through one connection at a time, which is opened anew when it was lost.

    Each change notes its number in the row of its writer as it begins. Where the answer to a COMMIT got lost, that row
    tells what became of it: to read it means to wait until the lost transaction has ended either way. And where it has
    a lower number than was acknowledged, or is gone, the server has lost what it had acknowledged: HistoryLost.
    """

    def __init__(self, address: Address, clock: Clock, waits: Callable[[str], None] | None = None, create: bool = True):
        self.address = address
        self._clock = clock
        self._waits = waits
        self._writer = str(uuid.uuid4())
        self._batch = 0
        self.made = 0
        """The number of the last change that is known to be durable."""
        self._made_at = clock.now()
        self._answered = time.monotonic()
        self._was_away, self._back_at = 0.0, 0.0
        self._is_given_up = False
        self.offset = 0.0
        self._reading: PostgresTransaction | None = None
        self._schema = connections.newest()
        with self.explained(StoreError):
            self._connection = self._open(create)

    def _open(self, create: bool) -> Connection:
        """A connection to a store that is there, checked, up to date, and knows its writer."""
        tries = _Tries()
        self.new = False
        while True:
            opened = connections.patiently(
                lambda: connections.connect(self.address, to_write=True), self.address, self._waits, connections.OPENING
            )
            try:
                self._synchronous = connections.check(opened, self.address, self._waits)
                self.new = connections.migrate(opened, self.address, create) or self.new
                self._sign_in(opened)
                began = self._clock.now()
                row = opened.execute(f"SELECT {self.address.quoted}.moment()".encode()).fetchone()
                assert row is not None
                self._compare(row[0], began)
                return opened
            except BaseException as error:
                opened.close()
                if not (isinstance(error, psycopg.Error) and words.is_lost(error) and tries.once_more()):
                    raise

    @contextlib.contextmanager
    def explained(self, kind: Callable[[str], Exception] | None = None) -> Iterator[None]:
        """The driver's errors come out in words for people."""
        try:
            yield
        except psycopg.Error as error:
            raise words.explain(error, self.address, *([kind] if kind else [])) from error  # type: ignore[arg-type]

    @contextlib.contextmanager
    def reading(self) -> Iterator[PostgresTransaction]:
        """One consistent reading; one inside another is the same."""
        if self._reading is not None:
            yield self._reading
            return
        self._reconnect()
        began = self._clock.now()
        ask = connections.reading(self._connection, self.address)
        ask += f"SELECT moment(), (SELECT batch FROM writers WHERE id = '{self._writer}')"
        with self._store_expected():
            moment, batch = _last_row(self._connection.execute(ask.encode()))
        if (batch is None or batch < self.made) and not self._may_be_tidied(batch):
            connections.roll_back(self._connection)
            raise self._lost(batch)
        self._reading = self._transaction(moment, began)
        try:
            yield self._reading
        finally:
            self._reading = None
            connections.roll_back(self._connection)

    def read(self, ask: Callable[[PostgresTransaction], T]) -> T:
        """What `ask` finds in one reading; it is asked again where the connection got lost."""
        tries = _Tries()
        while True:
            try:
                with self.reading() as transaction:
                    return ask(transaction)
            except psycopg.Error as error:
                if not self._may_try_again(error, tries):
                    raise
                self._lose()

    def change(
        self,
        make: Callable[[PostgresTransaction], T],
        locks: Sequence[tuple[int, Lock]],
        about: Mapping[str, int] | None = None,
    ) -> T:
        """What `make` brings, once that is durable. `locks`: (which, how), in the order in which they are taken;
        `about`: the instance and the run about which is asked what nearly every change asks."""
        tries = _Tries()
        while True:
            self._batch += 1
            try:
                transaction = self._begin(locks, about)
                made = make(transaction)
            except psycopg.Error as error:
                self._undo(error)
                if not self._may_try_again(error, tries):
                    raise
                continue
            except BaseException:
                connections.roll_back(self._connection)
                raise
            try:
                done = transaction.commit()
            except psycopg.Error as error:
                self._undo(error)
                if words.is_lost(error) and self._was_made():
                    return self._acknowledged(made)
                if not self._may_try_again(error, tries):
                    raise
                continue
            if done == "COMMIT":
                return self._acknowledged(made)
            raise StoreError(f"{self.address.shown} undid a change without a reason")

    def _begin(self, locks: Sequence[tuple[int, Lock]], about: Mapping[str, int] | None) -> PostgresTransaction:
        self._reconnect()
        began = self._clock.now()
        number = self.address.lock_class
        taken = "".join(f"SELECT {how.value}({number}, {which:d});" for which, how in locks)
        text = (
            connections.beginning(self._connection, self.address, "READ COMMITTED", self._synchronous)
            + f"UPDATE writers SET batch = {self._batch:d}, opened = moment()"
            + f" WHERE id = '{self._writer}' AND batch >= {self.made:d};"
            + taken
            + f"SELECT moment(), (SELECT max(schema_version) FROM about), "
            f"(SELECT batch FROM writers WHERE id = '{self._writer}')"
        )
        names = FORESEEN if about is not None else ()
        if about is not None:
            text += f";{foreseeing(about)}"
        with self._store_expected():
            answers = _answers(self._connection.execute(text.encode()))[-1 - len(names) :]
        moment, version, batch = answers[0][0]
        if batch != self._batch:
            connections.roll_back(self._connection)
            if not self._may_be_tidied(batch):
                raise self._lost(batch)
            self._sign_in(self._connection)
            self.made = 0
            return self._begin(locks, about)
        if version != self._schema:
            raise connections.changed_meanwhile()
        foreseen = {name: Foreseen(about or {}, rows) for name, rows in zip(names, answers[1:], strict=True)}
        return self._transaction(moment, began, foreseen)

    @contextlib.contextmanager
    def _store_expected(self) -> Iterator[None]:
        """It was there when this line was opened."""
        try:
            yield
        except (errors.UndefinedTable, errors.InvalidSchemaName, errors.UndefinedFunction):
            connections.roll_back(self._connection)
            raise self._lost(None) from None

    def _may_be_tidied(self, batch: int | None) -> bool:
        """Whether its row is missing because nothing was changed for so long."""
        return batch is None and self._clock.now() - self._made_at >= OLD_WRITERS

    def _lost(self, batch: int | None) -> HistoryLost:
        lacks = "it knows nothing of this process any more"
        if batch is not None:
            number = self.made - batch
            lacks = f"it lacks {number} change{'s' if number > 1 else ''} that it had acknowledged to this process"
        return HistoryLost(
            f"{self.address.shown} has gone back to an earlier state: {lacks}. A standby was promoted that had not "
            "received everything, or a copy was restored",
            batch,
        )

    def sign_in_anew(self) -> None:
        """As another writer, on a server that has lost what this one had written."""
        with self.explained():
            self._reconnect()
            self._writer = str(uuid.uuid4())
            self._sign_in(self._connection)
            self.made = 0

    def _acknowledged(self, made: T) -> T:
        self.made, self._made_at = self._batch, self._clock.now()
        return made

    def _transaction(
        self, moment: float, began: float, foreseen: Mapping[str, Foreseen] | None = None
    ) -> PostgresTransaction:
        self._compare(moment, began)
        self._answered = time.monotonic()
        return PostgresTransaction(self._connection, moment, self.offset, self.address.lock_class, foreseen)

    def _compare(self, moment: float, began: float) -> None:
        """The server's clock was read between `began` and now: what is known of its offset holds as long as that does
        not contradict it. Who waited for locks meanwhile learns nothing."""
        self.offset = min(max(self.offset, moment - self._clock.now()), moment - began)

    def _sign_in(self, connection: Connection) -> None:
        """The row by which it is told what became of a commit; rows of writers that are long gone go."""
        connection.execute(
            (
                connections.beginning(connection, self.address, "READ COMMITTED", self._synchronous)
                + f"DELETE FROM writers WHERE opened < moment() - {OLD_WRITERS};"
                + f"INSERT INTO writers (id, batch, opened) VALUES ('{self._writer}', 0, moment())"
                + " ON CONFLICT DO NOTHING;"
                + "COMMIT"
            ).encode()
        )

    def _was_made(self) -> bool:
        """Whether the change whose COMMIT got no answer was made. Waits for its transaction to end."""
        ask = f"SELECT batch FROM writers WHERE id = '{self._writer}' FOR UPDATE;"
        tries = _Tries()
        while True:
            try:
                self._reconnect()
                began = connections.beginning(self._connection, self.address, "READ COMMITTED", self._synchronous)
                with self._store_expected():
                    row = _last_row(self._connection.execute((began + ask).encode()))
                connections.roll_back(self._connection)
                return bool(row) and row[0] == self._batch
            except psycopg.Error as error:
                self._undo(error)
                if not self._may_try_again(error, tries):
                    raise

    def _may_try_again(self, error: psycopg.Error, tries: _Tries) -> bool:
        if words.is_lost(error):
            return not self._is_given_up and tries.once_more(most=None)
        if isinstance(error, errors.LockNotAvailable):
            self._end_stopped()
            return tries.have_lasted() < connections.LOCK_SECONDS
        return isinstance(error, words.BEGUN_AGAIN) and tries.once_more()

    def _end_stopped(self) -> None:
        """The server's own bound does not end every process that was stopped in the middle of a change."""
        bindings = {
            "lock_class": self.address.lock_class,
            "schema": self.address.schema,
            "seconds": connections.IDLE_SECONDS,
        }
        statement = OWN["end_stopped"]
        with contextlib.suppress(psycopg.Error):
            self._connection.execute(statement.text, [bindings[name] for name in statement.names])

    def _undo(self, error: psycopg.Error) -> None:
        if words.is_lost(error):
            self._lose()
        else:
            connections.roll_back(self._connection)

    def _lose(self) -> None:
        with contextlib.suppress(psycopg.Error):
            self._connection.close()

    def _reconnect(self) -> None:
        if self._connection.closed:
            self._connection = self._patiently(lambda: connections.connect(self.address, to_write=True))
            self._back_at = time.monotonic()
            self._was_away = self._back_at - self._answered

    def is_just_back(self, lease: float) -> bool:
        """Whether the server was away for so long that leases may have run out though their runs live: those come back,
        too, before another lease is over."""
        return self._was_away > lease / 4 and time.monotonic() - self._back_at < max(lease, COME_BACK)

    def _patiently(self, act: Callable[[], Connection]) -> Connection:
        """A server that was waited for in vain is not waited for again, by whoever closes what was going on."""
        seconds = connections.ONCE_MORE if self._is_given_up else connections.PATIENCE
        self._is_given_up = True
        connection = connections.patiently(act, self.address, self._waits, seconds)
        self._is_given_up = False
        return connection

    def close(self) -> None:
        """Sign out, if that can be done."""
        if not self._connection.closed:
            with contextlib.suppress(psycopg.Error):
                connections.roll_back(self._connection)
                self._connection.execute(
                    f"DELETE FROM {self.address.quoted}.writers WHERE id = '{self._writer}'".encode()
                )
            self._lose()


class _Tries:
    """How often, and for how long, something is tried again."""

    def __init__(self) -> None:
        self._number = 0
        self._began = time.monotonic()
        self._until = time.monotonic() + connections.PATIENCE

    def have_lasted(self) -> float:
        """Seconds since the first."""
        return time.monotonic() - self._began

    def once_more(self, most: int | None = MOST_TRIES) -> bool:
        """`most`: None where only the time is limited."""
        self._number += 1
        if (most is not None and self._number > most) or time.monotonic() >= self._until:
            return False
        time.sleep(min(FIRST_PAUSE * 2.0 ** (self._number - 1), 1.0))
        return True


def _answers(cursor: psycopg.Cursor[Row]) -> list[list[Row]]:
    """The rows of each of several statements that were sent together and answer with rows."""
    found = []
    while True:
        if cursor.description is not None:
            found.append(cursor.fetchall())
        if not cursor.nextset():
            return found


def _last_row(cursor: psycopg.Cursor[Row]) -> Row:
    """The row of the last of them; empty where it has none."""
    last = _answers(cursor)[-1:]
    return last[0][0] if last and last[0] else ()
