"""Faults at chosen system calls: a run is held at a gate, strace is attached, and the n-th call from there on fails.

strace counts the calls of each thread apart. So that every call gets its turn, there are three gates: before the store
is opened (`begin`), before the journal's thread begins (`journal`), and before the run is ended in the store (`end`).
"""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from torture import forked
from torture.forked import Victim

GATES = ("begin", "journal", "end")
PERSISTING = ("pwrite64", "fdatasync", "fsync", "ftruncate", "unlink", "rename")
_SET_PTRACER = 0x59616D61  # prctl(2): a sibling may trace this process where Yama restricts it


@dataclass(frozen=True)
class Fault:
    """`what`: strace's words, `signal=KILL` or `error=ENOSPC`. `lasting`: from the `number`-th call on."""

    gate: str
    call: str
    what: str
    number: int
    lasting: bool = False

    def __str__(self) -> str:
        return f"{self.what} at {self.call} {self.number}{'+' if self.lasting else ''} after {self.gate}"


@dataclass(frozen=True)
class Struck:
    """How a run with a fault ended: its exit code (None: it hung), and whether the fault struck at all."""

    code: int | None
    struck: bool


def missing() -> str:
    """Why faults cannot be injected here; empty where they can."""
    if shutil.which("strace") is None:
        return "strace is not installed"
    probe = ["strace", "-qq", "-o", os.devnull, "-e", "inject=getppid:error=EIO", "true"]
    if subprocess.run(probe, capture_output=True, check=False).returncode:
        return "strace may not trace processes here"
    return ""


def run_with(victim: Victim, fault: Fault) -> Struck:
    """Run the victim with the fault, to its end."""
    ready, go = os.pipe(), os.pipe()
    pid = forked.start(victim, lambda: _hold_at(fault.gate, ready[1], go[0]))
    os.close(ready[1])
    os.close(go[0])
    trace = victim.folder / f"trace-{pid}"
    try:
        if not os.read(ready[0], 1):
            raise AssertionError(f"the run never came to the gate {fault.gate}: {victim.said}")
        strace = _attach(pid, fault, trace)
        os.write(go[1], b"!")
        code = forked.finish(pid)
        strace.wait(10)
    finally:
        os.close(ready[0])
        os.close(go[1])
    struck = code == -9 or "(INJECTED)" in trace.read_text(errors="replace")
    trace.unlink()
    return Struck(code, struck)


def _attach(pid: int, fault: Fault, trace: Path) -> subprocess.Popen[bytes]:
    when = f"{fault.number}{'+' if fault.lasting else ''}"
    what = ["-e", f"trace={fault.call}", "-e", f"inject={fault.call}:{fault.what}:when={when}"]
    strace = subprocess.Popen(
        ["strace", "-f", "-qq", "-o", str(trace), "-p", str(pid), *what], stderr=subprocess.DEVNULL
    )
    until = time.monotonic() + 10
    while not _is_traced(pid):
        if strace.poll() is not None or time.monotonic() > until:
            raise AssertionError("strace could not be attached")
        time.sleep(0.001)
    return strace


def _is_traced(pid: int) -> bool:
    for task in Path(f"/proc/{pid}/task").iterdir():
        status = (task / "status").read_text()
        if "TracerPid:\t0\n" in status:
            return False
    return True


def _hold_at(gate: str, ready: int, go: int) -> None:
    """Patch the run, in its own process, so that it waits at the gate until it is told to go on."""
    from onward.engine.journal import Journal
    from onward.store.sqlite.work import SqliteWorkStore

    ctypes.CDLL(None).prctl(_SET_PTRACER, ctypes.c_ulong(2**64 - 1), 0, 0, 0)
    keep_log_small()

    def hold() -> None:
        os.write(ready, b"!")
        os.read(go, 1)

    if gate == "begin":
        hold()
    elif gate == "journal":
        _before(Journal, "start", hold)
    else:
        _before(SqliteWorkStore, "end_run", hold)


def _before(owner: type, name: str, hold: Callable[[], None]) -> None:
    original = getattr(owner, name)

    def held(*arguments: object, **others: object) -> object:
        hold()
        return original(*arguments, **others)

    setattr(owner, name, held)


def keep_log_small(pages: int = 60) -> None:
    """Have the log folded into the store after a few pages, so that a small run sees that, too."""
    from onward.store.sqlite import connection

    original = connection._configure_writer

    def configure(writer: object, path: object) -> None:
        original(writer, path)  # type: ignore[arg-type]
        writer.execute(f"PRAGMA wal_autocheckpoint = {pages}")  # type: ignore[attr-defined]

    connection._configure_writer = configure  # type: ignore[assignment]
