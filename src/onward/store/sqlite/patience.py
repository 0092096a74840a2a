"""Waiting for locks that another program holds on the store."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import apsw

T = TypeVar("T")

BUSY_SECONDS = 60.0
LONG_WAIT = 2.0


class Patience:
    """SQLite asks it while another program holds a lock: whether to try once more."""

    def __init__(self, path: Path | None, waits: Callable[[str], None]):
        self._path, self._waits = path, waits
        self._since = 0.0
        self._told = False

    def __call__(self, tries: int) -> bool:
        now = time.monotonic()
        if tries == 0:
            self._since, self._told = now, False
        if now - self._since >= BUSY_SECONDS:
            return False
        if now - self._since >= LONG_WAIT and not self._told:
            self._told = True
            self._waits(
                f"waiting for another program that holds the store {self._path}, for {BUSY_SECONDS:.0f} seconds at most"
            )
        time.sleep(min(0.001 * (tries + 1), 0.05))
        return True


def patiently(act: Callable[[], T]) -> T:
    """Waits for locks where SQLite does not: while another process begins a log or recovers one."""
    until = time.monotonic() + BUSY_SECONDS
    while True:
        try:
            return act()
        except apsw.BusyError:
            if time.monotonic() >= until:
                raise
            time.sleep(0.02)
