"""A long record stays with its holder as long as the holder lives, however short the lease; then it is taken over."""

from __future__ import annotations

from pathlib import Path

import pytest

from acceptance.jobs import Place, wait_until
from judge import steplog

RECORDS, LONG, LEASE = 10, 3, 1.0
JOB = """
job = onward.Job("case", source=onward.iterable(lambda: [{"id": n} for n in range(10)], key="id", version="1"),
                 concurrency=2)

@job.step(timeout=60)
%s
    started(record["id"], "work")
    %s if record["id"] == 3 else None
    steplog.log_end(HERE / "calls.log", record["id"], "work")
    return record["id"]
"""
WAYS = {
    "a thread": ("def work(record):", "time.sleep(5)"),
    "the event loop, blocked": ("async def work(record):", "time.sleep(5)"),
    "the event loop, waiting": ("import asyncio\n@job.step\nasync def second(record):", "await asyncio.sleep(5)"),
}
SHORT = {"ONWARD_LEASE": str(LEASE)}


def a_place(folder: Path, way: str) -> Place:
    text = JOB % WAYS[way]
    return Place(folder, text.replace("@job.step(timeout=60)\nimport asyncio\n@job.step", "import asyncio\n@job.step"))


@pytest.mark.parametrize("way", WAYS)
def test_a_record_that_takes_five_leases_runs_once(tmp_path: Path, way: str) -> None:
    place = a_place(tmp_path, way)
    runs = [place.start("run", "job.py", env=SHORT) for _ in range(2)]
    assert [run.wait(60) for run in runs] == [0, 0]
    entries = steplog.read(tmp_path / "calls.log")
    starts = [entry for entry in entries if entry.what == "start"]
    assert sorted(int(entry.key) for entry in starts) == list(range(RECORDS))
    (began,) = [entry for entry in starts if entry.key == str(LONG)]
    (ended,) = [entry for entry in entries if entry.what == "end" and entry.key == str(LONG)]
    assert ended.time - began.time > 4 * LEASE
    assert place.status()["counts"]["succeeded"] == RECORDS
    assert "lost its lease" not in (tmp_path / "said.txt").read_text()


def test_a_dead_holder_is_relieved_within_about_a_lease(tmp_path: Path) -> None:
    place = a_place(tmp_path, "a thread")
    runs = {run.pid: run for run in (place.start("run", "job.py", env=SHORT) for _ in range(2))}
    wait_until(lambda: LONG in place.calls())
    (holder,) = [entry.pid for entry in steplog.read(tmp_path / "calls.log") if entry.key == str(LONG)]
    died = steplog.now()
    runs[holder].kill()
    (other,) = [run for pid, run in runs.items() if pid != holder]
    assert other.wait(60) == 0
    again = [entry for entry in steplog.read(tmp_path / "calls.log") if entry.key == str(LONG)]
    second = [entry for entry in again if entry.what == "start"][1]
    assert second.pid == other.pid
    assert second.time - died < 2 * LEASE + 1
    assert place.status()["counts"]["succeeded"] == RECORDS
