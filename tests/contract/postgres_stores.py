"""The PostgreSQL store for the conformance suite; its rows are recounted as those of SQLite are."""

from __future__ import annotations

from typing import Any

import psycopg
from psycopg.rows import dict_row
from store_conformance import LEASE
from table_stores import TableStores

from clocks import HandClock
from judge import chains
from onward.store.postgres import texts
from onward.store.postgres.address import parse
from onward.store.postgres.desk import PostgresDesk
from onward.store.postgres.work import PostgresWorkStore

MOVED_BY_HAND = """
CREATE OR REPLACE FUNCTION {schema}.moment() RETURNS double precision LANGUAGE sql STABLE
AS $$ SELECT at FROM {schema}.hand $$
"""


class ServerClock(HandClock):
    """One that a server's clock goes by: it is told of time that passes, not of a worker's clock that is set."""

    def __init__(self) -> None:
        super().__init__()
        self.moment = self.now()
        self.told: list[Any] = []

    def pass_time(self, seconds: float) -> None:
        super().pass_time(seconds)
        self._tell(seconds)

    def reboot(self, seconds: float = 30.0) -> None:
        super().reboot(seconds)
        self._tell(seconds)

    def _tell(self, seconds: float) -> None:
        self.moment += seconds
        for tell in self.told:
            tell(self.moment)


EMPTIED = """instances runs records pauses gates shares inputs checkpoints lineages versions generations failures usage
costs reserved answers batched batch_waits chunks effects awaits owed history counts writers""".split()  # noqa: SIM905
COUNTED_FROM_ONE = "record_blocks instances_id_seq lineages_id_seq batched_id_seq history_id_seq".split()  # noqa: SIM905


class PostgresStores(TableStores):
    """`stores` in one schema. It is made where it is not there, and emptied where it is: that is much quicker."""

    several = True
    one_host = False

    def __init__(self, url: str, schema: str):
        self.address = parse(f"{url}{'&' if '?' in url else '?'}schema={schema}")
        self.clock = ServerClock()
        self._opened: list[PostgresWorkStore] = []
        self._desks: list[PostgresDesk] = []
        self.connection = psycopg.connect(self.address.server, autocommit=True, row_factory=dict_row)
        self.clock.told.append(self._set)
        if self.connection.execute("SELECT 1 FROM pg_namespace WHERE nspname = %s", [self.address.schema]).fetchone():
            self._empty()
        else:
            PostgresWorkStore(self.address, self.clock).close()
            self._move_by_hand()

    def _empty(self) -> None:
        self.connection.execute(f"SET search_path TO {self.address.quoted}")
        emptied = "; ".join(f"DELETE FROM {table}" for table in EMPTIED)
        again = "; ".join(f"ALTER SEQUENCE {name} RESTART" for name in COUNTED_FROM_ONE)
        self.connection.execute(f"BEGIN; {emptied}; {again}; UPDATE numbers SET n = 0 WHERE what = 'run'; COMMIT")
        self._set(self.clock.moment)

    def open(self, store_inputs: bool = True) -> PostgresWorkStore:
        store = PostgresWorkStore(self.address, self.clock, LEASE, store_inputs=store_inputs)
        self._opened.append(store)
        return store

    def _move_by_hand(self) -> None:
        schema = self.address.quoted
        self.connection.execute(f"CREATE TABLE {schema}.hand (at double precision)")
        self.connection.execute(f"INSERT INTO {schema}.hand VALUES (%s)", [self.clock.moment])
        self.connection.execute(MOVED_BY_HAND.format(schema=schema))
        self.connection.execute(f"SET search_path TO {schema}")

    def _set(self, moment: float) -> None:
        self.connection.execute("UPDATE hand SET at = %s", [moment])

    def desk(self) -> PostgresDesk:
        self._desks.append(PostgresDesk(self.address, self.clock))
        return self._desks[-1]

    def die(self, store: PostgresWorkStore, run: int) -> None:
        # Nothing but the lease tells that a run lives, so that its death is its end.
        self.connection.execute("UPDATE runs SET lease_until = 0 WHERE id = %s", [run])

    def query(self, sql: str, *bindings: Any) -> list[dict[str, Any]]:
        sql = sql.replace(" IS ?", " IS NOT DISTINCT FROM ?").replace("?", "%s")
        given = [texts.held(one) if isinstance(one, str) else one for one in bindings]
        rows = self.connection.execute(sql, given).fetchall()
        return [{name: texts.given(one) if isinstance(one, str) else one for name, one in row.items()} for row in rows]

    def counters(self, instance: int) -> list[dict[str, Any]]:
        return self.query(
            "SELECT what, name, sum(n)::bigint AS n FROM counts WHERE instance = ? GROUP BY what, name", instance
        )

    def broken_chains(self) -> list[str]:
        return chains.broken_among(lambda sql: [tuple(row.values()) for row in self.query(sql)])

    def close(self) -> None:
        for one in [*self._opened, *self._desks]:
            one.close()
        self.connection.close()
