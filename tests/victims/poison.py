"""The poison campaign's job: innocent records, and some that fail, hang or take their process with them.

What it looks like stands in the file that VICTIM_SPEC names (see `Spec`). The far side of its effect is a folder with a
file for each key that was applied, and a line for each request in `requests`.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import faulthandler
import json
import os
import resource
import signal
import sys
import time
import zlib
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NoReturn

import onward
from judge import steplog

ROOM = 200 << 20
PIECE = 32 << 20
BEFORE, POISONED, AFTER = "before", "poisoned", "after"


@dataclass(frozen=True)
class Spec:
    """`form`: how the poisoned step is made: async, sync, process or effect. `poison`: what each guilty record does.
    `timeout`: of that step, and `longest`, what an innocent call takes at most; in seconds. `keyed`: whether the
    effect's far side knows keys; else it is probed."""

    seed: int
    records: int
    form: str
    poison: dict[str, str]
    concurrency: int
    timeout: float
    longest: float
    keyed: bool
    folder: str

    @property
    def keys(self) -> list[str]:
        return [f"r{number:02}" for number in range(self.records)]

    @property
    def innocent(self) -> list[str]:
        return [key for key in self.keys if key not in self.poison]

    def draw(self, key: str) -> float:
        """Seconds that this record's call takes."""
        return self.longest * (zlib.crc32(f"{self.seed}/{key}".encode()) % 100) / 100


def read_spec(path: str | Path) -> Spec:
    return Spec(**json.loads(Path(path).read_text()))


def raises() -> NoReturn:
    raise ValueError("always the same")


def rejected() -> NoReturn:
    raise onward.Rejected("never")


def invalid() -> NoReturn:
    raise onward.Invalid("no such entity")


def transient() -> NoReturn:
    raise onward.Transient("busy, as always")


def recursion() -> None:
    recursion()


def sysexit() -> NoReturn:
    sys.exit(3)


def memory_error() -> NoReturn:
    raise MemoryError


def memory() -> None:
    """Take what there is, in a process that may have a little more than it has."""
    size = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (size + ROOM, resource.RLIM_INFINITY))
    hoard = []
    while True:
        hoard.append(bytearray(PIECE))


def hangs() -> None:
    """It does not let itself be cut."""
    while True:
        with contextlib.suppress(BaseException):
            time.sleep(0.1)


def segfault() -> None:
    faulthandler._sigsegv()  # type: ignore[attr-defined]


def bad_pointer() -> None:
    ctypes.string_at(8)


def exits() -> None:
    os._exit(7)


def aborts() -> None:
    os.abort()


def killed() -> None:
    os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(60)


DEEDS: dict[str, Callable[[], None]] = {
    deed.__name__: deed
    for deed in (
        raises, rejected, invalid, transient, recursion, sysexit, memory_error, memory, hangs, segfault, bad_pointer,
        exits, aborts, killed,
    )
}  # fmt: skip


async def hangs_on_the_loop() -> None:
    """The same where the loop makes the call."""
    while True:
        with contextlib.suppress(asyncio.CancelledError):
            await asyncio.sleep(0.1)


async def call_async(record: Any) -> str:
    steplog.log_start(LOG, record["id"], POISONED)
    await asyncio.sleep(SPEC.draw(record["id"]))
    deed = SPEC.poison.get(record["id"])
    if deed == "hangs":
        await hangs_on_the_loop()
    elif deed is not None:
        DEEDS[deed]()
    steplog.log_end(LOG, record["id"], POISONED)
    return f"{record['id']} done"


def call_sync(record: Any) -> str:
    steplog.log_start(LOG, record["id"], POISONED)
    time.sleep(SPEC.draw(record["id"]))
    if record["id"] in SPEC.poison:
        DEEDS[SPEC.poison[record["id"]]]()
    steplog.log_end(LOG, record["id"], POISONED)
    return f"{record['id']} done"


def before_sending(key: str) -> bool:
    """Whether a guilty record does its deed before its request leaves; else the request is applied first."""
    return zlib.crc32(key.encode()) % 2 == 1


def body(record: Any) -> Any:
    return {"id": record["id"]}


async def send(payload: Any, idempotency_key: str) -> str:
    """Apply it once by its key; the guilty do what they do before or after, as their key has it."""
    name = payload["id"]
    await asyncio.sleep(SPEC.draw(name))
    deed = SPEC.poison.get(name)
    if deed is not None and before_sending(name):
        await misbehave(deed)
    line = json.dumps([name, idempotency_key]) + "\n"
    descriptor = os.open(f"{SPEC.folder}/requests", os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.write(descriptor, line.encode())
    os.close(descriptor)
    (Path(SPEC.folder) / "applied" / idempotency_key).touch()
    if deed is not None:
        await misbehave(deed)
    return f"{name} done"


async def misbehave(deed: str) -> None:
    if deed == "hangs":
        await hangs_on_the_loop()
    else:
        DEEDS[deed]()


async def sent_already(payload: Any, idempotency_key: str) -> Any:
    applied = (Path(SPEC.folder) / "applied" / idempotency_key).exists()
    return f"{payload['id']} done" if applied else onward.ABSENT


def declare(spec: Spec) -> onward.Job:
    job = onward.Job("poison", source=onward.jsonl(f"{spec.folder}/in.jsonl", key="id"), concurrency=spec.concurrency)
    retry = onward.Retry(attempts=1 if "hangs" in spec.poison.values() else 2, base=0.01, cap=0.02)

    @job.step(version="1")
    async def before(record: Any) -> str:
        steplog.log_start(LOG, record["id"], BEFORE)
        return f"{record['id']} begun"

    if spec.form == "effect":
        effect = job.effect(
            "poisoned", key="id", version="1", retry=retry, keyed=spec.keyed, deadline=spec.timeout, settle=0.1
        )(send)
        effect.payload(body)
        if not spec.keyed:
            effect.probe(sent_already)
    else:
        step = job.step(version="1", retry=retry, timeout=spec.timeout, process=spec.form == "process")
        step(call_async if spec.form == "async" else call_sync)

    @job.step(version="1")
    def after(record: Any) -> str:
        steplog.log_start(LOG, record["id"], AFTER)
        return f"{record['id']} ended"

    return job


if "VICTIM_SPEC" in os.environ:
    SPEC = read_spec(os.environ["VICTIM_SPEC"])
    LOG = f"{SPEC.folder}/steps.log"
    job = declare(SPEC)
