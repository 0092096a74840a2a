"""Opening a SQLite store safely: the right file, on a local disk, at a schema we know, flushed at every commit."""

from __future__ import annotations

import contextlib
import os
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import apsw

from onward.errors import OnwardError, StoreError, StoreMissing, StoreWriteError
from onward.store.sql.statements import ALTERED
from onward.store.sqlite import statements
from onward.store.sqlite.liveness import RunLocks
from onward.store.sqlite.patience import BUSY_SECONDS, Patience, patiently

APPLICATION_ID = 0x6F6E7764  # "onwd"
BUSY_MILLISECONDS = int(BUSY_SECONDS * 1000)
LEAST_ROOM = 256 << 10
"""Bytes that must be free to begin: SQLite's shared memory lies in a file, and where that finds no room the process
dies of SIGBUS."""
MEMORY = ":memory:"
_HEADER = b"SQLite format 3\x00"
_JOURNAL = bytes.fromhex("d9d505f920a163d7")
_SHARING = (
    apsw.SQLITE_IOERR_SHMOPEN,
    apsw.SQLITE_IOERR_SHMSIZE,
    apsw.SQLITE_IOERR_SHMLOCK,
    apsw.SQLITE_IOERR_SHMMAP,
    apsw.SQLITE_IOERR_LOCK,
    apsw.SQLITE_IOERR_RDLOCK,
)
_NETWORK = re.compile(
    r"^(nfs\d?|cifs|smb\w*|afs|gpfs|lustre|ceph|glusterfs|9p|beegfs|afpfs|webdav|wekafs|panfs|pvfs2|orangefs|vboxsf"
    r"|fuse\.(sshfs|glusterfs|s3fs|gcsfuse|rclone|ceph|ceph-fuse|juicefs|mountpoint-s3))$"
)


def path_of(url: str) -> Path | None:
    """The file that an address names: `sqlite:///relative`, `sqlite:////absolute`, a bare path; None: in memory."""
    if url in ("sqlite://", "sqlite:///:memory:"):
        return None
    if url.startswith("sqlite:///"):
        return Path(url.removeprefix("sqlite:///"))
    if "://" in url:
        raise StoreError(
            f"{url.split('://')[0]}:// is not a store that this installation knows; use a path, sqlite:///… or postgresql://…"
        )
    return Path(url)


def open_writer(
    path: Path | None,
    create: bool = True,
    scripts: list[tuple[int, str]] | None = None,
    waits: Callable[[str], None] | None = None,
) -> tuple[apsw.Connection, bool]:
    """The one writing connection of a process, migrated; and whether the store is new. `waits` hears in words for
    people of a wait for another program's lock that takes long."""
    new = path is None or not _exists(path)
    if path is not None:
        if new and not create:
            raise StoreMissing(f"there is no store at {path}; run the job first, or check --store")
        _prepare(path, new)
        RunLocks(path).check()  # where there are none, SQLite would wait for a minute and blame another program
    with plain_errors(path):
        connection = _connect(path, apsw.SQLITE_OPEN_READWRITE | apsw.SQLITE_OPEN_CREATE)
        if waits is not None:
            connection.set_busy_handler(Patience(path, waits))
        with _closed_if_refused(connection):
            patiently(lambda: _configure_writer(connection, path))
            migrate(connection, scripts if scripts is not None else statements.migrations(), path)
    return connection, new


def reopen_writer(path: Path) -> apsw.Connection:
    """Another writing connection to a store that this process has open already."""
    with plain_errors(path):
        connection = _connect(path, apsw.SQLITE_OPEN_READWRITE)
        with _closed_if_refused(connection):
            patiently(lambda: _configure_writer(connection, path))
    return connection


def close_untouched(connection: apsw.Connection) -> None:
    """Close without folding in the log."""
    connection.config(apsw.SQLITE_DBCONFIG_NO_CKPT_ON_CLOSE, 1)
    connection.close()


def open_reader(path: Path) -> apsw.Connection:
    """A connection for questions. It never changes the store and must keep its transactions short."""
    if not _exists(path):
        raise StoreMissing(f"there is no store at {path}; run the job first, or check --store")
    _check_header(path)
    RunLocks(path).check_for_reader()
    with plain_errors(path):
        connection = _connect(path, apsw.SQLITE_OPEN_READWRITE)
        with _closed_if_refused(connection):
            connection.execute("PRAGMA query_only = 1")
            _check_version(connection, path)
    return connection


@contextlib.contextmanager
def _closed_if_refused(connection: apsw.Connection) -> Iterator[None]:
    """Closes it after a refusal, without folding in a log that is not ours: what is refused stays as it is."""
    try:
        yield
    except BaseException:
        close_untouched(connection)
        raise


def _exists(path: Path) -> bool:
    return path.exists() and (path.stat().st_size > 0 or path.with_name(path.name + "-wal").exists())


def identity_of(path: Path | None) -> tuple[int, int] | None:
    """Which file stands under the name; None if there is none."""
    try:
        found = path.stat() if path else None
    except FileNotFoundError:
        return None
    return (found.st_dev, found.st_ino) if found else None


def _prepare(path: Path, new: bool) -> None:
    if path.is_dir():
        raise StoreError(f"{path} is a folder; a store is a file")
    kind = file_system_of(path.parent if path.parent.exists() else Path.cwd())
    if kind and _NETWORK.match(kind):
        raise StoreError(
            f"{path} lies on a network file system ({kind}), where SQLite's locks are not safe; "
            "give --store a path on a local disk, or a PostgreSQL address"
        )
    if space_left(path) < LEAST_ROOM:
        raise StoreWriteError(_no_space(str(path)))
    if not new:
        if not _is_unborn(path):
            _check_header(path)
        return
    above = [folder.parent for folder in path.parents if not folder.exists()]
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        with contextlib.suppress(FileExistsError):
            os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL, 0o600))
        for folder in {path.parent, path.parent.parent, *above}:
            _flush_folder(folder)
    except OSError as error:
        raise StoreError(
            f"cannot create the store {path}: {error.strerror}; choose another place with --store"
        ) from error


def _is_unborn(path: Path) -> bool:
    """Whether a power cut interrupted the making of the file: its journal says that it was empty before, and SQLite
    will empty it again."""
    try:
        head = path.with_name(path.name + "-journal").read_bytes()[:20]
    except OSError:
        return False
    return head.startswith(_JOURNAL) and len(head) == 20 and head[16:] == bytes(4)


def _flush_folder(folder: Path) -> None:
    """Make new names in a folder outlast a power cut; the store's own flushes do not reach the folders above it."""
    if sys.platform == "win32":
        return
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _check_header(path: Path) -> None:
    """Refuse a foreign or newer file before SQLite opens it, so that it stays untouched."""
    head = _head(path)
    if not head:
        return
    if len(head) < 100 or not head.startswith(_HEADER):
        raise StoreError(f"{path} is not an onward store (not a SQLite file); it was left as it is")
    application, version = int.from_bytes(head[68:72], "big"), int.from_bytes(head[60:64], "big")
    if application not in (0, APPLICATION_ID):
        raise StoreError(f"{path} belongs to another program; it was left as it is")
    if version > newest():
        raise _too_new(path, version)
    if application == 0 and _is_foreign(path):
        raise StoreError(f"{path} holds another program's tables; it was left as it is")


def _head(path: Path) -> bytes:
    """The first 100 bytes, read through SQLite: to close a file by other means drops every lock that this process has
    on it, and then another process takes the log away from under a run (sqlite.org/howtocorrupt.html, 2.2)."""
    try:
        file = apsw.VFSFile("", str(path), [apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_MAIN_DB, 0])
        try:
            return file.xRead(min(100, file.xFileSize()), 0)
        finally:
            file.xClose()
    except apsw.Error as error:
        raise StoreError(f"cannot read the store {path}: {error}") from error


def _is_foreign(path: Path) -> bool:
    """Whether an unmarked file has tables. Ours are marked by the commit that makes them, which may lie in the log."""
    beside = any(path.with_name(path.name + suffix).exists() for suffix in ("-wal", "-journal"))
    address = path.absolute().as_uri() + ("" if beside else "?immutable=1")
    with plain_errors(path):
        return patiently(lambda: _has_unmarked_tables(address))


def _has_unmarked_tables(address: str) -> bool:
    with contextlib.closing(apsw.Connection(address, apsw.SQLITE_OPEN_READONLY | apsw.SQLITE_OPEN_URI)) as looking:
        # In this order: another process may be making the store, tables and mark in one commit.
        has_tables = bool(_single(looking, "SELECT count(*) FROM sqlite_schema"))
        return has_tables and _pragma(looking, "application_id") != APPLICATION_ID


def _check_version(connection: apsw.Connection, path: Path | None) -> None:
    version = _pragma(connection, "user_version")
    if version > newest():
        raise _too_new(path, version)
    if version == 0 or _pragma(connection, "application_id") != APPLICATION_ID:
        raise StoreError(f"{path} is not an onward store; it was left as it is")
    if version < newest():
        raise StoreError(f"{path} has the older schema {version}; `onward run` brings it up to date")


def _too_new(path: Path | None, version: int) -> StoreError:
    return StoreError(
        f"{path or 'the store'} was written by a newer onward (schema {version}, this one knows {newest()}); "
        "update onward; the store was left as it is"
    )


def schema_of(connection: apsw.Connection) -> int:
    """The number of the last migration that was applied."""
    return _pragma(connection, "user_version")


def sizes(connection: apsw.Connection) -> tuple[int, int]:
    """Bytes that the store's pages take, and how many of them are in pages that hold nothing."""
    page = _pragma(connection, "page_size")
    return _pragma(connection, "page_count") * page, _pragma(connection, "freelist_count") * page


def newest() -> int:
    return statements.migrations()[-1][0]


def _connect(path: Path | None, flags: int) -> apsw.Connection:
    connection = apsw.Connection(str(path) if path else MEMORY, flags=flags)
    connection.set_busy_timeout(BUSY_MILLISECONDS)
    return connection


def _configure_writer(connection: apsw.Connection, path: Path | None) -> None:
    """Durable commits, read back: a setting that did not take is an error, not a hope."""
    if path is not None and _single(connection, "PRAGMA journal_mode = WAL") != "wal":
        raise StoreError(f"{path}: this file system does not allow SQLite's write-ahead log; use a local disk")
    for name, value in (
        ("synchronous", 2),
        ("fullfsync", 1),
        ("checkpoint_fullfsync", 1),
        ("trusted_schema", 0),
        ("cell_size_check", 1),
        ("foreign_keys", 0),
    ):
        connection.execute(f"PRAGMA {name} = {value}")
        if _pragma(connection, name) != value:
            raise StoreError(f"{path}: SQLite did not accept PRAGMA {name} = {value}")
    connection.execute("PRAGMA cache_size = -16384")
    connection.execute("PRAGMA wal_autocheckpoint = 2000")
    connection.execute("PRAGMA journal_size_limit = 16777216")


def _pragma(connection: apsw.Connection, name: str) -> int:
    return int(_single(connection, f"PRAGMA {name}"))


def _single(connection: apsw.Connection, query: str) -> Any:
    row = connection.execute(query).fetchone()
    return row[0] if row else None


def migrate(connection: apsw.Connection, scripts: list[tuple[int, str]], path: Path | None = None) -> None:
    """Bring the schema up to date, each script in a transaction of its own together with its number."""
    for number, script in scripts:
        if _pragma(connection, "user_version") >= number:
            continue
        with transaction(connection):
            if _pragma(connection, "user_version") >= number:  # another process was faster
                continue
            if number == 1 and _single(connection, "SELECT count(*) FROM sqlite_schema"):
                raise StoreError("the file holds another program's tables; it was left as it is")
            try:
                connection.execute(script)
            except apsw.SQLError as error:
                raise StoreError(ALTERED.format(place=path or "the store", said=error)) from error
            connection.execute(f"PRAGMA application_id = {APPLICATION_ID}")
            connection.execute(f"PRAGMA user_version = {number}")
    version = _pragma(connection, "user_version")
    if version > scripts[-1][0]:
        raise _too_new(path, version)


@contextlib.contextmanager
def transaction(connection: apsw.Connection) -> Iterator[None]:
    """One immediate transaction: durable when the block ends without an exception, undone otherwise."""
    connection.execute("BEGIN IMMEDIATE")
    try:
        yield
        connection.execute("COMMIT")
    except BaseException:
        if connection.in_transaction:  # SQLite has rolled back by itself after some failures
            connection.execute("ROLLBACK")
        raise


@contextlib.contextmanager
def plain_errors(path: Path | None) -> Iterator[None]:
    try:
        yield
    except apsw.Error as error:
        raise explain(error, path, StoreError) from error


def explain(error: apsw.Error, path: Path | None, kind: Callable[[str], OnwardError] = StoreWriteError) -> OnwardError:
    """An apsw error in words for people; no driver's name for a fault reaches them bare."""
    place = str(path) if path else "the store"
    if isinstance(error, apsw.FullError):
        return kind(_no_space(place))
    if isinstance(error, apsw.CorruptError | apsw.NotADBError):
        return StoreError(f"{place} is damaged ({error}); it was left as it is: restore a copy made by SQLite's backup")
    if isinstance(error, apsw.BusyError | apsw.LockedError):
        return kind(
            f"{place} has been locked by another program for {BUSY_SECONDS:.0f} seconds; close it and run again"
        )
    if isinstance(error, apsw.ReadOnlyError):
        return kind(f"{place} cannot be written (read-only file or folder)")
    if isinstance(error, apsw.CantOpenError | apsw.PermissionsError | apsw.AuthError):
        return kind(
            f"cannot open {place} or make the files beside it: check that its folder exists and can be written, "
            "and lies on a local disk"
        )
    if isinstance(error, apsw.IOError) and getattr(error, "extendedresult", 0) in _SHARING:
        return kind(
            f"{place}: this file system does not offer the locks and the shared memory that SQLite needs ({error}); "
            "give --store a path on a local disk"
        )
    if isinstance(error, apsw.IOError):
        if path is not None and space_left(path) < 1 << 20:
            return kind(_no_space(place))
        return kind(f"the disk failed under {place} ({error}); nothing committed is lost, check the disk and run again")
    return kind(f"{place}: {error}")


def _no_space(place: str) -> str:
    return f"no space left for {place}; free some and run the same command again, nothing committed is lost"


def space_left(path: Path) -> int:
    """Bytes that are free where a file lies; very many where that cannot be told."""
    try:
        status = os.statvfs(path.parent)
    except (OSError, AttributeError):
        return 1 << 60
    if status.f_blocks == 0:  # a file system that does not count
        return 1 << 60
    return status.f_bavail * status.f_frsize


def file_system_of(folder: Path) -> str | None:
    """The type of the file system that holds `folder`, where the system tells (Linux, macOS)."""
    try:
        if sys.platform == "darwin":
            return _macos_file_system(folder)
        return parse_mountinfo(Path("/proc/self/mountinfo").read_text("utf-8", "replace"), folder.resolve())
    except OSError:
        return None


def parse_mountinfo(text: str, folder: Path) -> str | None:
    """The type of the last and longest mount above `folder` (proc_pid_mountinfo(5))."""
    best, kind = -1, None
    for line in text.splitlines():
        before, _, after = line.partition(" - ")
        fields = before.split()
        if len(fields) < 5 or not after:
            continue
        point = Path(fields[4].encode("latin-1", "replace").decode("unicode_escape", "replace"))
        if (point == folder or point in folder.parents) and len(point.parts) >= best:
            best, kind = len(point.parts), after.split()[0]
    return kind


def _macos_file_system(folder: Path) -> str | None:
    import subprocess

    lines = subprocess.run(["/sbin/mount"], capture_output=True, text=True, check=False).stdout.splitlines()
    best, kind = -1, None
    for line in lines:
        match = re.match(r"^.* on (.*) \((\w+)", line)
        above = match and (Path(match[1]) == folder.resolve() or Path(match[1]) in folder.resolve().parents)
        if match and above and len(match[1]) > best:
            best, kind = len(match[1]), match[2]
    return kind
