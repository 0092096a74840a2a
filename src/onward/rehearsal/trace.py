"""What the runs of one scenario leave behind: a line of JSON for everything that happened, in the order it did.

A line is in the file before what it tells of goes on, so that it outlives the process that is killed next.
"""

from __future__ import annotations

import json
import os
import threading
from pathlib import Path
from typing import Any

LONGEST_TEXT = 1 << 16
Event = dict[str, Any]


class Trace:
    """The end of the file, for one process; any thread may write."""

    def __init__(self, path: Path):
        self._file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
        self._one_at_a_time = threading.Lock()

    def note(self, what: str, **fields: Any) -> None:
        line = json.dumps({"what": what, **fields}).encode() + b"\n"
        with self._one_at_a_time:
            while line:
                line = line[os.write(self._file, line) :]


def kept(text: str) -> str | None:
    """Text that may be compared part by part; a long one only as a whole."""
    return text if len(text) <= LONGEST_TEXT else None


def read(path: Path) -> list[Event]:
    """All events so far; a line that was cut off by a death is none."""
    if not path.exists():
        return []
    lines = path.read_bytes().split(b"\n")[:-1]
    return [json.loads(line) for line in lines]
