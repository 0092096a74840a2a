"""Operating runs in other processes, on both stores: drained, paused, with more or fewer calls, vacuumed meanwhile."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import psycopg
import pytest

from acceptance.jobs import Place, plain, wait_until
from acceptance.test_two_runs import freeze
from helpers import postgres
from judge import steplog

RECORDS = 60
AT_ONCE = 4
SHORT = {"ONWARD_LEASE": "2"}
HELD = """
async def let_go(key):
    import asyncio
    while not (HERE / "go").exists():
        await asyncio.sleep(0.02)
    steplog.log_start(HERE / "ended.log", key, "ended")

job = onward.Job("case", source=onward.jsonl("in.jsonl", key="id"), concurrency=4)
"""
STEP = (
    HELD
    + """
@job.step
async def work(record):
    started(record["id"], "work")
    await let_go(record["id"])
    return record["id"]
"""
)
EFFECT = (
    HELD
    + """
@job.effect("filing", key="id", deadline=300.0)
async def send(record, idempotency_key):
    started(record["id"], "sent")
    await let_go(record["id"])
    return record["id"]

@send.confirm
async def acknowledged(idempotency_key):
    return True
"""
)
Run = subprocess.Popen[bytes]


class Operated(Place):
    """A place whose store is of one kind. Calls go on until they are let go, so that tests see what they mean to; its
    runs are ended with the test."""

    def __init__(self, folder: Path, url: str | None):
        super().__init__(folder, STEP)
        self.url = url
        self.at = [] if url is None else ["--store", url]
        self.runs: list[Run] = []
        self.feed(RECORDS)

    def let_go(self) -> None:
        (self.folder / "go").touch()

    def feed(self, number: int) -> None:
        self.write("in.jsonl", [{"id": one} for one in range(number)])

    def begin(self, *words: str, env: dict[str, str] | None = None, calls: int = AT_ONCE) -> Run:
        """A run that makes so many calls."""
        self.runs.append(self.start("run", "job.py", *self.at, *words, env=env))
        pid, path = self.runs[-1].pid, self.folder / "calls.log"
        wait_until(lambda: path.exists() and sum(one.pid == pid for one in steplog.read(path)) >= calls)
        return self.runs[-1]

    def started(self) -> int:
        path = self.folder / "calls.log"
        return len(steplog.read(path)) if path.exists() else 0

    def ended(self) -> int:
        path = self.folder / "ended.log"
        return len(steplog.read(path)) if path.exists() else 0

    def do(self, act: str, *words: str) -> str:
        return self.fine(act, "job.py", *words, *self.at)

    def finish(self, *words: str) -> subprocess.CompletedProcess[str]:
        return self.onward("run", "job.py", *self.at, *words)

    def told(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.do("status", "--json"))
        return found

    def said(self) -> str:
        text = (self.folder / "said.txt").read_text()
        plain(text)
        return text


@pytest.fixture(params=["sqlite", "postgres"])
def place(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Operated]:
    url = None
    if request.param == "postgres":
        server, schema = request.getfixturevalue("database"), postgres.new_schema()
        url = postgres.in_schema(server, schema)
    made = Operated(tmp_path, url)
    yield made
    for run in made.runs:
        run.kill()
        run.wait()
    if url is not None:
        with psycopg.connect(server, autocommit=True) as own:
            own.execute(f"DROP SCHEMA IF EXISTS {schema} CASCADE")


def is_whole(place: Operated, records: int = RECORDS) -> None:
    """Everything is done, each call was made once and none was cut, and the history fits."""
    told = place.told()
    assert {state: n for state, n in told["counts"].items() if n} == {"succeeded": records}
    calls = Counter(place.calls())
    assert (sorted(calls), set(calls.values())) == (list(range(records)), {1})
    assert place.ended() == records
    assert "the history fits" in place.do("log", "--verify")


# Draining.


def test_a_drained_run_finishes_its_calls_and_gives_back_the_rest(place: Operated) -> None:
    run = place.begin("--grace", "0.1")
    assert "begins no call any more" in place.do("drain", "--reason", "a deploy")
    wait_until(lambda: "stopping" in place.said())
    time.sleep(0.5)  # longer than --grace
    place.let_go()
    assert run.wait(60) == 3
    assert place.started() == place.ended() == AT_ONCE
    told = place.told()
    assert {state: n for state, n in told["counts"].items() if n} == {"succeeded": 4, "pending": RECORDS - 4}
    (one,) = told["runs"]
    who = one["reason"].removeprefix("drained by ").removesuffix(": a deploy")
    assert one["exit_code"] == 3
    assert f"stopped: drained by {who}: a deploy" in place.said()
    log = [json.loads(line) for line in place.do("log", "--json").splitlines()]
    assert [(each["actor"], each["reason"]) for each in log if each["event"] == "run_drained"] == [
        (who, f"run {one['run']}: a deploy")
    ]
    ended = place.finish()
    assert (ended.returncode, "suspicion" in ended.stdout) == (0, False)
    is_whole(place)


def test_the_other_run_takes_what_a_drained_one_leaves(place: Operated) -> None:
    one, two = place.begin(), place.begin()
    at_work = {run["pid"]: run for run in place.told()["runs"]}
    assert set(at_work) == {one.pid, two.pid}
    place.do("drain", "--run", at_work[one.pid]["run"])
    wait_until(lambda: "stopping" in place.said())
    place.let_go()
    assert (one.wait(60), two.wait(60)) == (3, 0)
    is_whole(place)
    calls = Counter(entry.pid for entry in steplog.read(place.folder / "calls.log"))
    assert calls == {one.pid: AT_ONCE, two.pid: RECORDS - AT_ONCE}
    assert "has ended already with 3" in place.do("drain", "--run", at_work[one.pid]["run"])


def test_what_is_being_sent_is_finished_and_not_sent_again(place: Operated) -> None:
    place.job(EFFECT)
    run = place.begin("--grace", "0.1")
    place.do("drain")
    wait_until(lambda: "stopping" in place.said())
    time.sleep(0.5)  # longer than --grace
    place.let_go()
    assert run.wait(60) == 3
    assert place.started() == place.ended() == AT_ONCE
    counts = place.told()["counts"]
    assert (counts["unconfirmed"] + counts["succeeded"], counts["pending"]) == (AT_ONCE, RECORDS - AT_ONCE)
    assert place.finish().returncode == 0
    is_whole(place)


def test_a_signal_ends_the_patience_of_a_drain(place: Operated) -> None:
    run = place.begin("--grace", "0.1")
    place.do("drain")
    wait_until(lambda: "stopping" in place.said())
    time.sleep(0.5)
    assert run.poll() is None
    run.send_signal(signal.SIGTERM)
    assert run.wait(60) == 3
    assert place.ended() == 0
    assert place.told()["counts"]["pending"] == RECORDS


def test_a_drain_is_shown_while_calls_go_on(place: Operated) -> None:
    run = place.begin()
    place.do("drain")
    wait_until(lambda: "stopping" in place.said())
    (one,) = place.told()["runs"]
    assert (one["draining"], one["reason"], one["ended"]) == (True, None, None)
    assert one["told"].startswith("drained by ")
    assert "draining: drained by " in place.do("status")
    assert "has been told already" in place.do("drain")
    place.let_go()
    assert run.wait(60) == 3


def test_nobody_is_at_work_or_nobody_has_that_number(place: Operated) -> None:
    place.let_go()
    assert place.finish().returncode == 0
    assert "no run of job case is at work" in place.do("drain")
    assert "run 1 has ended already with 0: all done" in place.do("drain", "--run", "1")
    for words in (("--run", "7"), ("--run", "first")):
        ended = place.onward("drain", "job.py", *words, *place.at)
        assert (ended.returncode, ended.stdout) == (2, "")
        plain(ended.stderr)


def test_a_zombie_that_is_drained_and_wakes_before_it_is_taken_over_ends(place: Operated) -> None:
    run = place.begin(env=SHORT)
    stop(place, run)
    time.sleep(2.5)  # past its lease
    assert "shows no sign of life" in place.do("drain")
    run.send_signal(signal.SIGCONT)
    wait_until(lambda: "stopping" in place.said())
    place.let_go()
    assert run.wait(60) == 3
    assert place.started() == place.ended() == AT_ONCE
    assert place.finish().returncode == 0
    is_whole(place)


def test_a_zombie_that_was_taken_over_is_not_drained_and_changes_nothing(place: Operated) -> None:
    run = place.begin(env=SHORT)
    (number,) = [one["run"] for one in place.told()["runs"]]
    stop(place, run)
    time.sleep(2.5)
    other = place.begin(env=SHORT)
    assert f"run {number} has ended already: died" in place.do("drain", "--run", number)
    run.send_signal(signal.SIGCONT)
    assert run.wait(60) == 3
    place.let_go()
    assert other.wait(60) == 0
    assert place.told()["counts"]["succeeded"] == RECORDS
    assert "the history fits" in place.do("log", "--verify")


def stop(place: Operated, run: Run) -> None:
    """Freeze a run, not in the middle of a change."""
    if place.url is None:
        freeze(place, run.pid)
    else:
        os.kill(run.pid, signal.SIGSTOP)


# Concurrency.


def test_one_call_at_a_time_while_256_go_on_cuts_none_of_them(place: Operated) -> None:
    place.job(STEP.replace("concurrency=4", "concurrency=256"))
    place.feed(270)
    run = place.begin("--log-format", "json", "--grace", "0.1", calls=256)
    said = place.do("concurrency", "1", "--reason", "they asked for it")
    assert "concurrency 1 for each run, those at work notice" in said
    wait_until(lambda: "concurrency_changed" in (place.folder / "said.txt").read_text())
    wait_until(lambda: place.told()["runs"][0]["concurrency"] == 1)
    place.let_go()
    assert run.wait(60) == 0
    is_whole(place, 270)
    began = sorted(one.time for one in steplog.read(place.folder / "calls.log"))
    ended = sorted(one.time for one in steplog.read(place.folder / "ended.log"))
    assert all(began[number] > ended[number - 1] for number in range(256, 270)), "one at a time, after all the others"


def test_what_was_said_holds_for_runs_that_begin_later_until_it_is_taken_back(place: Operated) -> None:
    place.let_go()
    assert place.finish("--limit", "1").returncode == 0
    assert "nothing was said" in place.do("concurrency")
    assert "concurrency 2 for each run, those that start from now on" in place.do("concurrency", "2")
    assert "concurrency 2 for each run" in place.do("concurrency")
    said = "concurrency 2, as onward concurrency says (the job declares 4)"
    assert said in place.finish("--limit", "1").stdout
    own = place.finish("--limit", "1", "--concurrency", "3").stdout
    assert "concurrency 3, with which the run was started; onward concurrency says 2" in own
    assert "concurrency 2 for each run, as was said with onward concurrency" in place.do("status")
    assert "what the job declares, holds again (it was 2)" in place.do("concurrency", "default")
    assert "concurrency" not in place.finish("--limit", "1").stdout
    for words in (("0",), ("many",), ("1", "2"), ("1000001",), ("9" * 30,)):
        ended = place.onward("concurrency", "job.py", *words, *place.at)
        assert (ended.returncode, ended.stdout) == (2, "")
        plain(ended.stderr)
    began = place.onward("run", "job.py", "--concurrency", "9" * 30, *place.at)
    assert began.returncode == 2 and "more than the 1,000,000 calls" in began.stderr
    assert "concurrency" not in place.finish("--limit", "1").stdout


def test_the_newest_word_counts(place: Operated) -> None:
    run = place.begin("--concurrency", "1", calls=1)
    place.do("concurrency", "8")
    wait_until(lambda: place.started() == 8)
    place.do("concurrency", "default")
    wait_until(lambda: place.told()["runs"][0]["concurrency"] == 1)
    assert place.started() == 8
    place.let_go()
    assert run.wait(60) == 0
    is_whole(place)


# Pauses.


def test_a_pause_and_its_end_are_noticed_by_runs_in_other_processes(place: Operated) -> None:
    one, two = place.begin(), place.begin()
    place.do("pause", "--reason", "an audit")
    wait_until(lambda: place.said().count("paused: the job is paused by") == 2)
    place.let_go()
    wait_until(lambda: place.ended() == 2 * AT_ONCE)
    time.sleep(1.5)
    assert place.started() == 2 * AT_ONCE
    assert (one.poll(), two.poll()) == (None, None)
    place.do("resume")
    assert (one.wait(60), two.wait(60)) == (0, 0)
    is_whole(place)


# What status tells of runs at work.


def test_status_tells_every_run_at_work_and_what_it_does(place: Operated) -> None:
    place.job(STEP.replace("    await let_go", '    if record["id"] >= 40:\n        await let_go'))
    one = place.begin()
    two = place.begin("--concurrency", "2", calls=2)
    wait_until(lambda: any(run["rate"] for run in place.told()["runs"]))
    wait_until(lambda: all(run["noted"] for run in place.told()["runs"]))
    told = {run["pid"]: run for run in place.told()["runs"]}
    assert (told[one.pid]["concurrency"], told[two.pid]["concurrency"]) == (AT_ONCE, 2)
    assert told[one.pid]["done"] + told[two.pid]["done"] == 40
    for run in told.values():
        assert set(run) >= {"run", "started", "ended", "exit_code", "host", "reason"}
        assert 0 < run["lease"] <= 30
        assert (run["draining"], run["told"], run["ended"]) == (False, None, None)
    shown = place.do("status")
    assert all(str(pid) in shown for pid in told)
    assert shown.count("working") == 2
    place.let_go()
    assert (one.wait(60), two.wait(60)) == (0, 0)
    assert all(
        set(run) == {"run", "started", "ended", "exit_code", "host", "reason", "head"} for run in place.told()["runs"]
    )


# Vacuum.


def made_again(place: Operated, number: int = RECORDS) -> None:
    """All is done, and all was made again by another version of the step."""
    place.let_go()
    assert place.finish().returncode == 0
    place.job(STEP.replace('return record["id"]', 'return [record["id"], "x" * 2000]'))
    assert f"{number} finished records marked" in place.do("rerun", "--stale")
    assert place.finish().returncode == 0


def test_a_vacuum_removes_what_was_replaced_and_the_history_stays_whole(place: Operated) -> None:
    made_again(place)
    before = place.do("log")
    assert "to be removed: 60 older results of 60 records" in place.do("vacuum", "--older-than", "0s", "--dry-run")
    assert "there is nothing that old" in place.do("vacuum", "--older-than", "30d")
    told = place.do("vacuum", "--older-than", "0s")
    assert "removed: 60 older results of 60 records" in told
    assert "on disk: " in told
    emptied = json.loads(place.do("vacuum", "--older-than", "0s", "--json"))
    assert (emptied["results"], emptied["dry_run"]) == (0, False)
    assert "the history fits" in place.do("log", "--verify")
    assert place.do("log").startswith(before)
    place.do("export", "--out", "out.jsonl")
    rows = [json.loads(line) for line in (place.folder / "out.jsonl").read_text().splitlines()]
    assert [row["key"] for row in rows] == list(range(RECORDS))
    assert all(row["outputs"]["work"][0] == row["key"] for row in rows)
    assert json.loads(place.do("show", "7", "--json"))["generations"][-1]["succeeded"]
    assert place.finish().returncode == 0
    assert place.onward("vacuum", "job.py", *place.at).returncode == 2
    plain = place.onward("vacuum", "job.py", "--older-than", "30", *place.at)
    assert (plain.returncode, "'30' has no unit; write 30d" in plain.stderr) == (2, True)
    assert [one["generation"] for one in json.loads(place.do("show", "7", "--json"))["generations"]] == [1]


def test_a_run_at_work_goes_on_beside_a_vacuum(place: Operated) -> None:
    made_again(place)
    (place.folder / "go").unlink()
    place.feed(2 * RECORDS)
    run = place.begin()
    assert "removed: 60 older results of 60 records" in place.do("vacuum", "--older-than", "0s")
    place.let_go()
    while run.poll() is None:
        assert "on disk: " in place.do("vacuum", "--older-than", "0s")
    assert run.returncode == 0
    assert place.told()["counts"]["succeeded"] == 2 * RECORDS
    assert "the history fits" in place.do("log", "--verify")


def test_a_vacuum_that_is_killed_leaves_a_whole_store(place: Operated) -> None:
    made_again(place)
    for seconds in (0.2, 0.3, 0.4, 0.5, 0.6):
        victim = place.start("vacuum", "job.py", "--older-than", "0s", *place.at)
        time.sleep(seconds)
        victim.kill()
        victim.wait()
    assert "the history fits" in place.do("log", "--verify")
    place.do("vacuum", "--older-than", "0s")
    assert json.loads(place.do("vacuum", "--older-than", "0s", "--json"))["records"] == 0
    place.do("export", "--out", "out.jsonl", "--generation", "all")
    assert len((place.folder / "out.jsonl").read_text().splitlines()) == RECORDS
    assert place.told()["counts"]["succeeded"] == RECORDS
