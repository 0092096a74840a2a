"""`onward run`: what it says, what its flags do, and what programs read from it."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from acceptance.jobs import Place, plain, surroundings, wait_until

SOURCE = 'onward.jsonl("in.jsonl", key="id")'
TWO_STEPS = f"""
job = onward.Job("case", source={SOURCE}, concurrency=4)

@job.step
def fetch(record):
    started(record["id"], "fetch")
    return record["id"]

@job.step(retry=onward.Retry(attempts=2, base=0.1))
def call(record, fetch):
    started(record["id"], "call")
    return fetch * 1
"""
DAYS = """
from pydantic import BaseModel

class Params(BaseModel):
    day: str
    size: int = 1

job = onward.Job("case", source=lambda p: onward.jsonl(f"{p.day}.jsonl", key="id"), params=Params, instance="{day}")

@job.step
def call(record, params):
    return record["id"] * params.size
"""
CONTRACT = {"event", "time", "job", "instance", "run"}


def a_job(folder: Path, records: int = 10, job: str = TWO_STEPS) -> Place:
    place = Place(folder, job)
    place.write("in.jsonl", [{"id": number} for number in range(records)])
    return place


def failing(how: str) -> str:
    """The two steps, the second of which raises `how` where that is true for `n`."""
    return TWO_STEPS.replace("    return fetch * 1", f"    n = record['id']\n    {how}\n    return fetch")


def lines(text: str) -> list[str]:
    return text.splitlines()


def test_the_store_comes_first_and_a_new_one_is_announced(tmp_path: Path) -> None:
    place = a_job(tmp_path)
    store = tmp_path / ".onward" / "onward.db"
    first = lines(place.fine("run", "job.py"))
    assert first[0] == f"store {store} (new store, empty ledger of effects)"
    assert first[1] == "job case, run 1"
    second = lines(place.fine("run", "job.py"))
    assert second[:3] == [f"store {store}", "job case, run 2", "earlier runs left: 10 succeeded of 10"]


def test_what_a_dead_run_left_is_said(tmp_path: Path) -> None:
    place = a_job(tmp_path, job=failing("time.sleep(30)"))
    process = place.start("run", "job.py")
    wait_until(lambda: len(place.calls("call")) >= 4)
    process.kill()
    process.wait()
    assert "stopped, not running: run 1 died" in place.fine("status", "job.py")
    assert place.status()["runs"][0]["reason"] == "died"
    place.job(TWO_STEPS)
    told = place.fine("run", "job.py")
    assert re.search(r"^run 1 died: \d+ records put back, at most \d+ had an attempt in progress$", told, re.M)
    assert len(place.calls("fetch")) <= 10 + 4
    assert place.status()["counts"]["succeeded"] == 10


def test_failed_records_are_tried_again_and_that_is_said(tmp_path: Path) -> None:
    place = a_job(tmp_path, job=failing("if n < 3: raise ValueError('a bug')"))
    assert place.onward("run", "job.py").returncode == 1
    place.job(TWO_STEPS)
    told = place.fine("run", "job.py")
    assert "3 records failed in an earlier run: tried again" in told
    assert len(place.calls("fetch")) == 10


def test_older_versions_are_counted_by_step_with_the_command_that_re_runs_them(tmp_path: Path) -> None:
    place = a_job(tmp_path)
    place.fine("run", "job.py", "--limit", "6")
    place.job(TWO_STEPS.replace("fetch * 1", "fetch * 2"))
    told = place.fine("run", "job.py")
    assert re.search(r"^6 kept from the older version of call \(\w{8}; now \w{8}\)$", told, re.M)
    assert "6 records stale; re-run them with: onward rerun job.py --stale" in told
    assert "6 finished records would be marked" in place.fine("rerun", "job.py", "--stale", "--dry-run")
    place.fine("rerun", "job.py", "--stale")
    assert "older version" not in place.fine("run", "job.py")
    assert [row["outputs"]["call"] for row in place.export()] == [2 * n for n in range(10)]
    shown = json.loads(place.fine("show", "job.py", "3", "--json"))
    assert [one["generation"] for one in shown["generations"]] == [0, 1]


def test_steps_that_came_and_went_are_said(tmp_path: Path) -> None:
    place = a_job(tmp_path)
    place.fine("run", "job.py")
    place.job(TWO_STEPS.replace("def call(", "def ring("))
    told = place.fine("run", "job.py")
    assert "10 kept that were made without ring, which is a new step" in told
    assert "10 kept with outputs of call, which is no longer a step" in told


def test_what_changed_in_the_source_is_counted(tmp_path: Path) -> None:
    place = a_job(tmp_path)
    assert "in.jsonl was read: 10 new" in place.onward("run", "job.py").stderr
    place.write("in.jsonl", [{"id": number, "text": "x" * (number == 4)} for number in range(1, 12)])
    ended = place.onward("run", "job.py")
    assert "the input has changed" in ended.stderr
    assert "in.jsonl was read: 2 new, 9 changed after they were done (stale), 1 vanished" in ended.stderr
    assert "1 vanished" in lines(ended.stdout)[-1]


def test_a_bad_line_is_named_with_file_line_and_reason(tmp_path: Path) -> None:
    place = a_job(tmp_path)
    with (tmp_path / "in.jsonl").open("a") as file:
        file.write('{"id": oops}\n{"id": 11}\n')
    ended = place.onward("run", "job.py")
    assert ended.returncode == 4
    assert "bad line in.jsonl:11: " in ended.stderr
    assert "stopped: a bad line at in.jsonl:11: " in ended.stdout
    assert place.status()["counts"]["succeeded"] == 10


def test_limit_starts_so_many_and_retries_are_not_counted_again(tmp_path: Path) -> None:
    place = a_job(tmp_path, 20, failing("if n < 2 and first_time(n): raise ConnectionError('reset')"))
    text = (tmp_path / "job.py").read_text()
    once = """
def first_time(n):
    mark = HERE / f"seen{n}"
    new = not mark.exists()
    mark.touch()
    return new
"""
    (tmp_path / "job.py").write_text(text + once)
    ended = place.onward("run", "job.py", "--limit", "5")
    assert ended.returncode == 0, ended
    assert "5 succeeded, 15 to go of 20" in ended.stdout
    assert sorted(set(place.calls("call"))) == [0, 1, 2, 3, 4]
    assert len(place.calls("call")) == 7
    assert place.fine("run", "job.py", "--limit", "5").count("10 succeeded, 10 to go of 20") == 1


def test_limit_with_failures_is_1(tmp_path: Path) -> None:
    place = a_job(tmp_path, 20, failing("if n == 2: raise onward.Rejected('no')"))
    assert place.onward("run", "job.py", "--limit", "5").returncode == 1
    assert place.onward("run", "job.py", "--limit", "5").returncode == 0


def test_max_failures_as_a_number(tmp_path: Path) -> None:
    place = a_job(tmp_path, 500, failing("if n % 3 == 0: raise onward.Rejected('no')"))
    ended = place.onward("run", "job.py", "--max-failures", "5")
    assert ended.returncode == 4
    assert "more than max-failures allows" in ended.stdout
    assert lines(ended.stdout)[-1].endswith("Next: onward failures job.py")
    assert 6 <= place.status()["counts"]["quarantined"] < 160
    assert place.onward("run", "job.py", "--max-failures", "500").returncode == 1


@pytest.mark.parametrize("share, code", [("30%", 1), ("10%", 4)])
def test_max_failures_as_a_share_is_judged_from_a_hundred_on(tmp_path: Path, share: str, code: int) -> None:
    place = a_job(tmp_path, 400, failing("if n % 4 == 0: raise onward.Rejected('no')"))
    assert place.onward("run", "job.py", "--max-failures", share).returncode == code
    counts = place.status()["counts"]
    assert counts["succeeded"] + counts["quarantined"] >= 100
    assert (counts["pending"] > 0) == (code == 4)


def test_another_place_needs_source_changed(tmp_path: Path) -> None:
    place = a_job(tmp_path)
    place.fine("run", "job.py")
    (tmp_path / "in.jsonl").rename(tmp_path / "moved.jsonl")
    place.job(TWO_STEPS.replace("in.jsonl", "moved.jsonl"))
    ended = place.onward("run", "job.py")
    assert ended.returncode == 2
    assert "--source-changed" in ended.stderr
    assert "10 succeeded of 10" in place.fine("run", "job.py", "--source-changed")
    assert len(place.calls("fetch")) == 10


def test_no_create_needs_a_store(tmp_path: Path) -> None:
    place = a_job(tmp_path)
    ended = place.onward("run", "job.py", "--no-create")
    assert ended.returncode == 2
    assert "there is no store" in ended.stderr
    assert not (tmp_path / ".onward").exists()
    place.fine("run", "job.py")
    place.fine("run", "job.py", "--no-create")


def test_an_unknown_param_lists_the_choices(tmp_path: Path) -> None:
    place = a_job(tmp_path, job=DAYS)
    for words, said in (
        (["-p", "dya=1"], "choices: day, size"),
        (["-p", "day"], "name=value"),
        ([], "missing params: day"),
        (["-p", "day=a", "-p", "size=big"], "size"),
    ):
        ended = place.onward("run", "job.py", *words)
        assert ended.returncode == 2, words
        assert said in ended.stderr, words
        plain(ended.stderr)


def test_days_are_instances_of_their_own(tmp_path: Path) -> None:
    place = a_job(tmp_path, job=DAYS)
    place.write("mon.jsonl", [{"id": number} for number in range(3)])
    place.write("tue.jsonl", [{"id": "x"}, {"id": 2}])
    told = place.fine("run", "job.py", "-p", "day=mon", "--param", "size=2")
    assert "job case, instance mon, run 1" in told
    assert lines(told)[-1].endswith("Next: onward export job.py -p day=mon -p size=2 --out results.jsonl")
    place.fine("run", "job.py", "--instance", "tue", env={"ONWARD_PARAM": "day=tue size=3"})
    ended = place.onward("status", "job.py")
    assert ended.returncode == 2
    assert "'mon', 'tue'" in ended.stderr
    assert json.loads(place.fine("status", "job.py", "-p", "day=mon", "--json"))["total"] == 3
    assert json.loads(place.fine("status", "job.py", "--instance", "tue", "--json"))["total"] == 2
    found = [json.loads(line) for line in lines(place.fine("instances", "job.py", "--json"))]
    assert [(one["instance"], one["total"]) for one in found] == [("mon", 3), ("tue", 2)]
    told = place.fine("instances", "job.py")
    assert "mon" in told
    assert "2 succeeded of 2" in told


def test_json_puts_the_status_last_and_all_else_on_the_error_output(tmp_path: Path) -> None:
    noisy = failing("print(f'a step prints {n}', flush=True); os.system('echo so does its child')")
    place = a_job(tmp_path, 3, noisy)
    ended = place.onward("run", "job.py", "--json")
    assert len(lines(ended.stdout)) == 1
    status = json.loads(ended.stdout)
    assert (status["job"], status["instance"], status["total"]) == ("case", "", 3)
    assert status["counts"]["succeeded"] == 3
    assert status["runs"][-1]["exit_code"] == 0
    assert status["source_complete"] is True
    assert status["store"] == str(tmp_path / ".onward" / "onward.db")
    assert {"waiting", "vanished", "stale", "steps"} <= status.keys()
    for said in ("a step prints 2", "so does its child", "store /", "3 succeeded of 3"):
        assert said in ended.stderr, said


def events(place: Place, *words: str) -> tuple[subprocess.CompletedProcess[str], list[dict[str, Any]]]:
    ended = place.onward("run", "job.py", "--log-format", "json", *words)
    return ended, [json.loads(line) for line in lines(ended.stderr)]


def test_json_events(tmp_path: Path) -> None:
    place = a_job(
        tmp_path,
        6,
        failing("if n == 2: raise ConnectionError('SECRET')\n    if n == 3: raise onward.Rejected('SECRET')"),
    )
    ended, found = events(place)
    assert ended.returncode == 1
    assert "SECRET" not in ended.stderr
    for event in found:
        assert event.keys() >= CONTRACT, event
        assert list(event)[:2] == ["event", "time"]
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+Z", event["time"])
        assert (event["job"], event["instance"], event["run"]) == ("case", "", "1")
    names = [event["event"] for event in found]
    assert names[0] == "run_started"
    assert names[-1] == "run_finished"
    assert (found[0]["done"], found[0]["to_go"], found[0]["reset"], found[0]["stale"]) == (0, 0, 0, 0)
    assert names.count("checkpoint_committed") == 6 + 4
    [retrying] = [event for event in found if event["event"] == "record_retrying"]
    assert (retrying["key"], retrying["step"], retrying["attempt"], retrying["kind"]) == (2, "call", 1, "transient")
    assert retrying["error_type"] == "ConnectionError"
    [failed] = [event for event in found if event["event"] == "record_failed"]
    assert (failed["key"], failed["attempt"], failed["reason"]) == (2, 2, "attempts used up")
    [quarantined] = [event for event in found if event["event"] == "record_quarantined"]
    assert (quarantined["key"], quarantined["kind"]) == (3, "rejected")
    assert found[-1]["exit_code"] == 1
    assert lines(ended.stdout)[-1].startswith("4 succeeded, 1 failed, 1 quarantined of 6")


def test_json_events_of_a_resume_and_of_a_fatal_end(tmp_path: Path) -> None:
    place = a_job(tmp_path, 6, failing("if n == 2: raise onward.Fatal('SECRET key')"))
    ended, found = events(place, "--json", "--concurrency", "1")
    assert ended.returncode == 4
    assert "SECRET" not in ended.stderr
    assert found[-1]["event"] == "run_finished"
    assert found[-1]["reason"] == "nothing can go on after what step call raised"
    assert "run_paused" in [event["event"] for event in found]
    assert len(lines(ended.stdout)) == 1
    assert "SECRET" in json.loads(ended.stdout)["runs"][-1]["reason"]
    place.job(TWO_STEPS)
    ended, found = events(place, "--json")
    assert ended.returncode == 0
    assert "record_resumed" in [event["event"] for event in found]


def test_every_flag_has_a_variable(tmp_path: Path) -> None:
    place = a_job(tmp_path)
    store = tmp_path / "elsewhere.db"
    env = {"ONWARD_LIMIT": "4", "ONWARD_STORE": f"sqlite:///{store}", "ONWARD_JSON": "true", "ONWARD_GRACE": "1m"}
    ended = place.onward("run", "job.py", env=env)
    assert json.loads(ended.stdout)["counts"]["succeeded"] == 4
    assert json.loads(ended.stdout)["store"] == str(store)
    ended = place.onward("run", "job.py", env={"ONWARD_LIMIT": "few"})
    assert ended.returncode == 2
    assert "ONWARD_LIMIT" in ended.stderr
    named = {"ONWARD_STORE": str(store), "ONWARD_JOB": "case"}
    assert "4 succeeded" in place.fine("status", env=named)
    assert place.onward("status", "job.py", env=named).returncode == 2


def test_lines_are_told_now_and_then_where_there_is_no_terminal(tmp_path: Path) -> None:
    place = a_job(tmp_path, 2000, failing("time.sleep(0.025)"))
    ended = place.onward("run", "job.py", "--max-time", "11s")
    assert ended.returncode == 3
    told = [line for line in lines(ended.stderr) if " of 2,000 (" in line]
    assert len(told) == 1
    assert re.match(r"\d\d:\d\d:\d\dZ [\d,]+ of 2,000 \(\d+%\), [\d,.]+/s, .* left, [1-4] calls?", told[0]), told


@pytest.mark.parametrize("variable", [{"NO_COLOR": "1"}, {"TERM": "dumb"}])
def test_pipes_get_no_colours(tmp_path: Path, variable: dict[str, str]) -> None:
    place = a_job(tmp_path)
    ended = place.onward("run", "job.py", env=variable)
    asked = place.onward("status", "job.py", env=variable)
    assert "\x1b" not in ended.stdout + ended.stderr + asked.stdout


def test_two_runs_share_the_work_and_say_so(tmp_path: Path) -> None:
    place = a_job(tmp_path, 60, failing("time.sleep(0.1)"))
    other = place.start("run", "job.py")
    wait_until(lambda: len(place.calls("call")) >= 4)
    ended = place.onward("run", "job.py")
    assert other.wait(60) == 0
    assert ended.returncode == 0
    assert "another run works on this instance at the moment" in ended.stdout
    assert sorted(place.calls("call")) == list(range(60))


def test_the_installed_command_is_the_same(tmp_path: Path) -> None:
    program = "import sys; from onward.cli.main import main; sys.argv = ['onward', 'run', 'job.py']; main()"
    place = a_job(tmp_path)
    command = [place.command()[0], "-c", program]
    ended = subprocess.run(command, cwd=tmp_path, env=surroundings(), capture_output=True, text=True, check=False)
    assert ended.returncode == 0
    assert "10 succeeded of 10" in ended.stdout


STUBBORN = """
import asyncio
job = onward.Job("case", source=onward.iterable(lambda: range(4)))

@job.step(timeout=0.5, retry=onward.Retry(attempts=1))
async def call(record):
    while record == 2:
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            pass
    return record
"""
STUCK = STUBBORN.replace("async def", "def").replace("await asyncio.sleep(60)", "time.sleep(60)")


@pytest.mark.parametrize("job", [STUBBORN, STUCK], ids=["a coroutine", "a thread"])
def test_a_call_that_cannot_be_cut_is_reported_and_left_behind(tmp_path: Path, job: str) -> None:
    place = Place(tmp_path, job)
    ended = place.onward("run", "job.py", timeout=20)
    assert ended.returncode == 1
    assert "abandoned: the call of call for 2 does not return; the run goes on" in ended.stderr
    assert "3 succeeded, 1 failed of 4" in ended.stdout
    plain(ended.stderr)
    assert "destroyed" not in ended.stderr


def test_what_a_job_file_prints_is_no_part_of_an_answer(tmp_path: Path) -> None:
    place = a_job(tmp_path, job="print('loaded')\n" + TWO_STEPS)
    assert len(lines(place.onward("run", "job.py", "--json").stdout)) == 1
    assert place.fine("status", "job.py", "--json").startswith("{")
    assert len(lines(place.fine("export", "job.py", "--out", "-"))) == 10


def test_a_store_in_memory_has_a_status_too(tmp_path: Path) -> None:
    ended = a_job(tmp_path).onward("run", "job.py", "--store", "sqlite://", "--json")
    assert ended.returncode == 0
    assert json.loads(ended.stdout)["counts"]["succeeded"] == 10


def test_a_store_in_memory_is_not_to_be_asked_later(tmp_path: Path) -> None:
    for job in (TWO_STEPS, failing("raise ValueError(n)")):
        said = a_job(tmp_path, job=job).onward("run", "job.py", "--store", "sqlite://").stdout
        assert said.endswith(" s. The store was in memory and has ended with the run.\n")
        assert "Next" not in said


def test_a_source_that_breaks_is_named(tmp_path: Path) -> None:
    rows = """
def rows():
    yield from range(%d)
    raise ValueError("the API is down")

job = onward.Job("case", source=onward.iterable(rows))

@job.step
def call(record):
    return record
"""
    place = Place(tmp_path, rows % 5)
    ended = place.onward("run", "job.py")
    assert ended.returncode == 4
    assert "rows() failed after 5 records: ValueError: the API is down" in ended.stdout
    assert place.status()["counts"]["succeeded"] == 5
    place.job(rows % 0)
    ended = place.onward("run", "job.py", "--store", "other.db")
    assert ended.returncode == 2
    assert ended.stderr.rstrip().startswith("onward: the source cannot be read")


def test_a_thread_that_a_step_leaves_behind_does_not_hold_the_process(tmp_path: Path) -> None:
    forever = "import threading\n    threading.Thread(target=time.sleep, args=(1000,), daemon=False).start()"
    place = a_job(tmp_path, 2, failing(forever))
    ended = place.onward("run", "job.py", timeout=30)
    assert ended.returncode == 0
    assert "2 succeeded of 2" in ended.stdout
    assert "something that the job started does not end" in ended.stderr
