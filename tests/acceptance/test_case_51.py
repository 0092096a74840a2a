"""Case 51: whole documents in a cell or a line; what passes the limit is told with record, column and size."""

from __future__ import annotations

from pathlib import Path

import pytest

from acceptance.jobs import Place, plain

LENGTHS = """
job = onward.Job("case", source={source}, on_bad="quarantine")

@job.step
def length(record):
    return len(record["text"])
"""

FILES = {
    "51.huge_field.csv": ('onward.csv("51.huge_field.csv", key="id")', ["1", "2", "3"], [5, 140_000, 5]),
    "51.huge_line.jsonl": ('onward.jsonl("51.huge_line.jsonl", key="id")', [1, 2, 3], [5, 300_000, 5]),
}


@pytest.mark.parametrize("name", FILES)
def test_lengths_are_right(tmp_path: Path, name: str) -> None:
    source, keys, lengths = FILES[name]
    place = Place(tmp_path, LENGTHS.replace("{source}", source), name)
    ran = place.run()
    assert (ran.code, ran.counts) == (0, {"succeeded": 3})
    rows = place.export()
    assert [row["key"] for row in rows] == keys
    assert [row["outputs"]["length"] for row in rows] == lengths
    assert [len(row["input"]["text"]) for row in rows] == lengths


def test_a_cell_beyond_the_limit_is_told_with_its_place(tmp_path: Path) -> None:
    limit = 1 << 26
    with (tmp_path / "in.csv").open("w") as file:
        file.write("id,text\n1,small\n2,")
        for _ in range(limit // (1 << 20) + 1):
            file.write("y" * (1 << 20))
        file.write("\n3,small\n")
    place = Place(tmp_path, LENGTHS.replace("{source}", 'onward.csv("in.csv", key="id")'))
    ran = place.run()
    assert ran.code != 0
    assert "in.csv:3" in ran.said
    assert f"{limit:,} characters" in ran.said
    assert ran.status["counts"]["succeeded"] >= 1
    plain(ran.said)


def test_an_output_beyond_its_limit_fails_alone(tmp_path: Path) -> None:
    job = """
job = onward.Job("case", source=onward.iterable(lambda: range(3)))

@job.step(max_output=1_000_000)
def big(record):
    return "z" * (2_000_000 if record == 1 else 10)
"""
    place = Place(tmp_path, job)
    ran = place.run()
    assert (ran.code, ran.counts) == (1, {"succeeded": 2, "failed": 1})
    [failure] = place.failures()
    assert (failure["key"], failure["kind"]) == (1, "bug")
    assert failure["error"] == "the output is 1.9 MiB, the limit is 976.6 KiB (max_output)"
