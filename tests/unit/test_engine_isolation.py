"""What one call does to its surroundings is not seen by the next; start-up takes no time from calls."""

from __future__ import annotations

import asyncio
import contextvars
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from multiprocessing.synchronize import Event
from pathlib import Path

import onward
from onward.engine.gates.admission import Admission

MINE = contextvars.ContextVar("MINE", default=-1)

SLOW_START = """
import time, onward
job = onward.Job("slow", source=onward.iterable(lambda: range(3)))

@job.resource
def model():
    time.sleep(1.5)
    yield "loaded"
    open("closed", "w").close()

@job.step(process=True, timeout=1.0, retry=onward.Retry(attempts=1))
def quick(number, model):
    return model

if __name__ == "__main__":
    raise SystemExit(onward.run(job, store="store.db").exit_code)
"""


def test_context_variables_do_not_leak_from_record_to_record(tmp_path: Path) -> None:
    job = onward.Job("context", source=onward.iterable(lambda: range(60)), concurrency=2)

    @job.step(version=1)
    async def look(number: int) -> int:
        seen = MINE.get()
        MINE.set(number)
        await asyncio.sleep(0)
        return seen

    store = str(tmp_path / "store.db")
    assert onward.run(job, store=store).exit_code == 0
    assert {one.outputs["look"] for one in onward.results(job, store=store)} == {-1}


def test_the_timeout_begins_with_the_call_and_worker_processes_close_their_resources(tmp_path: Path) -> None:
    (tmp_path / "job.py").write_text(SLOW_START)
    assert subprocess.run([sys.executable, "job.py"], cwd=tmp_path, check=False).returncode == 0
    until = time.monotonic() + 10
    while not (tmp_path / "closed").exists():
        assert time.monotonic() < until, "the worker process did not close its resource"
        time.sleep(0.02)


def test_steps_for_worker_processes_are_bounded_by_the_processors(monkeypatch) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    job = onward.Job("bound", source=onward.iterable(lambda: range(1)))

    @job.step(process=True)
    def heavy(number: int) -> int:
        return number

    @job.step
    def light(number: int) -> int:
        return number

    plan = job.plan()
    admission = Admission(plan, lambda attempt: None)
    assert [admission.limits(step) for step in plan.steps] == [True, False]
    assert admission.room == {"heavy": 2}


def test_a_process_that_a_step_forks_dies_of_the_signal_it_is_sent(tmp_path: Path) -> None:
    job = onward.Job(
        "forking", source=onward.iterable(lambda: [int(signal.SIGTERM), int(signal.SIGINT)]), concurrency=1
    )

    @job.step(version=1, timeout=10, retry=onward.Retry(attempts=1))
    def ends_its_child(number: int) -> int:
        ready = multiprocessing.get_context("fork").Event()
        child = multiprocessing.get_context("fork").Process(target=_sleeps, args=(ready,), daemon=True)
        child.start()
        assert ready.wait(5)
        assert child.pid is not None
        os.kill(child.pid, number)
        child.join(5)
        code = child.exitcode
        child.kill()
        assert code is not None, "the signal did not end it"
        return code

    assert onward.run(job, store=str(tmp_path / "store.db")).exit_code == 0
    codes = [result.outputs["ends_its_child"] for result in onward.results(job, store=str(tmp_path / "store.db"))]
    assert codes == [-signal.SIGTERM, 1]


def _sleeps(ready: Event) -> None:
    sys.stderr = None  # a KeyboardInterrupt's traceback
    ready.set()
    time.sleep(60)
