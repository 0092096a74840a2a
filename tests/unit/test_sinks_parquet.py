"""Parquet exports: types that lose no digit."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from onward.errors import UsageError
from onward.ports.sink import ExportRow
from onward.sinks import parquet
from onward.sinks.formats import open_sink

pq = pytest.importorskip("pyarrow.parquet", reason="pyarrow is not installed")


def rows_of(*inputs: str | None) -> list[ExportRow]:
    return [ExportRow(str(index), value, {}, "succeeded", {}, 1) for index, value in enumerate(inputs)]


def read(path: Path, rows: list[ExportRow], flat: bool) -> Any:
    assert open_sink(path, flat=flat).write(iter(rows)) == len(rows)
    return pq.read_table(path)


def column(tmp_path: Path, *cells: str) -> tuple[str, list[object]]:
    table = read(tmp_path / "out.parquet", rows_of(*(f'{{"c":{cell}}}' for cell in cells)), flat=True)
    return str(table.schema.field("c").type), table.column("c").to_pylist()


def test_whole_rows_are_json_text(tmp_path: Path) -> None:
    row = ExportRow('"r1"', '{"a":1.10}', {"s": '{"n":18446744073709551617}'}, "succeeded", {"s": "v1"}, 2)
    table = read(tmp_path / "out.parquet", [row, *rows_of(None)], flat=False)
    assert [str(field.type) for field in table.schema] == ["string"] * 5 + ["int64"]
    assert table.to_pylist() == [
        {
            "key": '"r1"',
            "input": '{"a":1.10}',
            "outputs": '{"s":{"n":18446744073709551617}}',
            "state": "succeeded",
            "versions": '{"s":"v1"}',
            "generation": 2,
        },
        {"key": "0", "input": None, "outputs": "{}", "state": "succeeded", "versions": "{}", "generation": 1},
    ]


def test_types_follow_all_values(tmp_path: Path) -> None:
    assert column(tmp_path, "1", "null", str(2**63 - 1)) == ("int64", [1, None, 2**63 - 1])
    assert column(tmp_path, "1", str(2**63)) == ("string", ["1", str(2**63)])
    assert column(tmp_path, "1.10", "7") == ("double", [1.1, 7.0])
    assert column(tmp_path, "0.5", str(2**53 + 1)) == ("string", ["0.5", str(2**53 + 1)])
    assert column(tmp_path, "0.12345678901234567890") == ("string", ["0.12345678901234567890"])
    assert column(tmp_path, "1e400", "1e-99999999999999999999") == ("string", ["1e400", "1e-99999999999999999999"])
    assert column(tmp_path, "true", "false", "null") == ("bool", [True, False, None])
    assert column(tmp_path, '"a"', '""', '"x\\ud800"') == ("string", ["a", "", "x\\ud800"])
    assert column(tmp_path, '"7"', "7") == ("string", ['"7"', "7"]), "a mixture is JSON text: nothing merges"
    assert column(tmp_path, "[1.0]", '{"a":null}') == ("string", ["[1.0]", '{"a":null}'])
    assert column(tmp_path, "null") == ("string", [None])


def test_no_rows(tmp_path: Path) -> None:
    assert read(tmp_path / "a.parquet", [], flat=True).column_names == ["key", "state", "generation"]
    assert read(tmp_path / "b.parquet", [], flat=False).num_rows == 0


@pytest.mark.parametrize("flat", [False, True])
def test_many_rows_in_order_in_several_groups_and_equal_bytes(tmp_path: Path, flat: bool) -> None:
    rows = rows_of(*(f'{{"n":{number},"t":"{number}"}}' for number in range(25_000)))
    table = read(tmp_path / "a.parquet", rows, flat)
    assert [int(key) for key in table.column("key").to_pylist()] == list(range(25_000))
    assert pq.ParquetFile(tmp_path / "a.parquet").num_row_groups == 3
    read(tmp_path / "b.parquet", rows, flat)
    assert (tmp_path / "a.parquet").read_bytes() == (tmp_path / "b.parquet").read_bytes()


def test_groups_are_bounded_in_size() -> None:
    big = "x" * (20 << 20)
    assert [len(group) for group in parquet._groups(([big] for _ in range(5)), 1)] == [2, 2, 1]
    assert [len(group) for group in parquet._groups(([1] for _ in range(5)), 500_000)] == [2, 2, 1]


def test_a_fault_of_the_rows_is_not_called_one_of_the_disk(tmp_path: Path) -> None:
    def rows() -> object:
        yield from rows_of("{}")
        raise OSError("the store's own")

    for flat in (False, True):
        with pytest.raises(OSError, match="the store's own"):
            open_sink(tmp_path / "out.parquet", flat=flat).write(rows())  # type: ignore[arg-type]
    assert list(tmp_path.iterdir()) == []


def test_without_pyarrow_the_message_says_what_to_install(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pyarrow", None)
    with pytest.raises(UsageError, match=r"pip install 'onward\[parquet\]'"):
        open_sink(tmp_path / "out.parquet")
