"""What is refused, and in what words: addresses, servers, rights, foreign tables, other schemas."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import urlsplit

import psycopg
import pytest

from clocks import HandClock
from helpers import postgres
from onward.errors import OnwardError, StoreAway, StoreError, StoreMissing, UsageError
from onward.store.postgres import connection as connections
from onward.store.postgres.address import masked, parse
from onward.store.postgres.desk import PostgresDesk
from onward.store.postgres.work import PostgresWorkStore


@pytest.fixture
def url(database: str) -> Iterator[str]:
    """The address of a schema that is not there yet."""
    schema = postgres.new_schema()
    yield postgres.in_schema(database, schema)
    with psycopg.connect(database, autocommit=True) as own:
        own.execute(f"DROP SCHEMA IF EXISTS {schema} CASCADE")


def opened(url: str, create: bool = True) -> PostgresWorkStore:
    return PostgresWorkStore(parse(url), HandClock(), create=create)


def execute(url: str, *statements: str) -> None:
    address = parse(url)
    with psycopg.connect(address.server, autocommit=True) as own:
        for statement in statements:
            own.execute(statement.replace("ITS", address.quoted))


def refusal(url: str, kind: type[OnwardError] = StoreError) -> str:
    with pytest.raises(kind) as refused:
        opened(url)
    told = str(refused.value)
    assert "psycopg" not in told and "SQLSTATE" not in told
    return told


@pytest.mark.parametrize(
    ("given", "shown"),
    [
        ("postgresql://me:secret@db:5432/work", "postgresql://me:***@db:5432/work"),
        ("postgres://me@db/work?schema=s", "postgres://me@db/work?schema=s"),
        ("postgresql://db/work?user=me&password=secret", "postgresql://db/work?user=me&password=***"),
        ("postgresql://me:p%40ss@db/work", "postgresql://me:***@db/work"),
    ],
)
def test_passwords_are_masked(given: str, shown: str) -> None:
    assert masked(given) == shown
    assert parse(given).shown == shown


def test_the_schema_is_no_business_of_the_driver() -> None:
    address = parse('postgresql://db/work?sslmode=require&schema=o"dd')
    assert (address.server, address.quoted) == ("postgresql://db/work?sslmode=require", '"o""dd"')
    assert parse("postgresql://db/work").schema == "onward"


@pytest.mark.parametrize("schema", ["", "pg_mine", "x" * 64])
def test_a_schema_that_cannot_be_is_refused(schema: str) -> None:
    with pytest.raises(StoreError, match="schema"):
        parse(f"postgresql://db/work?schema={schema}")


def test_a_new_store_says_so_once(url: str) -> None:
    first, second = opened(url), opened(url)
    assert (first.new, second.new) == (True, False)
    first.close()
    second.close()


def test_what_is_not_there_is_not_made_where_it_must_not_be(url: str) -> None:
    with pytest.raises(StoreMissing, match="there is no store at postgresql://"):
        opened(url, create=False)
    with pytest.raises(StoreMissing, match="there is no store at postgresql://"):
        PostgresDesk(parse(url), HandClock())


def test_nobody_listens() -> None:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        place = f"127.0.0.1:{one.getsockname()[1]}"
    with pytest.MonkeyPatch.context() as patched:
        patched.setattr(connections, "OPENING", 0.5)
        with pytest.raises(StoreAway) as lost:
            opened(f"postgresql://me:secret@{place}/work")
    assert "cannot be reached" in str(lost.value) and "secret" not in str(lost.value)


@pytest.mark.parametrize("password", ["gehe%20im", "gehe im"])
def test_what_the_driver_quotes_of_a_password_is_masked(password: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connections, "OPENING", 0.5)
    told = refusal(f"postgresql://me:{password}@127.0.0.1:1/work?no_such_option=1")
    assert "gehe" not in told and "***" in told


def test_no_such_database_or_user(database: str) -> None:
    parts = urlsplit(database)
    assert "there is no such" in refusal(parts._replace(path="/nowhere").geturl())
    if "ONWARD_TEST_POSTGRES" not in __import__("os").environ:
        told = refusal(parts._replace(netloc=f"nobody_here:secret@{parts.hostname}:{parts.port}").geturl())
        assert "there is no such user or database" in told and "secret" not in told


def test_no_rights_in_the_database(url: str) -> None:
    role = postgres.new_schema()
    execute(url, f"CREATE ROLE {role} LOGIN PASSWORD 'secret'")
    parts = urlsplit(url)
    try:
        told = refusal(parts._replace(netloc=f"{role}:secret@{parts.hostname}:{parts.port}").geturl())
        assert "lacks rights" in told and "CREATE SCHEMA" in told
    finally:
        execute(url, f"DROP ROLE {role}")


def test_another_programs_tables_are_left_as_they_are(url: str) -> None:
    execute(url, "CREATE SCHEMA ITS", "CREATE TABLE ITS.theirs (a int)")
    assert "another program's tables" in refusal(url)


def test_a_schema_that_was_made_for_it_will_do(url: str) -> None:
    execute(url, "CREATE SCHEMA ITS")
    store = opened(url)
    assert store.new
    store.close()


def test_commits_that_are_acknowledged_too_early_are_refused(url: str) -> None:
    told = refusal(f"{url}&options=-c%20synchronous_commit%3Doff")
    assert "synchronous_commit = off" in told


def test_what_the_server_requires_of_commits_is_kept(url: str) -> None:
    store = opened(f"{url}&options=-c%20synchronous_commit%3Dremote_apply")
    setting = store._line.change(lambda tx: tx._connection.execute("SHOW synchronous_commit").fetchone(), [])
    assert setting == ("remote_apply",)
    store.close()


def test_a_store_of_a_newer_onward(url: str) -> None:
    opened(url).close()
    execute(url, "UPDATE ITS.about SET schema_version = 99")
    assert "written by a newer onward (schema 99" in refusal(url)
    with pytest.raises(StoreError, match="newer onward"):
        PostgresDesk(parse(url), HandClock())


def test_without_the_driver_it_is_said_what_to_install(tmp_path: Path) -> None:
    source = """
import sys
sys.modules["psycopg"] = None
from onward import runner
from onward.errors import UsageError
try:
    runner.open_work("postgresql://db/work", True, True)
except UsageError as error:
    print(error)
"""
    said = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, timeout=60, check=True).stdout
    assert "pip install 'onward[postgres]'" in said
    assert UsageError.exit_code == 2


def test_the_driver_is_not_loaded_without_need() -> None:
    source = "import sys, onward, onward.runner, onward.cli.main; print('psycopg' in sys.modules)"
    said = subprocess.run([sys.executable, "-c", source], capture_output=True, text=True, timeout=60, check=True).stdout
    assert said == "False\n"
