"""What steps really did, kept outside the store: each appends a line before its body begins and after it ended.

A line is one `write` of less than 4 KB to a file opened for appending: threads and processes cannot mix it. A kill may
tear it where it crosses a page of memory; each line therefore begins with a line feed of its own, so that what is torn
spoils nothing behind it. What is torn had not begun: the step's body comes after the write.

    {"what":"start","key":KEY,"step":"embed","pid":4711,"time":8123.25}
"""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

LONGEST = 4096


@dataclass(frozen=True, slots=True)
class Entry:
    """One line. `what` is `start` or `end`, `key` the record's key as JSON text, `time` comes from `now`."""

    what: str
    key: str
    step: str
    pid: int
    time: float


def now() -> float:
    """Seconds on the clock of the log: the same for all processes of this boot, and it never jumps."""
    return time.monotonic()


def key_text(key: Any) -> str:
    """A record's key (text, integer, list of them) as the judge compares it: 7 and "7" are two."""
    return json.dumps(key, separators=(",", ":"))


def log_start(path: str | Path, key: Any, step: str, pid: int | None = None, sync: bool = False) -> None:
    """To be called first thing in a step. `sync`: the line is on disk, too, before this returns."""
    _append(path, "start", key, step, pid, sync)


def log_end(path: str | Path, key: Any, step: str, pid: int | None = None, sync: bool = False) -> None:
    """To be called last thing in a step that succeeds."""
    _append(path, "end", key, step, pid, sync)


def _append(path: str | Path, what: str, key: Any, step: str, pid: int | None, sync: bool) -> None:
    entry = {"what": what, "key": key, "step": step, "pid": os.getpid() if pid is None else pid, "time": now()}
    line = b"\n" + json.dumps(entry, separators=(",", ":")).encode() + b"\n"
    if len(line) >= LONGEST:
        raise ValueError(f"a line of {len(line)} bytes could be torn; use shorter keys")
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        if os.write(descriptor, line) != len(line):
            raise OSError(f"{path}: the line was not written in one piece")
        if sync:
            os.fsync(descriptor)
    finally:
        os.close(descriptor)


def read(path: str | Path) -> list[Entry]:
    """All lines in the order written; [] where nothing was ever logged.

    Torn lines, which have no end, are left out. Any other bad line raises ValueError: a log that lies is no oracle.
    """
    try:
        lines = Path(path).read_bytes().split(b"\n")
    except FileNotFoundError:
        return []
    entries = []
    for number, line in enumerate(lines, 1):
        if not line.endswith(b"}"):
            continue
        try:
            entries.append(_entry(line))
        except (ValueError, KeyError, TypeError) as error:
            raise ValueError(f"{path}:{number}: not a line of a step log: {line[:80]!r}") from error
    return entries


def _entry(line: bytes) -> Entry:
    fields = json.loads(line)
    if fields["what"] not in ("start", "end"):
        raise ValueError(fields["what"])
    return Entry(fields["what"], key_text(fields["key"]), fields["step"], int(fields["pid"]), float(fields["time"]))


def busy_share(log: Iterable[Entry], faults: Iterable[tuple[int, float]], window: float = 1.0) -> float:
    """The share of faults (process, time) that struck a busy run: 1.0 is all of them, and so is no fault at all.

    Busy: the process logged something in the `window` seconds before, and steps were still started afterwards.
    """
    entries = list(log)
    last_start = max((entry.time for entry in entries if entry.what == "start"), default=float("-inf"))
    verdicts = [
        last_start > moment and any(entry.pid == pid and 0 <= moment - entry.time <= window for entry in entries)
        for pid, moment in faults
    ]
    return sum(verdicts) / len(verdicts) if verdicts else 1.0
