"""Case 47: byte-order marks, carriage returns, files without records, and UTF-16 that pretends to be a table."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from acceptance.jobs import Place, echo_job, plain


def place_for(folder: Path, name: str, more: str = "") -> Place:
    kind = "csv" if name.endswith("csv") else "jsonl"
    return Place(folder, echo_job(f'onward.{kind}("{name}", key="id"{more})'), name)


def test_csv_with_a_mark_and_crlf(tmp_path: Path) -> None:
    place = place_for(tmp_path, "47.bom_crlf.csv")
    ran = place.run()
    assert (ran.code, ran.counts) == (0, {"succeeded": 3})
    rows = place.export()
    assert [row["key"] for row in rows] == ["1", "2", "3"]
    assert [row["outputs"]["echo"] for row in rows] == [
        {"id": "1", "name": "Ada Example", "note": "a"},
        {"id": "2", "name": "Bo Example", "note": "b"},
        {"id": "3", "name": "Cy Example", "note": "c"},
    ]


def test_jsonl_with_a_mark(tmp_path: Path) -> None:
    place = place_for(tmp_path, "47.bom.jsonl")
    assert place.run().code == 0
    exported = place.export()
    assert [row["input"] for row in exported] == [{"id": n, "note": note} for n, note in ((1, "a"), (2, "b"), (3, "c"))]
    assert "\ufeff" not in json.dumps(exported, ensure_ascii=False)


def test_a_header_alone_is_an_empty_input_and_said_so(tmp_path: Path) -> None:
    place = place_for(tmp_path, "47.header_only.csv")
    ran = place.run()
    assert (ran.code, ran.status["total"]) == (0, 0)
    assert "the input is empty: it has no records" in ran.said
    assert place.export() == []


@pytest.mark.parametrize(
    ("name", "words"),
    [("47.empty.csv", "is empty: a CSV file begins with a line that names its columns"), ("47.utf16.csv", "UTF-16")],
)
def test_no_table_at_all_is_no_riddle(tmp_path: Path, name: str, words: str) -> None:
    place = place_for(tmp_path, name)
    ended = place.onward("run", "job.py")
    assert ended.returncode == 2
    assert words in ended.stdout + ended.stderr
    assert "no column" not in ended.stdout + ended.stderr
    plain(ended.stderr)


def test_utf16_is_read_where_it_is_named(tmp_path: Path) -> None:
    place = place_for(tmp_path, "47.utf16.csv", ', encoding="utf-16"')
    assert place.run().code == 0
    assert [row["input"] for row in place.export()] == [{"id": "1", "name": "Ada"}, {"id": "2", "name": "Bo"}]
