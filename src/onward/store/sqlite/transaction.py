"""One transaction of SQLite under way, and which runs live."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Mapping, Sequence
from typing import Any

import apsw
import orjson

from onward.ports.clock import Clock
from onward.store.sql.transaction import Row, Transaction
from onward.store.sqlite import statements
from onward.store.sqlite.liveness import RunLocks


class SqliteTransaction:
    """`sql.transaction.Transaction` on a connection that is in one, or in a reading; made at its moment."""

    def __init__(self, connection: apsw.Connection, clock: Clock):
        self.now, self.steady, self.boot = clock.now(), clock.steady(), clock.boot
        self._connection = connection
        self._sql = statements.blocks()

    def execute(self, block: str, bindings: Mapping[str, Any]) -> int:
        self._connection.execute(self._sql[block], bindings)
        return int(self._connection.changes())

    def execute_all(self, statements: Sequence[tuple[str, Mapping[str, Any]]]) -> list[int]:
        return [self.execute(block, bindings) for block, bindings in statements]

    def send(self, block: str, bindings: Mapping[str, Any]) -> None:
        self.execute(block, bindings)

    def rows(self, block: str, bindings: Mapping[str, Any]) -> list[Row]:
        return list(self._connection.execute(self._sql[block], bindings))

    def stream(self, block: str, bindings: Mapping[str, Any]) -> Generator[Row]:
        yield from self._connection.execute(self._sql[block], bindings)

    def insert(self, table: str, columns: Sequence[str], rows: Iterable[Row]) -> int:
        before = self._connection.total_changes()
        places = ", ".join("?" * len(columns))
        self._connection.executemany(f"INSERT INTO {table} ({', '.join(columns)}) VALUES ({places})", rows)
        return self._connection.total_changes() - before

    def parsed(self, text: str | None) -> list[Any]:
        found: list[Any] = orjson.loads(text or "[]")
        return found

    def be_alone_in(self, instance: int) -> None:
        """Whoever writes is alone."""

    def begin_part(self) -> None:
        self._connection.execute("SAVEPOINT part")

    def undo_part(self) -> None:
        self._connection.execute("ROLLBACK TO part")

    def end_part(self) -> None:
        self._connection.execute("RELEASE part")


class SqliteLife:
    """Byte locks tell which processes live, steady time which leases hold. `locks` and `clock` give those of now."""

    def __init__(self, locks: Callable[[], RunLocks], clock: Callable[[], Clock]):
        self._locks = locks
        self._clock = clock

    def is_alive(self, transaction: Transaction, run: int, boot: str, lease_until: float) -> bool:
        clock = self._clock()
        return boot == clock.boot and lease_until > clock.steady() and self.is_held(transaction, run)

    def is_held(self, transaction: Transaction, run: int) -> bool:
        return self._locks().is_held(run)


class LookingLife(SqliteLife):
    """The same for who only asks: a folder that cannot be written has no lock file to ask, and the lease must do."""

    def is_held(self, transaction: Transaction, run: int) -> bool:
        try:
            return super().is_held(transaction, run)
        except OSError:
            return True
