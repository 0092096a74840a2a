"""Questions and acts on the command line: what people see of failures, and how they run just those again."""

from __future__ import annotations

import csv
import json
from pathlib import Path

import pytest

from acceptance.jobs import Place, plain, wait_until

RECORDS = 200
REJECTED, BUGS, MISFITS = (10, 20, 30, 40), (11, 21, 31, 41), (12, 22, 32, 42)
JOB = """
from pydantic import BaseModel

job = onward.Job("case", source=onward.jsonl("in.jsonl", key="id"))

class Row(BaseModel):
    id: int
    size: int

@job.step(version="1")
def parse(record: Row) -> int:
    started(record.id, "parse")
    return record.size

@job.step(version="1", retry=onward.Retry(attempts=2, base=0.05))
def call(record: Row, parse: int) -> int:
    started(record.id, "call")
    if record.id in (10, 20, 30, 40) and not (HERE / "account").exists():
        raise onward.Rejected("no account")
    if record.id in (11, 21, 31, 41) and not (HERE / "repaired").exists():
        raise ConnectionError("host down")
    if parse < 0:
        raise onward.Invalid(f"size {parse}")
    return parse * 2

@job.step(version="1")
def store(record: Row, call: int) -> int:
    started(record.id, "store")
    return call
"""


@pytest.fixture
def place(tmp_path: Path) -> Place:
    """200 records of which 12 fail for three reasons."""
    made = Place(tmp_path, JOB)
    write(made)
    assert made.onward("run", "job.py").returncode == 1
    return made


def write(place: Place, mended: tuple[int, ...] = ()) -> None:
    sizes = {key: -1 for key in MISFITS if key not in mended}
    place.write("in.jsonl", [{"id": key, "size": sizes.get(key, key)} for key in range(RECORDS)])


def test_failures_are_grouped_with_counts_first(place: Place) -> None:
    told = place.fine("failures", "job.py")
    groups, records = told.split("\n\n", 1)
    for cause in ("4   call   rejected", "4   call   invalid", "4   call   transient"):
        assert cause in groups
    assert "no account" in groups
    for key in (*REJECTED, *BUGS, *MISFITS):
        assert any(line.startswith(f"{key} ") for line in records.splitlines()), key
    assert "which tries them again" in told
    plain(told)


def test_failures_as_json_and_with_the_original_record(place: Place) -> None:
    found = place.failures()
    assert [one["key"] for one in found] == sorted((*REJECTED, *BUGS, *MISFITS))
    by_key = {one["key"]: one for one in found}
    assert by_key[10].items() >= {"state": "quarantined", "step": "call", "kind": "rejected", "attempts": 1}.items()
    assert by_key[11].items() >= {"state": "failed", "kind": "transient", "attempts": 2, "deaths": 0}.items()
    assert by_key[11]["error"] == "host down"
    assert [one["key"] for one in place.failures("--kind", "invalid")] == list(MISFITS)
    assert [one["key"] for one in place.failures("--state", "failed")] == list(BUGS)
    rows = place.export("failed.jsonl", "--state", "quarantined")
    assert [row["input"] for row in rows if row["key"] in MISFITS] == [{"id": key, "size": -1} for key in MISFITS]


def test_only_the_failed_ones_are_run_again_where_they_failed(place: Place) -> None:
    parsed = place.calls("parse")
    assert len(parsed) == RECORDS
    (place.folder / "account").touch()
    told = place.fine("release", "job.py", "--kind", "rejected")
    assert "4 quarantined records marked for release" in told
    assert "call 4" in told
    assert "Next: onward run job.py" in told
    place.onward("run", "job.py")
    assert place.calls("parse") == parsed
    assert len(place.failures()) == 8
    write(place, MISFITS)
    place.onward("run", "job.py")
    assert sorted(place.calls("parse")) == sorted([*parsed, *MISFITS])
    assert [one["key"] for one in place.failures()] == list(BUGS)
    assert {one["state"] for one in place.failures()} == {"quarantined"}, "three runs in a row are enough"
    (place.folder / "repaired").touch()
    place.fine("release", "job.py", "--all")
    assert place.onward("run", "job.py").returncode == 0
    assert "no failed, quarantined or unconfirmed records" in place.fine("failures", "job.py")


def test_records_are_chosen_by_key_file_and_input(place: Place) -> None:
    (place.folder / "account").touch()
    (place.folder / "keys.txt").write_text("20\n30\n")
    assert "1 quarantined record marked" in place.fine("release", "job.py", "10")
    assert "2 quarantined records marked" in place.fine("release", "job.py", "--from", "keys.txt")
    assert place.status()["counts"]["quarantined"] == 5
    place.onward("run", "job.py")
    assert place.status()["counts"]["quarantined"] == 5
    assert "nothing matches" in place.fine("retry", "job.py", "--kind", "conflict")
    unknown = place.onward("retry", "job.py", "10", "9999")
    assert unknown.returncode == 2
    assert "9999" in unknown.stderr
    assert place.onward("retry", "job.py").returncode == 2


def test_status_for_people(place: Place) -> None:
    told = place.fine("status", "job.py")
    assert "case  not running: run 1 ended with 1" in told
    assert "200 / 200  100%" in told
    assert "188 succeeded" in told
    for step in ("parse", "call", "store"):
        assert step in told
    assert "Next: onward failures job.py" in told


def test_status_of_a_living_run(tmp_path: Path) -> None:
    place = Place(tmp_path, JOB.replace("    return parse * 2", "    time.sleep(20)\n    return 1"))
    write(place)
    process = place.start("run", "job.py", "--grace", "0.1")
    wait_until(lambda: len(place.calls("call")) > 20)
    told = place.fine("status", "job.py")
    assert "running: run 1 on " in told
    assert "in progress" in told and "more in progress, be they called or only claimed" in told
    [run] = place.status()["runs"]
    assert (run["ended"], run["reason"], run["exit_code"]) == (None, None, None)
    process.kill()
    process.wait()


def test_show_has_the_whole_history(place: Place) -> None:
    told = place.fine("show", "job.py", "12")
    assert told.startswith("12  quarantined")
    assert '"size":-1' in told
    assert "size -1" in told
    assert "record_quarantined" in told
    found = json.loads(place.fine("show", "job.py", "12", "--json"))
    assert found["generations"][0]["checkpoints"][0]["step"] == "parse"
    assert place.onward("show", "job.py", "nope").returncode == 2
    assert place.onward("show", "job.py").returncode == 2


def test_where_only_the_store_is_at_hand(place: Place) -> None:
    at = ("--store", str(place.folder / ".onward" / "onward.db"), "--job", "case")
    (place.folder / "job.py").unlink()
    assert "188 succeeded" in place.fine("status", *at)
    assert len(place.fine("failures", *at, "--json").splitlines()) == 12
    assert place.fine("show", *at, "12").startswith("12  quarantined")
    assert "1 failed record marked" in place.fine("retry", *at, "11")
    assert "188 rows written" in place.fine("export", *at, "--out", "out.jsonl")
    assert place.onward("status", *at, "-p", "day=1").returncode == 2


def test_text_in_records_cannot_steer_the_terminal(tmp_path: Path) -> None:
    job = """
job = onward.Job("case", source=onward.jsonl("in.jsonl", key="id"))

@job.step
def call(record):
    raise onward.Rejected("\\x1b[31mred\\nnext line \\x07")
"""
    place = Place(tmp_path, job)
    place.write("in.jsonl", [{"id": "a\x1b[2Jb"}, {"id": "two\nlines"}])
    ended = place.onward("run", "job.py")
    said = ended.stdout + ended.stderr + place.fine("failures", "job.py") + place.fine("status", "job.py")
    said += place.fine("show", "job.py", "two\nlines")
    assert "\x1b" not in said
    assert "\x07" not in said
    assert "next line" in said


def test_an_export_says_what_is_not_in_it(place: Place) -> None:
    partial = place.onward("export", "job.py", "--out", "part.jsonl")
    assert partial.stderr == "onward: 12 of 200 records have no result, and are not in it\n"
    assert place.onward("export", "job.py", "--state", "failed", "--out", "failed.jsonl").stderr == ""


def test_half_an_address_is_told_by_its_other_half(place: Place) -> None:
    for given, said in (
        (("--to", "out.db"), "--to needs --table NAME"),
        (("--table", "results"), "--table needs --to URL"),
        ((), "where is the export to go? Give --out FILE, or --to URL with --table NAME"),
    ):
        ended = place.onward("export", "job.py", *given)
        assert (ended.returncode, ended.stderr) == (2, f"onward: {said}\n")


def test_who_marks_nothing_is_told_the_flags(place: Place) -> None:
    ended = place.onward("rerun", "job.py")
    assert ended.returncode == 2
    assert "or say --all, --kind, --step or --stale" in ended.stderr


def test_export_by_suffix_and_flat(place: Place) -> None:
    assert "188 rows written to out.csv" in place.fine("export", "job.py", "--out", "out.csv", "--flat")
    with (place.folder / "out.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert len(rows) == 188
    assert [int(row["id"]) for row in rows] == sorted(int(row["id"]) for row in rows)
    piped = place.fine("export", "job.py", "--out", "-")
    assert len(piped.splitlines()) == 188
    assert json.loads(piped.splitlines()[0]).keys() == {"key", "input", "outputs", "state", "versions", "generation"}
    wrong = place.onward("export", "job.py", "--out", "o.jsonl", "--format", "xml")
    assert wrong.returncode == 2
    assert not (place.folder / "o.jsonl").exists()


def test_tables_are_not_broken_in_pipes(place: Place) -> None:
    told = place.fine("failures", "job.py", env={"COLUMNS": ""})
    assert max(len(line) for line in told.splitlines()) <= 200
    narrow = place.fine("failures", "job.py", env={"COLUMNS": "60"})
    assert max(len(line) for line in narrow.splitlines() if "onward" not in line) <= 60
    for key in (*REJECTED, *BUGS, *MISFITS):
        assert any(line.startswith(f"{key} ") for line in narrow.splitlines()), key


ALL_SORTS = """
from typing import TypedDict

class Row(TypedDict):
    id: int
    size: int

job = onward.Job("case", source=onward.jsonl("in.jsonl", key="id"), record=Row, on_bad="quarantine")

@job.step
def check(row):
    if row["id"] == 1:
        raise ValueError("a bug")
    if row["id"] == 2:
        raise onward.Rejected("no")
    return row["id"]
"""


def test_failures_say_what_comes_next_for_each_sort(tmp_path: Path) -> None:
    place = Place(tmp_path, ALL_SORTS)
    fine = '{"id": 0, "size": 1}'
    lines = {
        "failed": '{"id": 1, "size": 1}',
        "quarantined": '{"id": 2, "size": 1}',
        "misfits": '{"id": 3, "size": "x"}',
        "bad lines": '{"id": 4',
    }
    told = {}
    for sort, line in lines.items():
        (tmp_path / "in.jsonl").write_text(f"{fine}\n{line}\n")
        place.run()
        [told[sort]] = [said for said in place.fine("failures", "job.py").splitlines() if said.startswith("Next")]
    assert told == {
        "failed": "Next: onward run job.py, which tries them again",
        "quarantined": "Next: mend the cause, then onward release job.py --all, then onward run job.py",
        "misfits": "Next: mend the input, then onward run job.py; or correct the inputs in what onward export job.py "
        "--state quarantined --out FILE writes, then onward release job.py --from FILE",
        "bad lines": "Next: mend the input, then onward run job.py",
    }
    (tmp_path / "in.jsonl").write_text("\n".join([fine, *lines.values()]) + "\n")
    place.run()
    said = [one for one in place.fine("failures", "job.py").splitlines() if one.startswith("Next")]
    assert said == [f"Next for the 1 {sort}{advice.removeprefix('Next')}" for sort, advice in told.items()]
