"""Case 38: a store on a network file system is refused in words that help, never in the database driver's own."""

from __future__ import annotations

import functools
import os
import shutil
import sqlite3
import subprocess
from pathlib import Path

import pytest

from acceptance.jobs import Place, plain

JOB = """
job = onward.Job("case", source=onward.iterable(lambda: range(50)))

@job.step
def keep(record):
    return record
"""
STORE = ".onward/onward.db"

NETWORK_MOUNT = """
cp /proc/self/mountinfo mountinfo && echo "9999 1 0:99 / $PWD rw,relatime - {kind} server:/home rw" >> mountinfo
mount --bind mountinfo /proc/$$/mountinfo && exec "$@"
"""


@functools.cache
def works(*words: str) -> bool:
    """Whether a program is there and may do what it is for."""
    return (
        shutil.which(words[0]) is not None and subprocess.run(words, capture_output=True, check=False).returncode == 0
    )


def injecting(folder: Path, suffixes: list[str], calls: str, error: str) -> tuple[str, ...]:
    """Words that start a program whose system calls on some of the store's files fail."""
    if not works("strace", "-o", "/dev/null", "true"):
        pytest.skip("strace is missing or may not trace")
    paths = [word for suffix in suffixes for word in ("-P", str(folder / STORE) + suffix)]
    return (
        "strace",
        "-f",
        "-qq",
        "-o",
        os.devnull,
        *paths,
        "-e",
        f"trace={calls}",
        "-e",
        f"inject={calls}:error={error}",
    )


FAULTS = {
    "no locks": ([["", "-runs"], "fcntl", "ENOLCK"]),
    "no locks between runs": ([["-runs"], "fcntl", "ENOLCK"]),
    "no shared memory": ([["-shm"], "openat", "EACCES"]),
    "shared memory cannot be mapped": ([["-shm"], "mmap", "ENODEV"]),
    "shared memory cannot be locked": ([["-shm"], "fcntl", "ENOLCK"]),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_what_sqlite_needs_and_does_not_get_is_said_at_once(tmp_path: Path, fault: str) -> None:
    place = Place(tmp_path, JOB)
    ended = place.onward("run", "job.py", before=injecting(tmp_path, *FAULTS[fault]))
    assert ended.returncode == 2
    assert "local disk" in ended.stderr
    assert f"{tmp_path / STORE}" in ended.stderr
    assert len(ended.stderr.splitlines()) == 1
    plain(ended.stderr)
    assert "apsw" not in ended.stderr
    assert place.run().counts == {"succeeded": 50}, "nothing is left that would be in the way"


def test_a_store_that_was_fine_is_left_whole(tmp_path: Path) -> None:
    place = Place(tmp_path, JOB)
    place.run()
    ended = place.onward("run", "job.py", before=injecting(tmp_path, ["-shm"], "fcntl", "ENOLCK"))
    assert ended.returncode == 2
    store = sqlite3.connect(tmp_path / STORE)
    assert store.execute("PRAGMA integrity_check").fetchall() == [("ok",)]
    assert store.execute("PRAGMA journal_mode").fetchall() == [("wal",)]
    store.close()
    assert place.status()["counts"]["succeeded"] == 50


@pytest.mark.parametrize("kind", ["nfs4", "lustre"])
def test_network_file_systems_are_known_by_name_and_no_file_is_made(tmp_path: Path, kind: str) -> None:
    if not works("unshare", "-m", "true"):
        pytest.skip("only root may pretend to have a network file system")
    place = Place(tmp_path, JOB)
    pretend = ("unshare", "-m", "bash", "-c", NETWORK_MOUNT.format(kind=kind), "bash")
    ended = place.onward("run", "job.py", before=pretend)
    assert ended.returncode == 2
    assert f"{tmp_path / STORE} lies on a network file system ({kind})" in ended.stderr
    assert "give --store a path on a local disk, or a PostgreSQL address" in ended.stderr
    assert not (tmp_path / ".onward").exists()
    plain(ended.stderr)
