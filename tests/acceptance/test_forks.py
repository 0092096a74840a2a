"""A step may fork; a process that it forked and that comes back out of the step ends, and does nothing of onward's."""

from __future__ import annotations

from pathlib import Path

import pytest
from jobs import Place

RECORDS = 12
JOB = """
import asyncio

job = onward.Job("case", source=onward.iterable(lambda: range(%d)), concurrency=4)

def falls_through(how):
    if how == "exit":
        sys.exit(7)
    if how == "raise":
        raise ValueError("in the fork")
    return "what the fork returned"

def look(process):
    number, status = os.waitpid(process, os.WNOHANG)
    return os.waitstatus_to_exitcode(status) if number else None

%s
"""
SYNC = """
@job.step(process=%s, retry=onward.Retry(attempts=1))
def work(record):
    started(record, "work")
    time.sleep(0.02)
    if record != 3:
        return record
    if (process := os.fork()) == 0:
        return falls_through("%s")
    for _ in range(500):
        if (code := look(process)) is not None:
            return {"code": code}
        time.sleep(0.01)
"""
ASYNC = """
@job.step(retry=onward.Retry(attempts=1))
async def work(record):
    started(record, "work")
    await asyncio.sleep(0.02)
    if record != 3:
        return record
    never, task = asyncio.get_running_loop().create_future(), None
    async def exits():
        sys.exit(7)
    if "%s" == "task":
        task = asyncio.create_task(exits())
    if (process := os.fork()) == 0:
        await never if "%s" in ("await", "task") else None
        return falls_through("%s")
    if task:
        task.cancel()
    for _ in range(500):
        if (code := look(process)) is not None:
            return {"code": code}
        await asyncio.sleep(0.01)
"""


def ends(folder: Path, step: str, code: int) -> None:
    place = Place(folder, JOB % (RECORDS, step))
    ran = place.run(timeout=60)
    assert (ran.code, ran.counts) == (0, {"succeeded": RECORDS}), ran.said
    assert sorted(place.calls()) == list(range(RECORDS))
    outputs = {row["key"]: row["outputs"]["work"] for row in place.export()}
    assert outputs.pop(3) == {"code": code}
    assert all(key == output for key, output in outputs.items())
    assert ("ValueError: in the fork" in ran.said) is (code == 1)


CODES = [("exit", 7), ("raise", 1), ("return", 0)]


@pytest.mark.parametrize("how, code", CODES)
@pytest.mark.parametrize("process", [False, True], ids=["thread", "process"])
def test_out_of_a_sync_step(tmp_path: Path, process: bool, how: str, code: int) -> None:
    ends(tmp_path, SYNC % (process, how), code)


@pytest.mark.parametrize("how, code", [*CODES, ("await", 0), ("task", 0)])
def test_out_of_an_async_step(tmp_path: Path, how: str, code: int) -> None:
    ends(tmp_path, ASYNC % (how, how, how), code)
