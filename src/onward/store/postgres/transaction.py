"""One transaction of PostgreSQL under way, and which runs live."""

from __future__ import annotations

import itertools
from collections.abc import Generator, Iterable, Mapping, Sequence
from typing import Any

import psycopg

from onward.store.postgres import statements, texts
from onward.store.postgres.statements import Statement
from onward.store.sql.statements import load
from onward.store.sql.transaction import Row, Transaction

BOOT = "postgresql"  # its clock outlives every boot
AT_ONCE = 1000
OWN = {name: statements.compiled(sql) for name, sql in load(statements.PACKAGE, "own.sql").items()}
ALONE = "SELECT pg_advisory_xact_lock($1::int, $2::int)"

Connection = psycopg.Connection[Row]
_numbers = itertools.count(1)


class PostgresTransaction:
    """`sql.transaction.Transaction` on a connection that is in one. `moment`: that of the server, by which everything
    is written; `offset`: how far it is ahead of the clock of this process, in seconds."""

    boot = BOOT

    def __init__(self, connection: Connection, moment: float, offset: float = 0.0, lock_class: int = 0):
        self.now = self.steady = moment
        self.offset = offset
        self._connection = connection
        self._lock_class = lock_class
        self._sql = statements.blocks()

    def execute(self, block: str, bindings: Mapping[str, Any]) -> int:
        return max(self._run(self._sql[block], bindings).rowcount, 0)

    def rows(self, block: str, bindings: Mapping[str, Any]) -> list[Row]:
        return self._fetched(self._sql[block], bindings)

    def own_rows(self, block: str, bindings: Mapping[str, Any]) -> list[Row]:
        """The rows of a block that only this dialect has."""
        return self._fetched(OWN[block], bindings)

    def own_execute(self, block: str, bindings: Mapping[str, Any]) -> None:
        """Run a block that only this dialect has."""
        self._run(OWN[block], bindings)

    def stream(self, block: str, bindings: Mapping[str, Any]) -> Generator[Row]:
        statement = self._sql[block]
        with psycopg.RawServerCursor(self._connection, f"listed_{next(_numbers)}") as cursor:
            cursor.itersize = AT_ONCE
            cursor.execute(statement.text, _parameters(statement, bindings))
            for row in cursor:
                yield _given(row)

    def insert(self, table: str, columns: Sequence[str], rows: Iterable[Row]) -> int:
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
        self._connection.execute(ALONE, [self._lock_class, instance])

    def begin_part(self) -> None:
        self._connection.execute("SAVEPOINT part")

    def undo_part(self) -> None:
        self._connection.execute("ROLLBACK TO SAVEPOINT part")

    def end_part(self) -> None:
        self._connection.execute("RELEASE SAVEPOINT part")

    def _fetched(self, statement: Statement, bindings: Mapping[str, Any]) -> list[Row]:
        # JSON answers stay as they are until they are parsed.
        return [_given(row) if _is_marked(row) else row for row in self._run(statement, bindings).fetchall()]

    def _run(self, statement: Statement, bindings: Mapping[str, Any]) -> psycopg.Cursor[Row]:
        return self._connection.execute(statement.text, _parameters(statement, bindings))


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
