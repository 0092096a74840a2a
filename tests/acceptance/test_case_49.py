"""Case 49: keys keep every digit and their type: 7, "7" and "007" are three records; what could merge is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from acceptance.jobs import Place, echo_job, plain

BIG = [9007199254740992, 9007199254740993]
BAD_IN_JSON = {4: "null", 6: "7.0", 10: "true"}


def place_for(folder: Path, source: str, *files: str) -> Place:
    return Place(folder, echo_job(source, on_bad='"quarantine"'), *files)


def twice(place: Place) -> Any:
    """Run and resume; the second run calls nothing."""
    ran = place.run()
    calls = place.calls()
    again = place.run()
    assert (again.code, again.counts, place.calls()) == (ran.code, ran.counts, calls)
    assert "nan" not in ran.said.casefold().replace("quarantine", "")
    plain(ran.said)
    return ran


def test_jsonl(tmp_path: Path) -> None:
    name = "49.bigint.jsonl"
    place = place_for(tmp_path, f'onward.jsonl("{name}", key="id")', name)
    ran = twice(place)
    assert (ran.code, ran.counts) == (1, {"succeeded": 7, "quarantined": 3})
    assert [row["key"] for row in place.export()] == [*BIG, 18446744073709551615, 7, "7", "007", 1]
    exported = (tmp_path / "out.jsonl").read_text().splitlines()
    lines = (tmp_path / name).read_text().splitlines()
    good = [line for number, line in enumerate(lines, 1) if number not in BAD_IN_JSON]
    for line, row in zip(good, exported, strict=True):
        assert f'"input":{line},' in row, "1.10, 0.1 and 1e2 stand in the export as they stood in the source"
    failures = {one["key"]: one["error"] for one in place.failures()}
    assert set(failures) == {f"{name}:{number}" for number in BAD_IN_JSON}
    for number, value in BAD_IN_JSON.items():
        assert f'the key field "id" is {value}' in failures[f"{name}:{number}"]


def test_csv(tmp_path: Path) -> None:
    name = "49.bigint.csv"
    place = place_for(tmp_path, f'onward.csv("{name}", key="id")', name)
    ran = twice(place)
    assert (ran.code, ran.counts) == (1, {"succeeded": 6, "quarantined": 1})
    rows = place.export()
    assert [row["key"] for row in rows] == [*map(str, BIG), "9223372036854775807", "7", "7.0", "007"]
    assert [row["outputs"]["echo"]["amount"] for row in rows] == ["1.10", "0.1", "1e2", "1", "2", "3"]
    [failure] = place.failures()
    assert (failure["key"], failure["error"]) == (f"{name}:5", 'the key field "id" is empty')


def test_parquet_with_a_column_of_integers_that_may_be_null(tmp_path: Path) -> None:
    pa = pytest.importorskip("pyarrow")
    import pyarrow.parquet as pq

    ids = [*BIG, 9223372036854775807, None, 7, -9223372036854775808]
    pq.write_table(pa.table({"id": pa.array(ids, pa.int64()), "amount": range(len(ids))}), tmp_path / "in.parquet")
    place = place_for(tmp_path, 'onward.parquet("in.parquet", key="id")')
    ran = twice(place)
    assert (ran.code, ran.counts) == (1, {"succeeded": 5, "quarantined": 1})
    assert [row["key"] for row in place.export()] == [number for number in ids if number is not None]
    [failure] = place.failures()
    assert (failure["key"], failure["error"]) == ("in.parquet:4", 'the key field "id" is null')
    place.fine("export", "job.py", "--out", "out.parquet", "--flat")
    assert pq.read_table(tmp_path / "out.parquet")["id"].to_pylist() == [one for one in ids if one is not None]
    place.fine("export", "job.py", "--out", "out.csv", "--flat")
    assert all(str(one) in (tmp_path / "out.csv").read_text() for one in ids if one is not None)


def test_rows_of_a_database_and_keys_of_a_model(tmp_path: Path) -> None:
    place = place_for(
        tmp_path, 'onward.iterable(lambda: [{"id": k} for k in (7, "7", "007", 1, 2**63, None, 7.0, True)], "id")'
    )
    ran = twice(place)
    assert (ran.code, ran.counts) == (1, {"succeeded": 5, "quarantined": 3})
    assert [row["key"] for row in place.export()] == [7, "7", "007", 1, 2**63]


def test_on_the_command_line_7_needs_a_word_about_its_type(tmp_path: Path) -> None:
    name = "49.bigint.jsonl"
    place = place_for(tmp_path, f'onward.jsonl("{name}", key="id")', name)
    place.run()
    unclear = place.onward("show", "job.py", "7")
    assert unclear.returncode == 2
    assert '"7"' in unclear.stderr
    assert '"key":"7"' in place.fine("show", "job.py", '"7"', "--json")
    assert '"key":"007"' in place.fine("show", "job.py", "007", "--json")
