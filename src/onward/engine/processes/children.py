"""Child processes that make calls: for `process=True` steps, and for records suspected of killing their process."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import queue
import select
import signal
import subprocess
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import Any, BinaryIO, cast

from onward.engine.attempt import Attempt
from onward.engine.outcomes import CallOutcome, Died, Raised, TooLate
from onward.engine.processes import messages
from onward.engine.processes.paying import Payer
from onward.engine.spending.desk import Budgets
from onward.errors import UsageError
from onward.model import Kind
from onward.policy.failures import Classified

CLOSE_WITHIN = 10.0
LOOK_EVERY = 0.5
CHUNK = 1 << 16
LOOK_AT_MARKS = 256
PAUSE = 0.5
MOST_LOST = 5
_PROGRAM = (
    "import sys, json; sys.path[:] = json.loads(sys.argv[1]); from onward.engine.processes.child import main; main()"
)


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
    recipe: str | None = None


class Child:
    """One child process. Calls in it run side by side; its death ends them all with `Died`."""

    def __init__(self, assignment: Assignment, round: int = 0, budgets: Budgets | None = None):
        self.dead = False
        self.round = round
        self.ended: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._loop = asyncio.get_running_loop()
        self._calls: dict[int, tuple[Attempt, asyncio.Future[CallOutcome]]] = {}
        self._begun: set[int] = set()
        self._next = 0
        self._how: str | None = None
        self._marks: int | None = None
        self._ready: asyncio.Future[None] = self._loop.create_future()
        self._outbox: queue.SimpleQueue[dict[str, Any] | None] = queue.SimpleQueue()
        self._outbox.put(asdict(assignment))
        self._payer = Payer(budgets, self._attempt_of, self._outbox.put)
        try:
            self._marks, theirs = _pipe_for_marks()
            try:
                self._process = _start(theirs)
            finally:
                _close(theirs)
        except OSError as error:
            _close(self._marks)
            self._has_ended(f"it could not be started: {error.strerror}")
            return
        for work in (self._send, self._listen):
            threading.Thread(target=work, name=f"onward-child-{self._process.pid}", daemon=True).start()

    async def up(self) -> None:
        """Return once the child takes calls, or will take none."""
        with contextlib.suppress(UsageError):
            await asyncio.shield(self._ready)

    async def call(self, attempt: Attempt, value: str) -> CallOutcome:
        """Have the attempt's next step called in the child. Cancelling cuts the call there, too."""
        try:
            await asyncio.shield(self._ready)
        except UsageError as error:
            return Raised(Classified(Kind.FATAL, "UsageError", str(error), not_applied=True))
        if self.dead:
            return Died(self._how or "it was gone before the call", ())
        claimed, step = attempt.claimed, attempt.step
        assert step is not None
        if attempt.is_late:
            return TooLate()
        attempt.called()
        attempt.begun = True
        number, self._next = self._next, self._next + 1
        future: asyncio.Future[CallOutcome] = self._loop.create_future()
        self._calls[number] = (attempt, future)
        self._outbox.put(
            {
                "call": number,
                "record": claimed.id,
                "step": step.name,
                "key": claimed.key,
                "value": value,
                "outputs": {name: [stored.version, stored.output] for name, stored in attempt.outputs.items()},
                "attempts": attempt.attempts,
                "phase": attempt.phase,
                "entry": messages.entry_to_message(attempt.entry),
            }
        )
        try:
            return await future
        except asyncio.CancelledError:
            self._outbox.put({"cut": number})
            raise
        finally:
            self._calls.pop(number, None)
            self._payer.lose(number)

    def _attempt_of(self, number: int) -> Attempt | None:
        return self._calls[number][0] if number in self._calls else None

    def close(self) -> None:
        """Let the child close its resources and end; its pipe stays open until it has."""
        self._outbox.put({"end": True})

    def kill(self) -> None:
        if not self.dead:
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
        for count, message in enumerate(messages.arriving(self._chunks())):
            self._tell(self._heard, message)
            if count % LOOK_AT_MARKS == 0:
                self._look_at_marks()
        how = self._bury()
        self._look_at_marks()
        _close(self._marks)
        self._outbox.put(None)
        self._tell(self._has_ended, how)

    def _chunks(self) -> Iterator[bytes]:
        """What the child writes, until its pipe closes or it is dead: what it left behind may hold the pipe open."""
        pipe = cast(BinaryIO, self._process.stdout).fileno()
        has_more = _watch(pipe, self._is_gone)
        while has_more() and (chunk := os.read(pipe, CHUNK)):
            yield chunk

    def _look_at_marks(self) -> None:
        """Learn which calls have begun. That is needed at the child's death alone, so that no call wakes anybody."""
        if self._marks is not None:
            with contextlib.suppress(BlockingIOError):
                while read := os.read(self._marks, CHUNK):
                    self._begun.update(number for (number,) in messages.MARK.iter_unpack(read))
            self._begun = {number for number in self._begun if number in self._calls}

    def _tell(self, function: Any, *arguments: Any) -> None:
        with contextlib.suppress(RuntimeError):  # the loop has closed: nobody waits
            self._loop.call_soon_threadsafe(function, *arguments)

    def _is_gone(self) -> bool:
        return self._reap(os.WNOHANG)

    def _bury(self) -> str:
        """Wait for the process; how it ended, and the most memory that it held."""
        if sys.platform == "win32":
            return _ended_how(self._process.wait(), None)
        self._reap(0)
        assert self._how is not None
        return self._how

    def _reap(self, options: int) -> bool:
        if self._how is not None:
            return True
        try:
            pid, status, usage = os.wait4(self._process.pid, options)
        except ChildProcessError:  # a step or the program around waits for all children itself
            self._how = "its end was noticed by others"
            return True
        if pid:
            self._process.returncode = os.waitstatus_to_exitcode(status)
            peak = usage.ru_maxrss if sys.platform == "darwin" else usage.ru_maxrss * 1024
            self._how = _ended_how(self._process.returncode, peak)
        return bool(pid)

    def _heard(self, message: dict[str, Any]) -> None:
        if "began" in message:  # where no pipe can be handed on
            self._begun.add(message["began"])
        elif "ready" in message:
            if not self._ready.done():
                self._ready.set_result(None)
        elif "broken" in message:
            if not self._ready.done():
                self._ready.set_exception(UsageError(message["broken"]))
                self._ready.exception()
        elif self._payer.heard(message):
            return
        elif message["call"] in self._calls:
            attempt, future = self._calls[message["call"]]
            attempt.spending.extend(messages.spending_from_message(message["spending"]))
            if not future.done():
                future.set_result(messages.outcome_from_message(message))

    def _has_ended(self, how: str) -> None:
        self.dead, self._how = True, how
        if not self._ready.done():
            self._ready.set_result(None)
        waiting = {number: call for number, call in self._calls.items() if not call[1].done()}
        beside = tuple(attempt.claimed.id for number, (attempt, _) in waiting.items() if number in self._begun)
        for number, (_, future) in waiting.items():
            future.set_result(Died(how, beside if number in self._begun else ()))
        if not self.ended.done():
            self.ended.set_result(None)


def _pipe_for_marks() -> tuple[int | None, int | None]:
    """Into which a child writes the number of each call that begins."""
    if sys.platform == "win32":
        return None, None
    ours, theirs = os.pipe()
    os.set_blocking(ours, False)
    return ours, theirs


def _start(marks: int | None) -> subprocess.Popen[bytes]:
    return subprocess.Popen(
        [sys.executable, "-P", "-c", _PROGRAM, json.dumps(sys.path), str(marks or "")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        pass_fds=() if marks is None else (marks,),
        # A group of its own: Ctrl-C is for the parent, which decides what becomes of calls in progress.
        process_group=None if sys.platform == "win32" else 0,
    )


def _close(descriptor: int | None) -> None:
    if descriptor is not None:
        os.close(descriptor)


def _watch(pipe: int, is_gone: Callable[[], bool]) -> Callable[[], bool]:
    """Waits until there is something to read, be it the end; False where the writer is gone and nothing is left."""
    if sys.platform == "win32":
        return lambda: True
    poll = select.poll()
    poll.register(pipe, select.POLLIN)

    def has_more() -> bool:
        while not poll.poll(LOOK_EVERY * 1000):
            if is_gone():
                return bool(poll.poll(0))
        return True

    return has_more


async def end_all(children: Iterable[Child]) -> None:
    """Let the children close their resources; kill those that take too long."""
    living = [child for child in children if not child.dead]
    for child in living:
        child.close()
    if living:
        await asyncio.wait([child.ended for child in living], timeout=CLOSE_WITHIN)
    for child in living:
        child.kill()


def _ended_how(code: int, peak: int | None) -> str:
    memory = f", peak memory {peak / (1 << 20):,.0f} MiB" if peak else ""
    if code < 0:
        try:
            name = signal.Signals(-code).name
        except ValueError:
            name = "unknown"
        return f"signal {-code} ({name}){memory}"
    return f"exit code {code}{memory}"


class Starts:
    """Makes children. One that dies before any call in it has begun is nobody's fault: the calls are made again in
    another, after a growing pause, and the run stops where that happens again and again."""

    def __init__(self, assignment: Assignment, budgets: Budgets | None = None):
        self._assignment = assignment
        self._budgets = budgets
        self._lost = 0

    async def pause(self) -> None:
        if self._lost:
            await asyncio.sleep(PAUSE * 2 ** (self._lost - 1))

    def make(self) -> Child:
        return Child(self._assignment, self._lost, self._budgets)

    def judge(self, child: Child, outcome: CallOutcome) -> CallOutcome:
        """What comes of a call: another try where its child was lost, or the end of the run."""
        if not isinstance(outcome, Died) or outcome.beside:
            self._lost = 0
            return outcome
        if child.round == self._lost:  # children that were started together are lost together
            self._lost += 1
        if self._lost < MOST_LOST:
            return outcome
        told = f"{MOST_LOST} child processes in a row ended before a call began in them: {outcome.how}"
        return Raised(Classified(Kind.FATAL, "ProcessDied", told, not_applied=True))


class Processes:
    """A pool for `process=True` steps: one call at a time in each process; admission bounds their number."""

    def __init__(self, assignment: Assignment | None, value_of: Any, budgets: Budgets | None = None):
        self._starts = Starts(assignment, budgets) if assignment is not None else None
        self._value_of = value_of
        self._idle: list[Child] = []
        self._all: set[Child] = set()

    async def call(self, attempt: Attempt) -> CallOutcome:
        if self._starts is None:
            return Raised(Classified(Kind.FATAL, "UsageError", "process=True needs a job in a file or module"))
        self._idle = [child for child in self._idle if not child.dead]
        child = self._idle.pop() if self._idle else await self._new(self._starts)
        try:
            outcome = self._starts.judge(child, await child.call(attempt, self._value_of(attempt)))
        except asyncio.CancelledError:
            self._all.discard(child)
            child.kill()  # the only way to cut a call that computes
            raise
        if child.dead:
            self._all.discard(child)
        else:
            self._idle.append(child)
        return outcome

    async def _new(self, starts: Starts) -> Child:
        await starts.pause()
        child = starts.make()
        self._all.add(child)
        return child

    async def close(self) -> None:
        """End the children."""
        await end_all(self._all)
        self._all.clear()
        self._idle.clear()
