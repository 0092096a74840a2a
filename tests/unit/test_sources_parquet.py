"""Parquet: digits that stay, text forms, batches, and cursors by row group and row."""

from __future__ import annotations

import datetime as dt
import decimal
import json
import os
import sys
import uuid
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from source_reading import Reading, read_all, read_with_stops, use_tiny_blocks

from onward.errors import SourceError
from onward.sources import parquet as module
from onward.sources.parquet import parquet


def written(folder: Path, columns: dict[str, Any], rows: int = 2, name: str = "in.parquet") -> str:
    path = str(folder / name)
    pq.write_table(pa.table(columns), path, row_group_size=rows)
    return path


def values(reading: Reading) -> list[dict[str, Any]]:
    return [json.loads(record.value) for record in reading.records]


def one_value(folder: Path, array: pa.Array) -> Any:
    [value] = values(read_all(parquet(written(folder, {"id": ["a"], "v": array}), key="id")))
    return value["v"]


def test_nullable_integers_keep_every_digit(tmp_path: Path) -> None:
    numbers = [9007199254740992, 9007199254740993, 9223372036854775807, None, 7]
    path = written(tmp_path, {"id": pa.array(numbers, pa.int64()), "n": pa.array(numbers, pa.int64())})
    reading = read_all(parquet(path, key="id"))
    assert reading.keys == ["9007199254740992", "9007199254740993", "9223372036854775807", "7"]
    assert reading.records[2].value == '{"id":9223372036854775807,"n":9223372036854775807}'
    assert reading.reasons == {4: 'the key field "id" is null'}
    assert reading.bad[0].where == f"{path}:4"


def test_floating_point_keys_are_refused(tmp_path: Path) -> None:
    reading = read_all(parquet(written(tmp_path, {"id": [1.0, float("nan")]}), key="id"))
    assert reading.reasons == {
        1: 'the key field "id" is 1.0; a key is text or a whole number',
        2: 'the key field "id" is null',
    }


UTC = dt.UTC


@pytest.mark.parametrize(
    ("array", "text"),
    [
        (pa.array([decimal.Decimal("1.10")], pa.decimal128(30, 2)), "1.10"),
        (pa.array([decimal.Decimal("0")], pa.decimal128(30, 10)), "0.0000000000"),
        (pa.array([dt.date(2024, 2, 29)]), "2024-02-29"),
        (pa.array([1_234_567_890_123_456_789], pa.timestamp("ns")), "2009-02-13T23:31:30.123456789"),
        (pa.array([1_234_567_890_123], pa.timestamp("ms", "Europe/Paris")), "2009-02-13T23:31:30.123000Z"),
        (pa.array([-1], pa.timestamp("us", "UTC")), "1969-12-31T23:59:59.999999Z"),
        (pa.array([0], pa.timestamp("s")), "1970-01-01T00:00:00"),
        (pa.array([1], pa.time64("ns")), "00:00:00.000000001"),
        (pa.array([dt.time(12, 30)]), "12:30:00"),
        (pa.array([90_500], pa.duration("ms")), "PT90.5S"),
        (pa.array([b"\x00\xff"]), "AP8="),
        (pa.array([True]), True),
        (pa.array([18446744073709551615], pa.uint64()), 18446744073709551615),
        (pa.array([float("nan")]), None),
        (pa.array([None], pa.float32()), None),
        (pa.array([[1, None]], pa.list_(pa.timestamp("s"))), ["1970-01-01T00:00:01", None]),
        (pa.array([{"a": decimal.Decimal("1.0"), "b": float("nan")}]), {"a": "1.0", "b": None}),
        (pa.array([[("k", 1)]], pa.map_(pa.string(), pa.int8())), [["k", 1]]),
        (pa.array(["x"]).dictionary_encode(), "x"),
        (pa.array([uuid.UUID(int=1).bytes], pa.uuid()), str(uuid.UUID(int=1))),
    ],
)
def test_text_forms(tmp_path: Path, array: pa.Array, text: Any) -> None:
    assert one_value(tmp_path, array) == text


def test_infinity_and_dates_out_of_range_are_bad_rows(tmp_path: Path) -> None:
    columns = {
        "id": [1, 2, 3, 4],
        "x": [1.0, float("-inf"), 3.0, 4.0],
        "t": pa.array([0, 0, 1 << 60, 0], pa.timestamp("us")),
    }
    reading = read_all(parquet(written(tmp_path, columns, rows=4), key="id"))
    assert reading.keys == ["1", "4"]
    assert "x is -inf, which JSON cannot hold" in reading.reasons[2]
    assert "cannot be read" in reading.reasons[3]


def test_columns_and_files_that_do_not_fit(tmp_path: Path) -> None:
    with pytest.raises(SourceError, match='has no column "key"; its columns are "id", "x"'):
        read_all(parquet(written(tmp_path, {"id": [1], "x": [2]}), key="key"))
    path = tmp_path / "bad.parquet"
    path.write_text("id\n1\n")
    with pytest.raises(SourceError, match=r"bad\.parquet is not a Parquet file, or is cut off"):
        read_all(parquet(path, key="id"))
    whole = Path(written(tmp_path, {"id": [1], "x": [2]})).read_bytes()
    path.write_bytes(whole[: len(whole) // 2])
    with pytest.raises(SourceError, match="is cut off"):
        read_all(parquet(path, key="id"))


def test_without_pyarrow_the_extra_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path, {"id": [1]})
    monkeypatch.setitem(sys.modules, "pyarrow.parquet", None)
    with pytest.raises(SourceError, match=r'pip install "onward\[parquet\]"'):
        read_all(parquet(path, key="id"))


def test_a_damaged_page_ends_the_pass_incomplete(tmp_path: Path) -> None:
    path = Path(written(tmp_path, {"id": list(range(400)), "t": [os.urandom(20).hex() for _ in range(400)]}, rows=100))
    group = pq.ParquetFile(path).metadata.row_group(2)
    content = bytearray(path.read_bytes())
    start = group.column(1).dictionary_page_offset or group.column(1).data_page_offset
    content[start : start + 200] = b"\xff" * 200
    path.write_bytes(content)
    reading = read_all(parquet(path, key="id"))
    assert reading.keys == [str(number) for number in range(200)]
    assert "damaged" in reading.reasons[201]
    assert not reading.complete


@settings(max_examples=40, deadline=None)
@given(st.lists(st.one_of(st.integers(-(2**63), 2**63 - 1), st.none()), max_size=15), st.integers(1, 6), st.data())
def test_stops_and_edits(
    tmp_path_factory: pytest.TempPathFactory, numbers: list[int | None], rows: int, data: st.DataObject
) -> None:
    folder = tmp_path_factory.mktemp("in")
    path = written(folder, {"id": pa.array(numbers, pa.int64())}, rows)
    source = parquet(path, key="id")
    whole = read_all(source)
    assert whole.keys == [str(number) for number in numbers if number is not None]
    with pytest.MonkeyPatch.context() as patch:
        use_tiny_blocks(patch)
        patch.setattr(module, "CHUNK", 1 << 20)
        reading = read_all(source)
        assert reading.same_as(whole)
        assert read_with_stops(source).same_as(whole)
        block = data.draw(st.sampled_from(reading.blocks))
        written(folder, {"id": pa.array(numbers, pa.int64())}, rows)
        assert source.resume(block.cursor, block.complete).how == ("done" if block.complete else "continue")
        consumed = json.loads(block.cursor)["files"][0][5]
        if consumed:
            place = data.draw(st.integers(0, consumed - 1))
            edited = [*numbers[:place], 5 if numbers[place] != 5 else 6, *numbers[place + 1 :]]
            written(folder, {"id": pa.array(edited, pa.int64())}, rows)
            resume = source.resume(block.cursor, block.complete)
            assert resume.how == "again"
            assert "changed before row" in resume.why


def test_rows_behind_the_old_end_are_read(tmp_path: Path) -> None:
    source = parquet(written(tmp_path, {"id": [1, 2, 3, 4]}), key="id")
    cursor = read_all(source).cursor
    written(tmp_path, {"id": [1, 2, 3, 4, 5]})
    resume = source.resume(cursor, True)
    assert resume.how == "continue"
    assert read_all(source, resume.cursor).keys == ["5"]


def test_big_rows_make_small_blocks(tmp_path: Path) -> None:
    texts = [os.urandom(1_000_000).hex() for _ in range(6)]
    path = written(tmp_path, {"id": list(range(6)), "t": texts}, rows=6)
    assert max(len(block.records) for block in read_all(parquet(path, key="id")).blocks) <= 2
