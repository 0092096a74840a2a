"""Case 04: a torn last line neither swallows a record nor stops the restart; an export is there whole or not at all."""

from __future__ import annotations

import json
import signal
from pathlib import Path

import pytest

from acceptance.jobs import Place, echo_job, plain, wait_until

TORN = ["04.torn.jsonl", "04.torn_then_blank.jsonl"]
ROWS, LINE = 50_000, 200

MANY = f"""
job = onward.Job("case", source=onward.iterable(lambda: range({ROWS}), version="1"))

@job.step(version="1")
async def keep(record):
    return {{"text": "x" * 100}}
"""


@pytest.mark.parametrize("name", TORN)
def test_a_torn_line_is_reported_by_number_and_the_good_ones_are_done(tmp_path: Path, name: str) -> None:
    place = Place(tmp_path, echo_job(f'onward.jsonl("{name}", key="id")'), name)
    ran = place.run()
    assert ran.code == 4
    assert f"{name}:3: the line is " in ran.said
    assert "cut off" in ran.said
    assert "1 bad" in ran.said
    assert ran.counts == {"succeeded": 2}
    assert not ran.status["source_complete"]
    assert [row["key"] for row in place.export()] == ["t1", "t2"]
    plain(ran.said)


@pytest.mark.parametrize("name", TORN)
def test_a_torn_line_may_be_set_aside(tmp_path: Path, name: str) -> None:
    place = Place(tmp_path, echo_job(f'onward.jsonl("{name}", key="id")', on_bad='"quarantine"'), name)
    ran = place.run()
    assert ran.code == 1
    assert ran.counts == {"succeeded": 2, "quarantined": 1}
    assert ran.status["source_complete"]
    [failure] = place.failures()
    assert (failure["key"], failure["state"], failure["kind"]) == (f"{name}:3", "quarantined", "invalid")
    assert "cut off" in failure["error"]


def test_what_is_appended_to_a_torn_line_mends_it(tmp_path: Path) -> None:
    place = Place(tmp_path, echo_job('onward.jsonl("04.torn.jsonl", key="id")'), "04.torn.jsonl")
    assert place.run().code == 4
    with (tmp_path / "04.torn.jsonl").open("ab") as file:
        file.write(b'\xa9"}\n{"id":"t4","text":"fourth"}\n')
    ran = place.run()
    assert (ran.code, ran.counts) == (0, {"succeeded": 4})
    assert sorted(place.calls()) == ["t1", "t2", "t3", "t4"]
    assert [row["input"]["text"] for row in place.export()] == ["first", "second", "café", "fourth"]


def test_a_killed_export_leaves_nothing_and_the_next_is_whole(tmp_path: Path) -> None:
    place = Place(tmp_path, MANY)
    ran = place.run()
    assert ran.code == 0
    folder = tmp_path / "exports"
    folder.mkdir()
    out = folder / "out.jsonl"
    for share in (0.05, 0.9):
        exporter = place.start("export", "job.py", "--out", str(out))
        size = share * ROWS * LINE
        wait_until(lambda size=size: any(part.stat().st_size >= size for part in folder.glob(".*.part")))
        exporter.send_signal(signal.SIGKILL)
        assert exporter.wait() == -signal.SIGKILL
        assert list(folder.glob("*.jsonl")) == []
    place.fine("export", "job.py", "--out", str(out))
    lines = out.read_text().splitlines()
    assert [json.loads(line)["key"] for line in lines] == list(range(ran.counts["succeeded"])) == list(range(ROWS))
    assert out.stat().st_size >= ROWS * LINE
    assert [path.name for path in folder.iterdir()] == ["out.jsonl"]
