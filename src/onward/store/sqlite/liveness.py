"""Whether a run's process still lives, told by a lock that the system drops with the process, never by a pid.

One lock file beside the store; every run holds the byte at its own number for as long as its process lives. Locks do
not exclude each other within one process, so it opens the file once and remembers which bytes are its own. Where the
system has locks that belong to the open file (Linux), a forked child closes it, and holds nothing; elsewhere they
belong to the process, and a step that opens and closes the lock file itself drops them.
"""

from __future__ import annotations

import errno
import os
import struct
import sys
import threading
from collections.abc import Callable
from pathlib import Path

from onward.errors import StoreError

_HELD = (errno.EACCES, errno.EAGAIN)  # by another process; anything else means that there are no locks here
_TRIAL = 0  # a byte that no run has
_guard = threading.Lock()
_files: dict[str, int] = {}
_held: dict[str, set[int]] = {}


def _lock_byte(descriptor: int, byte: int) -> bool:
    try:
        if sys.platform == "win32":
            import msvcrt

            os.lseek(descriptor, byte, os.SEEK_SET)
            msvcrt.locking(descriptor, msvcrt.LK_NBLCK, 1)
        else:
            import fcntl

            if sys.platform == "linux":
                fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, _flock(fcntl.F_WRLCK, byte))
            else:
                fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, byte, os.SEEK_SET)
    except OSError as error:
        if error.errno in _HELD:
            return False
        raise
    return True


def _unlock_byte(descriptor: int, byte: int) -> None:
    if sys.platform == "win32":
        import msvcrt

        os.lseek(descriptor, byte, os.SEEK_SET)
        msvcrt.locking(descriptor, msvcrt.LK_UNLCK, 1)
    else:
        import fcntl

        if sys.platform == "linux":
            fcntl.fcntl(descriptor, fcntl.F_OFD_SETLK, _flock(fcntl.F_UNLCK, byte))
        else:
            fcntl.lockf(descriptor, fcntl.LOCK_UN, 1, byte, os.SEEK_SET)


def _try_as_sqlite_locks(descriptor: int) -> bool:
    """Whether the trial byte can be locked in the way that SQLite locks, for a process. Where the system refuses that,
    SQLite says that somebody else has the lock."""
    if sys.platform == "linux":  # elsewhere our own locks are of that kind
        import fcntl

        try:
            fcntl.lockf(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, _TRIAL, os.SEEK_SET)
            fcntl.lockf(descriptor, fcntl.LOCK_UN, 1, _TRIAL, os.SEEK_SET)
        except OSError as error:
            if error.errno not in _HELD:
                raise
            return False
    return True


def _flock(kind: int, byte: int) -> bytes:
    """The system's `struct flock` for one byte."""
    return struct.pack("hhqqi", kind, os.SEEK_SET, byte, 1, 0)


class RunLocks:
    """The run locks of one store. `path` is the store's file; None (in memory) knows only this process."""

    def __init__(self, path: Path | None):
        place = path.resolve() if path else None  # one file under two names has one set of locks
        self._name = str(place) if place else f"memory:{id(self)}"
        self._file = place.with_name(place.name + "-runs") if place else None

    def check(self) -> None:
        """Raise StoreError where the file system has no locks, or the lock file cannot be made."""
        with _guard:
            if self._file is not None and self._lock(_TRIAL):
                _unlock_byte(self._descriptor(), _TRIAL)
            if self._file is not None:
                self._try(_try_as_sqlite_locks, self._descriptor())

    def check_for_reader(self) -> None:
        """Like `check`, where the lock file is there and may be written: who only looks makes none."""
        if self._file is not None and os.access(self._file, os.W_OK):
            self.check()

    def hold(self, run: int) -> None:
        """Lock `run`'s byte for as long as this process lives, or until `drop`."""
        with _guard:
            if self._file is not None and not self._lock(run):
                raise RuntimeError(f"the lock of run {run} is held by another process")
            _held.setdefault(self._name, set()).add(run)

    def drop(self, run: int) -> None:
        with _guard:
            held = _held.get(self._name, set())
            if run in held:
                held.discard(run)
                if self._file is not None:
                    _unlock_byte(self._descriptor(), run)

    def is_held(self, run: int) -> bool:
        """Whether a living process holds `run`'s lock."""
        with _guard:
            if run in _held.get(self._name, set()):
                return True
            if self._file is None:
                return False
            if not self._lock(run):
                return True
            _unlock_byte(self._descriptor(), run)
            return False

    def look(self) -> None:
        """Where the lock file was removed, lock what is held in the one that others see."""
        with _guard:
            if self._file is None or self._name not in _files or self._is_there(_files[self._name]):
                return
            os.close(_files.pop(self._name))
            for run in _held.get(self._name, set()):
                self._lock(run)

    def _is_there(self, descriptor: int) -> bool:
        assert self._file is not None
        try:
            return os.path.samestat(os.fstat(descriptor), self._file.stat())
        except FileNotFoundError:
            return False

    def _lock(self, byte: int) -> bool:
        return self._try(_lock_byte, self._descriptor(), byte)

    def _try(self, lock: Callable[..., bool], *arguments: int) -> bool:
        try:
            return lock(*arguments)
        except OSError as error:
            raise StoreError(
                f"{self._file} cannot be locked ({error.strerror}): this file system gives no locks; "
                "give --store a path on a local disk, or a PostgreSQL address"
            ) from error

    def _descriptor(self) -> int:
        if self._name not in _files:
            assert self._file is not None
            try:
                _files[self._name] = os.open(self._file, os.O_RDWR | os.O_CREAT, 0o600)
            except OSError as error:
                raise StoreError(f"cannot open {self._file}, which shows what runs live: {error.strerror}") from error
        return _files[self._name]


def _forget_after_fork() -> None:
    """A forked child holds none of its parent's locks."""
    for descriptor in _files.values():
        os.close(descriptor)
    _held.clear()
    _files.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_forget_after_fork)
