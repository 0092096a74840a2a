"""A job whose step does what its record says, and calls of it in real child processes."""

from __future__ import annotations

import asyncio
import textwrap
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from onward.codec import dumps
from onward.engine.attempt import Attempt
from onward.engine.outcomes import CallOutcome
from onward.engine.processes.children import Assignment, Child
from onward.job.loading import load_reference
from onward.job.plan import JobReference
from onward.model import Claimed, StoredOutput

JOB = """
import asyncio, os, signal, subprocess, sys, threading, time
import onward

job = onward.Job("job", source=onward.iterable(lambda: [], version="1"))
MARK = os.environ.get("CHILD_MARK")

def ended(look, number):
    until = time.monotonic() + 5
    while time.monotonic() < until:
        if how := look():
            return how
        time.sleep(0.01)
    os.kill(number, signal.SIGKILL)
    return "it did not end"

@job.resource
def opened():
    yield "open"

@job.step(version="1")
async def acts(record, opened, context):
    do = record["do"]
    if do == "return":
        return {"gave": record["give"], "opened": opened, "key": context.key, "attempt": context.attempt}
    if do == "pid":
        return os.getpid()
    if do == "raise":
        raise ValueError("7 is odd")
    if do == "transient":
        raise onward.Transient("later", retry_after=5)
    if do == "done":
        raise onward.Done("half a pair: \\ud800")
    if do == "odd":
        raise ValueError("half a pair: \\ud800")
    if do == "kill":
        os.kill(os.getpid(), getattr(signal, record["signal"]))
    if do == "exit":
        os._exit(record["code"])
    if do == "system exit":
        raise SystemExit(3)
    if do == "task exits":
        async def leaves():
            sys.exit(3)
        await asyncio.create_task(leaves())
    if do == "fork":
        if os.fork() == 0:
            time.sleep(record["seconds"])
            os._exit(0)
        os._exit(3)
    if do == "stop a program":
        program = subprocess.Popen(["sleep", "60"])
        program.send_signal(getattr(signal, record["signal"]))
        return ended(lambda: program.poll(), program.pid)
    if do == "stop a fork":
        ready, tell = os.pipe()
        number = os.fork()
        if number == 0:
            os.write(tell, b"!")
            try:
                time.sleep(60)
            except KeyboardInterrupt:
                os._exit(1)
        os.read(ready, 1)
        os.kill(number, getattr(signal, record["signal"]))
        return ended(lambda: os.waitpid(number, os.WNOHANG)[1], number)
    if do == "hold":  # the interpreter's lock, so that no other thread sees anything
        open(record["file"], "w").close()
        sum(range(10**12))
    if do == "block":
        time.sleep(record["seconds"])
        os._exit(4)
    if do == "memory":
        raise MemoryError("too big")
    if do == "cancel":
        raise asyncio.CancelledError
    if do == "print":
        print("x" * 100_000)
        sys.stdout.write("more")
        sys.stdout.flush()
        os.write(1, b"raw bytes that are no message")
        return "printed"
    if do == "read":
        return sys.stdin.read()
    if do == "sleep":
        await asyncio.sleep(record["seconds"])
        return "slept"
    if do == "compute":
        until = time.monotonic() + record["seconds"]
        while time.monotonic() < until:
            pass
        return "computed"
    if do == "eat":
        return len(bytearray(record["bytes"]))
    if do == "files":
        names = [os.path.realpath(f"/proc/self/fd/{number}") for number in os.listdir("/proc/self/fd")]
        return [name for name in names if "onward.db" in name] + [name for name in sys.modules if "sqlite" in name]
    if do == "nan":
        return float("nan")
    if do == "big":
        return "y" * record["size"]

@job.step(version="1")
def in_a_thread(record, acts):
    if record.get("then") == "exit":
        os._exit(9)
    return [acts, threading.current_thread() is not threading.main_thread()]
"""


def assignment_in(folder: Path) -> Assignment:
    """A job file in the folder, and what a child needs to make its calls."""
    path = folder / "job.py"
    path.write_text(textwrap.dedent(JOB))
    return Assignment(str(path), None, "job", None, 1, "", {"acts": "1", "in_a_thread": "1"})


def attempts(assignment: Assignment, *values: Any, outputs: dict[str, str] | None = None) -> list[Attempt]:
    assert assignment.file is not None
    plan = load_reference(JobReference(Path(assignment.file), None, "job")).plan(None)
    kept = {name: StoredOutput("1", text) for name, text in (outputs or {}).items()}
    return [
        Attempt(plan, Claimed(number, 1, 0, str(number), number, dumps(value), None, 1, 0, 0, 0, dict(kept)), True)
        for number, value in enumerate(values)
    ]


def calling(assignment: Assignment, *values: Any, outputs: dict[str, str] | None = None) -> list[CallOutcome]:
    """What comes of calls made side by side in one child."""

    async def go() -> list[CallOutcome]:
        child = Child(assignment)
        try:
            made = attempts(assignment, *values, outputs=outputs)
            calls = [child.call(attempt, dumps(value)) for attempt, value in zip(made, values, strict=True)]
            return list(await asyncio.wait_for(asyncio.gather(*calls), 30))
        finally:
            child.kill()

    return asyncio.run(go())


def call(assignment: Assignment, value: Any, **given: Any) -> CallOutcome:
    return calling(assignment, value, **given)[0]


async def until(true: Callable[[], Any]) -> None:
    end = time.monotonic() + 20
    while not true():
        assert time.monotonic() < end
        await asyncio.sleep(0.01)


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False
