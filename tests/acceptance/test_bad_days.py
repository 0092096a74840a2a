"""Places that cannot be written, and disks that are full: told in words, and what was there stays as it was."""

from __future__ import annotations

import contextlib
import functools
import sqlite3
import subprocess
from pathlib import Path

import pytest

from acceptance.jobs import PATIENCE, Place, plain, surroundings, wait_until

RECORDS = 3_000
JOB = f"""
job = onward.Job("case", source=onward.iterable(lambda: range({RECORDS}), version="1"))

@job.step
async def keep(record):
    return "x" * 100
"""
OLD = '{"key":"of an earlier export"}\n'


@functools.cache
def mounts_are_allowed() -> bool:
    try:
        trial = subprocess.run(
            ["unshare", "-m", "mount", "-t", "tmpfs", "none", "/mnt"], capture_output=True, check=False
        )
    except FileNotFoundError:
        return False
    return trial.returncode == 0


def within(place: Place, script: str) -> subprocess.CompletedProcess[str]:
    """Run a line of bash with mounts of its own; `onward` there is the command line."""
    if not mounts_are_allowed():
        pytest.skip("only root on Linux may mount")
    words = " ".join(place.command())
    return subprocess.run(
        ["unshare", "-m", "bash", "-c", f'onward() {{ {words} "$@"; }}; {script}'],
        cwd=place.folder,
        env=surroundings(),
        capture_output=True,
        encoding="utf-8",
        timeout=PATIENCE,
        check=False,
    )


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Place:
    """A place whose job is done."""
    place = Place(tmp_path_factory.mktemp("done"), JOB)
    assert place.run().code == 0
    return place


@pytest.mark.parametrize(
    ("out", "words"),
    [
        ("gone/out.jsonl", "gone does not exist"),
        ("folder", "it is a folder; give the name of a file"),
        ("job.py/out.jsonl", "job.py is not a folder"),
        ("/dev/full", "the disk is full"),
    ],
)
def test_an_export_to_a_place_that_is_none(place: Place, out: str, words: str) -> None:
    (place.folder / "folder").mkdir(exist_ok=True)
    ended = place.onward("export", "job.py", "--out", out, "--format", "jsonl")
    assert ended.returncode == 2
    assert words in ended.stderr
    plain(ended.stderr)


@pytest.mark.parametrize("form", ["jsonl", "csv --flat", "parquet --flat"])
def test_an_export_to_a_disk_that_fills_up(place: Place, form: str) -> None:
    suffix, _, flat = form.partition(" ")
    out = f"/mnt/out.{suffix}"
    ended = within(
        place,
        f"mount -t tmpfs -o size=64k none /mnt && printf '%s' '{OLD}' > {out}\n"
        f"onward export job.py --out {out} {flat}; echo exit $?; ls -A /mnt; cat {out}",
    )
    assert ended.stdout.splitlines() == ["exit 2", f"out.{suffix}", OLD.strip()], ended.stderr
    assert "the disk is full" in ended.stderr
    assert flat or "the file that was there is unchanged" in ended.stderr
    plain(ended.stderr)


def test_an_export_to_a_disk_that_is_read_only(place: Place) -> None:
    (place.folder / "sealed").mkdir(exist_ok=True)
    script = "mount --bind sealed sealed && mount -o remount,bind,ro sealed"
    ended = within(place, f"{script}; onward export job.py --out sealed/out.jsonl; echo exit $?; ls -A sealed")
    assert ended.stdout.splitlines() == ["exit 2"]
    assert "the file system is read-only; nothing was written" in ended.stderr
    plain(ended.stderr)


def test_a_store_in_a_folder_that_is_read_only(place: Place) -> None:
    script = "mount --bind .onward .onward && mount -o remount,bind,ro .onward"
    ended = within(
        place,
        f"{script}; for words in 'run job.py' 'retry job.py --all' 'run job.py --store .onward/new.db'; "
        "do onward $words; echo exit $?; done; ls -A .onward",
    )
    assert ended.stdout.splitlines() == ["exit 2"] * 3 + ["onward.db", "onward.db-runs"], ended.stderr
    assert len(ended.stderr.splitlines()) == 3
    assert all(str(place.folder / ".onward") in line for line in ended.stderr.splitlines())
    plain(ended.stderr)
    assert place.status()["counts"]["succeeded"] == RECORDS


def test_a_disk_that_fills_up_under_the_store_stops_the_run_and_loses_nothing(tmp_path: Path) -> None:
    place = Place(tmp_path, JOB)
    ended = within(
        place,
        "mount -t tmpfs -o size=2m none /mnt; onward run job.py --store /mnt/onward.db; echo exit $?\n"
        "mount -o remount,size=100m /mnt; onward run job.py --store /mnt/onward.db; echo exit $?\n"
        "onward export job.py --store /mnt/onward.db --out out.jsonl",
    )
    lines = ended.stdout.splitlines()
    assert [line for line in lines if line.startswith("exit")] == ["exit 3", "exit 0"], ended.stderr
    assert "no space left" in ended.stdout + ended.stderr
    assert len((tmp_path / "out.jsonl").read_text().splitlines()) == RECORDS
    plain(ended.stderr)


def test_a_store_that_is_a_folder(place: Place) -> None:
    ended = place.onward("run", "job.py", "--store", str(place.folder))
    assert ended.returncode == 2
    assert f"{place.folder} is a folder; a store is a file" in ended.stderr


def test_a_missing_store_is_not_made_by_a_question(tmp_path: Path) -> None:
    place = Place(tmp_path, JOB)
    for words in (["status"], ["failures"], ["export", "--out", "out.jsonl"], ["run", "--no-create"]):
        ended = place.onward(words[0], "job.py", *words[1:])
        assert ended.returncode == 2
        assert "there is no store at" in ended.stderr
        plain(ended.stderr)
    assert not (tmp_path / ".onward").exists()


@pytest.mark.parametrize("words", [(), ("--log-format", "json")])
def test_a_run_that_waits_for_another_program_says_so(tmp_path: Path, words: tuple[str, ...]) -> None:
    place = Place(tmp_path, JOB)
    assert place.run("--limit", "10").code == 0
    with contextlib.closing(sqlite3.connect(place.status()["store"], isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        run = place.start("run", "job.py", "--limit", "10", *words)
        said = tmp_path / "said.txt"
        wait_until(lambda: said.exists() and "waiting for another program that holds the store" in said.read_text())
        assert run.poll() is None
        assert all("store_waits" in line for line in said.read_text().splitlines()) == bool(words)
        other.execute("ROLLBACK")
        assert run.wait(60) == 0
