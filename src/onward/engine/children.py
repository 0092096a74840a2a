"""Child processes that make calls: for `process=True` steps, and for records suspected of killing their process."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import queue
import signal
import subprocess
import sys
import threading
from dataclasses import dataclass
from typing import Any, BinaryIO, cast

from onward.engine import messages
from onward.engine.attempt import Attempt
from onward.engine.calls import CallOutcome, Died, Raised
from onward.errors import UsageError
from onward.model import Kind
from onward.policy.failures import Classified

_PROGRAM = "import sys, json; sys.path[:] = json.loads(sys.argv[1]); from onward.engine.child import main; main()"


@dataclass(frozen=True, slots=True)
class Assignment:
    """What a child needs to make the calls of one run: the job's place, its params as JSON text, the run's name."""

    file: str | None
    module: str | None
    name: str
    params: str | None
    run: int
    instance: str
    versions: dict[str, str]


class Child:
    """One child process. Calls in it run side by side; its death ends them all with `Died`."""

    def __init__(self, assignment: Assignment):
        self.dead = False
        self._loop = asyncio.get_running_loop()
        self._calls: dict[int, tuple[Attempt, asyncio.Future[CallOutcome]]] = {}
        self._next = 0
        self._ready: asyncio.Future[None] = self._loop.create_future()
        self._outbox: queue.SimpleQueue[dict[str, Any] | None] = queue.SimpleQueue()
        self._process = subprocess.Popen(
            [sys.executable, "-c", _PROGRAM, json.dumps(sys.path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            # A group of its own: Ctrl-C is for the parent, which decides what becomes of calls in progress.
            process_group=None if sys.platform == "win32" else 0,
        )
        self._outbox.put(
            {
                "file": assignment.file,
                "module": assignment.module,
                "name": assignment.name,
                "params": assignment.params,
                "run": assignment.run,
                "instance": assignment.instance,
                "versions": assignment.versions,
            }
        )
        for work in (self._send, self._listen):
            threading.Thread(target=work, name=f"onward-child-{self._process.pid}", daemon=True).start()

    async def call(self, attempt: Attempt, value: str) -> CallOutcome:
        """Have the attempt's next step called in the child. Cancelling cuts the call there, too."""
        try:
            await asyncio.shield(self._ready)
        except UsageError as error:
            return Raised(Classified(Kind.FATAL, "UsageError", str(error)))
        if self.dead:
            return Died("it was gone before the call", ())
        claimed, step = attempt.claimed, attempt.step
        assert step is not None
        attempt.called()
        number, self._next = self._next, self._next + 1
        future: asyncio.Future[CallOutcome] = self._loop.create_future()
        self._calls[number] = (attempt, future)
        self._outbox.put(
            {
                "call": number,
                "step": step.name,
                "key": claimed.key,
                "value": value,
                "outputs": {name: [stored.version, stored.output] for name, stored in attempt.outputs.items()},
                "attempts": attempt.attempts,
            }
        )
        try:
            return await future
        except asyncio.CancelledError:
            self._outbox.put({"cut": number})
            raise
        finally:
            self._calls.pop(number, None)

    def close(self) -> None:
        """Let the child close its resources and end."""
        self._outbox.put({"end": True})
        self._outbox.put(None)

    def kill(self) -> None:
        with contextlib.suppress(OSError):
            self._process.kill()
        self._outbox.put(None)

    def _send(self) -> None:
        stream = cast(BinaryIO, self._process.stdin)
        with contextlib.suppress(OSError):
            while (message := self._outbox.get()) is not None:
                messages.send(stream, message)
        with contextlib.suppress(OSError):
            stream.close()

    def _listen(self) -> None:
        stream = cast(BinaryIO, self._process.stdout)
        while (message := messages.receive(stream)) is not None:
            self._tell(self._heard, message)
        how = self._bury()
        self._outbox.put(None)
        self._tell(self._ended, how)

    def _tell(self, function: Any, *arguments: Any) -> None:
        with contextlib.suppress(RuntimeError):  # the loop has closed: nobody waits
            self._loop.call_soon_threadsafe(function, *arguments)

    def _bury(self) -> str:
        """Wait for the process; how it ended, and the most memory that it held."""
        if sys.platform == "win32":
            return _ended_how(self._process.wait(), None)
        _, status, usage = os.wait4(self._process.pid, 0)
        self._process.returncode = os.waitstatus_to_exitcode(status)
        peak = usage.ru_maxrss if sys.platform == "darwin" else usage.ru_maxrss * 1024
        return _ended_how(self._process.returncode, peak)

    def _heard(self, message: dict[str, Any]) -> None:
        if "ready" in message:
            if not self._ready.done():
                self._ready.set_result(None)
        elif "broken" in message:
            if not self._ready.done():
                self._ready.set_exception(UsageError(message["broken"]))
        elif message["call"] in self._calls:
            _, future = self._calls[message["call"]]
            if not future.done():
                future.set_result(messages.outcome_from_message(message))

    def _ended(self, how: str) -> None:
        self.dead = True
        if not self._ready.done():
            self._ready.set_exception(UsageError(f"the child process ended while it loaded the job: {how}"))
            self._ready.exception()
        beside = tuple(attempt.claimed.id for attempt, future in self._calls.values() if not future.done())
        for _, future in self._calls.values():
            if not future.done():
                future.set_result(Died(how, beside))


def _ended_how(code: int, peak: int | None) -> str:
    memory = f", peak memory {peak / (1 << 20):,.0f} MiB" if peak else ""
    if code < 0:
        try:
            name = signal.Signals(-code).name
        except ValueError:
            name = "unknown"
        return f"signal {-code} ({name}){memory}"
    return f"exit code {code}{memory}"


class Processes:
    """A pool for `process=True` steps: one call at a time in each process; admission bounds their number."""

    def __init__(self, assignment: Assignment | None, value_of: Any):
        self._assignment = assignment
        self._value_of = value_of
        self._idle: list[Child] = []
        self._all: set[Child] = set()

    async def call(self, attempt: Attempt) -> CallOutcome:
        if self._assignment is None:
            return Raised(Classified(Kind.FATAL, "UsageError", "process=True needs a job in a file or module"))
        self._idle = [child for child in self._idle if not child.dead]
        child = self._idle.pop() if self._idle else self._new(self._assignment)
        try:
            outcome = await child.call(attempt, self._value_of(attempt))
        except asyncio.CancelledError:
            self._all.discard(child)
            child.kill()  # the only way to cut a call that computes
            raise
        if child.dead:
            self._all.discard(child)
        else:
            self._idle.append(child)
        return outcome

    def _new(self, assignment: Assignment) -> Child:
        child = Child(assignment)
        self._all.add(child)
        return child

    def close(self) -> None:
        for child in self._all:
            child.close()
        self._all.clear()
        self._idle.clear()
