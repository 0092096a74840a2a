"""The judge finds every sort of broken promise, and nothing where none was broken."""

from __future__ import annotations

import json
import multiprocessing
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from copy import deepcopy
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from judge import steplog
from judge.judge import Limits, StaleRun, judge, judge_campaign
from judge.steplog import Entry

KEYS: list[Any] = ["a", 7, "7", ["x", 1], "e"]
STEPS = ("one", "two")


@dataclass
class Case:
    """What the judge is given, to be bent by a test. Process 1 dies at 100 with `e` in step two; 2 finishes at 130."""

    keys: list[Any]
    log: list[Entry]
    final: list[str]
    undisturbed: list[str]
    status: dict[str, Any]
    exit_code: int
    acks: list[tuple[Any, str, float]]
    limits: Limits

    def verdict(self) -> list[str]:
        return judge(
            self.keys,
            self.log,
            self.final,
            self.undisturbed,
            self.status,
            self.exit_code,
            self.acks,
            self.limits,
        )


def start(key: Any, step: str, pid: int, moment: float) -> Entry:
    return Entry("start", steplog.key_text(key), step, pid, moment)


def end(key: Any, step: str, pid: int, moment: float) -> Entry:
    return Entry("end", steplog.key_text(key), step, pid, moment)


def line(key: Any, state: str = "succeeded") -> str:
    return json.dumps({"key": key, "input": None, "outputs": {"one": 1, "two": 2}, "state": state, "generation": 1})


def good() -> Case:
    log = []
    for index, key in enumerate(KEYS):
        for place, step in enumerate(STEPS):
            moment = 10.0 * index + 4 * place + 10
            log += [start(key, step, 1, moment), end(key, step, 1, moment + 1)]
    log.pop()
    log += [start("e", "two", 2, 120.0), end("e", "two", 2, 121.0)]
    lines = [line(key) for key in KEYS]
    counts = dict.fromkeys(("pending", "in_progress", "failed", "unconfirmed", "quarantined"), 0)
    status = {
        "total": 5,
        "source_complete": True,
        "counts": {**counts, "succeeded": 5},
        "steps": [{"name": step, "version": "v", "succeeded": 5} for step in STEPS],
        "runs": [
            {"run": 1, "started": "2026-01-01T00:00:00Z", "ended": "2026-01-01T00:01:50Z", "exit_code": None},
            {"run": 2, "started": "2026-01-01T00:01:51Z", "ended": "2026-01-01T00:02:10Z", "exit_code": 0},
        ],
    }
    acks = [(key, step, 99.0) for key in KEYS for step in STEPS][:-1]
    limits = Limits(in_flight=2, deaths=1, last_fault=100.0, finished=130.0, seconds=60.0, steps=STEPS)
    return Case(list(KEYS), log, lines, list(lines), status, 0, acks, limits)


def move(case: Case, record: int, state: str, code: int) -> None:
    """Make one record end in another state, honestly."""
    case.status["counts"]["succeeded"] -= 1
    case.status["counts"][state] += 1
    del case.final[record], case.undisturbed[record]
    case.exit_code = case.status["runs"][1]["exit_code"] = code


def test_a_run_that_kept_every_promise_has_no_violations() -> None:
    assert good().verdict() == []


def test_honest_failures_and_honest_stops_are_no_violations() -> None:
    failed = good()
    move(failed, 1, "quarantined", 1)
    assert failed.verdict() == []
    stopped = good()
    move(stopped, 4, "pending", 3)
    stopped.limits = replace(stopped.limits, may_stop=True)
    assert stopped.verdict() == []
    limited = good()
    move(limited, 4, "pending", 0)
    limited.limits = replace(limited.limits, limited=True)
    assert limited.verdict() == []


def test_planned_attempts_are_no_rework() -> None:
    case = good()
    case.log.insert(0, start("a", "one", 1, 5.0))
    case.limits = replace(case.limits, deaths=0, attempts={("a", "one"): 2, ("e", "two"): 2})
    assert case.verdict() == []


def test_a_stale_run_may_finish_its_call() -> None:
    case = good()
    case.log += [start("e", "one", 3, 49.5), end("e", "one", 3, 125.0)]
    case.log.sort(key=lambda entry: entry.time)
    case.limits = replace(case.limits, stale=(StaleRun(3, 49.8, "same", "same"),))
    assert case.verdict() == []


def _lose_a_record(case: Case) -> None:
    del case.final[2], case.undisturbed[2]


def _lose_a_record_and_count_it(case: Case) -> None:
    _lose_a_record(case)
    case.status["counts"]["succeeded"] = case.status["total"] = 4


def _export_twice(case: Case) -> None:
    case.final.insert(2, case.final[2])
    case.undisturbed = list(case.final)


def _export_a_stranger(case: Case) -> None:
    case.final[3] = case.undisturbed[3] = line("nobody")


def _merge_two_keys(case: Case) -> None:
    case.final[2] = case.undisturbed[2] = line(7)


def _tear_the_export(case: Case) -> None:
    case.final[4] = case.undisturbed[4] = case.final[4][:20]


def _export_in_another_order(case: Case) -> None:
    case.final = case.undisturbed = [*reversed(case.final)]


def _invent_an_output(case: Case) -> None:
    case.log = [entry for entry in case.log if (entry.key, entry.step) != ('"a"', "two")]


def _start_what_was_acknowledged(case: Case) -> None:
    case.log += [start(7, "two", 2, 119.0)]
    case.log.sort(key=lambda entry: entry.time)


def _work_anew_without_bound(case: Case) -> None:
    case.acks = []
    case.log += [start(key, "one", 2, 110.0) for key in KEYS]
    case.log.sort(key=lambda entry: entry.time)


def _work_anew_without_a_death(case: Case) -> None:
    case.limits = replace(case.limits, deaths=0)


def _start_twice_in_one_process(case: Case) -> None:
    case.log.append(start("e", "two", 2, 122.0))


def _work_twice_at_once(case: Case) -> None:
    case.acks = []
    case.log.append(start("e", "two", 1, 120.5))


def _skip_the_step_before(case: Case) -> None:
    case.log = [entry for entry in case.log if entry != end("a", "one", 1, 11.0)]


def _change_a_byte(case: Case) -> None:
    case.final[2] = case.final[2].replace('"one": 1', '"one": 1.0')


def _drop_the_last_line(case: Case) -> None:
    case.undisturbed.append(line("f"))


def _never_finish(case: Case) -> None:
    case.limits = replace(case.limits, finished=None)


def _finish_late(case: Case) -> None:
    case.limits = replace(case.limits, finished=161.0)


def _go_on_after_the_end(case: Case) -> None:
    case.limits = replace(case.limits, finished=119.0)


def _let_the_stale_run_write(case: Case) -> None:
    case.limits = replace(case.limits, stale=(StaleRun(1, 90.0, "state A", "state B"),))


def _let_the_stale_run_go_on(case: Case) -> None:
    case.limits = replace(case.limits, stale=(StaleRun(1, 20.0, "same", "same"),))


def _count_one_too_many(case: Case) -> None:
    case.status["counts"]["failed"] = 1


def _count_a_failed_one_as_succeeded(case: Case) -> None:
    move(case, 1, "quarantined", 1)
    case.status["counts"]["succeeded"] += 1
    case.status["counts"]["quarantined"] -= 1


def _say_a_wrong_total(case: Case) -> None:
    case.status["total"] = case.status["counts"]["succeeded"] = 6


def _leave_out_a_state(case: Case) -> None:
    del case.status["counts"]["unconfirmed"]


def _leave_out_the_counts(case: Case) -> None:
    del case.status["counts"]


def _miscount_a_step(case: Case) -> None:
    case.status["steps"][1]["succeeded"] = 4


def _end_with_0_in_spite_of_a_failure(case: Case) -> None:
    move(case, 1, "failed", 0)


def _end_with_0_and_records_left(case: Case) -> None:
    move(case, 4, "pending", 0)


def _end_with_0_in_mid_source(case: Case) -> None:
    case.status["source_complete"] = False


def _end_with_1_for_nothing(case: Case) -> None:
    case.exit_code = case.status["runs"][1]["exit_code"] = 1


def _end_with_2_after_work(case: Case) -> None:
    case.exit_code = case.status["runs"][1]["exit_code"] = 2


def _end_with_3_unasked(case: Case) -> None:
    move(case, 4, "pending", 3)


def _end_with_4_though_all_is_done(case: Case) -> None:
    case.exit_code = case.status["runs"][1]["exit_code"] = 4
    case.limits = replace(case.limits, may_stop=True)


def _die_at_the_end(case: Case) -> None:
    case.exit_code = -9


def _end_with_a_fault(case: Case) -> None:
    case.exit_code = case.status["runs"][1]["exit_code"] = 70


def _leave_a_record_in_progress(case: Case) -> None:
    move(case, 4, "in_progress", 3)
    case.limits = replace(case.limits, may_stop=True)


def _record_another_exit_code(case: Case) -> None:
    case.status["runs"][1]["exit_code"] = 1


def _leave_the_run_open(case: Case) -> None:
    case.status["runs"][1]["ended"] = None


PLANTED: dict[Callable[[Case], None], str] = {
    _lose_a_record: "lost: 1 records",
    _lose_a_record_and_count_it: "lost: 1 records",
    _export_twice: 'exported more than once: "7"',
    _export_a_stranger: 'not in the source: "nobody"',
    _merge_two_keys: 'lost: 1 records are not in the export, 0 are unfinished: "7"',
    _tear_the_export: "export line 5 cannot be read",
    _export_in_another_order: "not in source order",
    _invent_an_output: "never started: ('\"a\"', 'two')",
    _start_what_was_acknowledged: "started after the checkpoint was acknowledged, 1 times: ('7', 'two')",
    _work_anew_without_bound: "rework: 6 extra starts, 1 deaths allow 2",
    _work_anew_without_a_death: "rework: 1 extra starts, 0 deaths allow 0",
    _start_twice_in_one_process: "started too often in one process",
    _work_twice_at_once: "in two processes at once: ('\"e\"', 'two')",
    _skip_the_step_before: "before the step before it had ended: ('\"a\"', 'two')",
    _change_a_byte: "differs from the undisturbed one at line 3",
    _drop_the_last_line: "5 lines, not 6",
    _never_finish: "not finished 60 s after",
    _finish_late: "finished only 61.0 s after",
    _go_on_after_the_end: "after the last run had ended: ('\"e\"', 'two')",
    _let_the_stale_run_write: "the stale run 1 changed the store",
    _let_the_stale_run_go_on: "the stale run 1 went on",
    _count_one_too_many: "the counts add up to 6, the total is 5",
    _count_a_failed_one_as_succeeded: "the status says 5 succeeded, the export has 4",
    _say_a_wrong_total: "the status says 6 records, the source has 5",
    _leave_out_a_state: "does not count unconfirmed",
    _leave_out_the_counts: "lacks counts",
    _miscount_a_step: "says 4 for step two, the export has 5",
    _end_with_0_in_spite_of_a_failure: "exit code 0 although 1 records did not succeed",
    _end_with_0_and_records_left: "exit code 0 although 1 records are left",
    _end_with_0_in_mid_source: "the source is not read to its end",
    _end_with_1_for_nothing: "exit code 1 although no record",
    _end_with_2_after_work: "exit code 2 says that nothing was started",
    _end_with_3_unasked: "stopped early: exit code 3",
    _end_with_4_though_all_is_done: "exit code 4 although every record succeeded",
    _die_at_the_end: "did not end properly: exit code -9",
    _end_with_a_fault: "did not end properly: exit code 70",
    _leave_a_record_in_progress: "1 records are in progress, and no run is alive",
    _record_another_exit_code: "no run that ended with 0",
    _leave_the_run_open: "the newest run has not ended",
}


@pytest.mark.parametrize("plant", PLANTED, ids=lambda plant: plant.__name__.strip("_"))
def test_every_planted_violation_is_reported(plant: Callable[[Case], None]) -> None:
    case = good()
    plant(case)
    given = deepcopy(case)
    verdict = case.verdict()
    assert any(PLANTED[plant] in violation for violation in verdict), verdict
    assert case == given, "the judge is a pure function"


def test_duplicate_source_keys_are_the_harness_lying() -> None:
    case = good()
    case.keys.append(7)
    with pytest.raises(ValueError, match="duplicate"):
        case.verdict()


def test_a_campaign_needs_busy_faults_and_caught_defects() -> None:
    assert judge_campaign(0.95, {"no fence": True}) == []
    assert "only 80%" in judge_campaign(0.8, {})[0]
    assert "'no fence' survived" in judge_campaign(1.0, {"no fence": False})[0]


def test_faults_that_struck_an_idle_run_do_not_count() -> None:
    log = [start("a", "one", 1, 10.0), start("b", "one", 1, 20.0), start("c", "one", 2, 30.0)]
    assert steplog.busy_share(log, [(1, 10.5), (1, 20.5)]) == 1.0
    assert steplog.busy_share(log, [(1, 10.5), (1, 15.0)]) == 0.5, "nothing had happened for a while"
    assert steplog.busy_share(log, [(2, 20.5)]) == 0.0, "that process had not started anything"
    assert steplog.busy_share(log, [(2, 30.5)]) == 0.0, "no work was left"


def test_the_log_comes_back_as_written(tmp_path: Path) -> None:
    log = tmp_path / "steps"
    assert steplog.read(log) == []
    before = steplog.now()
    for key in KEYS:
        steplog.log_start(log, key, "one")
    steplog.log_end(log, "ä\n", "two", 5, sync=True)
    entries = steplog.read(log)
    assert [entry.key for entry in entries] == [*map(steplog.key_text, KEYS), '"\\u00e4\\n"']
    assert [entry.what for entry in entries] == ["start"] * 5 + ["end"]
    assert [entry.pid for entry in entries] == [os.getpid()] * 5 + [5]
    assert before <= entries[0].time <= entries[-1].time <= steplog.now()
    with pytest.raises(ValueError, match="could be torn"):
        steplog.log_start(log, "k" * 5000, "one")


@pytest.mark.parametrize("torn", [b'{"what":"sta', b"\0\0\0\0", b"\xff", b""])
def test_torn_lines_are_left_out_wherever_they_stand(tmp_path: Path, torn: bytes) -> None:
    log = tmp_path / "steps"
    steplog.log_start(log, "a", "one")
    whole = log.read_bytes()
    log.write_bytes(whole + torn)
    assert len(steplog.read(log)) == 1
    steplog.log_start(log, "b", "one")
    assert [entry.key for entry in steplog.read(log)] == ['"a"', '"b"']


@pytest.mark.parametrize(
    "wrong", [b'{"what":"start"}', b"mixed}", b'{"what":"never","key":1,"step":"s","pid":1,"time":1}']
)
def test_a_whole_line_that_is_wrong_is_no_oracle(tmp_path: Path, wrong: bytes) -> None:
    log = tmp_path / "steps"
    log.write_bytes(wrong + b"\n")
    with pytest.raises(ValueError, match=":1: not a line"):
        steplog.read(log)


def _log_many(path: str, name: str) -> None:
    for number in range(500):
        steplog.log_start(path, [name, number], "one")


def test_processes_do_not_mix_their_lines(tmp_path: Path) -> None:
    spawn = multiprocessing.get_context("spawn")
    writers = [spawn.Process(target=_log_many, args=(str(tmp_path / "steps"), name)) for name in "xyz"]
    for writer in writers:
        writer.start()
    for writer in writers:
        writer.join()
    assert len({entry.key for entry in steplog.read(tmp_path / "steps")}) == 1500


@pytest.mark.skipif(not hasattr(signal, "SIGKILL"), reason="no SIGKILL here")
def test_a_kill_spoils_no_other_line(tmp_path: Path) -> None:
    log = tmp_path / "steps"
    code = f"from judge import steplog\nwhile True: steplog.log_start({str(log)!r}, 'k' * 3000, 'one')"
    environment = {**os.environ, "PYTHONPATH": str(Path(__file__).parents[1])}
    for _ in range(5):
        writer = subprocess.Popen([sys.executable, "-c", code], env=environment)
        size, deadline = log.stat().st_size if log.exists() else 0, time.monotonic() + 30
        while not log.exists() or log.stat().st_size < size + 100_000:
            assert time.monotonic() < deadline
            time.sleep(0.005)
        writer.kill()
        writer.wait()
    begun = log.read_bytes().count(b'{"what"')
    assert begun - 5 <= len(steplog.read(log)) <= begun
