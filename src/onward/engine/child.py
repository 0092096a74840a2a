"""The program of a child process: loads the job, makes the calls that its parent sends, ends when its pipe closes.

It never opens the store. What steps print goes to the error output, so that it cannot disturb the pipe.
"""

from __future__ import annotations

import asyncio
import os
import queue
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any, BinaryIO

from onward.engine import messages
from onward.engine.attempt import Attempt
from onward.engine.calls import LocalCaller, cancelled_itself
from onward.engine.resources import Resources
from onward.errors import OnwardError, UsageError
from onward.job.loading import load_reference
from onward.job.plan import JobReference, Plan
from onward.model import Claimed, StoredOutput

CLOSE_WITHIN = 10.0


def main() -> None:
    """Serve the parent at the other end of the standard streams."""
    for number in (signal.SIGINT, signal.SIGTERM):  # a service manager sends them to all processes; the parent decides
        signal.signal(number, signal.SIG_IGN)
    inbox, outbox = _private_streams()
    asyncio.run(_serve(inbox, outbox))
    os._exit(0)  # threads of abandoned calls must not keep the child alive


def _private_streams() -> tuple[BinaryIO, BinaryIO]:
    inbox = os.fdopen(os.dup(0), "rb")
    outbox = os.fdopen(os.dup(1), "wb")
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.dup2(2, 1)
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr] # nothing is flushed when it is killed
    return inbox, outbox


async def _serve(inbox: BinaryIO, outbox: BinaryIO) -> None:
    first = messages.receive(inbox)
    if first is None:
        return
    answers: queue.SimpleQueue[dict[str, Any]] = queue.SimpleQueue()
    threading.Thread(target=_answer, args=(outbox, answers), daemon=True).start()
    try:
        caller = await _open(first)
    except OnwardError as error:
        messages.send(outbox, {"broken": str(error)})
        return
    answers.put({"ready": True})
    await _Calls(caller, inbox, answers).serve()
    await caller.resources.close()


def _answer(outbox: BinaryIO, answers: queue.SimpleQueue[dict[str, Any]]) -> None:
    while True:
        try:
            messages.send(outbox, answers.get())
        except OSError:  # the parent is gone
            os._exit(0)


async def _open(first: dict[str, Any]) -> _ChildCaller:
    reference = JobReference(Path(first["file"]) if first["file"] else None, first["module"], first["name"])
    job = load_reference(reference)
    params = job.bind_json(first["params"]).params
    plan = job.plan(params)
    if {step.name: step.version for step in plan.steps} != first["versions"]:
        raise UsageError("the job's code changed while the run was going on; start the run again")
    resources = Resources(plan, params)
    await resources.open()
    return _ChildCaller(plan, resources, first["run"], first["instance"])


class _ChildCaller(LocalCaller):
    """Calls in this child; the record's value travels with the call."""

    def __init__(self, plan: Plan, resources: Resources, run: int, instance: str):
        super().__init__(
            plan, resources, run, instance, lambda attempt: attempt.claimed.value or "null", lambda _: False
        )
        self.plan = plan
        self.resources = resources

    def attempt(self, message: dict[str, Any]) -> Attempt:
        outputs = {name: StoredOutput(version, output) for name, (version, output) in message["outputs"].items()}
        claimed = Claimed(
            message["call"],
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
        return Attempt(self.plan, claimed, True)


class _Calls:
    """The calls in progress in this child."""

    def __init__(self, caller: _ChildCaller, inbox: BinaryIO, answers: queue.SimpleQueue[dict[str, Any]]):
        self._caller = caller
        self._inbox = inbox
        self._answers = answers
        self._tasks: dict[int, asyncio.Task[None]] = {}
        self._loop = asyncio.get_running_loop()
        self._over = asyncio.Event()

    async def serve(self) -> None:
        """Make calls until the parent says that no more will come."""
        threading.Thread(target=self._listen, daemon=True).start()
        await self._over.wait()

    def _listen(self) -> None:
        while (message := messages.receive(self._inbox)) is not None:
            if "end" in message:
                self._loop.call_soon_threadsafe(self._over.set)
                time.sleep(CLOSE_WITHIN)
                break
            self._loop.call_soon_threadsafe(self._handle, message)
        os._exit(0)  # the pipe has closed: whatever is still being computed is of no use to anybody

    def _handle(self, message: dict[str, Any]) -> None:
        if "cut" in message:
            task = self._tasks.pop(message["cut"], None)
            if task is not None:
                task.cancel()
            return
        task = self._loop.create_task(self._call(message))
        self._tasks[message["call"]] = task
        task.add_done_callback(lambda _: self._tasks.pop(message["call"], None))

    async def _call(self, message: dict[str, Any]) -> None:
        try:
            outcome = await self._caller.call(self._caller.attempt(message))
        except asyncio.CancelledError:
            if message["call"] not in self._tasks:
                raise  # it was cut, and nobody waits
            outcome = cancelled_itself()
        self._answers.put({"call": message["call"], **messages.outcome_to_message(outcome)})


if __name__ == "__main__":
    sys.exit("this module is run by onward itself")
