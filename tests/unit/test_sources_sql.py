"""Rows of a query as records: which values they become, which queries are refused, what a place is known by."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import apsw
import pytest
from source_reading import read_all

import onward
from onward.errors import DeclarationError, SourceError, UsageError
from onward.policy.addresses import address_of
from onward.sources import sql as sql_source
from onward.sources import sql_values
from onward.sources.sql_rows import Unfit

TABLE = "CREATE TABLE t (id, name TEXT, doc JSON, raw BLOB, size REAL)"


def database(folder: Path, *rows: tuple[Any, ...]) -> Path:
    path = folder / "in.db"
    connection = apsw.Connection(str(path))
    connection.execute(TABLE)
    connection.executemany("INSERT INTO t VALUES (?, ?, ?, ?, ?)", rows)
    connection.close()
    return path


def source(folder: Path, query: str = "SELECT * FROM t ORDER BY rowid", key: Any = "id") -> Any:
    return onward.sql(query, "in.db", key).based_at(folder)


def values(reading: Any) -> list[Any]:
    return [json.loads(record.value) for record in reading.records]


def test_rows_are_records_with_their_columns_as_fields(tmp_path: Path) -> None:
    database(tmp_path, (1, "a\0b", '{"x": 1.0}', b"\x00\xff", 1.5), ("1", None, None, None, None))
    reading = read_all(source(tmp_path))
    assert reading.keys == ["1", '"1"']
    assert values(reading) == [
        {"id": 1, "name": "a\0b", "doc": {"x": 1.0}, "raw": "AP8=", "size": 1.5},
        {"id": "1", "name": None, "doc": None, "raw": None, "size": None},
    ]
    assert reading.complete and not reading.bad


@pytest.mark.parametrize(
    ("row", "why"),
    [
        ((1, "x", "{", None, None), 'column "doc" is not JSON'),
        ((1, "x", "[0.12345678901234567890123]", None, None), 'column "doc" has the number 0.12345678901234567890123'),
        ((1, "x", '{"a": 1, "a": 2}', None, None), 'column "doc" has "a" twice in one object'),
        ((1, "x", "[1e-99999999999999999999]", None, None), 'column "doc" has the number 1e-99999999999999999999'),
        ((1, "x", "[" + "7" * 5000 + "]", None, None), 'column "doc" has a number of 5,000 digits'),
        ((1, "x", "[1e999]", None, None), 'column "doc" has the number 1e999'),
        ((1, "x", "NaN", None, None), 'column "doc" has NaN'),
        ((1, "x", None, None, float("inf")), "column size is inf, which JSON cannot hold"),
        ((None, "x", None, None, None), 'the key field "id" is null'),
        (("", "x", None, None, None), 'the key field "id" is empty'),
        ((1.5, "x", None, None, None), 'the key field "id" is 1.5; a key is text or a whole number'),
    ],
)
def test_what_json_cannot_hold_is_a_bad_line_that_names_column_and_row(
    tmp_path: Path, row: tuple[Any, ...], why: str
) -> None:
    database(tmp_path, (7, "fine", None, None, None), row, (8, "fine", None, None, None))
    reading = read_all(source(tmp_path))
    assert reading.keys == ["7", "8"]
    (bad,) = reading.bad
    assert why in bad.reason and bad.where == "in.db:2"


def test_a_zero_keeps_its_sign(tmp_path: Path) -> None:
    database(tmp_path, (1, None, "[-0, -0.0, 0]", None, None))
    assert '"doc":[-0.0,-0.0,0]' in read_all(source(tmp_path)).records[0].value


def test_blocks_are_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sql_source, "MAX_RECORDS", 3)
    database(tmp_path, *((number, None, None, None, None) for number in range(8)))
    blocks = list(source(tmp_path).read(None, None))
    assert max(len(block.records) for block in blocks) == 3 and blocks[-1].complete
    assert [record.position for block in blocks for record in block.records] == list(range(1, 9))


def test_rows_that_were_read_before_a_fault_are_handed_over(tmp_path: Path) -> None:
    database(tmp_path, *((number, None, None, None, None) for number in range(100)))
    path = tmp_path / "in.db"
    connection = apsw.Connection(str(path))
    connection.execute("UPDATE t SET name = CAST(x'ff' AS TEXT) WHERE id = 90")
    connection.close()
    keys = []
    with pytest.raises(SourceError, match=r"in\.db:91: a text is not UTF-8"):
        for block in source(tmp_path).read(None, None):
            keys += [int(record.key) for record in block.records]
    assert keys == list(range(90))


@pytest.mark.parametrize(
    ("query", "key", "why"),
    [
        ("SELECT id, name AS id FROM t", "id", 'two columns named "id"; give each a name of its own with AS'),
        ("SELECT id, name FROM t", "nope", 'no column "nope"; its columns are "id", "name"'),
        ("SELECT id, name FROM t", ("id", "other"), 'no column "other"'),
        ("SELEKT 1", "id", "the query cannot be run"),
        ("SELECT * FROM nowhere", "id", "no such table: nowhere"),
        ("SELECT 1; SELECT 2", "id", "more than one statement"),
        ("DELETE FROM t", "id", "gives no rows; it has to be a SELECT"),
        ("DELETE FROM t RETURNING id", "id", "readonly"),
    ],
)
def test_queries_that_cannot_be_used(tmp_path: Path, query: str, key: Any, why: str) -> None:
    path = database(tmp_path, (1, None, None, None, None))
    with pytest.raises(SourceError, match=why):
        made = source(tmp_path, query, key)
        made.resume(None, False)
        read_all(made)
    assert apsw.Connection(str(path)).execute("SELECT count(*) FROM t").fetchone() == (1,)


def test_a_semicolon_at_the_end_does_no_harm(tmp_path: Path) -> None:
    database(tmp_path, (1, None, None, None, None))
    assert read_all(source(tmp_path, "  SELECT id FROM t ; \n")).keys == ["1"]


def test_it_is_always_read_anew(tmp_path: Path) -> None:
    database(tmp_path)
    assert source(tmp_path).resume('{"rows": 3}', True).how == "again"


def test_places_that_are_not_there(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match=r"there is no file in.db \(looked for"):
        source(tmp_path).resume(None, False)
    (tmp_path / "in.db").write_text("no database at all, " * 50)
    with pytest.raises(SourceError, match="is not a SQLite database"):
        source(tmp_path).resume(None, False)
    refused = (("mysql://x/y", "mysql:// is no database"), ("sqlite://", "names no file"), (":memory:", "no file"))
    for url, why in refused:
        with pytest.raises(UsageError, match=why):
            onward.sql("SELECT 1", url, "id").resume(None, False)
    with pytest.raises(DeclarationError, match="sql\\(\\) takes a query"):
        onward.sql("  ", "in.db", "id")


def test_where_relative_paths_begin(tmp_path: Path) -> None:
    assert json.loads(source(tmp_path).location)["database"] == str(tmp_path / "in.db")
    for url in (f"sqlite:///{tmp_path}/in.db", f"{tmp_path}/in.db"):
        assert json.loads(onward.sql("SELECT 1", url, "id").location)["database"] == str(tmp_path / "in.db")
    assert json.loads(source(tmp_path, "SELECT id FROM t;").location)["query"] == "SELECT id FROM t"


SECRETS = (
    "postgresql://ada:s3cret@db:5432/app",
    "postgresql://ada:p%40ss%2Fword@db:5432/app",
    "postgresql://db/app?user=ada&password=s3cret&sslpassword=t0p",
)


@pytest.mark.parametrize("url", SECRETS)
def test_a_password_is_nowhere_but_in_the_connection(url: str) -> None:
    made = onward.sql("SELECT 1", url, "id")
    address = address_of(url, None)
    for text in (made.location, made.title, made.where(3), address.shown, repr(address)):
        assert not any(secret in text for secret in ("s3cret", "p%40ss", "p@ss", "t0p"))
    said = address.masked(f"FATAL: {' '.join(address.secrets)}")
    assert address.secrets and not any(secret in said for secret in address.secrets)


def test_a_changed_password_is_no_other_place() -> None:
    first, second, third = (
        onward.sql("SELECT 1", f"postgresql://ada:{word}@db/app", "id").location for word in ("one", "two", "")
    )
    assert first == second
    other = onward.sql("SELECT 1", "postgresql://ada:one@db/other", "id").location
    assert first != other
    assert third.replace("ada:@", "ada@") == first


@pytest.mark.parametrize(
    ("convert", "text", "value"),
    [
        (sql_values.numeric, "1.10", "1.10"),
        (sql_values.numeric, "-12345678901234567890.1", "-12345678901234567890.1"),
        (sql_values.date, "2026-01-31", "2026-01-31"),
        (sql_values.timestamp, "2026-01-31 12:00:00", "2026-01-31T12:00:00"),
        (sql_values.timestamp, "2026-01-31 12:00:00.5+00", "2026-01-31T12:00:00.500000Z"),
        (sql_values.time, "12:00:00.25", "12:00:00.250000"),
        (sql_values.time, "12:00:00+02", "12:00:00+02:00"),
        (sql_values.octets, "\\x00ff", "AP8="),
        (sql_values.boolean, "t", True),
        (sql_values.json_value, '{"a": 123456789012345678901, "b": 1.0}', {"a": 123456789012345678901, "b": 1.0}),
        (sql_values.array_of(int), "{1,NULL,-3}", [1, None, -3]),
        (sql_values.array_of(int), "[0:1]={1,2}", [1, 2]),
        (sql_values.array_of(None), '{"a,\\"b\\"",NULL,"NULL",c}', ['a,"b"', None, "NULL", "c"]),
        (sql_values.array_of(int), "{{1,2},{3,4}}", [[1, 2], [3, 4]]),
        (sql_values.array_of(int), "{}", []),
    ],
)
def test_values_as_postgresql_writes_them(convert: Any, text: str, value: Any) -> None:
    assert convert(text) == value


@pytest.mark.parametrize(
    ("convert", "text"),
    [
        (sql_values.numeric, "NaN"),
        (sql_values.numeric, "-Infinity"),
        (sql_values.date, "infinity"),
        (sql_values.date, "0044-03-15 BC"),
        (sql_values.date, "10000-01-01"),
        (sql_values.timestamp, "-infinity"),
        (sql_values.timestamp, "10000-01-01 00:00:00"),
        (sql_values.json_value, "1e999"),
        (sql_values.json_value, "0.12345678901234567890123"),
    ],
)
def test_values_that_json_cannot_hold(convert: Any, text: str) -> None:
    with pytest.raises(Unfit, match=text[:8]):
        convert(text)
