"""What a worker does on its machine: it begins ordinary runs, has them end in good order, and takes them along when it
dies. Here without any cluster, on stores in files."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from acceptance.jobs import Place, surroundings, wait_until
from onward.cluster.assignment import Assignment
from onward.cluster.hand import Ended, Hand

RECORDS = 60
JOB = """
job = onward.Job("case", source=onward.jsonl("in.jsonl", key="id"), concurrency=4)

@job.step
async def work(record):
    started(record["id"], "work")
    import asyncio
    await asyncio.sleep(%s)
    return record["id"]
"""
PARENT = """
import sys
from onward.cluster.hand import Hand
print(Hand().work(sys.stdin.read()).code)
"""


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Place:
    made = Place(tmp_path, JOB % 0.05)
    made.write("in.jsonl", [{"id": number} for number in range(RECORDS)])
    monkeypatch.chdir(tmp_path)
    for name, value in surroundings().items():
        monkeypatch.setenv(name, value)
    return made


def assignment(place: Place, **changes: Any) -> str:
    store = str(place.folder / ".onward" / "onward.db")
    base = Assignment("case", "job.py", None, None, "", store, str(place.folder / "in.jsonl"), None)
    return json.dumps(json.loads(base.text()) | changes)


class AtWork:
    """A hand that works in a thread which hears no signals, as those of Ray's actors."""

    def __init__(self, orders: str):
        self.hand = Hand()
        self.ended: Ended | None = None
        self._thread = threading.Thread(target=self._work, args=(orders,))
        self._thread.start()

    def _work(self, orders: str) -> None:
        signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT, signal.SIGTERM})
        self.ended = self.hand.work(orders)

    def wait(self) -> Ended:
        self._thread.join(120)
        assert self.ended is not None
        return self.ended


@pytest.fixture
def at_work(place: Place) -> Iterator[AtWork]:
    made = AtWork(assignment(place))
    yield made
    made.hand.stop(signal.SIGTERM)
    made.wait()


def processes_of_runs(folder: Path) -> list[int]:
    """Processes whose current folder it is, and that are runs of a worker."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and (entry / "cwd").resolve() == folder.resolve():
                words = (entry / "cmdline").read_bytes().split(b"\0")
                found += [int(entry.name)] if b"onward.cluster.run" in words else []
        except OSError:
            continue
    return found


def test_a_run_is_an_ordinary_one(place: Place) -> None:
    place.job(JOB % 0.01)
    at_work = AtWork(assignment(place))
    ended = at_work.wait()
    assert (ended.code, ended.reason, ended.run) == (0, "all done", "1")
    assert ended.finished is not None and ended.finished["counts"]["succeeded"] == RECORDS
    status = place.status()
    assert [run["exit_code"] for run in status["runs"]] == [0]
    assert sorted(place.calls()) == list(range(RECORDS))
    again = place.onward("run", "job.py")  # by hand, from where the job lies: the input is the same one
    assert again.returncode == 0, again.stderr


def test_the_input_is_where_the_command_was_given_and_not_in_the_copy(
    place: Place, tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch
) -> None:
    place.job(JOB % 0.0)
    brought = tmp_path_factory.mktemp("brought")
    shutil.copytree(place.folder, brought, dirs_exist_ok=True)
    monkeypatch.chdir(brought)
    assert AtWork(assignment(place)).wait().code == 0
    by_hand = place.onward("run", "job.py")
    assert by_hand.returncode == 0, by_hand.stderr
    assert "the input has changed" not in by_hand.stderr


def test_how_it_stands_is_told_meanwhile(place: Place, at_work: AtWork) -> None:
    looks: list[dict[str, Any]] = []

    def has_told() -> bool:
        looks.append(at_work.hand.look())
        return looks[-1]["progress"] is not None and looks[-1]["progress"]["ended_here"] > 4

    wait_until(has_told)
    assert looks[-1]["run"] == "1"
    assert looks[-1]["progress"]["total"] == RECORDS
    events = [name for look in looks for name, _ in look["events"]]
    assert events.count("run_started") == 1
    assert "checkpoint_committed" not in events


def test_told_to_stop_it_ends_in_good_order_and_begins_no_other(place: Place, at_work: AtWork) -> None:
    wait_until(lambda: len(place.calls()) >= 8)
    at_work.hand.stop(signal.SIGINT)
    ended = at_work.wait()
    assert (ended.code, ended.reason) == (3, "SIGINT")
    runs = place.status()["runs"]
    assert [(run["exit_code"], run["reason"]) for run in runs] == [(3, "SIGINT")]
    assert at_work.hand.work(assignment(place)).code == 3
    assert len(place.status()["runs"]) == 1
    assert place.status()["counts"]["in_progress"] == 0


def test_a_run_whose_process_dies_is_followed_by_another(place: Place, at_work: AtWork) -> None:
    wait_until(lambda: len(place.calls()) >= 8)
    (run,) = processes_of_runs(place.folder)
    os.kill(run, signal.SIGKILL)
    ended = at_work.wait()
    assert (ended.code, ended.run) == (0, "2")
    assert place.status()["counts"]["succeeded"] == RECORDS
    counted = Counter(place.calls())
    assert sum(counted.values()) <= RECORDS + 8, "what was committed is not done again"


def test_runs_that_die_before_they_get_anything_done_are_not_begun_for_ever(
    place: Place, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("onward.cluster.hand.PAUSE", 0.01)
    with (place.folder / "job.py").open("a") as job:
        job.write("\nos.kill(os.getpid(), 9)\n")
    ended = AtWork(assignment(place)).wait()
    assert (ended.code, ended.reason) == (3, "the process of a run was killed by SIGKILL")


def test_what_cannot_begin_says_why(place: Place) -> None:
    (place.folder / "in.jsonl").unlink()
    ended = AtWork(assignment(place)).wait()
    assert ended.code == 2
    assert "there is no file in.jsonl" in ended.reason
    older = AtWork(assignment(place, onward="0.0.1")).wait()
    if older.code == 2 and "installed here" in older.reason:  # run from its source, onward has no version to compare
        assert "0.0.1 where the command was given" in older.reason


def test_when_the_worker_dies_its_run_ends_in_good_order(place: Place) -> None:
    parent = subprocess.Popen([sys.executable, "-c", PARENT], stdin=subprocess.PIPE, cwd=place.folder)
    try:
        assert parent.stdin is not None
        parent.stdin.write(assignment(place).encode())
        parent.stdin.close()
        wait_until(lambda: len(place.calls()) >= 8)
        assert processes_of_runs(place.folder)
    finally:
        parent.kill()
        parent.wait()
    wait_until(lambda: not processes_of_runs(place.folder))
    assert [(run["exit_code"], run["reason"]) for run in place.status()["runs"]] == [(3, "SIGTERM")]


def test_a_step_can_neither_read_nor_hold_what_the_worker_says(place: Place) -> None:
    """Orders come by standard input: what the job starts must not have it."""
    place.write("in.jsonl", [{"id": number} for number in range(4)])
    place.job(
        """
        import select, subprocess
        job = onward.Job("case", source=onward.jsonl("in.jsonl", key="id"), concurrency=4)

        @job.step
        def work(record):
            started(record["id"], "work")
            read = os.read(0, 100).decode() if select.select([0], [], [], 1)[0] else "nothing yet"
            read += subprocess.run(["timeout", "2", "cat"], capture_output=True, text=True).stdout
            left = subprocess.Popen(["sleep", "600"]).pid if record["id"] == 0 else 0
            return [read, left]
        """
    )
    ended = AtWork(assignment(place)).wait()
    rows = place.export()
    for row in rows:
        if row["outputs"]["work"][1]:
            os.kill(row["outputs"]["work"][1], signal.SIGKILL)
    assert ended.code == 0
    assert {row["outputs"]["work"][0] for row in rows} == {""}


def test_nothing_secret_is_in_a_list_of_processes(place: Place, at_work: AtWork) -> None:
    wait_until(lambda: len(place.calls()) >= 4)
    (run,) = processes_of_runs(place.folder)
    for name in ("cmdline", "environ"):
        assert b"onward.db" not in Path(f"/proc/{run}/{name}").read_bytes()
