"""The disk of the database fills up: runs stop in plain words, or wait; nothing is lost, and with room they go on."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from helpers import postgres
from judge import steplog
from torture import forked, looking
from torture.test_disk_full import MB, _run
from victims import large

SIZE, LEFT = 96, 1
SETTINGS = ("max_wal_size=4MB", "min_wal_size=2MB", "checkpoint_timeout=30s", "autovacuum=off")


class Disk:
    """A file system of its own that a server's folder, or its log alone, lies on."""

    def __init__(self, place: Path, kind: str):
        self.place, self.kind = place, kind
        self.filler = place / "filler"

    def mount(self) -> None:
        """Raises CalledProcessError where this may not be done."""
        self.place.mkdir()
        if self.kind == "tmpfs":
            _run("mount", "-t", "tmpfs", "-o", f"size={SIZE}m", "none", str(self.place))
        else:
            image = self.place.with_name("disk.img")
            with image.open("wb") as file:
                file.truncate(SIZE * MB)
            _run("mkfs.ext4", "-q", "-m", "0", str(image))
            _run("mount", "-o", "loop", str(image), str(self.place))
        self.place.chmod(0o777)

    def fill(self, left: int) -> None:
        """All but so many megabytes."""
        with self.filler.open("wb", buffering=0) as file:
            while (free := shutil.disk_usage(self.place).free - left * MB) > 0:
                file.write(bytes(min(free, MB)))

    def unmount(self) -> None:
        subprocess.run(["umount", "-l", str(self.place)], capture_output=True, check=False)


@pytest.fixture(params=["tmpfs", "ext4"])
def disk(request: pytest.FixtureRequest) -> Iterator[Disk]:
    if not hasattr(os, "fork") or sys.platform == "darwin":
        pytest.skip("victims are forked: Linux only")
    folder = Path(tempfile.mkdtemp(prefix="onward-disk-"))  # where the server's own user may go, too
    folder.chmod(0o755)
    disk = Disk(folder / "disk", request.param)
    try:
        disk.mount()
        yield disk
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"a small {disk.kind} cannot be mounted here: {error}")
    finally:
        disk.unmount()
        shutil.rmtree(folder, ignore_errors=True)


@contextmanager
def server_on(disk: Disk) -> Iterator[postgres.Server]:
    try:
        with postgres.server(SETTINGS, within=disk.place, initdb=("--wal-segsize=1",)) as own:
            yield own
    except postgres.NoServer as error:
        pytest.skip(str(error))


def test_a_full_disk_loses_nothing(disk: Disk, tmp_path: Path) -> None:
    """Whether the server refuses to write, or dies as it finds no room for its log: runs end with 3, or wait for it."""
    folder = tmp_path / "job"
    folder.mkdir()
    with server_on(disk) as server:
        environment = {"VICTIM_FOLDER": str(folder), "VICTIM_PACE": "0.05", "ONWARD_LEASE": "2"}
        victim = forked.Victim(forked.VICTIMS / "large.py", "large", folder, environment, url=server.url)
        looking_on = forked.start(victim)  # makes the store, and gets somewhere
        until_it_works(victim)
        os.kill(looking_on, signal.SIGSTOP)  # it must not be through before the disk is full
        disk.fill(left=LEFT)
        os.kill(looking_on, signal.SIGCONT)
        code = ended_or_server_died(looking_on, server)
        assert code in (3, None), victim.said
        if code is None:  # it waits for the server, which cannot come back before there is room
            disk.filler.unlink()
            restart(server)
            code = forked.finish(looking_on)
            assert code in (0, 3), victim.said
        else:
            assert "no space left" in victim.said
            disk.fill(left=0)
            assert forked.finish(forked.start(victim)) in (2, 3), "it is still full"
            disk.filler.unlink()
            if server.process is None or server.process.poll() is not None:
                restart(server)
        assert "Traceback" not in victim.said
        done = {(steplog.key_text(key), step) for key, step, _ in forked.read_acks(victim.acks)}
        assert len(done) > 20
        before = len(steplog.read(victim.log))
        store = looking.connect(victim.address)
        assert looking.acknowledgeable(store) >= done
        store.close()
        assert forked.finish(forked.start(victim)) == 0, victim.said
        again = [(entry.key, entry.step) for entry in steplog.read(victim.log)[before:]]
        assert not done & set(again)
        assert len(looking.export_lines(victim.address)) == len(large.KEYS)
        assert looking.contradictions(victim.address) == []


def until_it_works(victim: forked.Victim) -> None:
    until = time.monotonic() + forked.PATIENCE
    while len(list(forked.read_acks(victim.acks))) < 30:
        assert time.monotonic() < until, victim.said
        time.sleep(0.005)


def ended_or_server_died(pid: int, server: postgres.Server) -> int | None:
    """The exit code of the run, or None where the server is gone and it waits."""
    until = time.monotonic() + forked.PATIENCE
    while time.monotonic() < until:
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        assert server.process is not None
        if server.process.poll() is not None:
            return None
        time.sleep(0.02)
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    raise AssertionError("the run neither ended nor lost its server")


def restart(server: postgres.Server) -> None:
    server.process = None
    server.start()
