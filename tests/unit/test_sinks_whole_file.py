"""An export is there whole or not at all, whatever happens while it is written."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from onward.errors import ExportError
from onward.ports.sink import ExportRow
from onward.sinks.formats import open_sink
from onward.sinks.whole_file import whole_file

ROWS = 50_000
OLD = b"the export of yesterday\n"

VICTIM = """
import sys
from onward.errors import ExportError
from onward.ports.sink import ExportRow
from onward.sinks.formats import open_sink

path, rows, pause_at, flat = sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), sys.argv[4] == "flat"

def make():
    for number in range(rows):
        if number == pause_at:
            print("now", flush=True)
            sys.stdin.read()
        yield ExportRow(str(number), '{"text":"' + "x" * 40 + '"}', {"step": '"done"'}, "succeeded", {}, 1)

try:
    open_sink(path, flat=flat).write(make())
except ExportError as error:
    print(error)
    sys.exit(2)
"""

posix = pytest.mark.skipif(os.name == "nt", reason="needs the calls of POSIX")


def victim(path: Path, rows: int = ROWS, pause_at: int = -1, flat: bool = False) -> list[str]:
    return [sys.executable, "-c", VICTIM, str(path), str(rows), str(pause_at), "flat" if flat else ""]


def paused(path: Path, pause_at: int, flat: bool = False) -> subprocess.Popen[bytes]:
    """An export that stands still before row `pause_at`."""
    process = subprocess.Popen(victim(path, ROWS, pause_at, flat), stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == b"now\n"
    return process


def kill(process: subprocess.Popen[bytes]) -> None:
    process.send_signal(signal.SIGKILL)
    process.communicate()


def some_rows(count: int = 1) -> Iterator[ExportRow]:
    return (ExportRow(str(number), None, {}, "succeeded", {}, 1) for number in range(count))


def keys(path: Path) -> list[object]:
    return [json.loads(line)["key"] for line in path.read_text().splitlines()]


@posix
@pytest.mark.parametrize("flat", [False, True])
@pytest.mark.parametrize("suffix", ["jsonl", "csv"])
def test_a_killed_export_leaves_the_old_file_and_the_next_is_complete(tmp_path: Path, suffix: str, flat: bool) -> None:
    target = tmp_path / f"out.{suffix}"
    target.write_bytes(OLD)
    for pause_at in (0, ROWS // 2, ROWS - 1):
        kill(paused(target, pause_at, flat))
        assert target.read_bytes() == OLD
        assert list(tmp_path.glob(f"*.{suffix}")) == [target]
        assert len(list(tmp_path.iterdir())) == 2, "each killed one left its file, and the one before it was swept"
    subprocess.run(victim(target, flat=flat), check=True)
    assert list(tmp_path.iterdir()) == [target]
    lines = target.read_text().splitlines()
    if suffix == "csv":
        assert len(lines) == ROWS + 1
    else:
        assert [json.loads(line)["key"] for line in lines] == list(range(ROWS))


@posix
def test_what_a_living_export_writes_is_not_swept(tmp_path: Path) -> None:
    target = tmp_path / "out.jsonl"
    living = paused(target, 10)
    open_sink(target).write(some_rows(3))
    assert keys(target) == [0, 1, 2]
    assert len(list(tmp_path.iterdir())) == 2
    living.communicate(b"")
    assert living.returncode == 0
    assert len(keys(target)) == ROWS
    assert list(tmp_path.iterdir()) == [target]


@posix
def test_only_leftovers_of_the_same_target_are_swept(tmp_path: Path) -> None:
    mine = tmp_path / ".out.jsonl.0123456789abcdef.part"
    others = [".out.csv.0123456789abcdef.part", ".out.jsonl.0123.part", "out.jsonl.0123456789abcdef.part", ".out.jsonl"]
    for name in [mine.name, *others]:
        (tmp_path / name).write_text("")
    (tmp_path / ".out.jsonl.fedcba9876543210.part").symlink_to(tmp_path / "elsewhere")
    open_sink(tmp_path / "out.jsonl").write(some_rows())
    assert not mine.exists()
    left = {path.name for path in tmp_path.iterdir()}
    assert left == {*others, "out.jsonl", ".out.jsonl.fedcba9876543210.part"}


def test_a_fault_in_mid_file_leaves_the_old_file_and_nothing_else(tmp_path: Path) -> None:
    target = tmp_path / "out.jsonl"
    target.write_bytes(OLD)

    def rows() -> Iterator[ExportRow]:
        yield from some_rows(5)
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        open_sink(target).write(rows())
    assert target.read_bytes() == OLD
    assert list(tmp_path.iterdir()) == [target]


@posix
def test_files_are_private_from_the_first_moment_on(tmp_path: Path) -> None:
    target = tmp_path / "out.jsonl"
    target.write_bytes(OLD)
    target.chmod(0o644)
    before = os.umask(0)
    try:
        with whole_file(target) as output:
            output.write(b"x")
            (temporary,) = tmp_path.glob(".out.jsonl.*.part")
            assert stat.S_IMODE(temporary.stat().st_mode) == 0o600
    finally:
        os.umask(before)
    assert stat.S_IMODE(target.stat().st_mode) == 0o600


@posix
def test_a_link_stays_and_the_file_behind_it_is_replaced(tmp_path: Path) -> None:
    (tmp_path / "real").mkdir()
    link = tmp_path / "out.jsonl"
    link.symlink_to(tmp_path / "real" / "there.jsonl")
    open_sink(link).write(some_rows(2))
    assert link.is_symlink()
    assert keys(tmp_path / "real" / "there.jsonl") == [0, 1]


def test_names_of_any_length_a_file_may_have(tmp_path: Path) -> None:
    target = tmp_path / ("n" * 249 + ".jsonl")
    open_sink(target).write(some_rows(2))
    assert keys(target) == [0, 1]
    with pytest.raises(ExportError, match="name is too long"):
        open_sink(tmp_path / ("n" * 250 + ".jsonl")).write(some_rows())
    assert list(tmp_path.iterdir()) == [target]


@pytest.mark.parametrize("flat", [False, True])
def test_places_that_cannot_be_written_are_named(tmp_path: Path, flat: bool) -> None:
    with pytest.raises(ExportError, match=r"the folder .*missing does not exist"):
        open_sink(tmp_path / "missing" / "out.jsonl", flat=flat).write(some_rows())
    with pytest.raises(ExportError, match="it is a folder"):
        open_sink(tmp_path, flat=flat).write(some_rows())
    (tmp_path / "file").write_text("")
    with pytest.raises(ExportError, match="is not a folder"):
        open_sink(tmp_path / "file" / "out.jsonl", flat=flat).write(some_rows())
    assert [path.name for path in tmp_path.iterdir()] == ["file"]


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of one megabyte, in memory."""
    folder = tmp_path / "small"
    folder.mkdir()
    if not hasattr(os, "geteuid") or os.geteuid() != 0 or shutil.which("mount") is None:
        pytest.skip("only root can mount a small disk")
    made = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=1m", "tmpfs", str(folder)], capture_output=True)
    if made.returncode != 0:
        pytest.skip(f"cannot mount here: {made.stderr.decode().strip()}")
    yield folder
    subprocess.run(["umount", str(folder)], check=True)


@pytest.mark.parametrize("flat", [False, True])
@pytest.mark.parametrize("name", ["out.jsonl", "out.csv", "out.parquet"])
def test_a_full_disk_is_said_and_costs_nothing(small_disk: Path, name: str, flat: bool) -> None:
    target = small_disk / name
    target.write_bytes(OLD)
    with pytest.raises(ExportError, match="the disk is full"):
        open_sink(target, flat=flat).write(
            ExportRow(str(number), None, {"s": json.dumps(os.urandom(100).hex())}, "succeeded", {}, 1)
            for number in range(ROWS)
        )
    assert target.read_bytes() == OLD
    assert list(small_disk.iterdir()) == [target]
    open_sink(target, flat=flat).write(some_rows(2))
    assert target.read_bytes() != OLD


def test_a_read_only_disk_is_said(small_disk: Path) -> None:
    (small_disk / "out.jsonl").write_bytes(OLD)
    subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
    with pytest.raises(ExportError, match="read-only; the file that was there is unchanged"):
        open_sink(small_disk / "out.jsonl").write(some_rows())
    assert (small_disk / "out.jsonl").read_bytes() == OLD


@pytest.fixture
def forbidden() -> Iterator[Path]:
    """A folder that this process may read and not write; root becomes nobody for a while."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        folder.chmod(0o555)
        is_root = os.geteuid() == 0
        if is_root:
            os.seteuid(65534)
        try:
            yield folder
        finally:
            if is_root:
                os.seteuid(0)
            folder.chmod(0o700)


@posix
@pytest.mark.parametrize("flat", [False, True])
def test_a_folder_without_permission_is_said(forbidden: Path, flat: bool) -> None:
    with pytest.raises(ExportError, match="no permission to write there; nothing was written"):
        open_sink(forbidden / "out.jsonl", flat=flat).write(some_rows())


@posix
@pytest.mark.parametrize("flat", [False, True])
def test_a_limit_on_file_size_is_said(tmp_path: Path, flat: bool) -> None:
    target = tmp_path / "out.jsonl"
    target.write_bytes(OLD)
    limited = ["import resource, sys", "resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))", VICTIM]
    command = victim(target, flat=flat)
    command[2] = "\n".join(limited)
    done = subprocess.run(command, capture_output=True, check=False)
    assert done.returncode == 2
    assert b"the file became larger than this system allows" in done.stdout
    assert done.stderr == b""
    assert target.read_bytes() == OLD
    assert list(tmp_path.iterdir()) == [target]


def strace(log: Path, *how: str, target: Path) -> subprocess.CompletedProcess[bytes]:
    if shutil.which("strace") is None:
        pytest.skip("strace is not installed")
    command = ["strace", "-f", "-qq", "-y", "-s", "20", "-o", str(log), *how, *victim(target, rows=2_000)]
    done = subprocess.run(command, capture_output=True, check=False)
    if b"ptrace" in done.stderr.lower():
        pytest.skip("strace may not trace here")
    return done


def test_the_order_is_write_flush_rename_flush_folder(tmp_path: Path) -> None:
    target = tmp_path / "folder" / "out.jsonl"
    target.parent.mkdir()
    done = strace(tmp_path / "log", "-e", "trace=write,fsync,fdatasync,/^rename", target=target)
    assert done.returncode == 0, done.stderr
    calls = []
    for line in (tmp_path / "log").read_text().splitlines():
        call = re.search(r"(write|fsync|fdatasync|rename\w*)\((.*)", line)
        if call and str(target.parent) in call[2]:
            of_folder = f"<{target.parent}>" in call[2]
            calls.append((call[1].replace("renameat2", "rename").replace("renameat", "rename"), of_folder))
    writes = calls.count(("write", False))
    assert writes >= 1
    assert calls == [("write", False)] * writes + [("fsync", False), ("rename", False), ("fsync", True)]


@pytest.mark.parametrize(
    "call", ["fsync:signal=KILL:when=1", "/^rename:signal=KILL:when=1", "fsync:signal=KILL:when=2"]
)
def test_death_at_every_call_that_makes_it_final(tmp_path: Path, call: str) -> None:
    target = tmp_path / "folder" / "out.jsonl"
    target.parent.mkdir()
    target.write_bytes(OLD)
    done = strace(tmp_path / "log", "-e", "trace=fsync,/^rename", "-e", f"inject={call}", target=target)
    assert done.returncode != 0
    assert target.read_bytes() == OLD or len(keys(target)) == 2_000
    assert list(target.parent.glob("*.jsonl")) == [target]
    subprocess.run(victim(target), check=True)
    assert len(keys(target)) == ROWS
    assert list(target.parent.iterdir()) == [target]


@pytest.mark.parametrize("call", ["fsync:error=EIO:when=1", "/^rename:error=EIO:when=1"])
def test_a_disk_that_fails_at_the_end_is_said_and_the_old_file_stays(tmp_path: Path, call: str) -> None:
    target = tmp_path / "folder" / "out.jsonl"
    target.parent.mkdir()
    target.write_bytes(OLD)
    done = strace(tmp_path / "log", "-e", "trace=fsync,/^rename", "-e", f"inject={call}", target=target)
    assert done.returncode == 2
    assert b"Input/output error; the file that was there is unchanged" in done.stdout
    assert target.read_bytes() == OLD
    assert list(target.parent.iterdir()) == [target]


def test_a_folder_that_cannot_be_flushed_is_not_called_done(tmp_path: Path) -> None:
    target = tmp_path / "folder" / "out.jsonl"
    target.parent.mkdir()
    done = strace(tmp_path / "log", "-e", "trace=fsync", "-e", "inject=fsync:error=EIO:when=2", target=target)
    assert done.returncode == 2
    assert b"could not be flushed to disk" in done.stdout
