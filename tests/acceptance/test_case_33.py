"""Case 33: NUL in values, nested keys, record keys and error texts goes in and comes out unchanged."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from acceptance.jobs import FILES, Place, echo_job, plain

NAME = "33.nul.jsonl"
KEYS = ["n1", "n2", "n3", "n\0004", "n5", "n6"]

FAILING = f"""
job = onward.Job("case", source=onward.jsonl("{NAME}", key="id"))

@job.step(retry=onward.Retry(attempts=2, base=0.01))
def refuse(record):
    started(record["id"], "refuse")
    text = record.get("text") or json.dumps(record["meta"])
    if record["id"] == "n1":
        raise onward.Rejected(text)
    if record["id"] == "n2":
        raise ValueError(f"cannot do {{text}} \\ud800")
    if record["id"] == "n\\0004":
        raise onward.Transient(f"not now: {{record['id']}}")
    if record["id"] == "n6":
        return {{"text": "lone \\ud800", "n\\0": "\\0"}}
    return {{"n\\0": text}}
"""


def test_values_and_keys_come_back_byte_by_byte(tmp_path: Path) -> None:
    place = Place(tmp_path, echo_job(f'onward.jsonl("{NAME}", key="id")'), NAME)
    ran = place.run()
    assert (ran.code, ran.counts) == (0, {"succeeded": 6})
    rows = place.export()
    assert [row["key"] for row in rows] == KEYS
    lines = (FILES / NAME).read_bytes().splitlines()
    for line, exported in zip(lines, (tmp_path / "out.jsonl").read_bytes().splitlines(), strict=True):
        assert b'"input":' + line + b',"outputs":{"echo":' + line + b"}" in exported
    shown = json.loads(place.fine("show", "job.py", r'"n\u00004"', "--json"))
    assert shown["key"] == "n\0004"
    again = place.run()
    assert (again.code, len(place.calls())) == (0, 6)


@pytest.mark.parametrize("form", ["csv", "parquet"])
def test_tables_hold_it_too(tmp_path: Path, form: str) -> None:
    place = Place(tmp_path, echo_job(f'onward.jsonl("{NAME}", key="id")'), NAME)
    assert place.run().code == 0
    place.fine("export", "job.py", "--out", f"out.{form}", "--flat")
    if form == "csv":
        assert "a\0b" in (tmp_path / "out.csv").read_text()
        return
    parquet = pytest.importorskip("pyarrow.parquet")
    assert parquet.read_table(tmp_path / "out.parquet")["id"].to_pylist() == KEYS


def test_errors_quote_it_and_neighbours_are_kept(tmp_path: Path) -> None:
    place = Place(tmp_path, FAILING, NAME)
    ran = place.run()
    assert ran.code == 1
    assert ran.counts == {"succeeded": 3, "quarantined": 1, "failed": 2}
    plain(ran.said)
    assert "\0" not in ran.said
    failures = {one["key"]: one for one in place.failures()}
    assert failures["n1"]["error"] == "plain"
    assert failures["n2"]["kind"] == "bug"
    assert "cannot do a\0b" in failures["n2"]["error"]
    assert failures["n\0004"]["error"] == "not now: n\0004"
    assert failures["n\0004"]["attempts"] == 2, "never an endless retry"
    assert {row["key"]: row["outputs"]["refuse"] for row in place.export()} == {
        "n3": {"n\0": '{"in\\u0000ner": 1}'},
        "n5": {"n\0": "backslash only \\u0000"},
        "n6": {"text": "lone \ud800", "n\0": "\0"},
    }
    told = place.fine("failures", "job.py")
    assert "\0" not in told
    marked = place.fine("retry", "job.py", r'"n\u00004"')
    assert "1 failed record marked for retry" in marked
    assert place.status()["counts"]["pending"] == 1
