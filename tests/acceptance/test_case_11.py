"""Case 11: work parked when the code changed goes on under the documented rule; no finished step is called again."""

from __future__ import annotations

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
