"""Connections: opened, checked, migrated, and opened again after they were lost."""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable
from typing import Any

import psycopg
from psycopg import sql
from psycopg.types.string import TextLoader

from onward.errors import StoreError, StoreMissing, StoreWriteError
from onward.store.postgres import statements, words
from onward.store.postgres.address import Address
from onward.store.postgres.transaction import ALONE, Connection

logging.getLogger("psycopg").addHandler(logging.NullHandler())  # what it warns of, people are told in words

OLDEST_SERVER = 140000
OPENING = 5.0
"""Seconds for which a database that cannot be reached is waited for at first."""
PATIENCE = 120.0
"""Seconds for which a database that is gone is waited for."""
ONCE_MORE = 1.0
"""Seconds for which one is waited for that has been waited for in vain."""
LONG_WAIT = 2.0
CONNECT_SECONDS = 10
LOCK_SECONDS = 60
LOCK_ONCE = 12
"""Of these, after so many it is looked whether who has the lock is stopped."""
IDLE_SECONDS = 10
"""One that says nothing for so long in the middle of a change is stopped: the server ends it, or who waits for it."""
MIGRATING = -1
_KEPT = {
    "application_name": "onward",
    "connect_timeout": str(CONNECT_SECONDS),
    "keepalives_idle": "10",
    "keepalives_interval": "5",
    "keepalives_count": "3",
    "tcp_user_timeout": "30000",
}
_OURS = {"client_encoding": "UTF8"}
"""What neither an address nor the environment nor a role's settings may change."""
HAS_TRANSACTION_TIMEOUT = 170000


def connect(address: Address, to_write: bool = False) -> Connection:
    """A connection in which every transaction is begun by hand. Raises the driver's errors. `to_write`: a standby is as
    good as a server that is gone, for it may lag, and be promoted in a moment."""
    given = psycopg.conninfo.conninfo_to_dict(address.server)
    connection: Connection = psycopg.connect(
        **{**_KEPT, **given, **_OURS},  # type: ignore[arg-type]
        autocommit=True,
        cursor_factory=psycopg.RawCursor,
    )
    connection.adapters.register_loader("json", TextLoader)
    asked = connection.execute("SELECT pg_backend_pid(), pg_is_in_recovery()").fetchone()
    assert asked is not None
    process, is_standby = asked
    if is_standby and to_write:
        connection.close()
        raise psycopg.OperationalError("it is a standby, which can only be read")
    if connection.info.parameter_status("standard_conforming_strings") == "off":
        # A message is read as a whole before the first of its statements holds; poolers keep this one for their client.
        connection.execute("SET standard_conforming_strings TO on", prepare=False)
    # A pooler tells another process's number than the server does: behind one, statements are not prepared.
    connection.prepare_threshold = None if process != connection.info.backend_pid else 5
    return connection


def patiently(
    act: Callable[[], Connection], address: Address, waits: Callable[[str], None] | None, seconds: float = PATIENCE
) -> Connection:
    """Tries again while the server is gone, or full."""
    began, told = time.monotonic(), False
    while True:
        try:
            return act()
        except psycopg.Error as error:
            if not words.is_lost(error) or time.monotonic() - began >= seconds:
                raise
            if time.monotonic() - began >= LONG_WAIT and not told and waits is not None:
                told = True
                waits(f"waiting for the database {address.shown}, for {seconds:.0f} seconds at most")
            time.sleep(0.2)


def beginning(connection: Connection, address: Address, how: str, synchronous: str) -> str:
    """What begins a transaction, in one message; how it is made holds for it alone, since a pooler may give the
    connection to another program after it."""
    return (
        f"BEGIN ISOLATION LEVEL {how};"
        f"SET LOCAL search_path TO {address.quoted}, pg_temp;"
        f"SET LOCAL synchronous_commit TO {synchronous};"
        f"SET LOCAL idle_in_transaction_session_timeout TO '{IDLE_SECONDS}s';"
        f"SET LOCAL lock_timeout TO '{LOCK_ONCE}s';"
        f"{_as_long_as_it_takes(connection)}"
        "SET LOCAL enable_seqscan TO off;"
        "SET LOCAL jit TO off;"
    )


def reading(connection: Connection, address: Address) -> str:
    """What begins a consistent reading: it holds up nobody, so that whoever reads may take his time."""
    return (
        "BEGIN ISOLATION LEVEL REPEATABLE READ READ ONLY;"
        f"SET LOCAL search_path TO {address.quoted}, pg_temp;"
        f"{_as_long_as_it_takes(connection)}"
        "SET LOCAL idle_in_transaction_session_timeout TO 0;"
        "SET LOCAL jit TO off;"
    )


def _as_long_as_it_takes(connection: Connection) -> str:
    """Bounds that a role or a database may have set for others hold for no transaction of ours."""
    knows = connection.info.server_version >= HAS_TRANSACTION_TIMEOUT
    return "SET LOCAL statement_timeout TO 0;" + ("SET LOCAL transaction_timeout TO 0;" if knows else "")


def check(connection: Connection, address: Address, waits: Callable[[str], None] | None) -> str:
    """Refuse a server on which what is acknowledged could get lost; the synchronous_commit that holds."""
    if connection.info.server_version < OLDEST_SERVER:
        raise StoreError(
            f"{address.shown} is PostgreSQL {connection.info.server_version // 10000}; 14 is the oldest that will do"
        )
    if _single(connection, "SHOW server_encoding") != "UTF8":
        raise StoreError(
            f"the database of {address.shown} is not encoded in UTF8; make one: CREATE DATABASE … ENCODING 'UTF8'"
        )
    connection.execute("BEGIN", prepare=False)  # a pooler may allow no transactions
    connection.execute("ROLLBACK", prepare=False)
    synchronous = str(_single(connection, "SHOW synchronous_commit"))
    if synchronous == "off":
        raise StoreError(
            f"{address.shown} acknowledges commits before they are on disk (synchronous_commit = off, set for the "
            "server, the database, the user or by the pooler): what a run believes durable could be lost; set it to on"
        )
    if waits is not None and _single(connection, "SHOW fsync") == "off":
        waits(f"{address.shown} does not flush its files (fsync = off): what is committed may not outlast a power cut")
    return synchronous


def _single(connection: Connection, query: str) -> Any:
    row = connection.execute(query.encode()).fetchone()
    return row[0] if row else None


def newest() -> int:
    return statements.migrations()[-1][0]


def schema_version(connection: Connection, address: Address) -> int | None:
    """The number of the last migration that was applied; None where there is no store."""
    named = f"{address.quoted}.about"
    if connection.execute("SELECT to_regclass($1)", [named]).fetchone() == (None,):
        return None
    return int(_single(connection, f"SELECT coalesce(max(schema_version), 0) FROM {named}"))


def check_version(connection: Connection, address: Address) -> None:
    """Raises StoreMissing or StoreError where it is not at the schema that we know."""
    version = schema_version(connection, address)
    if version is None:
        raise StoreMissing(f"there is no store at {address.shown}; run the job first, or check --store")
    if version > newest():
        raise too_new(address, version)
    if version < newest():
        raise StoreError(f"{address.shown} has the older schema {version}; `onward run` brings it up to date")


def too_new(address: Address, version: int) -> StoreError:
    return StoreError(
        f"{address.shown} was written by a newer onward (schema {version}, this one knows {newest()}); "
        "update onward; the store was left as it is"
    )


def migrate(
    connection: Connection, address: Address, create: bool, scripts: list[tuple[int, str]] | None = None
) -> bool:
    """Bring the schema up to date, each script in a transaction of its own together with its number; whether it is
    new. Of two that do so at once one waits; the tables are held against runs at work, which then stop."""
    scripts = statements.migrations() if scripts is None else scripts
    version = schema_version(connection, address)
    if version is None and not create:
        raise StoreMissing(f"there is no store at {address.shown}; run the job first, or check --store")
    made = False
    for number, script in scripts:
        if version is not None and version >= number:
            continue
        version, is_first = _apply(connection, address, number, script)
        made = made or is_first
    if version is not None and version > scripts[-1][0]:
        raise too_new(address, version)
    return made


def _apply(connection: Connection, address: Address, number: int, script: str) -> tuple[int, bool]:
    """The version afterwards, and whether this made the store."""
    connection.execute(
        f"BEGIN ISOLATION LEVEL READ COMMITTED; SET LOCAL lock_timeout TO '{LOCK_SECONDS}s';"
        f"SET LOCAL idle_in_transaction_session_timeout TO '{IDLE_SECONDS}s';"
        f"SET LOCAL synchronous_commit TO on;{_as_long_as_it_takes(connection)}".encode()
    )
    try:
        connection.execute(ALONE, [address.lock_class, MIGRATING])
        version = schema_version(connection, address)
        if version is not None and version >= number:  # another process was faster
            connection.execute("ROLLBACK", prepare=False)
            return version, False
        if version is None:
            _make_schema(connection, address)
        else:
            connection.execute(f"LOCK TABLE {address.quoted}.about IN ACCESS EXCLUSIVE MODE".encode())
        connection.execute(f"SET LOCAL search_path TO {address.quoted}, pg_temp".encode())
        connection.execute(script.encode())
        connection.execute(f"DELETE FROM about; INSERT INTO about (schema_version) VALUES ({number:d})".encode())
        connection.execute("COMMIT")
    except BaseException:
        roll_back(connection)
        raise
    return number, version is None


def _make_schema(connection: Connection, address: Address) -> None:
    there = "SELECT count(*) FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace WHERE n.nspname = $1"
    row = connection.execute(there, [address.schema]).fetchone()
    if row and row[0]:
        raise StoreError(
            f"the schema {address.schema} of {address.shown} holds another program's tables; it was left as it is: "
            "put ?schema= and another name behind the address"
        )
    exists = connection.execute("SELECT 1 FROM pg_namespace WHERE nspname = $1", [address.schema]).fetchone()
    if not exists:
        connection.execute(sql.SQL("CREATE SCHEMA {}").format(sql.Identifier(address.schema)))


def roll_back(connection: Connection) -> None:
    """Whatever became of the transaction, the connection is outside of one, or closed."""
    if connection.closed:
        return
    try:
        if connection.info.transaction_status != psycopg.pq.TransactionStatus.IDLE:
            connection.execute("ROLLBACK", prepare=False)
    except psycopg.Error:
        with contextlib.suppress(psycopg.Error):
            connection.close()


def changed_meanwhile() -> StoreWriteError:
    return StoreWriteError("a newer onward has brought the store up to date meanwhile; start again with that one")
