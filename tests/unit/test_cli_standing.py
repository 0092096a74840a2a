"""What `status` says of the state of a job: its headline, what is in the way, and the next command."""

from __future__ import annotations

from typing import Any

import pytest

from onward.cli import money, standing, tables
from onward.cli.target import Target

TARGET = Target("case", ("job.py",), "sqlite://", None, None, ("onward", "run", "job.py"))
PAUSE = {"group": None, "by": "ada", "reason": "a holiday", "since": "2026-11-30T09:00:00.000Z"}


def run(number: int, ended: str | None = None, code: int | None = None, **more: Any) -> dict[str, Any]:
    reason = {None: None, 0: "all done", 3: "drained by ada: machine is needed"}.get(code, "")
    told = {"run": str(number), "started": f"2026-11-30T10:0{number}:00.000Z", "ended": ended, "exit_code": code}
    return {**told, "host": "vm", "reason": reason, "noted": None, **more}


def found(done: int, pending: int, *runs: dict[str, Any], **more: Any) -> dict[str, Any]:
    states = ("pending", "in_progress", "succeeded", "failed", "quarantined", "unconfirmed")
    counts = {**dict.fromkeys(states, 0), "pending": pending, "succeeded": done}
    told = {"total": done + pending, "source_complete": True, "counts": counts, "runs": list(runs), "paused": []}
    return {**told, "waiting": [], "stale": 0, "vanished_open": 0, **more}


def test_the_run_that_ended_last_is_told_and_not_the_one_that_began_last() -> None:
    runs = run(3, "2026-11-30T11:00:00.000Z", 0), run(5, "2026-11-30T10:30:00.000Z", 3)
    all_done = found(20_000, 0, *runs)
    assert standing.headline(all_done).plain == "all done, not running: run 3 ended with 0"
    assert standing.stopped(all_done) == ""
    later = found(19_000, 1_000, runs[0], run(5, "2026-11-30T11:30:00.000Z", 3))
    assert standing.headline(later).plain == "not running: run 5 ended with 3"
    assert standing.stopped(later) == "run 5 stopped: drained by ada: machine is needed"


def test_one_that_was_drained_is_no_news_while_others_work() -> None:
    beside = found(5, 5, run(1), run(2, "2026-11-30T11:30:00.000Z", 3))
    assert standing.headline(beside).plain == "running: run 1 on vm"
    assert standing.stopped(beside) == ""


def test_one_that_died_is_told_by_its_last_sign_of_life() -> None:
    died = run(1, reason="died", noted="2026-11-30T12:00:00.000Z")
    left = found(5, 5, died, run(2, "2026-11-30T11:30:00.000Z", 3))
    assert standing.headline(left).plain == "stopped, not running: run 1 died"
    assert standing.headline(found(10, 0, died)).plain == "all done, not running: run 1 died"


def test_a_pause_is_told_and_what_ends_it() -> None:
    at_work = found(5, 5, run(1), paused=[PAUSE])
    assert standing.headline(at_work).plain == "paused by ada, running: run 1 on vm"
    assert standing.advice(at_work, TARGET) == "Next: onward resume job.py"
    ended = found(5, 5, run(1, "2026-11-30T11:30:00.000Z", 3), paused=[PAUSE])
    assert standing.advice(ended, TARGET) == "Next: onward resume job.py && onward run job.py"
    assert standing.advice(found(10, 0, run(1, "2026-11-30T11:30:00.000Z", 0)), TARGET).startswith(
        "Next: onward export"
    )


@pytest.mark.parametrize(("count", "resumed"), [(5, True), (4, False)])
def test_groups_are_resumed_where_nothing_else_waits(count: int, resumed: bool) -> None:
    group = {**PAUSE, "group": "C A", "reason": None}
    waiting = [{"reason": "group C A is paused by ada", "count": count}]
    told = standing.advice(found(5, 5, run(1, "2026-11-30T11:30:00.000Z", 3), paused=[group], waiting=waiting), TARGET)
    assert told == ("Next: onward resume job.py --group 'C A' && " if resumed else "Next: ") + "onward run job.py"


def test_whose_pace_it_is() -> None:
    time = {"time_to_finish": {"seconds": 120.0, "p10": 110.0, "p90": 130.0}}
    (told,) = money.time_left(found(1, 9, run(1), run(2), **time))
    assert told.endswith("at the pace of all runs at work")
    (told,) = money.time_left(found(1, 9, run(1, "2026-11-30T11:30:00.000Z", 3), **time))
    assert told.endswith("at the pace of the last runs")
    assert list(money.time_left(found(1, 9, run(1), paused=[PAUSE], **time))) == []


def test_what_is_to_be_pasted_is_not_broken(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("COLUMNS", "40")
    line = "Next: onward export job.py --store a-rather-long-name-of-a-store.db --out results.jsonl"
    tables.show([tables._whole(line)])
    assert capsys.readouterr().out.splitlines() == [line]
