"""Runs in forked processes: the interpreter is warm, so that hundreds of runs fit into a minute."""

from __future__ import annotations

import faulthandler
import json
import os
import select
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import onward.runner as runner
from judge import steplog
from onward.errors import OnwardError
from onward.job.loading import load_reference
from onward.job.plan import JobReference

PATIENCE = 60.0
VICTIMS = Path(__file__).parents[1] / "victims"


@dataclass(frozen=True)
class Victim:
    """A job file, the job's name, and the folder where store, step log, acknowledgements and texts are kept.

    `stay`: seconds that a run stays for what is unconfirmed once all else is done. `url`: a store elsewhere.
    """

    file: Path
    job: str
    folder: Path
    environment: Mapping[str, str]
    store_name: str = "store.db"
    stay: float = 60.0
    url: str = ""

    @property
    def address(self) -> str:
        """Of the store, as `--store` takes it."""
        return self.url or str(self.store)

    @property
    def store(self) -> Path:
        return self.folder / self.store_name

    @property
    def log(self) -> Path:
        return self.folder / "steps.log"

    @property
    def acks(self) -> Path:
        return self.folder / "acks.log"

    @property
    def said(self) -> str:
        path = self.folder / "said.log"
        return path.read_text(errors="replace") if path.exists() else ""


def small_victim(folder: Path, source: Path) -> Victim:
    """The job of `victims.small`, reading `source`."""
    return Victim(VICTIMS / "small.py", "small", folder, {"VICTIM_FOLDER": str(folder), "VICTIM_INPUT": str(source)})


def start(victim: Victim, prepare: Callable[[], None] = lambda: None) -> int:
    """Fork a run; its process. `prepare` is called in it, just before it runs."""
    pid = os.fork()
    if pid:
        return pid
    code = 99
    try:
        os.setsid()
        os.environ.update(victim.environment, VICTIM_RUN=str(os.getpid()))
        said = os.open(victim.folder / "said.log", os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.dup2(said, 1)
        os.dup2(said, 2)
        sys.stdout = sys.stderr = os.fdopen(said, "w", buffering=1)
        faulthandler.register(signal.SIGUSR2, sys.stderr, all_threads=True)
        code = run_job(victim, prepare)
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(code)


def run_job(victim: Victim, prepare: Callable[[], None]) -> int:
    """Load the job as the command line does and run it in this process; its exit code."""
    job = load_reference(JobReference(victim.file, None, victim.job))
    listeners = [(lambda event, fields: note_acknowledged(victim.acks, event, fields), True)]
    prepare()
    try:
        options = runner.Options(store=victim.address, listeners=listeners, wait=victim.stay, waits=print)
        result = runner.run(job, job.bind(), options)
    except OnwardError as error:
        print(error)
        return error.exit_code
    print(result.reason)
    return result.exit_code


def note_acknowledged(path: Path, event: str, fields: Any) -> None:
    """A listener: a line for each checkpoint that the run was told is durable."""
    if event != "checkpoint_committed":
        return
    line = json.dumps([fields["key"], fields["step"], steplog.now()]).encode() + b"\n"
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.write(descriptor, line)
    os.close(descriptor)


def read_acks(path: Path) -> Iterator[tuple[Any, str, float]]:
    if not path.exists():
        return
    for line in path.read_bytes().split(b"\n")[:-1]:
        key, step, moment = json.loads(line)
        yield key, step, moment


def finish(pid: int, patience: float = PATIENCE) -> int | None:
    """Wait for a run to end by itself; its exit code, or None where it hangs: then it says first where it hangs."""
    if not _ends_within(pid, patience):
        os.kill(pid, signal.SIGUSR2)
        time.sleep(0.5)
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
        return None
    _, status = os.waitpid(pid, 0)
    return os.waitstatus_to_exitcode(status)


def _ends_within(pid: int, patience: float) -> bool:
    descriptor = os.pidfd_open(pid)
    try:
        return bool(select.select([descriptor], [], [], patience)[0])
    finally:
        os.close(descriptor)
