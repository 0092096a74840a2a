"""Disks that fill up or forbid writing: the run stops, says so, loses nothing, and goes on after the cure."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from judge import steplog
from torture import forked, looking
from victims import large

MB = 1 << 20


class Mount:
    """A small file system of its own."""

    def __init__(self, place: Path, kind: str):
        self.place, self.kind = place, kind
        self._image = place.with_name("disk.img")
        self.filler = place / "filler"

    def mount(self) -> None:
        """Raises CalledProcessError where this may not be done."""
        self.place.mkdir()
        if self.kind == "tmpfs":
            _run("mount", "-t", "tmpfs", "-o", "size=1m", "none", str(self.place))
            return
        with self._image.open("wb") as file:
            file.truncate(8 * MB)
        _run("mkfs.ext4", "-q", "-m", "0", str(self._image))
        _run("mount", "-o", "loop", str(self._image), str(self.place))
        left = shutil.disk_usage(self.place).free
        self.filler.write_bytes(bytes(left - MB))

    def cure(self) -> None:
        if self.kind == "tmpfs":
            _run("mount", "-o", "remount,size=32m", str(self.place))
        else:
            self.filler.unlink()

    def unmount(self) -> None:
        subprocess.run(["umount", "-l", str(self.place)], capture_output=True, check=False)


def _run(*command: str) -> None:
    subprocess.run(command, check=True, capture_output=True)


@pytest.fixture(params=["tmpfs", "ext4"])
def disk(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Mount]:
    mount = Mount(tmp_path / "disk", request.param)
    try:
        mount.mount()
    except (OSError, subprocess.CalledProcessError) as error:
        mount.unmount()
        pytest.skip(f"a small {mount.kind} cannot be mounted here: {error}")
    yield mount
    mount.unmount()


def victim_on(folder: Path, store: Path) -> forked.Victim:
    environment = {"VICTIM_FOLDER": str(folder)}
    return forked.Victim(forked.VICTIMS / "large.py", "large", folder, environment, str(store))


def test_a_full_disk_stops_the_run_and_nothing_is_lost(disk: Mount, tmp_path: Path) -> None:
    victim = victim_on(tmp_path, disk.place / "store.db")
    for _ in range(3):
        assert forked.finish(forked.start(victim)) == 3, victim.said
    assert "no space left" in victim.said
    assert "Traceback" not in victim.said
    done = {(steplog.key_text(key), step) for key, step, _ in forked.read_acks(victim.acks)}
    assert len(done) > 20
    disk.cure()
    assert _acknowledged_in(victim.store) >= done
    before = len(steplog.read(victim.log))
    assert forked.finish(forked.start(victim)) == 0, victim.said
    again = [(entry.key, entry.step) for entry in steplog.read(victim.log)[before:]]
    assert not done & set(again)
    assert len(looking.export_lines(victim.store)) == len(large.KEYS)
    assert looking.contradictions(victim.store) == []
    assert [run["exit_code"] for run in looking.status(victim.store)["runs"]][-1] == 0


def test_a_full_disk_makes_nobody_a_suspect(disk: Mount, tmp_path: Path) -> None:
    """The stop itself finds room to be recorded: the next run does not take it for a death."""
    victim = victim_on(tmp_path, disk.place / "store.db")
    for _ in range(3):
        assert forked.finish(forked.start(victim)) == 3, victim.said
    disk.cure()
    connection = looking.connect(victim.store)
    assert connection.execute("SELECT max(deaths) FROM records").fetchone() == (0,)
    connection.close()


def _acknowledged_in(store: Path) -> set[tuple[str, str]]:
    connection = looking.connect(store)
    found = looking.acknowledgeable(connection)
    connection.close()
    return found


def test_a_full_disk_has_no_room_for_a_new_store(disk: Mount, tmp_path: Path) -> None:
    with (disk.place / "rest").open("wb", buffering=0) as file:
        try:
            while file.write(bytes(4096)):
                pass
        except OSError:
            pass
    victim = victim_on(tmp_path, disk.place / "store.db")
    assert forked.finish(forked.start(victim)) == 3
    assert "no space left" in victim.said
    assert "Traceback" not in victim.said
    assert steplog.read(victim.log) == []
    (disk.place / "rest").unlink()
    disk.cure()
    assert forked.finish(forked.start(victim)) == 0, victim.said


def test_a_folder_that_forbids_writing(tmp_path: Path) -> None:
    folder = tmp_path / "sealed"
    folder.mkdir()
    if os.geteuid() == 0:
        try:
            _run("mount", "-t", "tmpfs", "-o", "ro,size=1m", "none", str(folder))
        except (OSError, subprocess.CalledProcessError) as error:
            pytest.skip(f"root may write everywhere, and nothing can be mounted: {error}")
    else:
        folder.chmod(0o555)
    victim = victim_on(tmp_path, folder / "new" / "store.db")
    try:
        assert forked.finish(forked.start(victim)) == 2
        assert "cannot create the store" in victim.said
        assert "Traceback" not in victim.said
        assert steplog.read(victim.log) == []
    finally:
        subprocess.run(["umount", "-l", str(folder)], capture_output=True, check=False)
        folder.chmod(0o755)
    assert forked.finish(forked.start(victim)) == 0, victim.said


def test_a_store_that_became_read_only(tmp_path: Path) -> None:
    folder = tmp_path / "sealed"
    folder.mkdir()
    victim = victim_on(tmp_path, folder / "store.db")
    if os.geteuid() == 0:
        try:
            _run("mount", "-t", "tmpfs", "-o", "size=16m", "none", str(folder))
        except (OSError, subprocess.CalledProcessError) as error:
            pytest.skip(f"root may write everywhere, and nothing can be mounted: {error}")
    try:
        assert forked.finish(forked.start(victim)) == 0, victim.said
        before = victim.store.read_bytes()
        starts = len(steplog.read(victim.log))
        if os.geteuid() == 0:
            _run("mount", "-o", "remount,ro", str(folder))
        else:
            victim.store.chmod(0o444)
            folder.chmod(0o555)
        assert forked.finish(forked.start(victim)) == 2
        assert "cannot be written" in victim.said or "cannot open" in victim.said
        assert "Traceback" not in victim.said
        assert victim.store.read_bytes() == before
        assert len(steplog.read(victim.log)) == starts
    finally:
        subprocess.run(["umount", "-l", str(folder)], capture_output=True, check=False)
        folder.chmod(0o755)
