"""Several runs of one job on one store: what a ceiling allows is for all together, and each has a part of it."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psycopg
import pytest

from acceptance.jobs import Place, wait_until
from acceptance.portal import ASK, Portal, portal
from helpers import postgres
from judge import steplog

STATES = ("CA", "CA", "CA", "CA", "TX")
LEASE = 4
JOB = """
job = onward.Job("filings", source=onward.jsonl("in.jsonl", key="id"))
shared = onward.Limit(%s)
%s
@job.step(%s)
def file(record):
    started(record["id"], "file")
    return ask(record["state"], record["id"])
"""
GROUP = 'group=onward.Group("state", concurrency=4, overrides={"TX": onward.Limit(concurrency=1)})'


@dataclass
class Scene:
    """A folder, a server that everybody asks, and runs on one store."""

    place: Place
    server: Portal
    store: tuple[str, ...]
    runs: list[subprocess.Popen[bytes]] = field(default_factory=list)

    def job(self, step: str, records: int, limit: str = "concurrency=3") -> None:
        self.place.job(JOB % (limit, ASK, step))
        self.place.write("in.jsonl", [{"id": n, "state": STATES[n % len(STATES)]} for n in range(records)])

    def start(self, lease: int = LEASE) -> subprocess.Popen[bytes]:
        words = "run", "job.py", *self.store
        self.runs.append(self.place.start(*words, env={"ONWARD_LEASE": str(lease)}))
        return self.runs[-1]

    def answers_after(self, seconds: float) -> None:
        for state in STATES:
            self.server.rule(state, status=200, body={}, delay=seconds)

    def calls(self) -> Counter[int]:
        """By process."""
        return Counter(entry.pid for entry in steplog.read(self.place.folder / "calls.log"))

    def ends(self) -> None:
        assert [run.wait(150) for run in self.runs if run.returncode is None] != []
        assert {run.returncode for run in self.runs if run.returncode != -signal.SIGKILL} == {0}, self.said

    def runs_open(self) -> int:
        status = json.loads(self.place.fine("status", "job.py", *self.store, "--json"))
        return sum(not one["ended"] for one in status["runs"])

    @property
    def said(self) -> str:
        return (self.place.folder / "said.txt").read_text("utf-8", "replace")[-3000:]

    def most(self, group: str, since: float = 0.0) -> int:
        """The most requests that were in progress at once, as the server saw it."""
        return max((one[4] for one in self.server.requests(group) if one[0] >= since), default=0)


@pytest.fixture(params=["sqlite", "postgres"])
def scene(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Scene]:
    with contextlib.ExitStack() as stack:
        store: tuple[str, ...] = ()
        if request.param == "postgres":
            database, schema = request.getfixturevalue("database"), postgres.new_schema()
            store = "--store", postgres.in_schema(database, schema)
            own = stack.enter_context(psycopg.connect(database, autocommit=True))
            stack.callback(own.execute, f"DROP SCHEMA IF EXISTS {schema} CASCADE")
        made = Scene(Place(tmp_path, ""), stack.enter_context(portal(tmp_path)), store)
        stack.callback(_end, made.runs)
        yield made


def _end(runs: list[subprocess.Popen[Any]]) -> None:
    for run in runs:
        run.kill()
        run.wait()


def test_three_runs_keep_the_ceilings_of_groups_together(scene: Scene) -> None:
    scene.job(GROUP, 240)
    scene.answers_after(0.1)
    for _ in range(3):
        scene.start()
    wait_until(lambda: len(scene.calls()) == 3)
    scene.ends()
    assert len(scene.server.requests()) == 240
    assert (scene.most("CA"), scene.most("TX")) == (4, 1)
    assert min(scene.calls().values()) >= 20, scene.calls()


def test_three_runs_keep_one_limit_together(scene: Scene) -> None:
    scene.job("limit=shared", 150)
    scene.answers_after(0.2)
    for _ in range(3):
        scene.start()
    scene.ends()
    times = [one[0] for one in scene.server.requests()]
    assert len(times) == 150
    assert most_at_once(times, 0.2) <= 3 + 1  # the server's clock may be a moment off
    assert min(scene.calls().values()) >= 20, scene.calls()


def test_three_runs_keep_one_rate_together(scene: Scene) -> None:
    scene.job("limit=shared", 200, "per_minute=600")
    for _ in range(3):
        scene.start()
    scene.ends()
    times = [one[0] for one in scene.server.requests()]
    assert len(times) == 200
    assert most_at_once(times, 3.0) <= 30 + 3 * 2 + 3  # a fifth of a second's worth each, and what was held up
    assert min(scene.calls().values()) >= 20, scene.calls()


def most_at_once(times: list[float], seconds: float) -> int:
    """The most calls that began within so many seconds."""
    times = sorted(times)
    return max(sum(1 for at in times if begin <= at < begin + seconds) for begin in times)


def test_what_a_run_had_that_was_killed_is_used_again(scene: Scene) -> None:
    scene.job(GROUP, 400)
    scene.answers_after(0.15)
    killed, other = scene.start(), scene.start()
    wait_until(lambda: len(scene.calls()) == 2)
    killed.send_signal(signal.SIGKILL)
    killed.wait()
    at = time.time()
    wait_until(lambda: scene.most("CA", at + LEASE + 3) == 4)
    assert other.wait(150) == 0, scene.said
    before = [one[4] for one in scene.server.requests("CA") if one[0] < at]
    assert max(before) <= 4
    assert scene.most("CA", at + 1) == 4  # what the dead one had begun is over by then


def test_who_comes_later_has_its_part(scene: Scene) -> None:
    scene.job(GROUP, 300)
    scene.answers_after(0.15)
    first = scene.start()
    wait_until(lambda: scene.calls()[first.pid] >= 20)
    assert scene.most("CA") == 4  # who is alone has all of it
    second = scene.start()
    wait_until(lambda: scene.calls()[second.pid] >= 1)
    before = scene.calls()
    wait_until(lambda: sum(scene.calls().values()) >= sum(before.values()) + 120)
    after = scene.calls() - before
    assert min(after[first.pid], after[second.pid]) >= 25, after
    scene.ends()
    assert (scene.most("CA"), scene.most("TX")) == (4, 1)


def test_who_comes_later_has_its_part_beside_the_last_call_of_one_that_is_drained(scene: Scene) -> None:
    scene.job("limit=shared", 60, "concurrency=4")
    scene.answers_after(0.05)
    scene.server.rule("TX", status=200, body={}, delay=600.0)
    first = scene.start(lease=15)
    wait_until(lambda: len(scene.server.requests("TX")) >= 1 and len(scene.calls()) == 1)
    scene.place.fine("drain", "job.py", *scene.store)
    wait_until(lambda: "stopping (" in scene.said)
    scene.answers_after(0.05)
    second = scene.start(lease=15)
    wait_until(lambda: scene.calls()[second.pid] >= 5, seconds=30)
    assert first.poll() is None, scene.said
    first.kill()
    first.wait()
    scene.ends()


def test_who_comes_later_waits_for_one_that_hangs(scene: Scene) -> None:
    scene.job("limit=shared", 300, "concurrency=2")  # more than the first one has claimed
    scene.answers_after(60.0)
    first = scene.start(lease=15)
    wait_until(lambda: len(scene.server.requests()) == 2 or first.poll() is not None)
    time.sleep(0.5)
    os.kill(first.pid, signal.SIGSTOP)
    scene.answers_after(0.02)
    scene.start(lease=15)
    wait_until(lambda: scene.runs_open() == 2)
    time.sleep(2.0)
    assert set(scene.calls()) == {first.pid}
    first.kill()
    first.wait()
    scene.ends()
