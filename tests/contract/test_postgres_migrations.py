"""Migrations: two at once, one that is killed, and runs at work on the schema before."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator

import psycopg
import pytest
from store_conformance import LEASE

from clocks import HandClock
from helpers import postgres
from onward.errors import StoreError, StoreWriteError
from onward.ports.work import Batch, ClaimWish, RunStart
from onward.store.postgres import connection as connections
from onward.store.postgres import statements
from onward.store.postgres.address import Address, parse
from onward.store.postgres.desk import PostgresDesk
from onward.store.postgres.work import PostgresWorkStore

SECOND = "CREATE TABLE later (a bigint); INSERT INTO later SELECT 1"
START = RunStart("job", "", "here", "{}", "in.jsonl", (), 3)


@pytest.fixture
def address(database: str) -> Iterator[Address]:
    schema = postgres.new_schema()
    yield parse(postgres.in_schema(database, schema))
    with psycopg.connect(database, autocommit=True) as own:
        own.execute(f"DROP SCHEMA IF EXISTS {schema} CASCADE")


def opened(address: Address) -> PostgresWorkStore:
    return PostgresWorkStore(address, HandClock(), LEASE)


def migrate(address: Address, *more: str) -> bool:
    first = statements.migrations()
    scripts = [*first, *((len(first) + number, script) for number, script in enumerate(more, 1))]
    with connections.connect(address) as own:
        return connections.migrate(own, address, True, scripts)


def ask(address: Address, query: str) -> list[tuple[object, ...]]:
    with psycopg.connect(address.server, autocommit=True) as own:
        return own.execute(query.replace("SCHEMA", address.quoted)).fetchall()


def together(number: int, act: Callable[[], object]) -> list[object]:
    found: list[object] = []

    def one() -> None:
        try:
            found.append(act())
        except BaseException as error:
            found.append(error)

    threads = [threading.Thread(target=one) for _ in range(number)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    return found


def test_numbers_go_up_by_one() -> None:
    numbers = [number for number, _ in statements.migrations()]
    assert numbers == list(range(1, len(numbers) + 1))


def test_of_several_that_make_the_store_at_once_one_does(address: Address) -> None:
    assert sorted(map(str, together(6, lambda: migrate(address)))) == ["False"] * 5 + ["True"]
    assert ask(address, "SELECT schema_version FROM SCHEMA.about") == [(connections.newest(),)]


def test_of_several_that_bring_it_up_to_date_at_once_one_does(address: Address) -> None:
    migrate(address)
    assert together(6, lambda: migrate(address, SECOND)) == [False] * 6
    assert ask(address, "SELECT count(*) FROM SCHEMA.later") == [(1,)]


def test_one_that_is_killed_leaves_nothing_and_the_next_does_it(address: Address) -> None:
    migrate(address)
    kills = "CREATE TABLE half (a bigint); SELECT pg_terminate_backend(pg_backend_pid()); SELECT pg_sleep(10)"
    with pytest.raises(psycopg.Error):
        migrate(address, kills)
    assert ask(address, "SELECT to_regclass('SCHEMA.half')") == [(None,)]
    assert ask(address, "SELECT schema_version FROM SCHEMA.about") == [(connections.newest(),)]
    migrate(address, SECOND)
    assert ask(address, "SELECT count(*) FROM SCHEMA.later") == [(1,)]


def test_one_that_is_stopped_does_not_hold_up_others_for_ever(
    address: Address, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "IDLE_SECONDS", 1)
    is_inside, made = threading.Event(), connections._make_schema

    def stops(connection: psycopg.Connection, at: Address) -> None:
        if not is_inside.is_set():
            is_inside.set()
            time.sleep(5)
        made(connection, at)

    monkeypatch.setattr(connections, "_make_schema", stops)
    stopped = threading.Thread(target=lambda: together(1, lambda: migrate(address)))
    stopped.start()
    is_inside.wait(30)
    began = time.monotonic()
    assert migrate(address)
    assert time.monotonic() - began < 4.5
    stopped.join(60)


def test_one_that_fails_half_way_leaves_the_steps_before_it(address: Address) -> None:
    with pytest.raises(psycopg.Error):
        migrate(address, SECOND, "CREATE TABLE half (a bigint); SELECT 1 / 0")
    assert ask(address, "SELECT count(*) FROM SCHEMA.later") == [(1,)]
    assert ask(address, "SELECT schema_version FROM SCHEMA.about") == [(connections.newest() + 1,)]
    assert ask(address, "SELECT to_regclass('SCHEMA.half')") == [(None,)]


def test_tables_that_are_not_those_of_the_schema_are_told_in_words_that_help(address: Address) -> None:
    opened(address).close()
    number = connections.newest() - 1
    ask(address, f"UPDATE SCHEMA.about SET schema_version = {number} RETURNING 1")
    with pytest.raises(StoreError, match=r"altered by hand.*left as it is.*restore a backup"):
        opened(address)
    assert ask(address, "SELECT schema_version FROM SCHEMA.about") == [(number,)]


def test_a_run_at_work_stops_when_the_store_was_brought_up_to_date(address: Address) -> None:
    store = opened(address)
    run = store.begin_run(START).run
    store.write(run, Batch(wishes=[ClaimWish(1, 1)]))
    migrate(address, SECOND)
    for act in (
        lambda: store.write(run, Batch(wishes=[ClaimWish(1, 1)])),
        lambda: store.renew(run),
        lambda: store.begin_run(START),
        lambda: store.end_run(run, 0, "done"),
    ):
        with pytest.raises(StoreWriteError, match="a newer onward has brought the store up to date"):
            act()
    assert ask(address, "SELECT ended FROM SCHEMA.runs") == [(None,)]
    with pytest.raises(StoreError, match="newer onward"):
        opened(address)
    store.close()


def test_a_migration_waits_for_a_change_under_way_and_the_next_change_for_it(address: Address) -> None:
    store = opened(address)
    store.begin_run(START)
    begun, may_end = threading.Event(), threading.Event()

    def slow(transaction: object) -> None:
        begun.set()
        may_end.wait(30)

    change = threading.Thread(target=store._line.change, args=(slow, []))
    change.start()
    begun.wait(30)
    migrated: list[bool] = []
    migration = threading.Thread(target=lambda: migrated.append(migrate(address, SECOND)))
    migration.start()
    until = time.monotonic() + 30
    waits = "SELECT count(*) FROM pg_locks WHERE NOT granted AND mode = 'AccessExclusiveLock'"
    while ask(address, waits) == [(0,)] and time.monotonic() < until:
        time.sleep(0.02)
    assert migrated == []
    may_end.set()
    change.join(30)
    migration.join(30)
    assert migrated == [False]
    store.close()


def test_a_desk_reads_neither_an_older_nor_a_newer_schema(address: Address) -> None:
    migrate(address, SECOND)
    with pytest.raises(StoreError, match="newer onward"):
        PostgresDesk(address, HandClock())
    ask(address, "UPDATE SCHEMA.about SET schema_version = 0 RETURNING 1")
    with pytest.raises(StoreError, match="older schema 0"):
        PostgresDesk(address, HandClock())
