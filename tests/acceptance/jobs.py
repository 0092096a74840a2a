"""Runs the real command line, in processes of its own, on jobs that a test writes into a folder."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import textwrap
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from judge import steplog

TESTS = Path(__file__).parents[1]
FILES = TESTS / "cases" / "files"
PATIENCE = 120.0

HEADER = """
from __future__ import annotations
import json, os, sqlite3, sys, time
from pathlib import Path
import onward
from judge import steplog

HERE = Path(__file__).parent

def started(key, step="echo"):
    steplog.log_start(HERE / "calls.log", key, step)
"""

ECHO = """
@job.step
def echo(record):
    started(record.get("id"))
    return record
"""


def echo_job(source: str, **options: str) -> str:
    """The text of a job that returns its records. `source`: an expression such as `onward.jsonl("in.jsonl", "id")`."""
    words = "".join(f", {name}={value}" for name, value in options.items())
    return f'job = onward.Job("case", source={source}{words})\n{ECHO}'


@dataclass(frozen=True)
class Ran:
    """What a run left: its exit code, its status object, and all that it said to people."""

    code: int
    status: dict[str, Any]
    said: str

    @property
    def counts(self) -> dict[str, int]:
        """Records by state, without the states that have none."""
        return {state: number for state, number in self.status["counts"].items() if number}


class Place:
    """A folder with `job.py` (HEADER and the given text), copies of case files, and the command line on them."""

    def __init__(self, folder: Path, job: str, *files: str):
        self.folder = folder
        self.job(job)
        for name in files:
            self.bring(name)

    def job(self, text: str) -> None:
        """Write the job file, or write it anew."""
        (self.folder / "job.py").write_text(HEADER + textwrap.dedent(text))

    def bring(self, name: str, under: str | None = None) -> Path:
        """Copy a case file into the folder."""
        return Path(shutil.copyfile(FILES / name, self.folder / (under or name)))

    def write(self, name: str, rows: list[Any]) -> Path:
        """Write rows as JSON Lines."""
        path = self.folder / name
        path.write_text("".join(json.dumps(row) + "\n" for row in rows))
        return path

    def command(self, *words: str) -> list[str]:
        return [sys.executable, "-m", "onward", *words]

    def onward(
        self, *words: str, env: Mapping[str, str] | None = None, before: tuple[str, ...] = (), timeout: float = PATIENCE
    ) -> subprocess.CompletedProcess[str]:
        """One command to its end. `before` are words of a program that starts it, such as strace."""
        # Into files, not pipes: what a job leaves behind may hold its output open long after the command has ended.
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            ended = subprocess.run(
                [*before, *self.command(*words)],
                cwd=self.folder,
                env=surroundings(env),
                stdout=out,
                stderr=err,
                timeout=timeout,
                check=False,
            )
            said = []
            for file in (out, err):
                file.seek(0)
                said.append(file.read().decode("utf-8"))
        return subprocess.CompletedProcess(ended.args, ended.returncode, *said)

    def start(self, *words: str, env: Mapping[str, str] | None = None) -> subprocess.Popen[bytes]:
        """One command that the test means to disturb; what it says goes to `said.txt`."""
        with (self.folder / "said.txt").open("ab") as said:
            return subprocess.Popen(
                self.command(*words), cwd=self.folder, env=surroundings(env), stdout=said, stderr=said
            )

    def run(self, *words: str, **options: Any) -> Ran:
        """`onward run job.py --json`, which has to get as far as having a status."""
        ended = self.onward("run", "job.py", "--json", *words, **options)
        assert ended.stdout, f"exit {ended.returncode}: {ended.stderr}"
        return Ran(ended.returncode, json.loads(ended.stdout), ended.stderr)

    def status(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.fine("status", "job.py", "--json"))
        return found

    def failures(self, *words: str) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.fine("failures", "job.py", "--json", *words).splitlines()]

    def export(self, name: str = "out.jsonl", *words: str) -> list[dict[str, Any]]:
        """Export, and the lines of the file."""
        self.fine("export", "job.py", "--out", name, *words)
        return [json.loads(line) for line in (self.folder / name).read_text("utf-8").splitlines()]

    def fine(self, *words: str, **options: Any) -> str:
        """What a command writes that has to succeed."""
        ended = self.onward(*words, **options)
        assert ended.returncode == 0, f"exit {ended.returncode}: {ended.stderr}{ended.stdout}"
        return ended.stdout

    def calls(self, step: str | None = None) -> list[Any]:
        """The keys that steps (or one) were started with, in order."""
        entries = steplog.read(self.folder / "calls.log")
        return [json.loads(entry.key) for entry in entries if step in (None, entry.step)]


def surroundings(more: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment of a command: no settings of the caller's onward, the tests' own modules in reach, and compiled
    modules kept, since hundreds of commands start."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("ONWARD_")}
    kept.pop("PYTHONDONTWRITEBYTECODE", None)
    kept["PYTHONPYCACHEPREFIX"] = str(Path(tempfile.gettempdir()) / "onward-tests-compiled")
    given = filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))
    kept["PYTHONPATH"] = os.pathsep.join([str(TESTS), *(str(Path(folder).absolute()) for folder in given)])
    return {**kept, "COLUMNS": "200", **(more or {})}


def wait_until(true: Callable[[], object], seconds: float = PATIENCE) -> None:
    """Look again and again until something is true."""
    until = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < until, "waited in vain"
        time.sleep(0.01)


def plain(message: str) -> None:
    """A message for people has no traceback and no fault of onward in it."""
    assert "Traceback" not in message, message
    assert "fault of onward" not in message, message
