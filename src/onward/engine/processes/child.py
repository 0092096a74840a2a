"""The program of a child process: loads the job, makes the calls that its parent sends, ends when its pipe closes.

It never opens the store. What steps print goes to the error output, so that it cannot disturb the pipe.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import queue
import signal
import sys
import threading
import traceback
from pathlib import Path
from typing import Any, BinaryIO

from onward.engine.attempt import Attempt
from onward.engine.calls import LocalCaller
from onward.engine.loops import run_to_end, spawn
from onward.engine.outcomes import cancelled_itself
from onward.engine.processes import messages
from onward.engine.resources import Resources
from onward.engine.signals import outlive_signals
from onward.engine.spending.desk import CallDesk
from onward.engine.spending.purse import Purse
from onward.errors import OnwardError, UsageError
from onward.job.loading import load_reference
from onward.job.plan import JobReference, Plan
from onward.model import Claimed, StoredOutput
from onward.ports.models import close_all

_SIGNAL_AT_PARENTS_DEATH = 1  # PR_SET_PDEATHSIG, prctl(2)


def main() -> None:
    """Serve the parent at the other end of the standard streams."""
    _die_with_parent()
    outlive_signals()  # a service manager sends them to all processes; the parent decides
    inbox, outbox = _private_streams()
    marks = int(sys.argv[2]) if sys.argv[2] else None
    if marks is not None:
        os.set_inheritable(marks, False)
    try:
        run_to_end(asyncio.Runner(), _serve(inbox, Outbox(outbox), marks))
    except BaseException:
        traceback.print_exc()
        os._exit(1)
    os._exit(0)  # threads of abandoned calls must not keep the child alive


def _die_with_parent() -> None:
    """On Linux the system ends this process when the thread is gone that started it, which is the one that its parent's
    event loop runs in: a step that holds the interpreter's lock keeps us from seeing that the pipe has closed. Until
    this is said no call is made."""
    if sys.platform == "linux":
        import ctypes

        with contextlib.suppress(OSError, AttributeError):  # a system that cannot: the pipe has to do
            ctypes.CDLL(None).prctl(_SIGNAL_AT_PARENTS_DEATH, signal.SIGKILL, 0, 0, 0)


def _private_streams() -> tuple[BinaryIO, BinaryIO]:
    inbox = os.fdopen(os.dup(0), "rb")
    outbox = os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(2, 1)
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr] # nothing is flushed when it is killed
    return inbox, outbox


class Outbox:
    """What goes to the parent: answers through a thread, what must be there before a call begins at once."""

    def __init__(self, stream: BinaryIO):
        self._stream = stream
        self._one_at_a_time = threading.Lock()
        self._answers: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
        threading.Thread(target=self._send, daemon=True).start()

    def put(self, message: dict[str, Any]) -> None:
        self._answers.put(message)

    def say_now(self, message: dict[str, Any]) -> None:
        """Return once it is in the pipe, where the death of this process no longer keeps it from the parent."""
        try:
            with self._one_at_a_time:
                messages.send(self._stream, message)
        except OSError:  # the parent is gone
            os._exit(0)

    def _send(self) -> None:
        while True:
            self.say_now(self._answers.get())


async def _serve(inbox: BinaryIO, outbox: Outbox, marks: int | None) -> None:
    first = messages.receive(inbox)
    if first is None:
        return
    calls = _Calls(inbox, outbox, marks)
    try:
        caller = await _open(first, calls.purse)
    except OnwardError as error:
        outbox.say_now({"broken": str(error)})
        return
    await calls.serve(caller)
    await caller.resources.close()
    await close_all()


async def _open(first: dict[str, Any], purse: Purse) -> _ChildCaller:
    file = Path(first["file"]) if first["file"] else None
    reference = JobReference(file, first["module"], first["name"], first["recipe"])
    job = load_reference(reference)
    params = job.bind_json(first["params"]).params
    plan = job.plan(params)
    if {step.name: step.version for step in plan.steps} != first["versions"]:
        raise UsageError("the job's code changed while the run was going on; start the run again")
    resources = Resources(plan, params)
    await resources.open()
    return _ChildCaller(plan, resources, first["run"], first["instance"], purse)


class _ChildCaller(LocalCaller):
    """Calls in this child; the record's value travels with the call."""

    def __init__(self, plan: Plan, resources: Resources, run: int, instance: str, purse: Purse):
        super().__init__(
            plan,
            resources,
            run,
            instance,
            lambda attempt: attempt.claimed.value or "null",
            lambda _: False,
            lambda attempt: CallDesk(purse.of(self._numbers[attempt.claimed.id]), attempt),
        )
        self.plan = plan
        self.resources = resources
        self._numbers: dict[int, int] = {}  # of the calls in progress, by record

    def attempt(self, message: dict[str, Any]) -> Attempt:
        outputs = {name: StoredOutput(version, output) for name, (version, output) in message["outputs"].items()}
        claimed = Claimed(
            message["record"],
            0,
            0,
            message["key"],
            0,
            message["value"],
            message["step"],
            message["attempts"],
            0,
            0,
            0,
            outputs,
        )
        attempt = Attempt(self.plan, claimed, True)
        self._numbers[claimed.id] = message["call"]
        attempt.phase = message["phase"]
        attempt.entry = messages.entry_from_message(message["entry"])
        return attempt


class _Calls:
    """The calls in progress in this child. From its making on the pipe is listened to, whatever the loop does."""

    _caller: _ChildCaller

    def __init__(self, inbox: BinaryIO, outbox: Outbox, marks: int | None):
        self._inbox = inbox
        self._marks = marks
        self._outbox = outbox
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._loop = asyncio.get_running_loop()
        self.purse = Purse(outbox.put)
        self._over = asyncio.Event()
        threading.Thread(target=self._listen, daemon=True).start()

    async def serve(self, caller: _ChildCaller) -> None:
        """Make calls until the parent says that no more will come."""
        self._caller = caller
        self._outbox.put({"ready": True})
        await self._over.wait()

    def _listen(self) -> None:
        try:
            while (message := messages.receive(self._inbox)) is not None:
                if "end" in message:
                    self._loop.call_soon_threadsafe(self._over.set)
                else:
                    self._loop.call_soon_threadsafe(self._handle, message)
        except BaseException:  # a message that is too big for the memory that is left
            traceback.print_exc()
            os._exit(1)
        os._exit(0)  # the pipe has closed: whatever is still being computed is of no use to anybody

    def _handle(self, message: dict[str, Any]) -> None:
        if "asked" in message:
            self.purse.told(message)
            return
        if "cut" in message:
            task = self._tasks.pop(message["cut"], None)
            if task is not None:
                task.cancel()
            return
        task = spawn(self._call(message))
        self._tasks[message["call"]] = task
        task.add_done_callback(lambda _: self._tasks.pop(message["call"], None))

    def _mark(self, number: int) -> None:
        """The call begins: its record may be what ends this process."""
        if self._marks is None:
            self._outbox.say_now({"began": number})
            return
        with contextlib.suppress(BrokenPipeError):  # the parent is gone, as the other pipe will tell
            os.write(self._marks, messages.MARK.pack(number))

    async def _call(self, message: dict[str, Any]) -> None:
        self._mark(message["call"])
        attempt = self._caller.attempt(message)
        try:
            outcome = await self._caller.call(attempt)
        except asyncio.CancelledError:
            if message["call"] not in self._tasks:
                raise  # it was cut, and nobody waits
            outcome = cancelled_itself()
        told = {"spending": messages.spending_to_message(attempt.spending)}
        self._outbox.put({"call": message["call"], **told, **messages.outcome_to_message(outcome)})


if __name__ == "__main__":
    sys.exit("this module is run by onward itself")
