"""Processes for runs that may die. What takes long, importing onward, is done once: a stem without threads or open
files imports it and is forked for each run, which then loads the job by itself."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import sys
from dataclasses import asdict
from pathlib import Path

from onward.rehearsal.assignment import Assignment

SIDE_BY_SIDE = max(2, min(2 * (os.cpu_count() or 1), 6))
MOST_FORKS = 8
_PROGRAM = "import sys, json; sys.path[:] = json.loads(sys.argv[1]); from onward.rehearsal.child import main; main()"


class Processes:
    """At most `SIDE_BY_SIDE` at a time. Stems are replaced now and then, so that the order of sets, which a fork takes
    over, differs from run to run."""

    def __init__(self) -> None:
        self._room = asyncio.Semaphore(SIDE_BY_SIDE)
        self._idle: list[_Stem] = []
        self._all: set[_Stem] = set()

    async def run(self, assignment: Assignment, said: Path, within: float) -> int | None:
        """The exit code, negative for a signal, of a process that runs it; None where it had to be killed since it did
        not end within so many seconds. What it says is appended to `said`."""
        async with self._room:
            stem = self._idle.pop() if self._idle else await self._new()
            try:
                async with asyncio.timeout(within):
                    code = await stem.run(assignment, said)
            except TimeoutError:
                await self._end(stem)
                return None
            if stem.forks < MOST_FORKS and not stem.has_ended:
                self._idle.append(stem)
            else:
                await self._end(stem)
            return code

    async def _new(self) -> _Stem:
        stem = await _Stem.start()
        self._all.add(stem)
        return stem

    async def _end(self, stem: _Stem) -> None:
        self._all.discard(stem)
        await stem.end()

    async def close(self) -> None:
        """End all; what they have forked ends with them."""
        while self._all:
            await self._all.pop().end()


class _Stem:
    """One process that is forked for each run, one at a time."""

    def __init__(self, process: asyncio.subprocess.Process):
        self._process = process
        self.forks = 0

    @classmethod
    async def start(cls) -> _Stem:
        return cls(
            await asyncio.create_subprocess_exec(
                sys.executable,
                "-P",
                "-c",
                _PROGRAM,
                json.dumps(sys.path),
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                env={**os.environ, "PYTHONHASHSEED": "random"},
                # A group of its own: Ctrl-C is for the parent.
                process_group=None if sys.platform == "win32" else 0,
            )
        )

    async def run(self, assignment: Assignment, said: Path) -> int:
        self.forks += 1
        assert self._process.stdin is not None and self._process.stdout is not None
        with contextlib.suppress(ConnectionError):  # it has died, as its exit code tells
            self._process.stdin.write(json.dumps([asdict(assignment), str(said)]).encode() + b"\n")
            await self._process.stdin.drain()
        told = await self._process.stdout.readline()
        return int(told) if told else await self._process.wait()

    @property
    def has_ended(self) -> bool:
        return self._process.returncode is not None

    async def end(self) -> None:
        """Kill it, and what it has forked, which is in its group."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        with contextlib.suppress(ProcessLookupError, PermissionError):
            if hasattr(os, "killpg"):
                os.killpg(self._process.pid, signal.SIGKILL)
            else:
                self._process.kill()
        await self._process.wait()
