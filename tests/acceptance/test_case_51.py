"""Case 51: whole documents in a cell or a line; what passes the limit is told with record, column and size."""

from __future__ import annotations

from pathlib import Path

import pytest

from acceptance.jobs import Place, plain

LIMIT = 1 << 26

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


@pytest.mark.parametrize("quote", ["", '"'])
def test_a_cell_beyond_the_limit_is_told_with_its_place_and_size_and_the_others_go_on(
    tmp_path: Path, quote: str
) -> None:
    size = LIMIT + 5
    with (tmp_path / "in.csv").open("w") as file:
        file.write(f"id,text\n1,small\n2,{quote}")
        file.write("y" * size)
        file.write(f"{quote}\n3,small\n")
    place = Place(tmp_path, LENGTHS.replace("{source}", 'onward.csv("in.csv", key="id")'))
    ran = place.run()
    assert (ran.code, ran.counts) == (1, {"succeeded": 2, "quarantined": 1})
    said = f'in.csv:3: its column "text" has {size:,} characters, a cell may have {LIMIT:,}'
    assert said in ran.said
    assert [row["key"] for row in place.export()] == ["1", "3"]
    [failure] = place.failures()
    assert f"{failure['key']}: {failure['error']}" == said
    plain(ran.said)


def test_a_quote_that_is_never_closed_is_no_huge_cell(tmp_path: Path) -> None:
    (tmp_path / "in.csv").write_text('id,text\n1,small\n2,"' + "word,word\n" * 1_000)
    place = Place(tmp_path, LENGTHS.replace("{source}", 'onward.csv("in.csv", key="id")'))
    ran = place.run()
    assert ran.code == 4
    assert "in.csv:3: a cell begins with a quote that is not closed before the end of the file" in ran.said
    assert (ran.counts, ran.status["source_complete"]) == ({"succeeded": 1}, False)


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
