"""One display for many workers: what they do is added up, each has a line, and a run that is begun anew counts on."""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from typing import Any

import pytest

from onward.cli import crew
from onward.cli.crew import Crew, CrewDisplay, CrewFrame, CrewLines, CrewLog, Worker, merge
from onward.cluster.crew import Heard
from onward.cluster.hand import Ended
from onward.cluster.run import PROGRESS
from onward.model import State
from unit.test_cli_frame import drawn, progress


def look(run: str, host: str = "host-a", events: Any = (), lost: int = 0, **changes: Any) -> dict[str, Any]:
    """As it comes from a worker: through JSON."""
    told = PROGRESS.dump_python(progress(**changes), mode="json")
    made = {"host": host, "run": run, "runs": 1, "progress": told, "events": list(events), "lost": lost}
    return dict(json.loads(json.dumps(made)))


def test_what_workers_do_is_added_up_and_what_the_store_says_is_not() -> None:
    older = progress(now=10.0, ended_here=5, rate=1.0, calls=3, longest=("a", "s", 9.0), retrying={"s: E": 2})
    newer = progress(
        now=11.0, ended_here=7, rate=2.5, calls=4, longest=("b", "s", 2.0), retrying={"s: E": 1, "t: F": 1}
    )
    merged = merge([newer, older], 1.0)
    assert merged is not None
    assert (merged.now, merged.started, merged.counts) == (11.0, 1.0, newer.counts)
    assert (merged.rate, merged.calls, merged.ended_here) == (3.5, 7, 12)
    assert merged.longest == ("a", "s", 9.0)
    assert merged.retrying == {"s: E": 3, "t: F": 1}
    assert merge([], 1.0) is None


def test_what_one_worker_holds_is_with_no_other_run() -> None:
    """Eight records are in progress: three here, two there, the rest with a run that is none of the workers."""
    merged = merge([progress(elsewhere=5), progress(elsewhere=6)], 1.0)
    assert merged is not None and merged.elsewhere == 3


def test_the_picture_has_a_line_for_each() -> None:
    workers = [Worker(1, "host-a", "7", 1, progress(rate=2.0, calls=1), None, 0, 12), Worker(2), Worker(3, "host-b")]
    workers.append(Worker(4, "host-b", "8", 3, progress(), None, 30, 4))
    lines = drawn(CrewFrame(progress(), workers, None, False, False), 100)
    assert lines[0].startswith("triage · monday") and "workers 2 of 4 · " in lines[0]
    assert lines[-4:] == [
        "worker 1: run 7 on host-a, 12 records done, 2.0/s, 1 call",
        "worker 2: waits for room in the cluster",
        "worker 3: begins",
        "worker 4: run 8 on host-b, 34 records done, 2.5/s, 8 calls, 2 begun anew",
    ]
    many = drawn(CrewFrame(progress(), [Worker(number) for number in range(40)], None, False, False), 100)
    assert many[-1] == "and 24 more workers"


def test_a_worker_that_is_begun_anew_counts_on(capsys: pytest.CaptureFixture[str]) -> None:
    watched = Crew(2, CrewLines())
    watched.hear(Heard(1, look=look("1", ended_here=5)))
    watched.hear(Heard(1, look=look("1", ended_here=9)))
    watched.hear(Heard(1, look=look("4", host="host-b", ended_here=2)))
    assert watched.workers[0].line().startswith("worker 1: run 4 on host-b, 11 records done")
    watched.hear(Heard(1, ended=Ended(0, "all done")))
    assert watched.workers[0].line() == "worker 1: ended: all done"
    said = capsys.readouterr().err
    assert "worker 1: run 1 on host-a" in said and "worker 1: run 4 on host-b" in said and "ended: all done" in said


def test_events_are_told_once_and_with_their_worker(capsys: pytest.CaptureFixture[str]) -> None:
    stream = io.StringIO()
    watched = Crew(2, CrewLog(stream))
    done: Mapping[str, Any] = {"adopted": {"other-job": 3}, "exit_code": 0}
    watched.hear(Heard(2, look=look("3", events=[("record_failed", {"key": 7, "step": "s"}), ("run_finished", done)])))
    watched.hear(Heard(1, look=look("2", events=[("run_finished", done)], lost=4)))
    told = [json.loads(line) for line in stream.getvalue().splitlines()]
    assert [(one["event"], one["worker"]) for one in told] == [
        ("worker_began", 2),
        ("record_failed", 2),
        ("run_finished", 2),
        ("worker_began", 1),
        ("run_finished", 1),
        ("events_lost", 1),
    ]
    assert (told[0]["run"], told[0]["host"], told[-1]["count"]) == ("3", "host-a", 4)
    assert watched.adopted == {"other-job": 6}


def test_lines_for_a_file_say_how_many_are_at_work(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = CrewLines()
    lines.workers = [Worker(1, "a", "1", 1, progress()), Worker(2)]
    assert lines.told(progress()).endswith(", 1 of 2 workers at work")
    monkeypatch.setattr("sys.stderr", io.StringIO())
    assert isinstance(crew.teller(False, True), CrewLines)
    assert isinstance(crew.teller(True, False), CrewLog)


def test_what_each_worker_says_of_its_stopping_is_left_out(capsys: pytest.CaptureFixture[str]) -> None:
    for teller in (CrewLines(), CrewDisplay(stdout_too=False)):
        teller.happenings.listening = True
        teller.event("run_paused", {"reason": "SIGTERM", "calls": 3, "grace": 30.0})
        teller.event("records_reset", {"reason": "run 2 died", "count": 3})
    said = capsys.readouterr().err
    assert "SIGTERM" not in said
    assert said.count("run 2 died: 3 records put back") == 2


def test_counts_survive_the_way() -> None:
    told = look("1")["progress"]
    assert PROGRESS.validate_python(told).counts[State.SUCCEEDED] == 40
