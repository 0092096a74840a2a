"""Order and ceilings on the real command line: priority, groups, limits, hours, pauses."""

from __future__ import annotations

import json
import os
import signal
import time
from collections import Counter
from pathlib import Path

import pytest

from acceptance.jobs import Place, plain, wait_until
from acceptance.portal import ASK, portal

SOURCE = 'onward.jsonl("in.jsonl", key="id")'
STATES = ("CA", "NY", "TX")


def filings(number: int) -> list[dict[str, object]]:
    return [{"id": n, "state": STATES[n % 3], "due": f"2026-{1 + n * 7 % 12:02d}-01"} for n in range(number)]


def a_place(folder: Path, job: str, number: int = 30) -> Place:
    place = Place(folder, job)
    place.write("in.jsonl", filings(number))
    return place


def grouped(group: str, step: str = "", job: str = "") -> str:
    """A job that files by state; `group` is the expression of its group."""
    return f"""
job = onward.Job("filings", source={SOURCE}{job})
{ASK}
@job.step(group={group}{step})
def file(record):
    started(record["id"], "file")
    return ask(record["state"], record["id"])
"""


def test_who_is_most_urgent_is_admitted_first(tmp_path: Path) -> None:
    place = a_place(
        tmp_path,
        f"""
job = onward.Job("filings", source={SOURCE}, priority="due", concurrency=1)

@job.step
def file(record):
    started(record["id"], "file")
""",
        24,
    )
    assert place.run().code == 0
    due = {one["id"]: one["due"] for one in filings(24)}
    called = place.calls()
    assert called == sorted(called, key=lambda key: (str(due[key]), key))


def test_a_priority_that_fails_says_so_and_nothing_is_started(tmp_path: Path) -> None:
    place = a_place(
        tmp_path,
        f"""
job = onward.Job("filings", source={SOURCE}, priority=lambda record: record["urgency"])

@job.step
def file(record):
    started(record["id"], "file")
""",
    )
    ended = place.onward("run", "job.py")
    assert ended.returncode == 2
    assert "the job's priority raised KeyError: 'urgency'" in ended.stderr + ended.stdout
    assert place.calls() == []


def test_each_group_keeps_its_own_ceiling(tmp_path: Path) -> None:
    with portal(tmp_path) as server:
        place = a_place(
            tmp_path, grouped('onward.Group("state", concurrency=2, overrides={"TX": onward.Limit(concurrency=5)})'), 60
        )
        assert place.run().counts == {"succeeded": 60}
        most = Counter[str]()
        for _, group, _, _, in_progress in server.requests():
            most[group] = max(most[group], in_progress)
        assert (most["CA"], most["NY"]) == (2, 2)
        assert 2 < most["TX"] <= 5


def test_a_rate_is_kept_and_holds_up_nobody_else(tmp_path: Path) -> None:
    with portal(tmp_path) as server:
        rate = 'onward.Group("state", overrides={"CA": onward.Limit(per_minute=240)})'
        assert a_place(tmp_path, grouped(rate), 30).run().counts == {"succeeded": 30}
        times = [at for at, *_ in server.requests("CA")]
        assert all(at - times[0] > 0.25 * n - 0.2 for n, at in enumerate(times))
        others = [at for at, group, *_ in server.requests() if group != "CA"]
        assert max(others) < times[4]


def test_a_limit_is_shared_by_the_steps_that_were_given_it(tmp_path: Path) -> None:
    with portal(tmp_path) as server:
        place = a_place(
            tmp_path,
            f"""
job = onward.Job("filings", source={SOURCE})
shared = onward.Limit(concurrency=3)
{ASK}
@job.step(limit=shared)
def look(record):
    return ask("all", record["id"])

@job.step(limit=shared)
def file(record, look):
    return ask("all", record["id"])
""",
        )
        assert place.run().counts == {"succeeded": 30}
        assert max(one[4] for one in server.requests()) == 3


def closed_now() -> str:
    """Hours of a group that opens in some hours."""
    begin = time.gmtime(time.time() + 4 * 3600)
    end = time.gmtime(time.time() + 5 * 3600)
    return f"{begin.tm_hour:02d}:{begin.tm_min:02d}-{end.tm_hour:02d}:{end.tm_min:02d}"


def test_a_closed_group_waits_with_attempts_unspent_and_the_run_ends_3(tmp_path: Path) -> None:
    with portal(tmp_path) as server:
        group = 'onward.Group("state", concurrency=4{})'
        place = a_place(tmp_path, grouped(group.format(f', hours={{"CA": "{closed_now()}"}}')), 300)
        began = time.monotonic()
        ran = place.run()
        assert time.monotonic() - began < 45  # it opens long after --wait is over: there is nothing to wait for
        assert ran.code == 3
        assert ran.counts == {"pending": 100, "succeeded": 200}
        plain(ran.said)
        assert "stopped: group CA is closed until 20" in ran.said
        assert server.requests("CA") == []
        (waiting,) = place.status()["waiting"]
        assert (waiting["reason"], waiting["count"]) == ("group CA is closed", 100)
        assert waiting["until"] is not None
        shown = json.loads(place.fine("show", "job.py", "0", "--json"))
        assert (shown["state"], shown["attempts"], shown["waiting"]["reason"]) == ("pending", 0, "group CA is closed")
        place.job(grouped(group.format(', hours={"CA": "00:00-24:00"}')))
        assert place.run().counts == {"succeeded": 300}
        assert place.status()["waiting"] == []


def test_a_group_is_paused_and_resumed_while_it_runs(tmp_path: Path) -> None:
    with portal(tmp_path) as server:
        place = a_place(tmp_path, grouped('onward.Group("state", concurrency=1)', job=", concurrency=3"), 240)
        run = place.start("run", "job.py", "--log-format", "json")
        wait_until(lambda: server.requests("CA"))
        assert "runs notice within about a second" in place.fine(
            "pause", "job.py", "--group", "CA", "--reason", "their portal is down"
        )
        wait_until(lambda: "run_paused" in (tmp_path / "said.txt").read_text())
        wait_until(lambda: not [one for one in server.requests("CA") if one[0] > time.time() - 1.0])
        before = len(server.requests("CA"))
        assert before < 80
        wait_until(lambda: len(server.requests("NY")) == 80)
        waiting = place.status()["waiting"]
        who = waiting[0]["reason"].removeprefix("group CA is paused by ").removesuffix(": their portal is down")
        assert (waiting[0]["count"], run.poll()) == (80 - before, None)
        assert len(server.requests("CA")) == before
        assert "goes on" in place.fine("resume", "job.py", "--group", "CA")
        assert run.wait(60) == 0
        events = [json.loads(line) for line in (tmp_path / "said.txt").read_text().splitlines() if line[:1] == "{"]
        told = [(one["event"], one["group"]) for one in events if one["event"] in ("run_paused", "run_resumed")]
        assert told == [("run_paused", "CA"), ("run_resumed", "CA")]
        log = [json.loads(line) for line in place.fine("log", "job.py", "--json").splitlines()]
        by_people = [(one["event"], one["actor"], one["reason"]) for one in log if one["actor"]]
        assert by_people == [
            ("run_paused", who, "group CA: their portal is down"),
            ("run_resumed", who, "group CA"),
        ]


def test_a_paused_job_gives_back_what_it_has_not_called_and_ends_after_its_wait(tmp_path: Path) -> None:
    place = a_place(
        tmp_path,
        f"""
job = onward.Job("filings", source={SOURCE}, concurrency=4)

@job.step
def file(record):
    started(record["id"], "file")
    time.sleep(0.3)
""",
        200,
    )
    run = place.start("run", "job.py", "--wait", "2s")
    wait_until(place.calls)
    place.fine("pause", "job.py")
    assert run.wait(30) == 3
    status = place.status()
    done = status["counts"]["succeeded"]
    assert 0 < done == len(place.calls()) < 60
    assert (status["counts"]["pending"], status["counts"]["in_progress"]) == (200 - done, 0)
    assert status["waiting"][0]["reason"].startswith("the job is paused by ")
    assert status["waiting"][0]["count"] == 200 - done
    assert "the job is paused by" in status["runs"][-1]["reason"]
    assert status["waiting"][0]["since"] == status["paused"][0]["since"] and status["paused"][0]["group"] is None
    ended = place.onward("run", "job.py", "--wait", "0")
    assert ended.returncode == 3
    goes_on = "onward resume job.py && onward run job.py"
    assert ended.stdout.splitlines()[-1].endswith(f"Go on with: {goes_on}")
    shown = place.fine("status", "job.py")
    assert "paused by" in shown.splitlines()[0] and shown.splitlines()[-1] == f"Next: {goes_on}"
    place.fine("resume", "job.py")
    assert place.run("--max-time", "60s").code == 0


def test_groups_that_are_all_that_is_in_the_way_are_named_for_resuming(tmp_path: Path) -> None:
    with portal(tmp_path):
        place = a_place(tmp_path, grouped('onward.Group("state", concurrency=1)'), 30)
        assert place.onward("run", "job.py", "--limit", "1").returncode == 0
        for group in ("CA", "NY"):
            place.fine("pause", "job.py", "--group", group)
        ended = place.onward("run", "job.py", "--wait", "0")
        assert ended.returncode == 3
        goes_on = "onward resume job.py --group CA && onward resume job.py --group NY && onward run job.py"
        assert ended.stdout.splitlines()[-1].endswith(f"Go on with: {goes_on}")
        assert place.fine("status", "job.py").splitlines()[-1] == f"Next: {goes_on}"


def test_asked_to_wait_a_whole_group_does_and_nobody_else(tmp_path: Path) -> None:
    with portal(tmp_path) as server:
        server.rule("CA", status=429, seconds=8.0, Retry_After="3")
        place = a_place(
            tmp_path, grouped('onward.Group("state", concurrency=2)', step=", retry=onward.Retry(attempts=1)")
        )
        assert place.run().counts == {"succeeded": 30}
        refused = server.requests("CA", 429)
        assert 1 <= len(refused) <= 8
        served = server.requests("CA", 200)
        assert served[0][0] - refused[-1][0] > 2.9
        assert server.requests("NY")[-1][0] < served[0][0]


def test_a_signal_while_groups_wait_ends_the_run_at_once(tmp_path: Path) -> None:
    with portal(tmp_path) as server:
        place = a_place(tmp_path, grouped('onward.Group("state", per_minute=6)'), 30)
        run = place.start("run", "job.py")
        wait_until(lambda: len(server.requests()) >= 3)
        os.kill(run.pid, signal.SIGTERM)
        assert run.wait(20) == 3
        counts = place.status()["counts"]
        assert (counts["pending"] + counts["succeeded"], counts["in_progress"]) == (30, 0)


@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("pause", "job.py", "--group", "CA"), "has no groups"),
        (("resume", "job.py"), "is not paused (paused: nothing)"),
    ],
)
def test_what_cannot_be_paused_or_resumed(tmp_path: Path, words: tuple[str, ...], complaint: str) -> None:
    place = a_place(tmp_path, f'job = onward.Job("plain", source={SOURCE})\n@job.step\ndef a(record): return 1', 3)
    assert place.run().code == 0
    ended = place.onward(*words)
    assert complaint in ended.stdout + ended.stderr
    assert ended.returncode == (2 if words[0] == "pause" else 0)
