"""Servers as others have set them up: sockets and several hosts, encodings, and bounds that are meant for others."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from clocks import HandClock
from helpers import postgres
from onward.errors import StoreError
from onward.store.postgres import connection as connections
from onward.store.postgres.address import parse
from onward.store.postgres.desk import PostgresDesk
from onward.store.postgres.work import PostgresWorkStore

OTHERS = "\u65e5\u672c \u20ac \U0001f600"


@pytest.fixture
def url(database: str) -> Iterator[str]:
    """The address of a schema that is not there yet."""
    schema = postgres.new_schema()
    yield postgres.in_schema(database, schema)
    with psycopg.connect(database, autocommit=True) as own:
        own.execute(f"DROP SCHEMA IF EXISTS {schema} CASCADE")


def opened(url: str) -> PostgresWorkStore:
    return PostgresWorkStore(parse(url), HandClock())


def with_setting(url: str, setting: str, value: str) -> str:
    return f"{url}&options=-c%20{setting}%3D{value}"


def echoed(url: str, text: str) -> object:
    """What comes back of a text that is sent in a change, and that it reads with a backslash in it."""
    store = opened(url)
    try:
        return store._line.change(
            lambda tx: tx._connection.execute("SELECT $1 || '\\'", [text]).fetchone(),  # type: ignore[attr-defined]
            [],
        )
    finally:
        store.close()


@pytest.fixture
def socket_folder() -> Iterator[Path]:
    folder = Path(tempfile.mkdtemp(prefix="onward-socket-"))  # a socket's path is short
    folder.chmod(0o755)
    if os.geteuid() == 0:
        shutil.chown(folder, postgres.NOBODY)
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


def test_a_store_is_reached_by_a_socket_and_by_the_environment(
    database: str, socket_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with postgres.server((*postgres.CARELESS, f"unix_socket_directories={socket_folder}")) as own:
        by_socket = f"postgresql:///postgres?host={socket_folder}&port={own.port}&user=postgres"
        store = opened(by_socket)
        assert store.new
        store.close()
        for name, value in {"PGHOST": str(socket_folder), "PGPORT": str(own.port), "PGUSER": "postgres"}.items():
            monkeypatch.setenv(name, value)
        for url in ("postgresql:///postgres", "postgresql://postgres@/postgres"):
            store = opened(url)
            assert not store.new
            store.close()


def test_the_next_of_several_hosts_will_do(url: str) -> None:
    server = parse(url).server
    who, _, rest = server.removeprefix("postgresql://").rpartition("@")
    store = opened(f"postgresql://{who}{who and '@'}127.0.0.1:1,{rest}?schema={parse(url).schema}")
    assert store.new
    store.close()


@pytest.mark.parametrize("encoding", ["LATIN1", "WIN1252", "EUC_JP", "SQL_ASCII"])
def test_texts_are_sent_as_they_are_whatever_the_environment_says(
    url: str, encoding: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGCLIENTENCODING", encoding)
    assert echoed(url, OTHERS) == (f"{OTHERS}\\",)


def test_and_whatever_the_address_says(url: str) -> None:
    assert echoed(f"{url}&client_encoding=LATIN1", OTHERS) == (f"{OTHERS}\\",)


def test_a_database_of_another_encoding_is_refused_for_what_it_is(
    database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PGCLIENTENCODING", "SQL_ASCII")
    name = postgres.new_schema()
    with psycopg.connect(database, autocommit=True, client_encoding="UTF8") as own:
        own.execute(f"CREATE DATABASE {name} TEMPLATE template0 ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'C'")
        try:
            with pytest.raises(StoreError, match="is not encoded in UTF8"):
                opened(database.rpartition("/")[0] + f"/{name}")
        finally:
            own.execute(f"DROP DATABASE {name} WITH (FORCE)")


def test_a_backslash_is_one_wherever_strings_are_otherwise(url: str) -> None:
    assert echoed(with_setting(url, "standard_conforming_strings", "off"), "a") == ("a\\",)


@pytest.mark.parametrize("bound", ["idle_in_transaction_session_timeout", "statement_timeout", "transaction_timeout"])
def test_bounds_for_others_end_no_reading(url: str, bound: str) -> None:
    bounded = with_setting(url, bound, "300")
    _needs(url, bound)
    opened(url).close()
    desk = PostgresDesk(parse(bounded), HandClock())
    with desk.reading() as reading:
        time.sleep(0.7)
        assert reading._connection.execute("SELECT pg_sleep(0.5) IS NULL").fetchone() == (False,)  # type: ignore[attr-defined]
    desk.close()


@pytest.mark.parametrize("bound", ["statement_timeout", "transaction_timeout"])
def test_nor_a_change(url: str, bound: str) -> None:
    _needs(url, bound)
    opened(url).close()
    store = opened(with_setting(url, bound, "300"))
    made = store._line.change(
        lambda tx: tx._connection.execute("SELECT pg_sleep(0.7) IS NULL").fetchone(),  # type: ignore[attr-defined]
        [],
    )
    assert made == (False,)
    with store.reading() as reading:
        reading._connection.execute("SELECT pg_sleep(0.7)")  # type: ignore[attr-defined]
    store.close()


def _needs(url: str, bound: str) -> None:
    with psycopg.connect(parse(url).server) as own:
        if bound == "transaction_timeout" and own.info.server_version < connections.HAS_TRANSACTION_TIMEOUT:
            pytest.skip(f"this server has no {bound}")
