"""The ground moves under a run: its store is deleted or moved, or a step changes the current folder."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import onward
from onward import Done, api
from onward.cli.main import call

JOB = """
import onward, os, shutil

job = onward.Job("j", source=onward.jsonl("in.jsonl", key="id"), concurrency=1)

@job.step(version="1")
def one(record) -> int:
    if record["id"] == 2:
        {deed}
    return record["id"]
"""


def a_job(folder: Path, deed: str) -> Path:
    (folder / "in.jsonl").write_text("".join(f'{{"id": {number}}}\n' for number in range(5)))
    file = folder / "j.py"
    file.write_text(JOB.format(deed=deed))
    return file


@pytest.mark.parametrize("deed", ["shutil.rmtree({0!r})", "os.rename({0!r}, {0!r} + '-old')"])
def test_a_run_whose_store_is_gone_does_not_say_that_all_is_done(tmp_path: Path, deed: str) -> None:
    place = tmp_path / "kept"
    file = a_job(tmp_path, deed.format(str(place)))
    assert call(["run", str(file), "--store", str(place / "s.db")]) == 3
    shutil.rmtree(place, ignore_errors=True)
    file.write_text(JOB.format(deed="pass"))
    assert call(["run", str(file), "--store", str(place / "s.db")]) == 0


def test_the_status_object_is_told_though_a_step_changed_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "elsewhere").mkdir()
    monkeypatch.chdir(tmp_path)
    file = a_job(tmp_path, "os.chdir('elsewhere')")
    assert call(["run", str(file), "--store", "s.db", "--json"]) == 0
    told = json.loads(capfd.readouterr().out.splitlines()[-1])
    assert (told["total"], told["store"]) == (5, str(tmp_path / "s.db"))


def test_any_reason_for_being_done_is_a_text(tmp_path: Path) -> None:
    job = onward.Job("j", source=onward.iterable(lambda: range(3), version="1"))

    @job.step(version="1")
    def one(record: int) -> int:
        raise Done(ValueError("enough"))  # type: ignore[arg-type]

    assert onward.run(job, store=str(tmp_path / "s.db")).counts["succeeded"] == 3
    assert api.show(job, 1, store=str(tmp_path / "s.db"))["history"][-1]["reason"] == "enough"


def test_a_program_from_standard_input_is_a_notebook(tmp_path: Path) -> None:
    program = """
import onward
job = onward.Job("j", source=onward.iterable(lambda: range(3), version="1"))
@job.step(version="1")
def one(record: int) -> int:
    return record
print(job.reference.file, onward.run(job).exit_code)
"""
    told = subprocess.run(
        [sys.executable, "-"], input=program, cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert told.stdout.split() == ["None", "0"]
    assert (tmp_path / ".onward" / "onward.db").exists()
