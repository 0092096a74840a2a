"""Commands of `onward` in forks of a warm interpreter: most of what a short command takes is importing.

A process of its own has imported what nearly every command imports, and nothing of a job; each command is a fork of it
and does what `python -m onward` does. `start` says None where a command has to begin cold: there is no fork, or the
environment has what only a new interpreter reads.

    python -m helpers.warm 3    serve on this descriptor
"""

from __future__ import annotations

import atexit
import contextlib
import gc
import importlib
import json
import os
import runpy
import select
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Mapping, Sequence
from pathlib import Path

NEEDED_BY_MOST = (
    "onward.api",
    "onward.cli.main",
    "onward.cli.export",
    "onward.cli.questions",
    "onward.cli.run",
    "onward.sinks.csv",
    "onward.sinks.jsonl",
    "onward.sources.jsonl",
    "onward.store.sqlite.work",
)
NEEDED_BY_SOME = ("httpx", "jinja2", "jsonschema", "openai", "openai.resources", "psycopg", "pydantic", "rich", "typer")
"""Of others: that onward's own modules are imported only where a command needs them is something that it builds on."""
READ_AT_THE_START = ("PYTHON", "LD_", "LC_", "LANG", "TZ", "MALLOC_")
TESTS = Path(__file__).parents[1]
LONGEST = 1 << 20


class Process:
    """A command at work, with the words of `subprocess.Popen`. Its id stays its own until it was waited for."""

    def __init__(self, pid: int, args: list[str], parent: Parent):
        self.pid, self.args = pid, args
        self.returncode: int | None = None
        self._parent = parent
        self._ended = os.pidfd_open(pid)

    def poll(self) -> int | None:
        return self._ends_within(0)

    def wait(self, timeout: float | None = None) -> int:
        if (code := self._ends_within(timeout)) is None:
            assert timeout is not None
            raise subprocess.TimeoutExpired(self.args, timeout)
        return code

    def _ends_within(self, seconds: float | None) -> int | None:
        if self.returncode is None:
            poll = select.poll()
            poll.register(self._ended, select.POLLIN)
            if poll.poll(None if seconds is None else max(seconds, 0) * 1000):
                self.returncode = self._parent.ask({"wait": self.pid})
                os.close(self._ended)
        return self.returncode

    def send_signal(self, number: int) -> None:
        if self.poll() is None:
            os.kill(self.pid, number)

    def terminate(self) -> None:
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        self.send_signal(signal.SIGKILL)


class Parent:
    """The warm interpreter. It ends when this process does."""

    def __init__(self, environment: Mapping[str, str]):
        self.read_at_the_start = _read_at_the_start(environment)
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._lock = threading.Lock()
        with theirs:
            words = [sys.executable, "-m", "helpers.warm", str(theirs.fileno())]
            self._process = subprocess.Popen(words, cwd=TESTS, env=environment, pass_fds=[theirs.fileno()])
        atexit.register(self.close)

    def start(self, words: Sequence[str], folder: Path, environment: Mapping[str, str], *files: int) -> Process:
        """`onward` with these words; `files`: its standard output and error."""
        asked = {"words": list(words), "folder": str(folder.absolute()), "environment": dict(environment)}
        return Process(self.ask(asked, *files), ["onward", *words], self)

    def ask(self, asked: object, *files: int) -> int:
        with self._lock:
            socket.send_fds(self._socket, [json.dumps(asked).encode()], files)
            answer: int = json.loads(self._socket.recv(LONGEST))
            return answer

    def close(self) -> None:
        self._socket.close()
        self._process.wait()


_parents: list[Parent] = []
_first = threading.Lock()


def start(words: Sequence[str], folder: Path, environment: Mapping[str, str], out: int, err: int) -> Process | None:
    """Start a command, if it may begin warm."""
    if not (hasattr(os, "pidfd_open") and hasattr(socket, "send_fds")):
        return None
    with _first:
        if not _parents:
            _parents.append(Parent(environment))
    parent = _parents[0]
    if _read_at_the_start(environment) != parent.read_at_the_start:
        return None
    return parent.start(words, folder, environment, out, err)


def _read_at_the_start(environment: Mapping[str, str]) -> dict[str, str]:
    return {name: value for name, value in environment.items() if name.startswith(READ_AT_THE_START)}


def serve(descriptor: int) -> list[str]:
    """Fork for each command that is asked for. Returns in each of the forks, with the words of its command."""
    ours = socket.socket(fileno=descriptor)
    while True:
        message, files, _, _ = socket.recv_fds(ours, LONGEST, 2)
        if not message:
            os._exit(0)  # whoever asked is gone
        asked = json.loads(message)
        if "wait" in asked:
            _, status = os.waitpid(asked["wait"], 0)
            ours.send(json.dumps(os.waitstatus_to_exitcode(status)).encode())
        elif pid := os.fork():
            for file in files:
                os.close(file)
            ours.send(json.dumps(pid).encode())
        else:
            ours.close()
            _become(asked["folder"], asked["environment"], files)
            words: list[str] = asked["words"]
            return words


def _become(folder: str, environment: dict[str, str], files: Sequence[int]) -> None:
    for file, standard in zip(files, (1, 2), strict=True):
        os.dup2(file, standard)
        os.close(file)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.path[0] = folder


def _leave(code: object) -> None:
    """As the interpreter does, but for taking apart all that was imported, which takes longer than many a command."""
    if isinstance(code, int):
        threading._shutdown()
        atexit._run_exitfuncs()
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code & 0xFF)
    sys.exit(code)


if __name__ == "__main__":
    for name in (*NEEDED_BY_MOST, *NEEDED_BY_SOME):
        with contextlib.suppress(ImportError):
            importlib.import_module(name)
    gc.freeze()
    sys.argv[1:] = serve(int(sys.argv[1]))
    try:
        runpy.run_module("onward", run_name="__main__", alter_sys=True)
    except SystemExit as ended:
        _leave(ended.code)
