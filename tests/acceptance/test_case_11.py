"""Case 11: work parked when the code changed goes on under the documented rule; no finished step is called again."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import onward
from acceptance.edited_jobs import JobFolder

JOB = """
job = onward.Job("deploy", source=onward.jsonl("in.jsonl", key="id"))

@job.step
def a(row):
    call("a", row["id"])
    return 1

@job.step
def b(row):
    call("b", row["id"])
    raise onward.Transient("closed for the day", retry_after=3000)

@job.step
def c(row):
    call("c", row["id"])
    return 3
"""
PARKED = 'raise onward.Transient("closed for the day", retry_after=3000)'


@pytest.fixture
def parked(tmp_path: Path) -> JobFolder:
    """20 records that have `a` and wait."""
    folder = JobFolder(tmp_path, "deploy", JOB)
    folder.feed([{"id": number} for number in range(20)])
    result = folder.run(max_time=1)
    assert (result.exit_code, result.counts["pending"]) == (3, 20)
    assert folder.calls["a"] == 20
    assert onward.status(folder.job)["waiting"][0]["count"] == 20
    folder.edit(PARKED, "return 2")
    onward.status(folder.job)
    _wait_no_longer(folder)
    return folder


def _wait_no_longer(folder: JobFolder) -> None:
    import apsw

    store = apsw.Connection(onward.status(folder.job)["store"])
    store.execute("UPDATE records SET not_before = 1 WHERE state = 'pending'")
    store.close()


def steps_of(folder: JobFolder) -> list[str]:
    outputs = {tuple(row["outputs"]) for row in folder.exported()}
    assert len(outputs) == 1
    return list(outputs.pop())


def test_a_comment_or_another_body_changes_nothing_about_what_is_done(parked: JobFolder) -> None:
    parked.edit("return 3", "# three\n    return 30")
    assert parked.run().exit_code == 0
    assert parked.calls == {"b": 20, "c": 20}
    assert parked.exported()[0]["outputs"] == {"a": 1, "b": 2, "c": 30}


def test_a_renamed_step_is_a_removed_and_an_added_one(parked: JobFolder) -> None:
    parked.edit("def b(row)", "def b2(row)")
    assert parked.run().exit_code == 0
    assert parked.calls == {"b": 20, "c": 20}  # the function's note still says b
    assert steps_of(parked) == ["a", "b2", "c"]


def test_an_inserted_step_runs_in_its_place(parked: JobFolder) -> None:
    parked.edit(
        "@job.step\ndef b(row)",
        '@job.step\ndef x(row):\n    call("x", row["id"])\n    return 0\n\n@job.step\ndef b(row)',
    )
    assert parked.run().exit_code == 0
    assert parked.calls == {"x": 20, "b": 20, "c": 20}
    assert steps_of(parked) == ["a", "x", "b", "c"]


def test_a_removed_step_is_not_waited_for(parked: JobFolder) -> None:
    parked.edit('@job.step\ndef b(row):\n    call("b", row["id"])\n    return 2\n', "")
    assert parked.run().exit_code == 0
    assert parked.calls == {"c": 20}
    assert steps_of(parked) == ["a", "c"]


def test_what_finished_before_a_step_was_inserted_counts_as_stale_and_is_done_when_asked(parked: JobFolder) -> None:
    assert parked.run().exit_code == 0
    parked.edit(
        "@job.step\ndef b(row)",
        '@job.step\ndef x(row):\n    call("x", row["id"])\n    return 0\n\n@job.step\ndef b(row)',
    )
    assert parked.run().exit_code == 0
    assert not parked.calls
    assert onward.status(parked.job)["stale"] == 20
    assert onward.rerun(parked.job, stale=True).from_steps == {"x": 20}
    assert parked.run().exit_code == 0
    assert parked.calls == {"x": 20, "b": 20, "c": 20}


def test_unfinished_records_with_outputs_of_older_code_are_told_before_and_after(parked: JobFolder) -> None:
    parked.edit("    return 1\n", "    return 10\n")
    before = onward.status(parked.job)
    assert (before["stale"], before["unfinished_older"]) == (0, 20)
    assert [sum(versions.values()) for versions in before["unfinished_older_versions"].values()] == [20]
    assert "20 unfinished with outputs of older steps" in _said(parked, "status")

    said = _said(parked, "run")
    assert "20 unfinished have what the older version of a made" in said
    assert "20 records go on from older outputs and will be stale" in said
    assert "20 succeeded of 20, 20 stale in " in said.splitlines()[-1]
    assert "rerun" in said.splitlines()[-1]
    after = onward.status(parked.job)
    assert (after["stale"], after["unfinished_older"]) == (20, 0)
    assert parked.exported()[0]["outputs"]["a"] == 1


STEP_D = """
@job.step
def d(row):
    raise onward.Transient("closed for the day", retry_after=3000)
"""
STEP_X = """@job.step
def x(row):
    return 0

"""


@pytest.mark.parametrize(
    ("old", "new", "removed", "passed_over"),
    [
        ("def b(row)", "def b2(row)", {"b": 20}, {"b2": 20}),
        ("@job.step\ndef b(row)", STEP_X + "@job.step\ndef b(row)", {}, {"x": 20}),
        ("@job.step\ndef d(row)", STEP_X + "@job.step\ndef d(row)", {}, {}),
        ('@job.step\ndef b(row):\n    call("b", row["id"])\n    return 2\n', "", {"b": 20}, {}),
    ],
    ids=["renamed", "inserted", "inserted where none has been", "removed"],
)
def test_other_steps_under_unfinished_records_are_told_before_the_work(
    parked: JobFolder, old: str, new: str, removed: dict[str, int], passed_over: dict[str, int]
) -> None:
    parked.write(JOB.replace(PARKED, "return 2") + STEP_D)
    parked.run(max_time=1)  # all have a, b and c
    parked.edit('raise onward.Transient("closed for the day", retry_after=3000)', "return 4")
    _wait_no_longer(parked)
    parked.edit(old, new)
    before = onward.status(parked.job)
    assert (before["unfinished_removed"], before["unfinished_passed_over"]) == (removed, passed_over)
    lines = [f"{n} unfinished have outputs of {step}, which is no longer a step" for step, n in removed.items()]
    lines += [f"{n} unfinished have yet to run {step}, which is new before" for step, n in passed_over.items()]
    for said in (_said(parked, "status"), _said(parked, "run")):
        assert all(line in said for line in lines)
        assert "no longer a step" in said or not removed
        assert said.count("unfinished ha") == len(lines)
    after = onward.status(parked.job)
    assert (after["unfinished_removed"], after["unfinished_passed_over"]) == ({}, {})
    assert "unfinished ha" not in _said(parked, "run")


def test_one_that_is_quarantined_does_not_go_on(parked: JobFolder) -> None:
    parked.edit("return 2", 'raise onward.Rejected("no")')
    parked.run()
    parked.edit("    return 1\n", "    return 10\n")
    said = _said(parked, "run")
    assert "20 unfinished have what the older version of a made" in said
    assert "go on from older outputs" not in said
    onward.release(parked.job, 7)
    said = _said(parked, "run")
    assert "1 record goes on from older outputs and will be stale; re-run it then with: " in said


def test_events_tell_of_outputs_of_older_code(parked: JobFolder) -> None:
    parked.edit("    return 1\n", "    return 10\n")
    parked.edit("return 2", 'raise onward.Rejected("no") if row["id"] == 7 else onward.Done("enough")')
    told = [json.loads(line) for line in _said(parked, "run", "--log-format", "json", "--json").splitlines()]
    events = {one["event"]: one for one in told if "event" in one}
    assert (events["run_started"]["stale"], events["run_started"]["unfinished_older"]) == (0, 20)
    assert (events["run_finished"]["stale"], events["run_finished"]["unfinished_older"]) == (19, 1)
    assert onward.status(parked.job)["unfinished_older"] == 1
    parked.edit("    return 10\n", "    return 1\n")
    assert onward.status(parked.job)["unfinished_older"] == 0


def _said(folder: JobFolder, command: str, *words: str) -> str:
    ended = subprocess.run(
        [sys.executable, "-m", "onward", command, str(folder.file), *words],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, "COLUMNS": "200"},
        timeout=60,
        check=False,
    )
    assert ended.returncode in (0, 1), ended.stdout
    return ended.stdout
