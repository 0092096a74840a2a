"""Case 41: memory depends neither on the number of records nor on how far the store is behind; only on their size."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

import pytest

from acceptance.jobs import Place, surroundings

MEGABYTE = 1 << 20
AHEAD = 10_000
SQLITE_CACHE = 16  # megabytes that fill up during the first 100,000 records or so

NUMBERS = """
import asyncio, atexit, resource
made = done = furthest = 0
peaks = {}

@atexit.register
def tell():
    (HERE / "seen.json").write_text(json.dumps({"furthest": furthest, "peaks": peaks}))

def numbers():
    global made, furthest
    for number in range(int(os.environ["RECORDS"])):
        made += 1
        furthest = max(furthest, made - done)
        if made % int(os.environ["LOOK_EVERY"]) == 0:
            peaks[made] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
        yield number

job = onward.Job("case", source=onward.iterable(numbers), concurrency=32)

@job.step
async def keep(number):
    global done
    await asyncio.sleep(float(os.environ["STEP_SECONDS"]))
    done += 1
    return number
"""

BLOBS = """
import resource
peaks = []

def blobs():
    for number in range(int(os.environ["RECORDS"])):
        peaks.append(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024)
        yield {"id": number, "text": f"{number:010}" * 2_000_000}
    (HERE / "seen.json").write_text(json.dumps(peaks))

job = onward.Job("case", source=onward.iterable(blobs, key="id"), concurrency=32)

@job.step
def length(record):
    assert len(record["text"]) == 20_000_000
    return record["id"]
"""

LARGE_OUTPUTS = """
job = onward.Job("case", source=onward.iterable(lambda: range(int(os.environ["RECORDS"]))), concurrency=4)

@job.step
async def grow(number):
    return f"{number:010}" * 1_000_000
"""

SLOW_STORE = """
import contextlib, os, sys, time
from onward.store.sqlite import connection

transaction = connection.transaction

@contextlib.contextmanager
def slow(writer):
    with transaction(writer):
        yield
        time.sleep(0.1)

connection.transaction = slow

from onward.cli.main import main
sys.exit(main())
"""


@dataclass(frozen=True)
class Measured:
    code: int
    peak: int
    """In megabytes."""


def measured(place: Place, records: int, *words: str, slow_store: bool = False, step_seconds: float = 0) -> Measured:
    """A run as a child whose highest memory the system tells."""
    surrounding = surroundings({"RECORDS": str(records), "LOOK_EVERY": "1000", "STEP_SECONDS": str(step_seconds)})
    (place.folder / "slow_store.py").write_text(SLOW_STORE)
    command = place.command("run", "job.py", *words)
    if slow_store:
        command = [sys.executable, "slow_store.py", "run", "job.py", *words]
    with (place.folder / "said.txt").open("ab") as said:
        child = subprocess.Popen(command, cwd=place.folder, env=surrounding, stdout=said, stderr=said)
        _, status, usage = os.wait4(child.pid, 0)
        child.returncode = os.waitstatus_to_exitcode(status)
    return Measured(child.returncode, usage.ru_maxrss // 1024)


@pytest.mark.parametrize(
    "records", [pytest.param(120_000, id="120,000"), pytest.param(2_000_000, id="2,000,000", marks=pytest.mark.slow)]
)
def test_many_records_need_no_more_than_few(tmp_path: Path, records: int) -> None:
    place = Place(tmp_path, NUMBERS)
    ran = measured(place, records)
    seen = json.loads((tmp_path / "seen.json").read_text())
    few, settled, most = seen["peaks"]["20000"], seen["peaks"]["100000"], ran.peak
    assert ran.code == 0
    assert place.status()["counts"]["succeeded"] == records
    assert most - few <= SQLITE_CACHE + 8, seen
    assert most - settled <= 3, seen
    assert seen["furthest"] <= AHEAD


@pytest.mark.parametrize(
    "records", [pytest.param(10_000, id="seconds"), pytest.param(60_000, id="a minute", marks=pytest.mark.slow)]
)
def test_a_slow_store_holds_the_generator_back(tmp_path: Path, records: int) -> None:
    place = Place(tmp_path, NUMBERS)
    ran = measured(place, records, slow_store=True)
    seen = json.loads((tmp_path / "seen.json").read_text())
    assert ran.code == 0
    assert seen["furthest"] <= AHEAD
    assert ran.peak - seen["peaks"]["2000"] <= SQLITE_CACHE + 8, seen


def test_slow_steps_hold_the_generator_back(tmp_path: Path) -> None:
    place = Place(tmp_path, NUMBERS)
    ran = measured(place, 100_000, "--limit", "300", step_seconds=0.3)
    seen = json.loads((tmp_path / "seen.json").read_text())
    assert ran.code == 0
    assert AHEAD // 2 < seen["furthest"] <= AHEAD


@pytest.mark.parametrize("records", [pytest.param(6, id="6"), pytest.param(300, id="300", marks=pytest.mark.slow)])
def test_large_records_are_bounded_by_their_size_not_their_number(tmp_path: Path, records: int) -> None:
    place = Place(tmp_path, BLOBS)
    ran = measured(place, records)
    peaks = json.loads((tmp_path / "seen.json").read_text())
    assert ran.code == 0
    assert ran.peak < 32 * 20, "concurrency × size of a record"
    assert ran.peak - peaks[-1] < 3 * 20, peaks
    assert peaks[-1] - peaks[4] < 3 * 20, peaks


@pytest.mark.parametrize("records", [pytest.param(30, id="30"), pytest.param(600, id="600", marks=pytest.mark.slow)])
def test_outputs_that_wait_for_a_slow_store_are_bounded_by_their_size(tmp_path: Path, records: int) -> None:
    place = Place(tmp_path, LARGE_OUTPUTS)
    ran = measured(place, records, slow_store=True)
    assert ran.code == 0
    assert ran.peak < 500, "64 MB wait and 4 × 10 MB are being made; a commit holds a few copies of what it writes"
