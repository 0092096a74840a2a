"""However far ahead claims reach while calls are quick, only records that had really started count as in flight."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import apsw
from jobs import wait_until

CONCURRENCY = 8
QUICK = 4000

JOB = f"""
import asyncio, onward
job = onward.Job("ahead", source=onward.iterable(lambda: range({QUICK + 3000})), concurrency={CONCURRENCY})

@job.step
async def work(number):
    if number >= {QUICK}:
        await asyncio.sleep(600)
    return number

if __name__ == "__main__":
    onward.run(job, store="ahead.db")
"""


def test_records_whose_turn_does_not_come_are_not_charged_with_a_death(tmp_path: Path) -> None:
    (tmp_path / "job.py").write_text(JOB)
    process = subprocess.Popen([sys.executable, "job.py"], cwd=tmp_path)
    try:
        wait_until(lambda: states(tmp_path).get("succeeded", 0) == QUICK, 60)
        wait_until(lambda: slow_ones_alone(tmp_path), 20)
    finally:
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    second = subprocess.Popen([sys.executable, "job.py"], cwd=tmp_path)
    try:
        wait_until(lambda: asked(tmp_path, "SELECT count(*) FROM runs WHERE ended IS NOT NULL") == 1, 30)
        assert asked(tmp_path, "SELECT count(*) FROM records WHERE deaths > 0") == CONCURRENCY
    finally:
        os.kill(second.pid, signal.SIGKILL)
        second.wait()


def slow_ones_alone(folder: Path) -> bool:
    """Whether only calls in progress are held, and not just for the moment before the next claim."""
    for _ in range(10):
        if states(folder).get("in_progress", 0) != CONCURRENCY:
            return False
        time.sleep(0.1)
    return True


def states(folder: Path) -> dict[str, int]:
    try:
        return dict(rows(folder, "SELECT state, count(*) FROM records GROUP BY state"))
    except (apsw.CantOpenError, apsw.SQLError):  # there is no store yet, or it has no tables
        return {}


def asked(folder: Path, query: str) -> int:
    return rows(folder, query)[0][0]


def rows(folder: Path, query: str) -> list[tuple]:
    """Read and let go at once: a reader that stays would keep the next run from recovering the write-ahead log."""
    store = apsw.Connection(str(folder / "ahead.db"), flags=apsw.SQLITE_OPEN_READONLY)
    try:
        store.set_busy_timeout(10_000)
        return list(store.execute(query))
    finally:
        store.close()
