"""Stopping has two stages: the first signal lets what is in progress end, the second ends at once."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from acceptance.jobs import Place, plain, surroundings, wait_until

RECORDS, CONCURRENCY = 50, 4
STEP = """
job = onward.Job("case", source=onward.jsonl("in.jsonl", key="id"), concurrency=4)

@job.step(%s)
def work(record):
    started(record["id"], "work")
    time.sleep(%s)
    return record["id"]
"""
ASYNC = """
import asyncio
job = onward.Job("case", source=onward.jsonl("in.jsonl", key="id"), concurrency=4)

@job.step
async def work(record):
    started(record["id"], "work")
    await asyncio.sleep(%s)
    return record["id"]
"""


def a_job(folder: Path, seconds: float = 2.0, options: str = "", text: str | None = None) -> Place:
    place = Place(folder, text or STEP % (options, seconds))
    place.write("in.jsonl", [{"id": number} for number in range(RECORDS)])
    return place


def begin(place: Place, *words: str) -> subprocess.Popen[bytes]:
    """Start, and return when the first calls are in progress. The run leads a process group of its own."""
    with (place.folder / "said.txt").open("ab") as said:
        process = subprocess.Popen(
            place.command("run", "job.py", *words),
            cwd=place.folder,
            env=surroundings(),
            stdout=said,
            stderr=said,
            start_new_session=True,
        )
    wait_until(lambda: len(place.calls()) >= CONCURRENCY)
    return process


def said(place: Place) -> str:
    text = (place.folder / "said.txt").read_text()
    plain(text)
    return text


def finish(place: Place) -> None:
    """The next run starts at once, suspects nobody, and does exactly what is left."""
    place.job(STEP % ("", 0.0))
    before = len(place.calls())
    began = time.time()
    ended = place.onward("run", "job.py")
    assert ended.returncode == 0, ended
    assert "suspicion" not in ended.stdout
    assert time.time() - began < 20
    status = place.status()
    assert status["counts"]["succeeded"] == RECORDS
    assert sorted(set(place.calls())) == list(range(RECORDS))
    assert len(place.calls()) - before <= RECORDS
    assert place.failures() == []


@pytest.mark.parametrize("name", ["SIGINT", "SIGTERM", "SIGHUP"])
def test_one_signal_lets_calls_end_and_starts_no_more(tmp_path: Path, name: str) -> None:
    place = a_job(tmp_path)
    process = begin(place)
    at = time.monotonic()
    process.send_signal(signal.Signals[name])
    assert process.wait(20) == 3
    assert time.monotonic() - at < 5
    calls = place.calls()
    assert len(calls) == CONCURRENCY
    status = place.status()
    assert status["counts"]["succeeded"] == CONCURRENCY
    assert status["runs"][-1]["exit_code"] == 3
    assert name in status["runs"][-1]["reason"]
    assert f"{CONCURRENCY} succeeded, {RECORDS - CONCURRENCY} to go of {RECORDS}" in said(place)
    finish(place)
    assert len(place.calls()) == RECORDS


@pytest.mark.parametrize("number, code", [(signal.SIGINT, 130), (signal.SIGTERM, 143)])
def test_a_second_signal_stops_at_once(tmp_path: Path, number: int, code: int) -> None:
    place = a_job(tmp_path, 30.0)
    process = begin(place)
    process.send_signal(number)
    time.sleep(0.5)
    at = time.monotonic()
    process.send_signal(number)
    assert process.wait(20) == code
    assert time.monotonic() - at < 2
    assert "stopped at once" in said(place)
    status = place.status()
    assert status["runs"][-1]["ended"] is None
    assert status["runs"][-1]["reason"].startswith("stopped: SIG")
    finish(place)


def test_the_same_signal_within_a_moment_is_one(tmp_path: Path) -> None:
    """`timeout` sends it to the process and then to the group that it leads."""
    place = a_job(tmp_path)
    process = begin(place)
    process.send_signal(signal.SIGTERM)
    time.sleep(0.03)
    os.killpg(process.pid, signal.SIGTERM)
    assert process.wait(20) == 3
    assert place.status()["counts"]["succeeded"] == CONCURRENCY


def test_another_signal_within_a_moment_is_the_second(tmp_path: Path) -> None:
    place = a_job(tmp_path, 30.0)
    process = begin(place)
    process.send_signal(signal.SIGTERM)
    time.sleep(0.03)
    process.send_signal(signal.SIGINT)
    assert process.wait(20) == 130


def test_sigterm_and_then_sigkill_suspects_nobody(tmp_path: Path) -> None:
    place = a_job(tmp_path, 30.0)
    for _ in range(3):
        calls = len(place.calls())
        process = begin(place)
        wait_until(lambda calls=calls: len(place.calls()) >= calls + CONCURRENCY)
        process.send_signal(signal.SIGTERM)
        time.sleep(1.0)
        process.kill()
        assert process.wait(20) == -signal.SIGKILL
    finish(place)
    assert all(place_deaths(place, key) == 0 for key in range(CONCURRENCY))


def place_deaths(place: Place, key: int) -> int:
    return int(json.loads(place.fine("show", "job.py", str(key), "--json"))["deaths"])


def test_async_calls_are_cut_after_the_grace_and_not_counted(tmp_path: Path) -> None:
    place = a_job(tmp_path, text=ASYNC % 60)
    process = begin(place, "--grace", "0.5s")
    at = time.monotonic()
    process.send_signal(signal.SIGTERM)
    assert process.wait(20) == 3
    assert time.monotonic() - at < 5
    said(place)
    status = place.status()
    assert status["counts"]["pending"] == RECORDS
    assert [one["attempts"] for one in place.failures()] == []
    finish(place)


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_to_the_whole_group_with_worker_processes(tmp_path: Path, number: int) -> None:
    place = a_job(tmp_path, 2.0, "process=True")
    process = begin(place)
    os.killpg(process.pid, number)
    assert process.wait(30) == 3
    assert place.status()["counts"]["succeeded"] == CONCURRENCY
    assert len(place.calls()) == CONCURRENCY
    said(place)
    wait_until(lambda: not children_of(tmp_path), 10)
    finish(place)
    assert len(place.calls()) == RECORDS


def children_of(folder: Path) -> list[str]:
    """Child processes of onward that work in this folder."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if (entry / "cwd").readlink() == folder and b"engine.processes.child" in (entry / "cmdline").read_bytes():
                found.append(entry.name)
    return found


def test_a_signal_while_the_job_is_loaded(tmp_path: Path) -> None:
    place = a_job(tmp_path, text="(HERE / 'loading').touch()\ntime.sleep(30)\n")
    for number in (signal.SIGINT, signal.SIGTERM):
        process = place.start("run", "job.py")
        wait_until((tmp_path / "loading").exists)
        process.send_signal(number)
        assert process.wait(10) == 3
        (tmp_path / "loading").unlink()
    assert "onward: interrupted" in said(place)


def test_max_time_stops_like_a_signal(tmp_path: Path) -> None:
    place = a_job(tmp_path, 0.3)
    at = time.monotonic()
    ended = place.onward("run", "job.py", "--max-time", "1s")
    assert ended.returncode == 3
    assert time.monotonic() - at < 10
    assert "stopped: --max-time of 1 seconds is over" in ended.stdout
    status = place.status()
    assert 0 < status["counts"]["succeeded"] < RECORDS
    assert status["counts"]["in_progress"] == 0
    finish(place)
    assert len(place.calls()) == RECORDS


BOUNDED = """
import asyncio

job = onward.Job("bounded", source=onward.jsonl("in.jsonl", key="id"), concurrency=6)

@job.step
async def first(record):
    started(record["id"], "first")
    await asyncio.sleep(2)
    return 1

@job.step(@BOUND@)
async def second(record, first):
    return 2
"""


@pytest.mark.parametrize("bound", ["concurrency=1", 'group=onward.Group("place", concurrency=1)'])
def test_a_run_stops_though_the_steps_that_follow_have_no_room_for_all(tmp_path: Path, bound: str) -> None:
    place = Place(tmp_path, BOUNDED.replace("@BOUND@", bound))
    place.write("in.jsonl", [{"id": n, "place": "CA"} for n in range(6)])
    ran = place.run("--max-time", "1", "--grace", "10", timeout=30)
    assert ran.code == 3
    assert ran.counts == {"pending": 6}
    assert (len(place.calls("first")), place.run().code, len(place.calls("first"))) == (6, 0, 6)
