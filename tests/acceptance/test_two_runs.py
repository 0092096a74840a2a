"""Two runs of one job at the same time; and one that slept through its lease and wakes."""

from __future__ import annotations

import hashlib
import os
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from acceptance.jobs import Place, wait_until
from judge import steplog

RECORDS = 200
JOB = """
job = onward.Job("case", source=onward.jsonl("in.jsonl", key="id"), concurrency=4)

@job.step
async def first(record):
    started(record["id"], "first")
    import asyncio
    await asyncio.sleep(%s)
    return record["id"]

@job.step
def second(record, first):
    started(record["id"], "second")
    return first + 1
"""


@pytest.fixture
def sleepers() -> Iterator[list[subprocess.Popen[bytes]]]:
    """Processes that the test freezes; none of them may stay behind."""
    processes: list[subprocess.Popen[bytes]] = []
    yield processes
    for process in processes:
        process.kill()
        process.wait()


def a_place(folder: Path, seconds: float, records: int = RECORDS) -> Place:
    place = Place(folder, JOB % seconds)
    place.write("in.jsonl", [{"id": number} for number in range(records)])
    return place


def starts(folder: Path) -> Counter[tuple[str, str]]:
    return Counter((entry.key, entry.step) for entry in steplog.read(folder / "calls.log"))


def test_every_record_is_done_once_and_both_end_well(tmp_path: Path) -> None:
    place = a_place(tmp_path, 0.05)
    runs = [place.start("run", "job.py") for _ in range(2)]
    assert [run.wait(120) for run in runs] == [0, 0]
    calls = starts(tmp_path)
    assert len(calls) == 2 * RECORDS
    assert set(calls.values()) == {1}
    assert {entry.pid for entry in steplog.read(tmp_path / "calls.log")} == {run.pid for run in runs}
    status = place.status()
    assert status["counts"]["succeeded"] == status["total"] == RECORDS
    assert [run["exit_code"] for run in status["runs"]] == [0, 0]
    assert [row["key"] for row in place.export()] == list(range(RECORDS))


def test_what_stands_while_another_run_works_was_not_left_by_earlier_ones(tmp_path: Path) -> None:
    place = a_place(tmp_path, 0.3, 200)
    first = place.start("run", "job.py", "--concurrency", "2")
    wait_until(lambda: starts(tmp_path))
    beside = place.onward("run", "job.py", "--limit", "1")
    assert "so far: " in beside.stdout and "earlier runs" not in beside.stdout, beside.stderr
    place.fine("drain", "job.py")
    assert first.wait(60) == 3


def test_the_other_goes_on_when_one_is_killed(tmp_path: Path) -> None:
    place = a_place(tmp_path, 0.05)
    one, two = (place.start("run", "job.py") for _ in range(2))
    wait_until(lambda: len({entry.pid for entry in steplog.read(tmp_path / "calls.log")}) == 2)
    one.kill()
    one.wait()
    assert two.wait(120) == 0
    calls = starts(tmp_path)
    assert len(calls) == 2 * RECORDS
    assert sum(calls.values()) <= 2 * RECORDS + 4 + 40
    assert place.status()["counts"]["succeeded"] == RECORDS


def test_a_run_that_slept_through_its_lease_changes_nothing(
    tmp_path: Path, sleepers: list[subprocess.Popen[bytes]]
) -> None:
    place = a_place(tmp_path, 0.3, records=40)
    short = {"ONWARD_LEASE": "1"}
    zombie = place.start("run", "job.py", env=short)
    sleepers.append(zombie)
    wait_until(lambda: len(place.calls()) >= 8)
    freeze(place, zombie.pid)
    time.sleep(1.5)
    other = place.onward("run", "job.py", env=short)
    assert other.returncode == 0, other.stderr
    assert place.status()["counts"]["succeeded"] == 40
    before, calls = content(place), len(place.calls())
    os.kill(zombie.pid, signal.SIGCONT)
    assert zombie.wait(60) == 3
    assert content(place) == before
    woken = steplog.read(tmp_path / "calls.log")[calls:]
    assert len(woken) <= 4  # at most the calls that it had begun or was just beginning
    said = (tmp_path / "said.txt").read_text()
    assert "lost its lease" in said
    assert "40 succeeded of 40" in said
    assert "Nothing is left to do. Next: onward export job.py" in said
    assert "Go on with" not in said
    assert "Traceback" not in said
    done = Counter(entry.key for entry in steplog.read(tmp_path / "calls.log") if entry.step == "second")
    assert len(done) == 40


def test_a_run_that_is_woken_while_the_other_works_changes_nothing(
    tmp_path: Path, sleepers: list[subprocess.Popen[bytes]]
) -> None:
    place = a_place(tmp_path, 0.3, records=60)
    short = {"ONWARD_LEASE": "1"}
    zombie = place.start("run", "job.py", env=short)
    sleepers.append(zombie)
    wait_until(lambda: len(place.calls()) >= 8)
    freeze(place, zombie.pid)
    time.sleep(1.5)
    other = place.start("run", "job.py", env=short)
    wait_until(lambda: any(entry.pid == other.pid for entry in steplog.read(tmp_path / "calls.log")))
    os.kill(zombie.pid, signal.SIGCONT)
    assert zombie.wait(60) == 3
    assert other.wait(60) == 0
    status = place.status()
    assert status["counts"]["succeeded"] == status["total"] == 60
    assert len(place.export()) == 60


def freeze(place: Place, pid: int) -> None:
    """Stop a process, not in the middle of a commit: then it would hold the store's lock for as long as it sleeps."""
    while True:
        os.kill(pid, signal.SIGSTOP)
        os.waitid(os.P_PID, pid, os.WSTOPPED)  # until all its threads stand still: they may yet begin a commit
        connection = apsw.Connection(str(place.folder / ".onward" / "onward.db"), flags=apsw.SQLITE_OPEN_READWRITE)
        try:
            connection.execute("BEGIN IMMEDIATE; ROLLBACK")
            return
        except apsw.BusyError:
            os.kill(pid, signal.SIGCONT)
            time.sleep(0.02)
        finally:
            connection.close()


def content(place: Place) -> str:
    """A hash over every row of every table of the store."""
    store = place.folder / ".onward" / "onward.db"
    digest = hashlib.sha256()
    connection = apsw.Connection(str(store), flags=apsw.SQLITE_OPEN_READWRITE)
    connection.execute("PRAGMA query_only = 1")
    for (table,) in connection.execute("SELECT name FROM sqlite_schema WHERE type = 'table' ORDER BY name").fetchall():
        for row in connection.execute(f'SELECT * FROM "{table}" ORDER BY 1, 2'):
            digest.update(repr((table, row)).encode())
    connection.close()
    return digest.hexdigest()
