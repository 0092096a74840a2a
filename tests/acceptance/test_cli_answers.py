"""What people and programs are told: also where it cannot be written, is very long, old, or not the whole truth."""

from __future__ import annotations

import re
import shlex
from pathlib import Path

import pytest

from acceptance.jobs import plain, wait_until
from acceptance.test_cli_exit_codes import SOME_FAIL, a_job, last_line, shell

LOST = "onward: standard output cannot be written: No space left on device"
LONG = "k" * 1_000_000


def test_an_answer_that_cannot_be_written_is_no_success(tmp_path: Path) -> None:
    place = a_job(tmp_path, bad=(3,))
    for words, code in (
        ("run job.py --json", 3),
        ("run --help", 2),
        ("status job.py", 2),
        ("status job.py --json", 2),
        ("instances job.py", 2),
        ("failures job.py", 2),
        ("failures job.py --json", 2),
        ("show job.py 3", 2),
        ("retry job.py --all", 2),
        ("export job.py --out out.jsonl", 2),
        ("export job.py --out -", 2),
    ):
        ended = shell(place, f"{shlex.join(place.command(*words.split()))} >/dev/full")
        assert ended.returncode == code, (words, ended)
        plain(ended.stderr)
        assert "standard output" in last_line(ended.stderr), words
        assert "Exception ignored" not in ended.stderr
    assert place.status()["counts"]["succeeded"] == 9


def test_help_survives_its_reader(tmp_path: Path) -> None:
    place = a_job(tmp_path)
    ended = shell(place, f"{shlex.join(place.command('--help'))} | true; exit ${{PIPESTATUS[0]}}")
    assert (ended.returncode, ended.stderr) == (0, "")


def test_a_run_whose_words_are_lost_says_so_and_keeps_its_code(tmp_path: Path) -> None:
    place = a_job(tmp_path)
    ended = shell(place, f"{shlex.join(place.command('run', 'job.py'))} >/dev/full")
    assert ended.returncode == 0
    assert ended.stderr.count(LOST) == 1


def test_long_keys_and_texts_are_cut_for_people_and_whole_for_programs(tmp_path: Path) -> None:
    place = a_job(tmp_path, job=SOME_FAIL.replace('"no such thing"', "'t' * 15_000").replace("in json", "not in json"))
    place.write("in.jsonl", [{"id": LONG}, {"id": f"\n{LONG}"}])
    ended = place.onward("run", "job.py")
    assert ended.returncode == 1
    place.job(SOME_FAIL.replace("raise onward.Rejected", "raise onward.Fatal").replace("in json", "not in json"))
    place.fine("release", "job.py", "--all")
    stopped = place.onward("run", "job.py")
    assert stopped.returncode == 4
    unknown = place.onward("show", "job.py", LONG[:50_000])
    assert unknown.returncode == 2
    told = [ended.stdout, ended.stderr, stopped.stdout, stopped.stderr, unknown.stderr]
    told += [place.fine(*words) for words in (["status", "job.py"], ["failures", "job.py"])]
    for text in told:
        assert max(map(len, text.splitlines()), default=0) < 1_500, text[:3_000]
    assert "kkk…kkk" in ended.stderr
    rows = place.export("all.jsonl", "--state", "pending")
    assert [row["key"] for row in rows] == [LONG, f"\n{LONG}"]


@pytest.mark.parametrize(
    ("name", "said"),
    [("o.xlsx", ".xlsx"), ("o.XLSX.gz", ".xlsx"), ("o", ""), ("o.ndjson", ""), ("o.jsonl.gz", ""), ("-", "")],
)
def test_a_suffix_that_is_no_format_is_said(tmp_path: Path, name: str, said: str) -> None:
    place = a_job(tmp_path)
    place.fine("run", "job.py")
    ended = place.onward("export", "job.py", "--out", name)
    assert ended.returncode == 0
    assert ended.stderr.startswith(f"onward: {said} is no format (jsonl, csv, parquet; ") if said else not ended.stderr
    assert place.onward("export", "job.py", "--out", name, "--format", "jsonl").stderr == ""


def test_status_tells_results_of_older_versions_from_todays(tmp_path: Path) -> None:
    place = a_job(tmp_path)
    place.fine("run", "job.py", "--limit", "6")
    assert "older versions" not in place.fine("status", "job.py")
    before = place.status()["steps"][0]["version"]
    place.job(SOME_FAIL.replace('return record["id"]', 'return record["id"] + 1'))
    place.fine("run", "job.py")
    told = place.fine("status", "job.py")
    now = place.status()["steps"][0]["version"]
    assert re.search(
        rf"^step +version now +succeeded +finished by older versions\n.*\ncheck +{now[:12]} +10 +6$", told, re.M
    )
    assert place.status()["older_versions"] == {"check": {before: 6}}


def test_what_stopped_a_run_is_found_though_its_records_were_put_back(tmp_path: Path) -> None:
    place = a_job(tmp_path, records=60, bad=tuple(range(60)))
    assert place.onward("run", "job.py").returncode == 4
    why = r"run 1 stopped: the first \d+ records all failed at step check \(rejected\): no such thing"
    assert re.search(rf"^but {why}$", place.fine("failures", "job.py"), re.M)
    assert re.search(rf"^{why}$", place.fine("status", "job.py"), re.M)
    assert place.fine("failures", "job.py", "--json") == ""


def test_nothing_is_to_be_run_while_a_run_is_at_work(tmp_path: Path) -> None:
    slow = SOME_FAIL.replace("    return record", "    started(record['id'])\n    time.sleep(30)\n    return record")
    place = a_job(tmp_path, job=slow)
    process = place.start("run", "job.py")
    wait_until(lambda: len(place.calls()) >= 2)
    told = place.fine("status", "job.py")
    assert "running: run 1" in told
    assert re.search(rf"^1 +\S+ +{process.pid} +[\d.]+ s ", told, re.M), "how long it has been at work"
    assert "Next:" not in told
    process.kill()
    process.wait()
    assert "Next: onward run job.py" in place.fine("status", "job.py")


def test_how_long_a_dead_run_lasted_nobody_knows(tmp_path: Path) -> None:
    slow = SOME_FAIL.replace("    return record", "    started(record['id'])\n    time.sleep(30)\n    return record")
    place = a_job(tmp_path, job=slow)
    process = place.start("run", "job.py")
    wait_until(lambda: len(place.calls()) >= 2)
    process.kill()
    process.wait()
    found_dead = rf"^1 +\S+ +{process.pid} +unknown +.* died$"
    buried = r"^1 +\S+ \S+ +unknown +\S+ +died$"
    for line in (found_dead, buried):
        assert re.search(line, place.fine("status", "job.py"), re.M)
        place.job(SOME_FAIL)
        place.fine("run", "job.py")


def test_an_unknown_step_is_wrong_usage(tmp_path: Path) -> None:
    place = a_job(tmp_path, bad=(3,), job=SOME_FAIL.replace("onward.Rejected", "ValueError"))
    assert place.onward("run", "job.py").returncode == 1
    for act in ("retry", "release", "rerun"):
        ended = place.onward(act, "job.py", "--step", "nostep")
        assert (ended.returncode, ended.stderr) == (2, "onward: there is no step 'nostep' (steps: check)\n")
    place.job(SOME_FAIL.replace("def check(", "def renamed("))
    assert (
        "there is no step 'nostep' (steps: renamed, check)"
        in place.onward("retry", "job.py", "--step", "nostep").stderr
    )
    assert "1 failed record marked" in place.fine("retry", "job.py", "--step", "check")
