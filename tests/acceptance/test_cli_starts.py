"""What `onward run` finds before it starts: settings, a missing input, files with unlucky names, long ways."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from acceptance.jobs import Place, plain

JOB = """
job = onward.Job("case", source=onward.jsonl("in.jsonl", key="id"))

@job.step
def call(record):
    return record["id"]
"""
DAYS = """
from pydantic import BaseModel

class Params(BaseModel):
    day: str

job = onward.Job("case", source=lambda p: SOURCE, params=Params, instance="{day}")

@job.step
def call(record, params):
    return 1
"""


def a_job(folder: Path, job: str = JOB, records: int = 3) -> Place:
    place = Place(folder, job)
    place.write("in.jsonl", [{"id": number} for number in range(records)])
    return place


@pytest.mark.parametrize("lease", ["abc", "nan", "inf", "0", "-1", "1e9", "", "30s"])
def test_a_lease_that_is_none_is_wrong_usage(tmp_path: Path, lease: str) -> None:
    ended = a_job(tmp_path).onward("run", "job.py", env={"ONWARD_LEASE": lease})
    assert ended.returncode == 2
    assert ended.stderr.startswith(f"onward: ONWARD_LEASE is {lease!r}; it takes seconds")
    plain(ended.stderr)
    assert not (tmp_path / ".onward").exists()


@pytest.mark.parametrize("source", ['onward.jsonl(f"{p.day}.jsonl", key="id")', 'onward.directory(f"{p.day}")'])
def test_a_mistyped_param_leaves_no_instance_behind(tmp_path: Path, source: str) -> None:
    place = Place(tmp_path, DAYS.replace("SOURCE", source))
    ended = place.onward("run", "job.py", "-p", "day=tue")
    assert ended.returncode == 2
    assert not (tmp_path / ".onward").exists()
    place.write("mon.jsonl", [{"id": 1}])
    (tmp_path / "mon").mkdir()
    (tmp_path / "mon" / "a.txt").touch()
    place.fine("run", "job.py", "-p", "day=mon")
    ended = place.onward("run", "job.py", "-p", "day=mno")
    assert ended.returncode == 2
    assert ended.stderr.startswith("onward: the source cannot be read: there is no ")
    assert "mno" in ended.stderr
    found = [json.loads(line) for line in place.fine("instances", "job.py", "--json").splitlines()]
    assert [one["instance"] for one in found] == ["mon"]
    assert place.status()["instance"] == "mon"


def test_records_are_worked_on_though_their_input_is_gone(tmp_path: Path) -> None:
    place = a_job(tmp_path)
    place.fine("run", "job.py", "--limit", "1")
    (tmp_path / "in.jsonl").unlink()
    ended = place.onward("run", "job.py")
    assert ended.returncode == 4
    assert "there is no file in.jsonl" in ended.stdout
    assert place.status()["counts"]["succeeded"] == 3


def test_ways_there_and_back_are_not_shown(tmp_path: Path) -> None:
    place = a_job(tmp_path)
    (tmp_path / "a").mkdir()
    told = place.fine("run", "a/../job.py", "--store", "a/../b.db")
    assert told.splitlines()[0] == f"store {tmp_path / 'b.db'} (new store, empty ledger of effects)"
    assert f"store {tmp_path / 'b.db'}\n" in place.fine("status", "job.py", "--store", "sqlite:///a/../a/../b.db")
    place.fine("run", "a/../job.py")
    assert place.status()["store"] == str(tmp_path / ".onward" / "onward.db")
    assert "earlier runs left: 3 succeeded of 3" in place.fine("run", "job.py")


def test_back_over_a_link_leads_where_the_system_says(tmp_path: Path) -> None:
    place = a_job(tmp_path)
    (tmp_path / "far" / "deep").mkdir(parents=True)
    (tmp_path / "link").symlink_to("far/deep")
    place.fine("run", "job.py", "--store", "link/../there.db")
    assert (tmp_path / "far" / "there.db").exists()


UNLUCKY = (
    "glob",
    "json",
    "csv",
    "getpass",
    "rich",
    "typer",
    "structlog",
    "pydantic",
    "traceback",
    "select",
    "tempfile",
)


def test_files_named_like_modules_do_not_come_in_the_way(tmp_path: Path) -> None:
    mine = "from helper import WHO\nfrom iniconfig import HERE as OURS\n"
    job = JOB.replace("@job.step", "@job.step(process=True)").replace('record["id"]', "[WHO, OURS]")
    place = a_job(tmp_path, mine + job)
    for name in UNLUCKY:
        (tmp_path / f"{name}.py").write_text("raise RuntimeError('nobody wanted this one')\n")
    (tmp_path / "helper.py").write_text("WHO = 'mine'\n")
    (tmp_path / "iniconfig.py").write_text("HERE = 'mine, not what is installed'\n")
    (tmp_path / "elsewhere").mkdir()
    for folder, file in ((tmp_path / "elsewhere", "../job.py"), (tmp_path, "job.py")):
        at = Place.__new__(Place)
        object.__setattr__(at, "folder", folder)
        for words in (
            ["run", file],
            ["run", file, "--log-format", "json"],
            ["status", file],
            ["retry", file, "--all"],
            ["export", file, "--out", "o.csv"],
        ):
            ended = at.onward(*words)
            assert ended.returncode == 0, (words, ended)
        assert at.onward("run", file, "--nonsense").returncode == 2
    assert [row["outputs"]["call"] for row in place.export()] == [["mine", "mine, not what is installed"]] * 3


@pytest.mark.parametrize("name", ["rich", "traceback", "tempfile"])
def test_a_job_file_may_have_any_name(tmp_path: Path, name: str) -> None:
    place = a_job(tmp_path)
    (tmp_path / "job.py").rename(tmp_path / f"{name}.py")
    place.fine("run", f"{name}.py")
    place.fine("status", f"{name}.py")
    place.fine("export", f"{name}.py", "--out", "o.csv")
