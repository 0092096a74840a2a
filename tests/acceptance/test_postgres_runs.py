"""Jobs on PostgreSQL by the command line: killed, two at once, frozen, and with a server whose backends are killed."""

from __future__ import annotations

import json
import os
import shlex
import signal
import threading
import time
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest

from acceptance.jobs import Place, wait_until
from acceptance.test_two_runs import JOB
from helpers import postgres
from judge import steplog
from onward.store.postgres.address import parse

SHORT = {"ONWARD_LEASE": "2"}


@dataclass
class Job:
    place: Place
    url: str

    def start(self, *words: str) -> Any:
        return self.place.start("run", "job.py", "--store", self.url, *words, env=SHORT)

    def run(self, *words: str) -> Any:
        return self.place.onward("run", "job.py", "--store", self.url, *words, env=SHORT)

    def ask(self, *words: str) -> str:
        return self.place.fine(words[0], "job.py", "--store", self.url, *words[1:])

    def counts(self) -> dict[str, int]:
        status = json.loads(self.ask("status", "--json"))
        return {state: number for state, number in status["counts"].items() if number}

    def query(self, sql: str) -> list[tuple[Any, ...]]:
        address = parse(self.url)
        with psycopg.connect(address.server, autocommit=True) as own:
            return own.execute(sql.replace("ITS", address.quoted)).fetchall()

    def calls(self) -> Counter[tuple[str, str]]:
        return Counter((entry.key, entry.step) for entry in steplog.read(self.place.folder / "calls.log"))

    def is_whole(self, records: int) -> None:
        """Everything is done, told and exported once, and the history fits."""
        assert self.counts() == {"succeeded": records}
        self.ask("export", "--out", "out.jsonl")
        rows = [json.loads(line) for line in (self.place.folder / "out.jsonl").read_text().splitlines()]
        assert [row["key"] for row in rows] == list(range(records))
        assert all(row["outputs"] == {"first": row["key"], "second": row["key"] + 1} for row in rows)
        assert "the history fits" in self.ask("log", "--verify")
        counted = dict(self.query("SELECT state, count(*) FROM ITS.records GROUP BY state"))
        assert counted == {"succeeded": records}


@pytest.fixture
def job(tmp_path: Path, database: str) -> Iterator[Job]:
    schema = postgres.new_schema()
    yield Job(Place(tmp_path, JOB % 0.03), postgres.in_schema(database, schema))
    with psycopg.connect(database, autocommit=True) as own:
        own.execute(f"DROP SCHEMA IF EXISTS {schema} CASCADE")


def fed(job: Job, records: int) -> Job:
    job.place.write("in.jsonl", [{"id": number} for number in range(records)])
    return job


def test_one_that_was_killed_goes_on(job: Job) -> None:
    fed(job, 200)
    first = job.start()
    wait_until(lambda: len(job.calls()) >= 60)
    first.kill()
    first.wait()
    assert job.counts().get("succeeded", 0) < 200
    second = job.run()
    assert second.returncode == 0, second.stderr
    job.is_whole(200)
    assert sum(job.calls().values()) <= 400 + 60, "what was committed is not done again"


def test_two_at_once_share_the_work(job: Job) -> None:
    fed(job, 200)
    runs = [job.start() for _ in range(2)]
    assert [run.wait(120) for run in runs] == [0, 0]
    assert set(job.calls().values()) == {1}
    assert {entry.pid for entry in steplog.read(job.place.folder / "calls.log")} == {run.pid for run in runs}
    job.is_whole(200)


def test_the_other_takes_over_from_one_that_is_killed(job: Job) -> None:
    fed(job, 300)
    one, two = job.start(), job.start()
    wait_until(lambda: len({entry.pid for entry in steplog.read(job.place.folder / "calls.log")}) == 2)
    one.kill()
    one.wait()
    assert two.wait(120) == 0
    job.is_whole(300)


def test_one_that_is_frozen_past_its_lease_changes_nothing_when_it_wakes(job: Job) -> None:
    fed(job, 150)
    zombie = job.start()
    try:
        wait_until(lambda: len(job.calls()) >= 20)
        os.kill(zombie.pid, signal.SIGSTOP)
        time.sleep(2.5)
        other = job.run()
        assert other.returncode == 0, other.stderr
        before = job.query("SELECT id, state, fence FROM ITS.records ORDER BY id")
        os.kill(zombie.pid, signal.SIGCONT)
        assert zombie.wait(60) == 3
    finally:
        zombie.kill()
        zombie.wait()
    assert job.query("SELECT id, state, fence FROM ITS.records ORDER BY id") == before
    assert "lost its lease" in (job.place.folder / "said.txt").read_text()
    job.is_whole(150)


def test_backends_that_are_killed_again_and_again_are_not_noticed(job: Job) -> None:
    fed(job, 300)
    run = job.start()
    over = threading.Event()

    def kill() -> None:
        while not over.wait(0.15):
            job.query(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
                "WHERE application_name = 'onward' AND pid <> pg_backend_pid()"
            )

    killer = threading.Thread(target=kill)
    killer.start()
    try:
        assert run.wait(120) == 0, (job.place.folder / "said.txt").read_text()
    finally:
        over.set()
        killer.join()
    assert set(job.calls().values()) == {1}
    job.is_whole(300)


def test_a_server_that_is_away_for_a_while_is_waited_for(tmp_path: Path) -> None:
    try:
        with postgres.server() as own:
            job = fed(Job(Place(tmp_path, JOB % 0.03), own.url), 200)
            run = job.start()
            wait_until(lambda: len(job.calls()) >= 40)
            own.stop(signal.SIGQUIT)
            time.sleep(4)
            own.start()
            assert run.wait(120) == 0, (tmp_path / "said.txt").read_text()
            assert set(job.calls().values()) == {1}
            job.is_whole(200)
    except postgres.NoServer as error:
        pytest.skip(str(error))


def test_a_run_that_finds_no_server_is_to_be_started_again_and_a_question_is_not_answered(tmp_path: Path) -> None:
    place = Place(tmp_path, JOB % 0.0)
    nowhere = {"ONWARD_STORE": f"postgresql://me@127.0.0.1:{postgres.free_port()}/work"}
    began = place.onward("run", "job.py", env=nowhere)
    assert began.returncode == 3 and "run the same command again" in began.stderr
    assert place.onward("status", "job.py", env=nowhere).returncode == 2


def with_password(job: Job) -> str:
    url = job.url.replace("postgresql://postgres@", "postgresql://postgres:geheim@")
    if url == job.url:
        pytest.skip("the server that is there has a user of its own")
    return url


def test_what_is_suggested_can_be_pasted(job: Job) -> None:
    fed(job, 3)
    url = with_password(job)
    in_environment = {"ONWARD_STORE": url}
    said = job.place.onward("run", "job.py", env=in_environment).stdout
    suggested = said.splitlines()[-1].partition("Next: ")[2]
    assert suggested == "onward export job.py --out results.jsonl"
    assert "3 rows" in job.place.onward(*shlex.split(suggested)[1:], env=in_environment).stdout
    named = job.place.fine("status", "job.py", "--store", url).splitlines()[-1]
    words = shlex.split(named)[2:]
    assert "geheim" not in named and words[3].startswith("postgresql://postgres:PASSWORD@")
    assert "3 rows" in job.place.fine(*(word.replace("PASSWORD", "geheim") for word in words))


def test_passwords_are_nowhere_shown(job: Job) -> None:
    fed(job, 3)
    url = with_password(job)
    ended = job.place.onward("run", "job.py", "--store", url)
    assert ended.returncode == 0
    assert "geheim" not in ended.stderr + ended.stdout
    assert "postgres:***@" in ended.stderr + ended.stdout
