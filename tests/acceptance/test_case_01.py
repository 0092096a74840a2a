"""Case 01: a changed step is never hidden behind an old result: the run says so, and `rerun --stale` makes it anew."""

from __future__ import annotations

from pathlib import Path

import pytest

import onward
from acceptance.edited_jobs import JobFolder

JOB = """
job = onward.Job("labels", source=onward.jsonl("in.jsonl", key="id"))

@job.step
def call_model(row):
    call("call_model", row["id"])
    return f"label of {row['id']}: good"

@job.step
def extract(row, call_model):
    call("extract", row["id"])
    return {"label": call_model.split()[-1]}
"""


@pytest.fixture
def folder(tmp_path: Path) -> JobFolder:
    folder = JobFolder(tmp_path, "labels", JOB)
    folder.feed([{"id": f"r{number}"} for number in range(20)])
    assert folder.run().exit_code == 0
    return folder


def test_a_changed_step_is_told_counted_and_made_anew_without_paying_twice(folder: JobFolder) -> None:
    folder.edit('{"label": call_model.split()[-1]}', '{"label": call_model.split()[-1], "score": 1}')
    assert folder.run().exit_code == 0
    assert not folder.calls
    assert onward.status(folder.job)["stale"] == 20
    assert not any("score" in row["outputs"]["extract"] for row in folder.exported())

    counted = onward.rerun(folder.job, stale=True, dry_run=True)
    assert (counted.count, counted.from_steps) == (20, {"extract": 20})
    assert onward.status(folder.job)["stale"] == 20
    onward.rerun(folder.job, stale=True)
    assert folder.run().exit_code == 0
    assert folder.calls == {"extract": 20}
    assert all(row["outputs"]["extract"]["score"] == 1 for row in folder.exported())
    assert [row["generation"] for row in folder.exported()] == [1] * 20
    assert onward.status(folder.job)["stale"] == 0


def test_what_the_later_step_reads_is_part_of_its_version_and_comments_are_not(folder: JobFolder) -> None:
    folder.edit("@job.step\ndef extract", "# says what the label is\n@job.step\ndef extract")
    assert onward.status(folder.job)["stale"] == 0
    folder.edit("row['id']}: good\"", "row['id']}: fine\"")
    assert onward.rerun(folder.job, stale=True, dry_run=True).from_steps == {"call_model": 20}


def test_both_generations_can_be_exported(folder: JobFolder) -> None:
    folder.edit('{"label": call_model.split()[-1]}', '{"label": "none"}')
    onward.rerun(folder.job, "r3", step="extract")
    folder.run()
    both = [row for row in folder.exported(generation="all") if row["key"] == "r3"]
    assert [row["outputs"]["extract"]["label"] for row in both] == ["good", "none"]
    assert both[0]["versions"]["extract"] != both[1]["versions"]["extract"]
    assert both[0]["versions"]["call_model"] == both[1]["versions"]["call_model"]
