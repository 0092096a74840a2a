"""Case 39: stores of older and newer releases, files that are no stores, and a kill in the middle of a migration.

There is one release so far. A later one is played by a program that knows one migration more.
"""

from __future__ import annotations

import hashlib
import os
import signal
import sqlite3
import subprocess
import sys
from pathlib import Path

import pytest

from acceptance.jobs import Place, plain, surroundings, wait_until
from onward.store.sqlite.connection import newest

RECORDS, DONE, FAILED = 1_000, 400, 3
STORE = ".onward/onward.db"

JOB = f"""
job = onward.Job("case", source=onward.iterable(lambda: range({RECORDS}), version="1"))

@job.step(version="1")
async def keep(record):
    started(record, "keep")
    if record in (5, 50, 350) and not (HERE / "mended").exists():
        raise ValueError("not yet")
    return record
"""

NEWER = """
import os, sys
from onward.store.sqlite import statements

first = statements.migrations()
rows = int(os.environ.get("ROWS", "10"))
second = f'''
ALTER TABLE records ADD COLUMN colour TEXT;
CREATE TABLE filling AS
    WITH RECURSIVE n (i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n LIMIT {rows}) SELECT i, randomblob(500) AS v FROM n;
'''
statements.migrations = lambda: [*first, (first[-1][0] + 1, second)]

from onward.cli.main import main
sys.exit(main())
"""


def checksum(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


class Releases(Place):
    """A place whose commands can also be those of a later release."""

    def __init__(self, folder: Path):
        super().__init__(folder, JOB)
        (folder / "newer.py").write_text(NEWER)

    def newer(self, *words: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            [sys.executable, "newer.py", *words],
            cwd=self.folder,
            env=surroundings(),
            capture_output=True,
            encoding="utf-8",
            check=False,
        )

    def columns(self) -> list[str]:
        with sqlite3.connect(self.folder / STORE) as store:
            return [row[1] for row in store.execute("PRAGMA table_info(records)")]


@pytest.fixture
def releases(tmp_path: Path) -> Releases:
    """1,000 records, 400 of them done and 3 failed."""
    place = Releases(tmp_path)
    ran = place.run("--limit", str(DONE + FAILED))
    assert ran.code == 1
    assert (ran.counts["succeeded"], ran.counts["failed"]) == (DONE, FAILED)
    return place


def test_an_old_store_is_migrated_once_and_nothing_is_done_twice(releases: Releases) -> None:
    before, calls = releases.status(), len(releases.calls())
    asked = releases.newer("status", "job.py", "--json")
    assert asked.returncode == 2, "a question changes nothing"
    assert f"has the older schema {newest()}; `onward run` brings it up to date" in asked.stderr
    assert "colour" not in releases.columns()
    (releases.folder / "mended").touch()
    ran = releases.newer("run", "job.py")
    assert ran.returncode == 0, ran.stderr
    total = before["total"]
    assert f"earlier runs left: {DONE} succeeded, {total - DONE} to go of {total:,}" in ran.stdout
    assert len(releases.calls()) - calls == RECORDS - DONE
    assert releases.columns().count("colour") == 1
    assert releases.newer("run", "job.py").returncode == 0, "the migration is not repeated"
    assert len(releases.calls()) - calls == RECORDS - DONE


def test_a_kill_in_the_middle_of_a_migration_leaves_the_old_store(releases: Releases) -> None:
    before = releases.status()
    log = releases.folder / (STORE + "-wal")
    migrating = subprocess.Popen(
        [sys.executable, "newer.py", "run", "job.py"],
        cwd=releases.folder,
        env=surroundings({"ROWS": "5000000"}),
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    wait_until(lambda: log.exists() and log.stat().st_size > 1 << 20)
    migrating.send_signal(signal.SIGKILL)
    assert migrating.wait() == -signal.SIGKILL
    after = releases.status()
    assert {**after, "runs": []} == {**before, "runs": []}
    assert "colour" not in releases.columns()
    (releases.folder / "mended").touch()
    calls = len(releases.calls())
    assert releases.newer("run", "job.py").returncode == 0
    assert len(releases.calls()) - calls == RECORDS - DONE
    with sqlite3.connect(releases.folder / STORE) as store:
        assert store.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
        assert store.execute("SELECT count(*) FROM filling").fetchall() == [(10,)]


def test_a_newer_store_is_refused_and_untouched(releases: Releases) -> None:
    assert releases.newer("run", "job.py", "--limit", "1").returncode in (0, 1)
    file = releases.folder / STORE
    before = checksum(file)
    for words in (["run"], ["status"], ["retry", "--all"], ["export", "--out", "out.jsonl"]):
        ended = releases.onward(words[0], "job.py", *words[1:])
        assert ended.returncode == 2
        schemas = f"schema {newest() + 1}, this one knows {newest()}"
        assert f"was written by a newer onward ({schemas}); update onward" in ended.stderr
        plain(ended.stderr)
    assert checksum(file) == before
    assert not (releases.folder / "out.jsonl").exists()


def test_a_newer_store_that_was_killed_is_refused_and_untouched(tmp_path: Path) -> None:
    """Its number lies in the log alone."""
    place = Releases(tmp_path)
    place.job("""
        job = onward.Job("case", source=onward.iterable(lambda: range(100)))

        @job.step
        def keep(record):
            if record == 99:
                os.kill(os.getpid(), 9)
            return record
        """)
    assert place.newer("run", "job.py").returncode == -signal.SIGKILL
    log = Path(f"{tmp_path / STORE}-wal")
    before = checksum(tmp_path / STORE), checksum(log)
    for command in ("run", "status"):
        ended = place.onward(command, "job.py")
        assert ended.returncode == 2
        assert f"{tmp_path / STORE} was written by a newer onward" in ended.stderr
    assert (checksum(tmp_path / STORE), checksum(log)) == before


FOREIGN = {
    "random": os.urandom(50_000),
    "text": b"id,name\n1,Ada\n",
    "short": b"SQLite format 3\x00",
}


@pytest.mark.parametrize("what", FOREIGN)
def test_a_file_that_is_no_store_is_refused_and_untouched(tmp_path: Path, what: str) -> None:
    place = Place(tmp_path, JOB)
    file = tmp_path / "other.db"
    file.write_bytes(FOREIGN[what])
    refused(place, file, "is not an onward store")


def test_another_programs_database_is_refused_and_untouched(tmp_path: Path) -> None:
    place = Place(tmp_path, JOB)
    file = tmp_path / "other.db"
    with sqlite3.connect(file) as other:
        other.execute("CREATE TABLE records (id INTEGER)")
    other.close()
    refused(place, file, "another program's tables; it was left as it is")


@pytest.mark.parametrize("share", [0.02, 0.5, 0.9])
def test_a_truncated_store_is_refused_and_untouched(releases: Releases, share: float) -> None:
    whole = (releases.folder / STORE).read_bytes()
    file = releases.folder / "cut.db"
    file.write_bytes(whole[: int(len(whole) * share)])
    refused(releases, file, "is damaged")


def refused(place: Place, file: Path, words: str) -> None:
    before = checksum(file)
    for command in ("run", "status"):
        ended = place.onward(command, "job.py", "--store", str(file))
        assert ended.returncode == 2, ended.stderr
        assert words in ended.stderr
        assert str(file) in ended.stderr
        plain(ended.stderr)
    assert checksum(file) == before
