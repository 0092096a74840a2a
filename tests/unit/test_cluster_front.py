"""The command's side: with stand-ins for the process that speaks with a cluster, which say what it would, or die."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import pytest

from onward.cluster.crew import Heard
from onward.cluster.front import Front
from onward.cluster.hand import Ended
from onward.cluster.order import Order

ORDER = Order(None, {}, 1, None, 5.0, "{}")
BEGIN = """
import os, signal, sys, threading
from onward.cluster.messages import Orders, Reports
reports, orders = Reports(int(sys.argv[1])), Orders()
orders.first()
told = threading.Event()
orders.listen(lambda number: (reports.say("heard", worker=1, look={"told": number}), told.set()), 60)
reports.say("heard", worker=1, look={"told": None})
"""
ENDS = """
told.wait(60)
reports.say("ended", ended={"code": 3, "reason": "SIGTERM", "run": "1", "finished": None})
reports.close()
"""
DIES = """
print("Ray:\\n  the head of the cluster is gone: postgresql://me:geheim@db/work\\n", file=sys.stderr, flush=True)
os.kill(os.getpid(), signal.SIGKILL)
"""


class Asked:
    """A front with its driver in a file, and what it was told."""

    def __init__(self, folder: Path, text: str, monkeypatch: pytest.MonkeyPatch):
        (folder / "stand_in.py").write_text(BEGIN + text)
        paths = [str(folder), *filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))]
        monkeypatch.setenv("PYTHONPATH", os.pathsep.join(paths))
        self.heard: list[Heard] = []
        self.stopping: list[str] = []
        self.began = threading.Event()
        self.front = Front(self._hear, self.stopping.append, driver="stand_in")

    def _hear(self, heard: Heard) -> None:
        self.heard.append(heard)
        self.began.set()


def test_what_workers_say_and_how_they_end_is_passed_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    finished = 'reports.say("ended", ended={"code": 0, "reason": "all done", "run": "1", "finished": {"head": "x"}})\n'
    asked = Asked(tmp_path, finished + "reports.close()\n", monkeypatch)
    assert asked.front.work(ORDER) == Ended(0, "all done", "1", {"head": "x"})
    assert [heard.look for heard in asked.heard] == [{"told": None}]
    assert asked.stopping == []


def test_the_first_signal_is_passed_on_as_what_it_was(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = Asked(tmp_path, ENDS, monkeypatch)

    def interrupt() -> None:
        asked.began.wait(60)
        os.kill(os.getpid(), signal.SIGINT)

    threading.Thread(target=interrupt).start()
    ended = asked.front.work(ORDER)
    assert (ended.code, ended.reason) == (3, "SIGINT")
    assert asked.stopping == ["SIGINT"]
    assert asked.heard[-1].look == {"told": signal.SIGINT}


def test_the_time_of_the_whole_is_bounded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = Asked(tmp_path, ENDS, monkeypatch)
    ended = asked.front.work(ORDER, max_time=0.5)
    assert (ended.code, ended.reason) == (3, "--max-time of 0.5 seconds is over")


def test_a_driver_that_dies_is_no_end_of_the_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ray ends its process when its cluster is gone, with an exit code that says something else here."""
    asked = Asked(tmp_path, DIES, monkeypatch)
    ended = asked.front.work(ORDER)
    assert ended.code == 3
    assert ended.reason.startswith(
        "the cluster is gone, or cannot be reached any more: the head of the cluster is gone"
    )
    assert "geheim" not in ended.reason


def test_a_driver_whose_command_is_killed_hears_of_it(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    noted = tmp_path / "noted"
    text = f"told.wait(60)\nopen({str(noted)!r}, 'w').write('stopped')\n"
    Asked(tmp_path, text, monkeypatch)
    program = (
        "from onward.cluster.front import Front; from onward.cluster.order import Order\n"
        "Front(lambda heard: print('began', flush=True), print, driver='stand_in')"
        ".work(Order(None, {}, 1, None, 5.0, '{}'))\n"
    )
    command = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE)
    assert command.stdout is not None and command.stdout.readline() == b"began\n"
    command.kill()
    command.wait()
    command.stdout.close()
    waited = threading.Event()
    for _ in range(600):
        if noted.exists() and noted.read_text():
            break
        waited.wait(0.05)
    assert noted.read_text() == "stopped"
