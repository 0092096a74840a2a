"""Exports into a table: which columns and types it has, what a second export changes, and that nothing is half."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import apsw
import pytest

from helpers import postgres
from onward import runner
from onward.errors import ExportError, UsageError
from onward.ports.sink import ExportRow
from onward.sinks.table import TableSink, parts_of

KINDS = ("sqlite", "postgres")


class Table:
    """One database and what is asked of it."""

    def __init__(self, url: str, kind: str, schema: str):
        self.url, self.kind, self.schema = url, kind, schema

    def named(self, name: str) -> str:
        return f"{self.schema}.{name}" if self.kind == "postgres" else name

    def write(self, *rows: ExportRow, name: str = "out", flat: bool = False) -> tuple[int, int]:
        sink = TableSink(self.url, self.named(name), flat)
        return sink.write(iter(rows)), sink.changed

    def query(self, sql: str) -> list[tuple[Any, ...]]:
        if self.kind == "sqlite":
            connection = apsw.Connection(self.url)
            try:
                return list(connection.execute(sql))
            finally:
                connection.close()
        import psycopg

        with psycopg.connect(self.url, autocommit=True) as own:
            own.execute(f'SET search_path TO "{self.schema}"')
            cursor = own.execute(sql.encode())
            return cursor.fetchall() if cursor.description else []

    def rows(self, columns: str = "*", name: str = "out") -> list[tuple[Any, ...]]:
        return self.query(f'SELECT {columns} FROM "{name}" ORDER BY "key"')


@pytest.fixture(params=KINDS)
def table(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Table]:
    if request.param == "sqlite":
        yield Table(str(tmp_path / "out.db"), "sqlite", "")
        return
    with on_server(request) as made:
        yield made


@pytest.fixture
def server_table(request: pytest.FixtureRequest) -> Iterator[Table]:
    with on_server(request) as made:
        yield made


@contextmanager
def on_server(request: pytest.FixtureRequest) -> Iterator[Table]:
    import psycopg

    url, schema = request.getfixturevalue("database"), postgres.new_schema()
    with psycopg.connect(url, autocommit=True) as own:
        own.execute(f'CREATE SCHEMA "{schema}"')
        yield Table(url, "postgres", schema)
        own.execute(f'DROP SCHEMA "{schema}" CASCADE')


def row(key: Any, value: Any, generation: int = 0, **outputs: Any) -> ExportRow:
    made = {step: json.dumps(output) for step, output in outputs.items()}
    return ExportRow(json.dumps(key), json.dumps(value), made, "succeeded", dict.fromkeys(made, "v1"), generation)


def test_the_table_is_made_and_a_second_export_changes_what_has_changed(table: Table) -> None:
    rows = [row(1, {"id": 1}, first="a"), row("1", {"id": "1"}, first=2), row("x", {"id": "x"}, first=None)]
    assert table.write(*rows) == (3, 3)
    before = table.rows("key, state, generation")
    assert before == [('"1"', "succeeded", 0), ('"x"', "succeeded", 0), ("1", "succeeded", 0)]
    assert table.write(*rows) == (3, 0)
    assert table.write(rows[0], row("1", {"id": "1"}, 1, first=3), row("new", {}, first=1)) == (3, 2)
    assert table.rows("key, generation") == [('"1"', 1), ('"new"', 0), ('"x"', 0), ("1", 0)]


def test_json_stays_as_it_was(table: Table) -> None:
    given = ExportRow(
        "1", '{"b":1.0,"a":1e2,"b2":18446744073709551616}', {"s": '"a\\u0000\\ud800"'}, "succeeded", {}, 0
    )
    table.write(given)
    assert str(table.rows("CAST(input AS text), CAST(outputs AS text)")[0]) == str(
        (given.input, '{"s":"a\\u0000\\ud800"}')
    )


def test_flat_columns_have_types(table: Table) -> None:
    table.write(
        row(1, {"n": 1, "f": 1.5, "t": "x", "b": True, "m": 1, "z": None, "deep": {"a": 1}}, out={"n": 2}),
        row(2, {"n": 2, "f": 2, "t": "y", "b": False, "m": "s", "z": None, "deep": [1]}, out={"n": 3}),
        flat=True,
    )
    kinds = {
        "sqlite": ["TEXT", "INTEGER", "REAL", "TEXT", "BOOLEAN", "JSON TEXT", "JSON TEXT", "JSON TEXT", "INTEGER"],
        "postgres": ["text", "bigint", "double precision", "text", "boolean", "json", "json", "json", "bigint"],
    }
    asked = {
        "sqlite": "SELECT name, type FROM pragma_table_info('out')",
        "postgres": "SELECT column_name, data_type FROM information_schema.columns WHERE table_name = 'out' "
        f"AND table_schema = '{table.schema}' ORDER BY ordinal_position",
    }
    found = table.query(asked[table.kind])
    assert [name for name, _ in found] == ["key", "n", "f", "t", "b", "m", "z", "deep", "out.n", "state", "generation"]
    assert [kind for _, kind in found][:9] == kinds[table.kind]
    assert table.rows('key, n, f, t, "out.n"') == [("1", 1, 1.5, "x", 2), ("2", 2, 2.0, "y", 3)]


def test_texts_that_a_database_refuses(table: Table) -> None:
    table.write(row("k\0\ud800", {"t": "a\0b\ud800"}), flat=True)
    ((key, text),) = table.rows("key, t")
    assert key == '"k\\u0000\\ud800"'
    assert text == ("a\0b\\ud800" if table.kind == "sqlite" else "a\\u0000b\\ud800")


def test_a_table_with_other_columns_is_refused_and_stays_as_it_is(table: Table) -> None:
    table.write(row(1, {"a": 1}), flat=True)
    before = table.rows()
    with pytest.raises(ExportError, match=r'it has no "b"; it has "a" besides. Nothing was written'):
        table.write(row(1, {"b": 1}), flat=True)
    with pytest.raises(ExportError, match='it has no "input", "outputs", "versions"'):
        table.write(row(1, {"a": 1}))
    assert table.rows() == before


def test_a_value_that_does_not_fit_undoes_all_of_it(table: Table) -> None:
    table.write(row(1, {"a": 1}), flat=True)
    before = table.rows()
    with pytest.raises(ExportError, match=r'column "a" of the table .* holds whole numbers, and the record 3 has "x"'):
        table.write(row(1, {"a": 5}), row(2, {"a": 6}), row(3, {"a": "x"}), flat=True)
    assert table.rows() == before


def test_rows_that_break_off_leave_nothing(table: Table) -> None:
    def broken() -> Iterator[ExportRow]:
        yield row(1, {"a": 1})
        raise RuntimeError("the store has gone")

    with pytest.raises(RuntimeError):
        TableSink(table.url, table.named("out"), False).write(broken())
    if table.kind == "sqlite":
        assert not Path(table.url).exists()
    else:
        assert table.query(f"SELECT to_regclass('{table.schema}.out')") == [(None,)]


def test_names_are_names_and_nothing_else(table: Table) -> None:
    name = '"a""; DROP TABLE out; --"'
    table.write(row(1, {}))
    table.write(row(1, {'x"; DROP TABLE out; --': 1, "order": 2}), name=name, flat=True)
    assert len(table.rows()) == 1
    assert table.query('SELECT "order" FROM "a""; DROP TABLE out; --"') == [(2,)]


def test_records_that_are_no_longer_exported_keep_their_rows(table: Table) -> None:
    table.write(row(1, {}), row(2, {}))
    table.write(row(1, {}))
    assert len(table.rows()) == 2


def test_a_readers_table_is_whole_at_any_moment(table: Table) -> None:
    table.write(*(row(number, {"v": 1}) for number in range(50)), flat=True)

    def looked() -> Iterator[ExportRow]:
        for number in range(50):
            if number == 40 and table.kind == "postgres":
                assert {value for (value,) in table.rows("v")} == {1}
            yield row(number, {"v": 2})

    TableSink(table.url, table.named("out"), True).write(looked())
    assert {value for (value,) in table.rows("v")} == {2}


OWN = {
    "(key text PRIMARY KEY, input {json} NOT NULL, outputs {json}, state text, versions {json}, generation int)": (
        ExportRow('"k"', None, {}, "succeeded", {}, 0),
        {"sqlite": "NOT NULL constraint failed", "postgres": 'its "input" is null: null value'},
    ),
    "(key text PRIMARY KEY, input {json}, outputs {json}, state text CHECK (state <> 'bad'), versions {json}, "
    "generation int)": (
        ExportRow('"k"', "1", {}, "bad", {}, 0),
        {"sqlite": "CHECK constraint failed", "postgres": "violates check constraint"},
    ),
}


@pytest.mark.parametrize("columns", OWN)
def test_a_record_that_breaks_a_rule_of_the_table_is_named(table: Table, columns: str) -> None:
    table.query(f"CREATE TABLE out {columns.format(json='json')}")
    breaks, said = OWN[columns]
    before = [row(number, {"n": number}) for number in range(700)]
    with pytest.raises(ExportError, match=rf'does not take the record "k": .*{said[table.kind]}'):
        table.write(*before, breaks, *(row(number, {}) for number in range(700, 900)))
    assert table.rows() == []


@pytest.mark.parametrize(
    ("column", "breaks", "why"),
    [
        ("input jsonb", row("k", {"v": "\ud800"}), r'its "input" is {"v": "\\ud800"}: invalid input syntax'),
        ("input jsonb", row("k", {"v": "a\0b"}), r'its "input" is {"v": "a\\u0000b"}: unsupported Unicode escape'),
        ("state varchar(3)", row("k", {}), 'its "state" is succeeded: value too long for type character varying'),
        ("generation int", row("k", {}, 1 << 40), 'its "generation" is 1099511627776: integer out of range'),
    ],
)
def test_record_and_column_are_named_where_a_value_does_not_fit(
    server_table: Table, column: str, breaks: ExportRow, why: str
) -> None:
    columns = "key text PRIMARY KEY, input json, outputs json, state text, versions json, generation bigint"
    name = column.partition(" ")[0]
    columns = ", ".join(column if one.startswith(name) else one for one in columns.split(", "))
    server_table.query(f"CREATE TABLE out ({columns})")
    fine = [ExportRow(str(number), f'{{"n":{number}}}', {}, "ok", {}, 0) for number in range(1000)]
    with pytest.raises(ExportError, match=rf'does not take the record "k": {why}') as said:
        server_table.write(*fine[:600], breaks, *fine[600:])
    assert str(said.value).endswith("Nothing was written")
    assert server_table.rows() == []
    assert server_table.write(*fine) == (1000, 1000)


HASHES = "".join(hashlib.sha256(bytes([part])).hexdigest() for part in range(150))
LONG = [f"long{number}{HASHES}" for number in (1, 2)]


def test_no_records_make_a_table_of_none(table: Table) -> None:
    assert table.write() == (0, 0)
    assert table.rows() == []


def test_a_table_that_an_export_makes_takes_keys_of_any_length(table: Table) -> None:
    rows = [row("a", {}), row(LONG[0], {"n": 1}), row("b", {}), row(LONG[1], {})]
    assert table.write(*rows) == (4, 4)
    assert table.write(*rows) == (4, 0)
    changed = [row("a", {}), row(LONG[0], {"n": 2}), row("b", {}, 1), row(LONG[1], {}), row("c", {})]
    assert table.write(*changed) == (5, 3)
    keys = [json.dumps(key) for key in ("a", "b", "c", *LONG)]
    assert [tuple(one) for one in table.rows("key, generation")] == [*zip(keys, (0, 1, 0, 0, 0), strict=True)]
    with pytest.raises(Exception, match=r"violates|constraint failed"):
        table.query(f"INSERT INTO out (key) VALUES ('{keys[-1]}')")


def test_a_key_that_no_index_holds(server_table: Table) -> None:
    server_table.write(row("a", {}))
    with pytest.raises(ExportError, match=r'the record "long2.*…: its key has 9,607 bytes, and an index of PostgreSQL'):
        server_table.write(row("a", {}), row("b", {}), row(LONG[1], {}), row("c", {}))
    assert server_table.rows("key") == [('"a"',)]


def test_a_table_may_have_any_name(table: Table) -> None:
    for name in ("onward_export", "onward_probe", "there", "excluded"):
        assert table.write(row(1, {"c0": 1, "ctid_": 2}), name=name, flat=True) == (1, 1)
        assert table.write(row(1, {"c0": 1, "ctid_": 2}), name=name, flat=True) == (1, 0)
        assert table.rows("c0", name) == [(1,)]


def test_a_table_that_goes_with_its_connection_is_refused(table: Table) -> None:
    places = [(table.url, "temp.out")] if table.kind == "sqlite" else [(table.url, "pg_temp.out")]
    if table.kind == "postgres":
        first = f"{table.url}{'&' if '?' in table.url else '?'}options=-csearch_path%3Dpg_temp"
        places.append((first, "out"))
    for url, name in places:
        with pytest.raises(ExportError, match="would be a temporary table, which goes with the connection"):
            TableSink(url, name, False).write(iter([row(1, {})]))


def test_what_has_the_name_and_is_no_table(server_table: Table) -> None:
    server_table.query(
        "CREATE TYPE out AS (key text, input json, outputs json, state text, versions json, generation int)"
    )
    with pytest.raises(ExportError, match="is there and is no table"):
        server_table.write(row(1, {}))


@pytest.mark.parametrize(
    "made", ["TABLE out ({}, PRIMARY KEY (key) DEFERRABLE)", "TABLE there ({}); CREATE VIEW out AS TABLE there LIMIT 1"]
)
def test_what_takes_no_upserts(server_table: Table, made: str) -> None:
    columns = "key text, input json, outputs json, state text, versions json, generation int"
    server_table.query(f"CREATE {made.format(columns)}")
    with pytest.raises(ExportError, match="rows cannot be upserted into"):
        server_table.write(row(1, {}))


def test_the_schema_of_a_store_takes_no_tables(server_table: Table) -> None:
    url = postgres.in_schema(server_table.url, server_table.schema)
    assert runner.make_store(url)
    with pytest.raises(ExportError, match="is a store of onward, where no other tables belong"):
        server_table.write(row(1, {}))
    with pytest.raises(UsageError, match=r"leave out \?schema=, and write --table SCHEMA.NAME"):
        TableSink(url, "out", False)


def test_who_is_not_let_in_is_told_so(server_table: Table) -> None:
    elsewhere = urlsplit(server_table.url)._replace(path="/nowhere_at_all").geturl()
    with pytest.raises(ExportError, match=r"does not let us in: .*does not exist") as said:
        TableSink(elsewhere, "out", False).write(iter([row(1, {})]))
    assert "again" not in str(said.value)
    with pytest.raises(UsageError, match="is not an address that PostgreSQL's library reads"):
        TableSink(f"{server_table.url}?nothing=1", "out", False)


def test_a_name_with_what_no_name_has(table: Table) -> None:
    with pytest.raises(ExportError, match=r"'a\\x00b' cannot be the name of a column; export without --flat"):
        table.write(row(1, {"a\0b": 1}), flat=True)


def test_a_bound_on_the_length_of_transactions_does_not_hold(server_table: Table) -> None:
    if server_table.query("SHOW server_version_num") < [("170000",)]:
        pytest.skip("PostgreSQL has this bound from 17 on")

    def slow() -> Iterator[ExportRow]:
        yield row(1, {})
        time.sleep(1.5)
        yield row(2, {})

    bound = f"{server_table.url}{'&' if '?' in server_table.url else '?'}options=-ctransaction_timeout%3D1000"
    assert TableSink(bound, server_table.named("out"), False).write(slow()) == 2


def test_a_table_without_its_primary_key(table: Table) -> None:
    name = table.named("out") if table.kind == "postgres" else "out"
    whole = "bigint" if table.kind == "postgres" else "INTEGER"
    table.query(f"CREATE TABLE {name} (key text, a {whole}, state text, generation integer)")
    with pytest.raises(ExportError, match=r"the column key of .* is not its primary key"):
        table.write(row(1, {"a": 1}), flat=True)


def test_names_that_are_one_in_sqlite(tmp_path: Path) -> None:
    with pytest.raises(ExportError, match='"key" and "Key" are one column to SQLite'):
        TableSink(str(tmp_path / "out.db"), "out", True).write(iter([row(1, {"Key": 1})]))


def test_an_onward_store_takes_no_tables(tmp_path: Path) -> None:
    connection = apsw.Connection(str(tmp_path / "store.db"))
    connection.execute(f"PRAGMA application_id = {0x6F6E7764}")
    connection.close()
    with pytest.raises(ExportError, match="is a store of onward"):
        TableSink(str(tmp_path / "store.db"), "out", False).write(iter([row(1, {})]))


@pytest.mark.parametrize(
    ("name", "parts"),
    [("t", ("t",)), ("s.t", ("s", "t")), ('"a.b"', ("a.b",)), ('s."x""y"', ("s", 'x"y')), ("päth", ("päth",))],
)
def test_names_of_tables(name: str, parts: tuple[str, ...]) -> None:
    assert parts_of(name) == parts


@pytest.mark.parametrize("name", ["", ".", "a.", ".a", "a.b.c", '"a', 'a"b"', "a\0b"])
def test_what_is_no_name_of_a_table(name: str) -> None:
    with pytest.raises(UsageError, match="is no name of a table"):
        parts_of(name)
