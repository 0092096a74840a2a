"""A query as a source, on PostgreSQL: its values, its snapshot, what its loss means, its password."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psycopg
import pytest

import onward
from acceptance.jobs import Place, plain, wait_until
from helpers import postgres
from onward.errors import SourceError, SourceLost
from onward.sources import sql_rows

ROWS = 5000
JOB = """
rows = onward.sql("SELECT id, body FROM {table} ORDER BY id", "{url}", key="id")
job = onward.Job("case", source=rows, concurrency=8)

@job.step
def echo(record):
    started(record["id"])
    return record["body"]
"""
TYPES = {
    "1::int2": 1,
    "9223372036854775807::int8": 9223372036854775807,
    "1.5::float8": 1.5,
    "0.1::float4": 0.1,
    "true": True,
    "1.10::numeric": "1.10",
    "'x'::text": "x",
    "'ab'::char(4)": "ab  ",
    "'2026-01-31'::date": "2026-01-31",
    "'2026-01-31 12:00:00.5'::timestamp": "2026-01-31T12:00:00.500000",
    "'2026-01-31 12:00:00+02'::timestamptz": "2026-01-31T10:00:00Z",
    "'12:30:00'::time": "12:30:00",
    "'1 month 90 seconds'::interval": "P1MT1M30S",
    "'\\x00ff'::bytea": "AP8=",
    "'8c5e6a0e-0000-4000-8000-000000000001'::uuid": "8c5e6a0e-0000-4000-8000-000000000001",
    '\'{"a": 1.0, "b": [1, null]}\'::json': {"a": 1.0, "b": [1, None]},
    "'{\"b\": 12345678901234567890}'::jsonb": {"b": 12345678901234567890},
    "ARRAY[1, NULL, 3]": [1, None, 3],
    "ARRAY['a,b', 'c\"d', NULL]": ["a,b", 'c"d', None],
    "ARRAY['2026-01-31'::date]": ["2026-01-31"],
    "'10.0.0.1'::inet": "10.0.0.1",
    "NULL::date": None,
}
REFUSED = {
    "'NaN'::float8": "column c is nan, which JSON cannot hold",
    "'Infinity'::numeric": 'column "c" is Infinity, which JSON cannot hold',
    "'infinity'::timestamp": 'column "c" is infinity, which is no moment',
    "'0044-03-15 BC'::date": 'column "c" is 0044-03-15 BC, which is no date',
    '\'{"a": 1, "b": {"c": 2, "c": 3}}\'::json': 'column "c" has "c" twice in one object',
    "'1e-99999999999999999999'::json": 'column "c" has the number 1e-99999999999999999999',
    "('[' || repeat('7', 5000) || ']')::json": 'column "c" has a number of 5,000 digits, 7777',
    "'0.12345678901234567890123'::jsonb": 'column "c" has the number 0.12345678901234567890123',
}


@pytest.fixture
def table(database: str) -> Iterator[str]:
    """A table of rows, with its schema."""
    schema = postgres.new_schema()
    with psycopg.connect(database, autocommit=True) as own:
        own.execute(f"CREATE SCHEMA {schema}")
        own.execute(
            f"CREATE TABLE {schema}.t AS SELECT n AS id, 'body ' || n AS body FROM generate_series(1, {ROWS}) n"
        )
        yield f"{schema}.t"
        own.execute(f"DROP SCHEMA {schema} CASCADE")


def read(url: str, query: str, key: Any = "id") -> tuple[list[Any], list[str]]:
    blocks = list(onward.sql(query, url, key).read(None, None))
    records = [json.loads(record.value) for block in blocks for record in block.records]
    return records, [bad.reason for block in blocks for bad in block.bad]


def test_values(database: str) -> None:
    listed = ", ".join(f"{expression} AS c{place}" for place, expression in enumerate(TYPES))
    (record,), bad = read(database, f"SELECT 'k' AS id, {listed}")
    assert not bad
    for place, (expression, value) in enumerate(TYPES.items()):
        assert record[f"c{place}"] == value and type(record[f"c{place}"]) is type(value), expression


MADE = """
CREATE TYPE {schema}.mood AS ENUM ('sad', 'very "happy"');
CREATE DOMAIN {schema}.small AS int CHECK (VALUE < 100);
CREATE DOMAIN {schema}.smaller AS {schema}.small;
CREATE DOMAIN {schema}.day AS date;
CREATE DOMAIN {schema}.row AS int[];
CREATE DOMAIN {schema}.grid AS {schema}.row[];
CREATE TYPE {schema}.pair AS (a int, b text);
"""
ARRAYS = {
    "ARRAY['sad', NULL, 'very \"happy\"']::{schema}.mood[]": ["sad", None, 'very "happy"'],
    "ARRAY[[1, 2], [3, NULL]]::{schema}.small[]": [[1, 2], [3, None]],
    "ARRAY[7]::{schema}.smaller[]": [7],
    "7::{schema}.smaller": 7,
    "'[3:4]={{1,2}}'::{schema}.row": [1, 2],
    "ARRAY['{{1,2}}', '{{}}', NULL]::{schema}.row[]": [[1, 2], [], None],
    "ARRAY['{{1,2}}']::{schema}.row[]::{schema}.grid": [[1, 2]],
    "ARRAY['2026-01-31']::{schema}.day[]": ["2026-01-31"],
    "ARRAY[ROW(1, 'x y')]::{schema}.pair[]": ['(1,"x y")'],
    "ARRAY[ROW(1, 2)]": ["(1,2)"],
    "ARRAY['{{[1,3),[5,9)}}']::int4multirange[]": ["{[1,3),[5,9)}"],
    "ARRAY['[1,3)']::int4range[]": ["[1,3)"],
    "ARRAY['((1,1),(0,0))', '((2,2),(0,0))']::box[]": ["(1,1),(0,0)", "(2,2),(0,0)"],
    "ARRAY['a b', 'c']::tsvector[]": ["'a' 'b'", "'c'"],
    "'1 2'::int2vector": "1 2",
    "ARRAY['1 2']::int2vector[]": ["1 2"],
    "ARRAY['{{\"a\": 1}}']::jsonb[]": [{"a": 1}],
}


def test_arrays_of_all_kinds_are_lists_of_what_their_elements_are(database: str) -> None:
    schema = postgres.new_schema()
    with psycopg.connect(database, autocommit=True) as own:
        own.execute(f"CREATE SCHEMA {schema};" + MADE.format(schema=schema))
        try:
            listed = ", ".join(f"{one.format(schema=schema)} AS c{place}" for place, one in enumerate(ARRAYS))
            (record,), bad = read(database, f"SELECT 'k' AS id, {listed}")
            assert not bad
            for place, (expression, value) in enumerate(ARRAYS.items()):
                assert record[f"c{place}"] == value, expression
            _, bad = read(database, f"SELECT 'k' AS id, ARRAY['infinity']::{schema}.day[] AS c")
            assert 'column "c" is infinity, which is no date' in bad[0]
        finally:
            own.execute(f"DROP SCHEMA {schema} CASCADE")


def test_arrays_that_do_not_say_of_what_are_refused(database: str) -> None:
    with pytest.raises(SourceError, match='column "c" is of type anyarray, which does not say what its elements are'):
        read(database, "SELECT attname AS id, most_common_vals AS c FROM pg_stats")


def test_a_bound_on_the_length_of_transactions_does_not_hold(database: str) -> None:
    """It would cut a long query off each time anew."""
    with psycopg.connect(database) as own:
        if own.info.server_version < 170_000:
            pytest.skip("PostgreSQL has this bound from 17 on")
    bound = f"{database}{'&' if '?' in database else '?'}options=-ctransaction_timeout%3D1500"
    records, _ = read(bound, "SELECT n AS id, pg_sleep(0.02) IS NULL AS z FROM generate_series(1, 100) n")
    assert len(records) == 100


def test_an_address_with_what_is_no_setting(database: str) -> None:
    with pytest.raises(SourceError, match=r'is not an address that .*"schema"'):
        read(postgres.in_schema(database, "x"), "SELECT 1 AS id")


def test_values_that_json_cannot_hold_make_bad_lines(database: str) -> None:
    for expression, why in REFUSED.items():
        records, bad = read(database, f"SELECT 1 AS id, {expression} AS c UNION ALL SELECT 2, NULL")
        assert [record["id"] for record in records] == [2]
        assert len(bad) == 1 and why in bad[0]


@pytest.mark.parametrize(
    ("query", "why"),
    [
        ("SELECT 1 AS id, 2 AS id", 'two columns named "id"'),
        ("SELECT 1 AS a, 2 AS b", 'no column "id"; its columns are "a", "b"'),
        ("SELECT nothing", 'the query cannot be run: column "nothing" does not exist'),
        ("SELECT 1 AS id; DROP TABLE pg_class", "the query cannot be run"),
        ("CREATE TABLE left_behind (id int)", "it has to be a SELECT"),
        ("SELECT pg_advisory_lock(1) AS id, set_config('a.b', 'x', true)::int AS c", "the query cannot be run"),
    ],
)
def test_queries_that_cannot_be_used(database: str, query: str, why: str) -> None:
    with pytest.raises(SourceError, match=why):
        read(database, query)


def test_it_cannot_change_anything(database: str, table: str) -> None:
    with pytest.raises(SourceError):
        read(database, f"WITH gone AS (DELETE FROM {table} RETURNING id) SELECT id FROM gone")
    with psycopg.connect(database) as own:
        assert own.execute(f"SELECT count(*) FROM {table}").fetchone() == (ROWS,)


def test_one_snapshot_read_piece_by_piece(database: str, table: str) -> None:
    with closing(onward.sql(f"SELECT * FROM {table} ORDER BY id", database, "id").read(None, None)) as blocks:  # type: ignore[type-var]
        first = next(blocks)
        with psycopg.connect(database, autocommit=True) as own:
            own.execute(f"DELETE FROM {table} WHERE id > 10")
            own.execute(f"INSERT INTO {table} VALUES (0, 'new')")
        keys = [record.key for block in [first, *blocks] for record in block.records]
    assert keys == [str(number) for number in range(1, ROWS + 1)]


def test_a_page_is_small_where_rows_are_big(database: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Memory is that of a few megabytes of rows, however big each is."""
    asked: list[int] = []
    fetch = psycopg.ServerCursor.fetchmany

    def counted(self: Any, size: int = 0) -> Any:
        asked.append(size)
        return fetch(self, size)

    monkeypatch.setattr(psycopg.ServerCursor, "fetchmany", counted)
    monkeypatch.setattr(sql_rows, "MOST_CHARACTERS", 1 << 20)
    query = "SELECT n AS id, repeat('x', 100000) AS body FROM generate_series(1, 300) n"
    records, _ = read(database, query)
    assert len(records) == 300 and max(asked[1:]) <= 10


def a_place(folder: Path, url: str, table: str) -> Place:
    return Place(folder, JOB.format(table=table, url=url))


def with_password(url: str, word: str) -> str:
    parts = urlsplit(url)
    who = (parts.netloc.rpartition("@")[0] or "postgres").partition(":")[0]
    return parts._replace(netloc=f"{who}:{word}@{parts.netloc.rpartition('@')[2]}").geturl()


def test_it_is_read_anew_and_matched_by_key(tmp_path: Path, database: str, table: str) -> None:
    place = a_place(tmp_path, with_password(database, "0ne-s3cret"), table)
    first = place.run("--limit", "50")
    assert (first.code, first.counts["succeeded"]) == (0, 50)
    while place.status()["total"] < ROWS:  # it may have been done with its fifty before the query was read to its end
        first = place.run("--limit", "1")
    with psycopg.connect(database, autocommit=True) as own:
        own.execute(f"DELETE FROM {table} WHERE id > 100")
        own.execute(f"INSERT INTO {table} VALUES (200000, 'new')")
    place.job(JOB.format(table=table, url=with_password(database, "tw0-s3cret")))
    second = place.run()
    assert (second.code, second.counts) == (0, {"succeeded": 101})
    assert place.status()["vanished"] == ROWS - 100
    calls = place.calls()  # some that were to vanish may have been begun before the query was read to its end
    assert {*range(1, 101), 200000} <= set(calls) and len(set(calls)) == len(calls)
    said = first.said + second.said + place.fine("status", "job.py") + place.fine("log", "job.py")
    kept = b"".join(path.read_bytes() for path in (tmp_path / ".onward").iterdir())
    for secret in ("0ne-s3cret", "tw0-s3cret"):
        assert secret not in said and secret.encode() not in kept
    place.job(JOB.format(table=table, url=database).replace("ORDER BY id", "ORDER BY id DESC"))
    moved = place.onward("run", "job.py")
    assert moved.returncode == 2 and "--source-changed" in moved.stderr and "s3cret" not in moved.stderr


def test_a_killed_run_goes_on(tmp_path: Path, database: str, table: str) -> None:
    place = a_place(tmp_path, database, table)
    run = place.start("run", "job.py")
    log = tmp_path / "calls.log"
    wait_until(lambda: log.exists() and log.stat().st_size > 0)
    run.kill()
    run.wait()
    ended = place.run()
    assert (ended.code, ended.counts) == (0, {"succeeded": ROWS})
    assert set(place.calls()) == set(range(1, ROWS + 1))


def test_a_connection_that_is_lost_while_it_is_read(tmp_path: Path, database: str) -> None:
    """Exit 3: the same command goes on. What was read before is kept and done."""
    slow = (
        "SELECT n AS id, 'x' AS body, pg_sleep(CASE WHEN n > 3000 THEN 0.05 ELSE 0 END)::text AS z "
        "FROM generate_series(1, 4000) n"
    )
    text = JOB.replace("SELECT id, body FROM {table} ORDER BY id", slow).format(table="", url=database)
    place = Place(tmp_path, text)
    run = place.start("run", "job.py")
    wait_until(lambda: (tmp_path / "calls.log").exists() and len(place.calls()) > 1000)
    cut_off(database)
    assert run.wait(60) == 3
    said = (tmp_path / "said.txt").read_text()
    assert "cannot be reached, or was lost" in said and "run the same command again" in said
    plain(said)
    assert place.status()["counts"]["succeeded"] >= 1000


SLOW = (
    "SELECT n AS id, 'x' AS body, CASE WHEN n <= {fast} THEN NULL ELSE pg_sleep({seconds}) END IS NULL AS z "
    "FROM generate_series(1, {rows}) n"
)


def cut_off(url: str) -> None:
    """End the connections that rows are read by."""
    ask = (
        "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
        "WHERE query LIKE '%onward_rows%' AND pid <> pg_backend_pid()"
    )
    with psycopg.connect(url, autocommit=True) as own:
        assert own.execute(ask.encode()).fetchall()


def test_a_slow_query_gives_its_rows_as_they_come(database: str) -> None:
    """None waits for a thousand others."""
    query = SLOW.format(fast=0, seconds=0.3, rows=100)
    with closing(onward.sql(query, database, "id").read(None, None)) as blocks:  # type: ignore[type-var]
        sizes = [len(next(blocks).records) for _ in range(3)]
    assert max(sizes) <= 4


def test_rows_that_had_come_before_the_connection_was_lost_are_kept(database: str) -> None:
    query = SLOW.format(fast=300, seconds=0.2, rows=3000)
    keys: list[str] = []
    with pytest.raises(SourceLost), closing(onward.sql(query, database, "id").read(None, None)) as blocks:  # type: ignore[type-var]
        for block in blocks:
            keys += [record.key for record in block.records]
            if len(keys) >= 200:
                cut_off(database)
    assert keys == [str(number) for number in range(1, len(keys) + 1)] and len(keys) >= 200


def test_fewer_rows_than_a_thousand_are_worked_on_where_the_connection_is_lost(tmp_path: Path, database: str) -> None:
    query = SLOW.format(fast=100, seconds=0.2, rows=1000)
    text = JOB.replace("SELECT id, body FROM {table} ORDER BY id", query).format(table="", url=database)
    place = Place(tmp_path, text)
    run = place.start("run", "job.py")
    wait_until(lambda: (tmp_path / "calls.log").exists() and len(place.calls()) > 70)
    cut_off(database)
    assert run.wait(60) == 3
    assert 70 <= place.status()["counts"]["succeeded"] < 1000


def test_who_is_not_let_in_is_told_so(database: str) -> None:
    """Nothing that another try would mend: code 2 even where a run had begun."""
    elsewhere = urlsplit(database)._replace(path="/nowhere_at_all").geturl()
    with pytest.raises(SourceError, match=r"does not let us in: .*does not exist") as said:
        read(elsewhere, "SELECT 1 AS id")
    assert not isinstance(said.value, SourceLost) and "again" not in str(said.value)


def test_a_server_that_is_not_there(tmp_path: Path) -> None:
    url = f"postgresql://ada:s3cret@127.0.0.1:{postgres.free_port()}/app"
    with pytest.raises(SourceLost, match="cannot be reached") as lost:
        read(url, "SELECT 1 AS id")
    assert "s3cret" not in str(lost.value)
    place = a_place(tmp_path, url, "t")
    ended = place.onward("run", "job.py")
    assert ended.returncode == 2 and "the source cannot be read" in ended.stderr and "s3cret" not in ended.stderr
    plain(ended.stderr)
