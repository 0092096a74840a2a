"""The server of `tests/llm_server` as a process of its own, for the length of a block."""

from __future__ import annotations

import atexit
import json
import subprocess
import sys
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
KEY = "local-key"
SOON = 20.0


class LlmServer:
    """A running server. `url` is what `base_url=` and OPENAI_BASE_URL take. It ends with the process that started it.

    `log`: the file of its log, which is appended to. `switches`: those of the docstring of `tests.llm_server`.
    """

    def __init__(self, log: Path, *, port: int = 0, **switches: Any):
        self.log_file = log
        settings = [f"--set={name}={json.dumps(value)}" for name, value in {"key": KEY, **switches}.items()]
        words = ["--port", str(port), "--log", str(log), "--until-eof", *settings]
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.llm_server", *words],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
        )
        assert self._process.stdout is not None
        told = self._process.stdout.readline().decode().split()
        if not told:
            raise AssertionError(f"the server ended with {self._process.wait()}")
        self.url, self._control_url = told
        atexit.register(self.close)

    @property
    def environment(self) -> dict[str, str]:
        """What a client has to have in its environment."""
        return {"OPENAI_BASE_URL": self.url, "OPENAI_API_KEY": KEY}

    def control(self, **switches: Any) -> dict[str, Any]:
        """Change these switches, and return all of them, with `open`: how many requests are being answered."""
        body = json.dumps(switches).encode() if switches else None
        with urllib.request.urlopen(f"{self._control_url}/control", body, timeout=SOON) as answer:
            state: dict[str, Any] = json.loads(answer.read())
        return state

    def reset(self, **switches: Any) -> None:
        """Set all switches back to what they were at the start, but for these."""
        self.control(reset=True, **switches)

    def log(self, endpoint: str = "") -> list[dict[str, Any]]:
        """What was asked so far, in the order in which it was answered; of one endpoint or of all."""
        lines = map(json.loads, self.log_file.read_text(encoding="utf-8").splitlines())
        return [line for line in lines if endpoint in ("", line["endpoint"])]

    def wait_until_open(self, requests: int) -> None:
        """Wait until exactly so many requests are being answered."""
        end = time.monotonic() + SOON
        while (found := self.control()["open"]) != requests:
            if time.monotonic() > end:
                raise AssertionError(f"{found} requests are open after {SOON:.0f} s, not {requests}")
            time.sleep(0.01)

    def close(self) -> None:
        atexit.unregister(self.close)
        self._process.kill()
        self._process.wait()
        for pipe in (self._process.stdin, self._process.stdout):
            if pipe is not None:
                pipe.close()


@contextmanager
def llm_server(folder: Path, **switches: Any) -> Iterator[LlmServer]:
    """A server for the length of a block; its log is `requests.jsonl` in the folder. The key is `KEY`."""
    server = LlmServer(folder / "requests.jsonl", **switches)
    try:
        yield server
    finally:
        server.close()
