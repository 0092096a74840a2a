"""Steps and sources that fork, and children that are killed, do the store no harm."""

from __future__ import annotations

import subprocess
from pathlib import Path

import apsw
import pytest

from acceptance.jobs import Place

RECORDS = 500
FORKING = """
import multiprocessing, signal

def rows():
    for number in range(500):
        if number % 100 == 0:
            child = os.fork()
            if child == 0:
                os._exit(0)
            os.waitpid(child, 0)
        yield {"id": number}

job = onward.Job("case", source=onward.iterable(rows, key="id"), concurrency=8)
context = multiprocessing.get_context("fork")

def square(number, pipe):
    pipe.send(number * number)
    if number % 7 == 0:
        os.kill(os.getpid(), signal.SIGKILL)
    if number % 11 == 0:
        sys.exit(3)

@job.step(timeout=60)
def work(record):
    ours, theirs = context.Pipe()
    child = context.Process(target=square, args=(record["id"], theirs))
    child.start()
    answer = ours.recv()
    child.join()
    return answer
"""
POOL = """
import concurrent.futures, multiprocessing, signal, threading
sys.path.insert(0, str(HERE))
from squares import end_with, square

job = onward.Job("case", source=onward.iterable(lambda: [{"id": n} for n in range(500)], key="id"), concurrency=4)
lock = threading.Lock()
pools = []

def pool(anew=None):
    with lock:
        if not pools or pools[-1] is anew:
            pools.append(concurrent.futures.ProcessPoolExecutor(
                2, multiprocessing.get_context("%s"), initializer=end_with, initargs=(os.getpid(),)))
        return pools[-1]

@job.step(timeout=20)
def work(record):
    used = pool()
    while True:
        try:
            if record["id"] %% 200 == 100:
                for child in list((used._processes or {}).values())[:1]:
                    child.kill()
            return used.submit(square, record["id"]).result(timeout=5)
        except (concurrent.futures.process.BrokenProcessPool, concurrent.futures.TimeoutError):
            used = pool(anew=used)
            record = {"id": record["id"]} if record["id"] %% 200 != 100 else {"id": record["id"], "again": True}
            if "again" in record:
                return used.submit(square, record["id"]).result(timeout=5)
"""
CAREFUL = """
import gc, os, threading, time

def end_with(parent):
    # A worker whose sibling was killed while it held the pool's lock waits for ever; it must not outlive the test.
    def watch():
        while os.getppid() == parent:
            time.sleep(0.2)
        os._exit(1)
    threading.Thread(target=watch, daemon=True).start()

def square(number):
    gc.collect()
    return number * number
"""


def sound(place: Place) -> None:
    store = place.folder / ".onward" / "onward.db"
    connection = apsw.Connection(str(store), flags=apsw.SQLITE_OPEN_READWRITE)
    assert connection.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    connection.close()


def complete(place: Place, ended: subprocess.CompletedProcess[str]) -> None:
    assert ended.returncode == 0, ended.stderr
    assert "malformed" not in ended.stdout + ended.stderr
    status = place.status()
    assert status["counts"]["succeeded"] == status["total"] == RECORDS
    assert [row["outputs"]["work"] for row in place.export()] == [number**2 for number in range(RECORDS)]
    sound(place)


def test_a_step_and_a_source_that_fork(tmp_path: Path) -> None:
    place = Place(tmp_path, FORKING)
    complete(place, place.onward("run", "job.py"))


@pytest.mark.parametrize("method", ["fork", "spawn"])
def test_a_pool_in_a_step_whose_processes_are_killed(tmp_path: Path, method: str) -> None:
    (tmp_path / "squares.py").write_text(CAREFUL)
    place = Place(tmp_path, POOL % method)
    complete(place, place.onward("run", "job.py"))


LINGERING = """
job = onward.Job("case", source=onward.iterable(lambda: [{"id": n} for n in range(500)], key="id"), concurrency=8)

@job.step
def work(record):
    if record["id"] % 50 == 0:
        child = os.fork()
        if child == 0:  # outlives its parent, and ends as a program ends: with everything that it inherited
            time.sleep(3)
            import gc
            gc.collect()
            os._exit(0)
    if record["id"] == 300 and not (HERE / "killed").exists():
        (HERE / "killed").touch()
        os.kill(os.getpid(), 9)
    time.sleep(0.002)
    return record["id"] ** 2
"""


def test_children_that_outlive_a_killed_run_hold_nothing(tmp_path: Path) -> None:
    place = Place(tmp_path, LINGERING)
    assert place.onward("run", "job.py").returncode == -9
    complete(place, place.onward("run", "job.py"))
