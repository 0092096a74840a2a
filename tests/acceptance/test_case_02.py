"""A killed run does not stay 'running', and the restart is not refused; a live run beside it is left alone."""

from __future__ import annotations

import json
import time
from collections import Counter
from pathlib import Path

from acceptance.jobs import Place, wait_until
from judge import steplog

RECORDS, CONCURRENCY = 100, 4
JOB = """
job = onward.Job("case", source=onward.jsonl("in.jsonl", key="id"), concurrency=4)

@job.step
def work(record):
    started(record["id"], "work")
    time.sleep(0.05)
    return record["id"]
"""
OTHER = """
other = onward.Job("other", source=onward.jsonl("in.jsonl", key="id"), concurrency=2)

@other.step
def work(record):
    steplog.log_start(HERE / "other.log", record["id"], "work")
    time.sleep(0.1)
    return record["id"]
"""


def a_place(folder: Path) -> Place:
    place = Place(folder, JOB)
    place.write("in.jsonl", [{"id": number} for number in range(RECORDS)])
    return place


def kill_at_forty(place: Place) -> None:
    process = place.start("run", "job.py")
    wait_until(lambda: len(place.calls()) >= 40)
    process.kill()
    process.wait()


def test_the_restart_works_at_once_and_does_only_what_is_left(tmp_path: Path) -> None:
    place = a_place(tmp_path)
    kill_at_forty(place)
    began, before = steplog.now(), len(place.calls())
    between = place.fine("status", "job.py")
    assert "stopped, not running" in between
    (run,) = place.status()["runs"]
    assert run["ended"] is None and run["reason"] == "died"
    ended = place.run()
    assert ended.code == 0
    assert ended.counts == {"succeeded": RECORDS}
    assert len(place.calls()) <= RECORDS + CONCURRENCY + 2
    assert set(place.calls()) == set(range(RECORDS))
    first_new = steplog.read(tmp_path / "calls.log")[before].time
    assert first_new - began < 10
    assert [one["key"] for one in place.export()] == list(range(RECORDS))


def test_a_live_run_of_another_job_in_the_store_is_left_alone(tmp_path: Path) -> None:
    place = a_place(tmp_path)
    (tmp_path / "other.py").write_text((tmp_path / "job.py").read_text().replace(JOB, OTHER))
    other = place.start("run", "other.py")
    wait_until(lambda: steplog.read(tmp_path / "other.log"))
    kill_at_forty(place)
    assert place.run().code == 0
    assert other.poll() is None
    status = json.loads(place.fine("status", "other.py", "--json"))
    assert status["runs"][0]["ended"] is None and status["runs"][0]["reason"] is None
    assert other.wait(60) == 0
    calls = Counter(entry.key for entry in steplog.read(tmp_path / "other.log"))
    assert len(calls) == RECORDS and set(calls.values()) == {1}


def test_the_run_after_a_kill_begins_within_a_second_of_its_own_start(tmp_path: Path) -> None:
    """What a dead run held is taken over by its lock, at once, and not when its lease of thirty seconds has passed."""
    place = a_place(tmp_path)
    kill_at_forty(place)
    began = time.monotonic()
    assert place.onward("run", "job.py", "--limit", "1").returncode == 0
    assert time.monotonic() - began < 10
