"""Opening a SQLite store: what is refused and left as it was, what is made, and with which settings."""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import sqlite3
import stat
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import apsw
import pytest

from clocks import HandClock
from onward.errors import StoreError, StoreMissing
from onward.ports.work import RunStart
from onward.store.sqlite import connection
from onward.store.sqlite.connection import open_reader, open_writer, parse_mountinfo, path_of
from onward.store.sqlite.work import SqliteWorkStore


@pytest.fixture
def place(tmp_path: Path) -> Path:
    return tmp_path / "onward.db"


@contextlib.contextmanager
def opened(place: Path) -> Iterator[SqliteWorkStore]:
    store = SqliteWorkStore(place, HandClock())
    try:
        yield store
    finally:
        store.close()


def a_store(place: Path, jobs: int = 1) -> Path:
    """A store that was used and closed."""
    with opened(place) as store:
        for number in range(jobs):
            begun = store.begin_run(RunStart(f"job{number}", "", "host", "{}", "in", (), 3))
            store.end_run(begun.run, 0, "")
    return place


def fingerprint(folder: Path) -> dict[str, str]:
    return {path.name: hashlib.sha256(path.read_bytes()).hexdigest() for path in folder.iterdir() if path.is_file()}


def mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def pragma(at: apsw.Connection, name: str) -> object:
    return at.execute(f"PRAGMA {name}").fetchone()[0]


# Addresses.


@pytest.mark.parametrize(
    ("url", "path"),
    [
        ("sqlite://", None),
        ("sqlite:///:memory:", None),
        ("sqlite:///relative.db", Path("relative.db")),
        ("sqlite:////absolute.db", Path("/absolute.db")),
        ("some/where.db", Path("some/where.db")),
        ("/some/where.db", Path("/some/where.db")),
    ],
)
def test_addresses(url: str, path: Path | None) -> None:
    assert path_of(url) == path


@pytest.mark.parametrize("url", ["mysql://x", "postgresql://user:secret@host/db"])
def test_an_address_of_another_kind_is_refused_without_its_password(url: str) -> None:
    with pytest.raises(StoreError) as refused:
        path_of(url)
    assert "secret" not in str(refused.value)


# New stores.


def test_a_new_store_is_new_once(place: Path) -> None:
    with opened(place) as store:
        assert store.new
    with opened(place) as store:
        assert not store.new


def test_a_store_that_must_exist_is_not_made(place: Path) -> None:
    with pytest.raises(StoreMissing, match=r"onward\.db"):
        SqliteWorkStore(place, HandClock(), create=False)
    with pytest.raises(StoreMissing):
        open_reader(place)
    assert not place.exists()


def test_folders_are_made(tmp_path: Path) -> None:
    place = tmp_path / "a" / "b" / "onward.db"
    with opened(place) as store:
        assert store.new
    assert mode(place.parent) == 0o700


def test_files_are_for_their_owner_alone_whatever_the_umask_says(place: Path) -> None:
    before = os.umask(0)
    try:
        with opened(place) as store:
            store.begin_run(RunStart("job", "", "host", "{}", "in", (), 3))
            files = {path.name: mode(path) for path in place.parent.iterdir()}
    finally:
        os.umask(before)
    names = ["onward.db", "onward.db-runs", "onward.db-shm", "onward.db-wal"]
    assert files == dict.fromkeys(names, 0o600)


def test_an_empty_file_becomes_a_store(place: Path) -> None:
    place.touch()
    with opened(place) as store:
        assert store.new


def test_a_folder_is_no_store(tmp_path: Path) -> None:
    with pytest.raises(StoreError, match="is a folder"):
        open_writer(tmp_path)


def test_a_place_where_nothing_can_be_made() -> None:
    with pytest.raises(StoreError, match=r"cannot create the store /proc/onward\.db"):
        open_writer(Path("/proc/onward.db"))


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    folder = tmp_path / "closed"
    folder.mkdir(mode=0o500)
    with pytest.raises(StoreError, match="cannot create the store"):
        open_writer(folder / "onward.db")


# Settings.


def test_every_writer_flushes_every_commit(place: Path) -> None:
    for _ in range(2):
        at, _new = open_writer(place)
        settings = {name: pragma(at, name) for name in ("journal_mode", "synchronous", "fullfsync", "trusted_schema")}
        assert settings == {"journal_mode": "wal", "synchronous": 2, "fullfsync": 1, "trusted_schema": 0}
        assert pragma(at, "checkpoint_fullfsync") == 1
        assert pragma(at, "busy_timeout") == 60_000
        at.close()


def test_a_store_in_memory_has_the_same_schema() -> None:
    at, new = open_writer(None)
    assert new
    assert pragma(at, "user_version") == connection.newest()


def test_a_setting_that_does_not_take_is_an_error(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "_pragma", lambda at, name: 1 if name == "synchronous" else pragma(at, name))
    with pytest.raises(StoreError, match="did not accept PRAGMA synchronous"):
        open_writer(place)


def test_a_reader_cannot_write(place: Path) -> None:
    at = open_reader(a_store(place))
    with pytest.raises(apsw.ReadOnlyError):
        at.execute("DELETE FROM runs")
    at.close()


def test_the_library_is_one_without_the_log_reset_fault() -> None:
    numbers = tuple(map(int, apsw.sqlite_lib_version().split(".")))
    assert numbers >= (3, 51, 3)


# What is refused and left as it is.


REFUSED = {
    "random bytes": b"\x93\x01" * 4096,
    "text": b"key,value\n1,2\n" * 100,
    "a few bytes": b"SQLite",
    "a torn header": b"SQLite format 3\x00" + b"\x10\x00",
}


@pytest.mark.parametrize("content", REFUSED.values(), ids=REFUSED.keys())
def test_a_file_of_another_kind(place: Path, content: bytes) -> None:
    place.write_bytes(content)
    before = fingerprint(place.parent)
    for attempt in (open_writer, open_reader):
        with pytest.raises(StoreError, match="not an onward store"):
            attempt(place)
    assert fingerprint(place.parent) == before


@pytest.mark.parametrize("journal", ["delete", "wal"])
@pytest.mark.parametrize("mark", [0, 0x12345678])
def test_a_database_of_another_program(place: Path, journal: str, mark: int) -> None:
    theirs = sqlite3.connect(place)
    theirs.execute(f"PRAGMA journal_mode = {journal}")
    theirs.execute(f"PRAGMA application_id = {mark}")
    theirs.execute("CREATE TABLE records (mine)")
    theirs.commit()
    theirs.close()
    before = fingerprint(place.parent)
    for attempt in (open_writer, open_reader):
        with pytest.raises(StoreError, match=r"another program|not an onward store"):
            attempt(place)
    assert fingerprint(place.parent) == before


def test_a_database_that_another_program_has_open(place: Path) -> None:
    theirs = sqlite3.connect(place)
    theirs.execute("PRAGMA journal_mode = wal")
    theirs.execute("CREATE TABLE records (mine)")
    theirs.commit()
    with pytest.raises(StoreError, match="another program"):
        open_writer(place)
    theirs.execute("INSERT INTO records VALUES (1)")
    theirs.commit()
    assert theirs.execute("SELECT count(*) FROM records").fetchone() == (1,)
    theirs.close()


def make_newer(place: Path, number: int = 99) -> None:
    at = apsw.Connection(str(place))
    at.execute(f"PRAGMA user_version = {number}")
    at.close()


def test_a_store_of_a_newer_onward(place: Path) -> None:
    a_store(place)
    make_newer(place)
    before = fingerprint(place.parent)
    for attempt in (open_writer, open_reader):
        with pytest.raises(StoreError, match=r"newer onward \(schema 99"):
            attempt(place)
    assert fingerprint(place.parent) == before


def test_a_store_of_a_newer_onward_whose_mark_is_still_in_the_log(place: Path) -> None:
    a_store(place)
    at = apsw.Connection(str(place))
    at.execute("PRAGMA user_version = 99")
    copies = {name: (place.parent / name).read_bytes() for name in (place.name, place.name + "-wal")}
    at.close()
    for name, content in copies.items():
        (place.parent / name).write_bytes(content)
    for attempt in (open_writer, open_reader):
        with pytest.raises(StoreError, match=r"newer onward \(schema 99"):
            attempt(place)
    assert place.read_bytes() == copies[place.name]
    assert place.with_name(place.name + "-wal").read_bytes() == copies[place.name + "-wal"]


@pytest.mark.parametrize("left", [200, 4096, 3 * 4096, 5 * 4096 + 100])
def test_a_truncated_store(place: Path, left: int) -> None:
    a_store(place, jobs=20)
    whole = place.read_bytes()
    assert len(whole) > 6 * 4096
    place.write_bytes(whole[:left])
    for attempt in (open_writer, open_reader):
        with pytest.raises(StoreError, match="damaged"):
            attempt(place)
    assert place.read_bytes() == whole[:left]


def test_a_store_whose_schema_was_overwritten(place: Path) -> None:
    whole = bytearray(a_store(place).read_bytes())
    whole[100:4096] = b"\x55" * 3996
    place.write_bytes(whole)
    with pytest.raises(StoreError, match="damaged"):
        open_writer(place)
    assert place.read_bytes() == bytes(whole)


def test_a_store_on_a_network_file_system(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(connection, "file_system_of", lambda folder: "nfs4")
    with pytest.raises(StoreError, match=r"network file system \(nfs4\).*--store"):
        open_writer(place)
    assert not place.exists()


# Which file system.


MOUNTS = r"""
22 1 254:0 / / rw,relatime shared:1 - ext4 /dev/vda rw
23 22 0:21 / /proc rw,nosuid - proc proc rw
30 22 0:30 / /home rw shared:2 - nfs4 server:/home rw,vers=4.2
31 30 0:31 / /home/local rw - xfs /dev/sdb rw
32 22 0:32 / /mnt/with\040space rw - fuse.sshfs user@host:/ rw
33 22 0:33 / /data rw - ext4 /dev/sdc rw
34 33 0:34 / /data rw - cifs //server/share rw
35 22 0:35 / /homestead rw - btrfs /dev/sdd rw
a torn line
36 22 0:36 / /späte rw - 9p share rw
"""


@pytest.mark.parametrize(
    ("folder", "kind"),
    [
        ("/", "ext4"),
        ("/var/lib", "ext4"),
        ("/home", "nfs4"),
        ("/home/ada/work", "nfs4"),
        ("/home/local/ada", "xfs"),
        ("/homestead/ada", "btrfs"),
        ("/mnt/with space/x", "fuse.sshfs"),
        ("/mnt/with", "ext4"),
        ("/data/x", "cifs"),
        ("/späte/x", "9p"),
    ],
)
def test_the_mount_that_holds_a_folder(folder: str, kind: str) -> None:
    assert parse_mountinfo(MOUNTS, Path(folder)) == kind


def test_no_mounts_no_answer() -> None:
    assert parse_mountinfo("", Path("/home")) is None


NETWORK = ["nfs", "nfs4", "cifs", "smb3", "smbfs", "afs", "gpfs", "lustre", "ceph", "glusterfs", "9p", "fuse.sshfs"]


NETWORK += ["fuse.s3fs", "fuse.glusterfs", "fuse.ceph-fuse", "fuse.juicefs", "fuse.mountpoint-s3", "beegfs", "webdav"]
NETWORK += ["wekafs", "panfs", "pvfs2", "orangefs", "vboxsf"]


@pytest.mark.parametrize("kind", NETWORK)
def test_network_file_systems_are_known(place: Path, monkeypatch: pytest.MonkeyPatch, kind: str) -> None:
    monkeypatch.setattr(connection, "file_system_of", lambda folder: kind)
    with pytest.raises(StoreError, match="network file system"):
        open_writer(place)


LOCAL = ["ext4", "xfs", "btrfs", "zfs", "tmpfs", "overlay", "apfs", "fuseblk", "ntfs3", "virtiofs"]


@pytest.mark.parametrize("kind", [*LOCAL, None])
def test_local_file_systems_are_not_refused(place: Path, monkeypatch: pytest.MonkeyPatch, kind: str | None) -> None:
    monkeypatch.setattr(connection, "file_system_of", lambda folder: kind)
    open_writer(place)[0].close()


# File systems without locks.


def no_locks(*_: object) -> None:
    raise OSError(errno.ENOLCK, os.strerror(errno.ENOLCK))


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere there is one kind of locks")
def test_locks_that_are_refused_to_sqlite_alone_are_told_at_once(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """SQLite takes the refusal for another program that holds them, and waits for that."""
    a_store(place)
    monkeypatch.setattr("fcntl.lockf", no_locks)
    for attempt in (open_writer, open_reader):
        with pytest.raises(StoreError, match=r"gives no locks; .*local disk, or a PostgreSQL address"):
            attempt(place)


def test_who_only_looks_makes_no_lock_file(place: Path) -> None:
    a_store(place)
    locks = place.with_name(place.name + "-runs")
    locks.unlink()
    open_reader(place).close()
    assert not locks.exists()


# Locks of one process on one file.


def test_a_second_look_at_a_store_leaves_the_locks_of_the_first(place: Path) -> None:
    """Another program that opens and closes the store takes its log away unless it finds it locked."""
    with opened(place) as store:
        store.begin_run(RunStart("job", "", "host", "{}", "in", (), 3))
        looking = open_reader(place)
        with contextlib.suppress(StoreError):
            open_writer(place)[0].close()
        _another_program_looks(place)
        begun = store.begin_run(RunStart("another", "", "host", "{}", "in", (), 3))
        looking.close()
        assert place.with_name("onward.db-wal").exists()
        assert _another_program_looks(place) == begun.run
    with opened(place) as store:
        assert store.begin_run(RunStart("job", "", "host", "{}", "in", (), 3)).run == begun.run + 1


def _another_program_looks(place: Path) -> int:
    script = (
        "import sqlite3, sys; at = sqlite3.connect(sys.argv[1]); "
        "print(at.execute('SELECT max(id) FROM runs').fetchone()[0]); at.close()"
    )
    done = subprocess.run([sys.executable, "-c", script, str(place)], capture_output=True, text=True, check=True)
    return int(done.stdout)
