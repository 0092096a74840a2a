"""A file that appears under its name whole and durable, or not at all.

It grows as `.NAME.<random>.part` in the same folder, locked while its writer lives, and takes its name by a rename.
What a killed writer left behind is known by that pattern and by its free lock; the next export to the same name
removes it.
"""

from __future__ import annotations

import contextlib
import errno
import os
import re
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from onward.errors import ExportError
from onward.sinks.output import BUFFER, FileOutput, Output, reason

if sys.platform != "win32":
    import fcntl

_OPEN = os.O_RDWR | getattr(os, "O_CLOEXEC", 0) | getattr(os, "O_NOFOLLOW", 0) | getattr(os, "O_BINARY", 0)
_LONGEST_STEM = 200
_NO_FOLDER_SYNC = (errno.EINVAL, errno.ENOTSUP)


@contextmanager
def whole_file(target: Path) -> Iterator[Output]:
    """Yield an output; when the block ends well, its bytes stand durably under `target` (behind a link, if it is one).

    However the block ends otherwise, the target is as it was and nothing is left behind. Raises ExportError.
    """
    try:
        final = _final_place(target)
        sweep(final)
        path, descriptor = _create(final)
    except OSError as error:
        raise _explain(target, error) from error
    file = os.fdopen(descriptor, "wb", buffering=BUFFER)
    try:
        output = FileOutput(file, lambda error: _explain(final, error))
        yield output
        output.flush()
        _publish(descriptor, path, final)
    except BaseException:
        with contextlib.suppress(OSError):
            file.close()
        with contextlib.suppress(OSError):
            path.unlink()
        raise
    with contextlib.suppress(OSError):  # flushed and synced: nothing can be lost by it
        file.close()


def sweep(final: Path) -> list[str]:
    """Remove what killed exports to `final` left behind; what a living one holds stays. Returns the names removed."""
    pattern = re.compile(re.escape(_stem(final)) + r"[0-9a-f]{16}\.part")
    try:
        with os.scandir(final.parent) as entries:
            names = [entry.name for entry in entries if pattern.fullmatch(entry.name)]
    except PermissionError:  # a folder may be writable and yet not readable
        return []
    return [name for name in names if _remove_abandoned(final.parent / name)]


def _final_place(target: Path) -> Path:
    final = Path(os.path.realpath(target))
    if final.is_dir():
        raise ExportError(f"cannot write the export {target}: it is a folder; give the name of a file")
    if not final.parent.exists():
        raise ExportError(f"cannot write the export {target}: the folder {final.parent} does not exist")
    if not final.parent.is_dir():
        raise ExportError(f"cannot write the export {target}: {final.parent} is not a folder")
    return final


def _stem(final: Path) -> str:
    name = final.name
    if len(os.fsencode(name)) > _LONGEST_STEM:  # a name may have 255 bytes, and the pattern adds 23
        name = name[: _LONGEST_STEM // 4]
    return f".{name}."


def _create(final: Path) -> tuple[Path, int]:
    while True:
        path = final.parent / f"{_stem(final)}{os.urandom(8).hex()}.part"
        descriptor = os.open(path, _OPEN | os.O_CREAT | os.O_EXCL, 0o600)
        if _hold(descriptor, path):
            return path, descriptor
        os.close(descriptor)


def _hold(descriptor: int, path: Path) -> bool:
    """Lock a fresh file; False when a sweep got it between its creation and the lock."""
    if sys.platform == "win32":
        return True
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX)
    except OSError:  # a file system without locks: sweeps cannot lock either, and leave everything alone
        return True
    try:
        return os.path.samestat(os.fstat(descriptor), path.lstat())
    except FileNotFoundError:
        return False


def _remove_abandoned(path: Path) -> bool:
    if sys.platform == "win32":  # an open file cannot be removed there, and that tells the living from the dead
        with contextlib.suppress(OSError):
            path.unlink()
            return True
        return False
    try:
        descriptor = os.open(path, _OPEN | os.O_NONBLOCK)
    except OSError:
        return False
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        path.unlink()
    except OSError:
        return False
    finally:
        os.close(descriptor)
    return True


def _publish(descriptor: int, path: Path, final: Path) -> None:
    try:
        _sync(descriptor)
        if sys.platform == "win32":
            os.close(descriptor)  # an open file cannot be renamed there
        path.replace(final)
    except OSError as error:
        raise _explain(final, error) from error
    _sync_folder(final.parent)


def _sync(descriptor: int) -> None:
    if sys.platform == "darwin":  # fsync there stops at the drive's cache
        with contextlib.suppress(OSError):
            fcntl.fcntl(descriptor, fcntl.F_FULLFSYNC)
            return
    os.fsync(descriptor)


def _sync_folder(folder: Path) -> None:
    if sys.platform == "win32":
        return
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            _sync(descriptor)
        finally:
            os.close(descriptor)
    except PermissionError:  # writable and not readable: it cannot be opened, hence not synced
        return
    except OSError as error:
        if error.errno not in _NO_FOLDER_SYNC:
            raise ExportError(f"{folder} could not be flushed to disk ({reason(error)}); export again") from error


def _explain(final: Path, error: OSError) -> ExportError:
    before = "the file that was there is unchanged" if os.path.lexists(final) else "nothing was written"
    return ExportError(f"cannot write the export {final}: {reason(error)}; {before}")
