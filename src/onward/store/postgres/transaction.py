"""One transaction of PostgreSQL under way, and which runs live."""

from __future__ import annotations

import itertools
from collections.abc import Generator, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import psycopg

from onward.store.postgres import statements, texts
from onward.store.postgres.statements import Statement
from onward.store.sql.statements import load
from onward.store.sql.transaction import Row, Transaction

BOOT = "postgresql"  # its clock outlives every boot
AT_ONCE = 1000
OWN = {name: statements.compiled(sql) for name, sql in load(statements.PACKAGE, "own.sql").items()}
ALONE = "SELECT pg_advisory_xact_lock($1::int, $2::int)"

FORESEEN = ("run_is_open", "is_entangled", "inputs_wait", "has_waits", "has_gone")
READ_BY = {name: (OWN.get(name) or statements.blocks()[name]).reads for name in FORESEEN}

Connection = psycopg.Connection[Row]
Sent = tuple[str, list[Any] | None]
_numbers = itertools.count(1)


class Foreseen(NamedTuple):
    """What a block answers about an instance and a run, asked as a transaction began."""

    about: Mapping[str, int]
    rows: list[Row]


class PostgresTransaction:
    """`sql.transaction.Transaction` on a connection that is in one. `moment`: that of the server, by which everything
    is written; `offset`: how far it is ahead of the clock of this process, in seconds.

    Each exchange with the server costs the journal's thread a turn at the interpreter's lock. So what is sent and not
    asked for goes with what follows, and what nearly every change asks is `foreseen`: it holds until the transaction
    itself changes a table that it was read from.
    """

    boot = BOOT

    def __init__(
        self,
        connection: Connection,
        moment: float,
        offset: float = 0.0,
        lock_class: int = 0,
        foreseen: Mapping[str, Foreseen] | None = None,
    ):
        self.now = self.steady = moment
        self.offset = offset
        self._connection = connection
        self._lock_class = lock_class
        self._sql = statements.blocks()
        self._foreseen = dict(foreseen or {})
        self._pending: list[Sent] = []

    def execute(self, block: str, bindings: Mapping[str, Any]) -> int:
        return self.execute_all([(block, bindings)])[0]

    def execute_all(self, statements: Sequence[tuple[str, Mapping[str, Any]]]) -> list[int]:
        if not statements:
            return []
        done = self._exchanged([self._bound(self._sql[block], bindings) for block, bindings in statements])
        return [max(cursor.rowcount, 0) for cursor in done]

    def send(self, block: str, bindings: Mapping[str, Any]) -> None:
        self._pending.append(self._bound(self._sql[block], bindings))

    def rows(self, block: str, bindings: Mapping[str, Any]) -> list[Row]:
        return self._fetched(block, self._sql[block], bindings)

    def own_rows(self, block: str, bindings: Mapping[str, Any]) -> list[Row]:
        """The rows of a block that only this dialect has."""
        return self._fetched(block, OWN[block], bindings)

    def own_execute(self, block: str, bindings: Mapping[str, Any]) -> None:
        """Run a block that only this dialect has."""
        self._exchanged([self._bound(OWN[block], bindings)])

    def commit(self) -> str | None:
        """What the server says of it: COMMIT, if what was changed is durable."""
        return self._exchanged([("COMMIT", None)])[0].statusmessage

    def stream(self, block: str, bindings: Mapping[str, Any]) -> Generator[Row]:
        statement = self._sql[block]
        self._exchanged([])
        with psycopg.RawServerCursor(self._connection, f"listed_{next(_numbers)}") as cursor:
            cursor.itersize = AT_ONCE
            cursor.execute(statement.text, _parameters(statement, bindings))
            for row in cursor:
                yield _given(row)

    def insert(self, table: str, columns: Sequence[str], rows: Iterable[Row]) -> int:
        self._exchanged([])
        self._foreseen.clear()
        number = 0
        with (
            self._connection.cursor() as cursor,
            cursor.copy(f"COPY {table} ({', '.join(columns)}) FROM STDIN".encode()) as copy,
        ):
            for number, row in enumerate(rows, 1):  # noqa: B007 - used behind the loop
                copy.write_row([texts.held(one) if isinstance(one, str) else one for one in row])
        return number

    def parsed(self, text: str | None) -> list[Any]:
        found: list[Any] = [] if text is None else texts.given_json(text)
        return found

    def be_alone_in(self, instance: int) -> None:
        self._exchanged([(ALONE, [self._lock_class, instance])])

    def begin_part(self) -> None:
        self._pending.append(("SAVEPOINT part", None))

    def undo_part(self) -> None:
        self._exchanged([("ROLLBACK TO SAVEPOINT part", None)])
        self._foreseen.clear()

    def end_part(self) -> None:
        self._pending.append(("RELEASE SAVEPOINT part", None))

    def _fetched(self, block: str, statement: Statement, bindings: Mapping[str, Any]) -> list[Row]:
        foreseen = self._foreseen.get(block)
        if foreseen is not None and all(
            bindings.get(name, number) == number for name, number in foreseen.about.items()
        ):
            return foreseen.rows
        (cursor,) = self._exchanged([self._bound(statement, bindings)])
        # JSON answers stay as they are until they are parsed.
        return [_given(row) if _is_marked(row) else row for row in cursor.fetchall()]

    def _bound(self, statement: Statement, bindings: Mapping[str, Any]) -> Sent:
        for block in [name for name in self._foreseen if statement.writes & READ_BY[name]]:
            del self._foreseen[block]
        return statement.text, _parameters(statement, bindings)

    def _exchanged(self, wanted: Sequence[Sent]) -> list[psycopg.Cursor[Row]]:
        """What is pending and then these go to the server together; the cursors of these."""
        sent, self._pending = [*self._pending, *wanted], []
        if not sent:
            return []
        if len(sent) == 1:
            return [self._one(*sent[0])]
        with self._connection.pipeline():
            cursors = [self._one(*one) for one in sent]
        return cursors[len(cursors) - len(wanted) :]

    def _one(self, text: str, parameters: list[Any] | None) -> psycopg.Cursor[Row]:
        # What has no parameters is of use but once; a pooler may give the connection to others after it.
        return self._connection.execute(text, parameters, prepare=None if parameters else False)


def foreseeing(about: Mapping[str, int]) -> str:
    """Asks what is foreseen, in the order of FORESEEN."""
    return "\n;".join((OWN.get(name) or statements.blocks()[name]).about(about) for name in FORESEEN)


def _parameters(statement: Statement, bindings: Mapping[str, Any]) -> list[Any]:
    found = []
    for name in statement.names:
        value = bindings[name]
        if isinstance(value, bool):
            value = int(value)
        elif isinstance(value, str):
            value = texts.held_json(value) if statements.TYPE_OF.get(name) == "json" else texts.held(str(value))
        found.append(value)
    return found


def _is_marked(row: Row) -> bool:
    return any(isinstance(one, str) and "\x01" in one for one in row)


def _given(row: Row) -> Row:
    return tuple(texts.given(one) if isinstance(one, str) else one for one in row)


class LeaseLife:
    """Only its lease tells that a run lives: its process may be anywhere."""

    def is_alive(self, transaction: Transaction, run: int, boot: str, lease_until: float) -> bool:
        return lease_until > transaction.steady

    def is_held(self, transaction: Transaction, run: int) -> bool:
        assert isinstance(transaction, PostgresTransaction)
        found = transaction.own_rows("run_is_held", {"run": run, "now": transaction.now})
        return bool(found and found[0][0])
