"""Case 45: a list of failures with reasons, and a retry of just those: by key, by reason, or with a mended input."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import onward
from acceptance.edited_jobs import JobFolder
from onward import api

JOB = """
job = onward.Job("migrate", source=onward.jsonl("in.jsonl", key="id"))

@job.step
def parse(row):
    call("parse", row["id"])
    return row["text"].strip()

@job.step
def send(row, parse):
    call("send", row["id"])
    if parse == "broken code":
        raise KeyError("code")
    if parse == "bad value":
        raise onward.Invalid("the value is bad")
    if parse == "unwanted":
        raise onward.Rejected("not wanted here")
    return len(parse)

@job.step
def store(row, send):
    call("store", row["id"])
    return send
"""
REASONS = ["broken code", "bad value", "unwanted"]


def rows() -> list[dict[str, str]]:
    """200 records, 12 of which fail for three reasons, the very first one among them."""
    texts = {key: REASONS[number % 3] for number, key in enumerate(range(0, 180, 15))}
    return [{"id": f"r{key}", "text": texts.get(key, "fine")} for key in range(200)]


@pytest.fixture
def folder(tmp_path: Path) -> JobFolder:
    folder = JobFolder(tmp_path, "migrate", JOB)
    folder.feed(rows())
    result = folder.run()
    assert (result.exit_code, result.counts["succeeded"]) == (1, 188)
    return folder


def test_failures_fall_from_twelve_to_eight_to_four(folder: JobFolder) -> None:
    told = list(onward.failures(folder.job))
    assert len(told) == 12
    assert {"key", "state", "step", "kind", "error", "attempts", "deaths", "at"} <= set(told[0])
    assert {one["step"] for one in told} == {"send"}
    causes = {(one["kind"], one["error_type"]): one["count"] for one in api.causes(folder.job)}
    assert causes == {("bug", "KeyError"): 4, ("invalid", "Invalid"): 4, ("rejected", "Rejected"): 4}

    folder.edit('if parse == "broken code":\n        raise KeyError("code")', "pass")
    assert onward.retry(folder.job, kind="bug").count == 4
    assert folder.run().exit_code == 1
    assert folder.calls == {"send": 4, "store": 4}  # what was parsed stays parsed
    assert len(list(onward.failures(folder.job))) == 8

    mended = [{**row, "text": "good value"} if row["text"] == "bad value" else row for row in rows()]
    folder.feed(mended)
    assert folder.run().exit_code == 1
    assert folder.calls == {"parse": 4, "send": 4, "store": 4}  # a new value begins anew
    left = list(onward.failures(folder.job))
    assert [one["kind"] for one in left] == ["rejected"] * 4
    assert onward.status(folder.job)["counts"]["succeeded"] == 196


def test_failures_are_written_with_the_original_record(folder: JobFolder) -> None:
    lines = folder.exported(state="quarantined")
    assert len(lines) == 8
    assert lines[0]["input"] == {"id": "r15", "text": "bad value"}
    assert lines[0]["outputs"] == {"parse": "bad value"}


def test_one_by_key_the_others_stay(folder: JobFolder) -> None:
    folder.edit('raise onward.Rejected("not wanted here")', "pass")
    assert onward.release(folder.job, "r30", "r75").count == 2
    folder.run()
    assert folder.calls == {"send": 6, "store": 2}  # and the four with a bug, which the next run tries again
    assert onward.status(folder.job)["counts"]["quarantined"] == 6


def test_a_list_that_was_edited_by_hand_goes_back_in(folder: JobFolder, tmp_path: Path) -> None:
    chosen = tmp_path / "wrong.jsonl"
    onward.export(folder.job, chosen, state="quarantined")
    lines = [json.loads(line) for line in chosen.read_text().splitlines()]
    for line in lines:
        line["input"]["text"] = line["input"]["text"].replace("bad", "good")
    chosen.write_text("".join(json.dumps(line) + "\n" for line in lines[:4]))
    marked = onward.release(folder.job, from_file=chosen)
    assert marked.count == 4
    assert marked.corrected == sum("good" in line["input"]["text"] for line in lines[:4])
    folder.run()
    assert onward.status(folder.job)["counts"]["succeeded"] == 188 + marked.corrected
