"""Nodes of Ray on this machine, for tests: each in a temp folder and with a token of its own, and ended by the numbers
of its processes. `ray stop` ends other people's, too, and is never called.

What a node starts inherits its environment, and with it a mark that is this node's alone.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path

from acceptance.jobs import surroundings
from helpers.postgres import free_port

MARK = "ONWARD_TEST_RAY"
STARTS_WITHIN = 120.0
MEMORY = 80_000_000
LEASE = "8"
"""Seconds, of the runs on all nodes."""
FRUGAL = {"RAY_prestart_worker_first_driver": "0", "RAY_enable_worker_prestart": "0"}
"""Ray begins a worker for each processor that it was promised, before any is asked for."""


class NoRay(Exception):
    """There is no Ray to be had; the message says why."""


@dataclass
class Node:
    """One node. `mark` is in the environment of each of its processes."""

    mark: str

    def processes(self, word: str = "") -> list[int]:
        """Its processes that are alive, those in whose command line the word is."""
        found = []
        for entry in Path("/proc").iterdir():
            with contextlib.suppress(OSError):
                if entry.name.isdigit() and f"{MARK}={self.mark}".encode() in (entry / "environ").read_bytes():
                    words = (entry / "cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace")
                    found += [int(entry.name)] if words and word in words else []
        return found

    def kill(self) -> None:
        """All its processes at once, again and again while there are some: what a power cut does."""
        until = time.monotonic() + STARTS_WITHIN
        while (found := self.processes()) and time.monotonic() < until:
            for process in found:
                with contextlib.suppress(ProcessLookupError):
                    os.kill(process, signal.SIGKILL)
            time.sleep(0.05)


@dataclass
class Nodes:
    """A cluster of Ray. `folder` is its temp folder."""

    folder: Path
    port: int
    client_port: int
    nodes: list[Node] = field(default_factory=list)

    @property
    def environment(self) -> dict[str, str]:
        """For a command that is to find it."""
        return {
            "RAY_ADDRESS": f"127.0.0.1:{self.port}",
            "RAY_AUTH_MODE": "token",
            "RAY_AUTH_TOKEN_PATH": str(self.folder / "token"),
            "RAY_USAGE_STATS_ENABLED": "0",
            "RAY_TMPDIR": str(self.folder),
        }

    def start(self, cpus: int) -> Node:
        """Another node; the first is the head."""
        node = Node(secrets.token_hex(8))
        command = [sys.executable, "-m", "ray.scripts.scripts", "start", "--disable-usage-stats"]
        command += ["--num-cpus", str(cpus), "--object-store-memory", str(MEMORY), "--node-ip-address", "127.0.0.1"]
        if self.nodes:
            command += ["--address", f"127.0.0.1:{self.port}"]
        else:
            command += ["--head", "--port", str(self.port), "--ray-client-server-port", str(self.client_port)]
            command += ["--include-dashboard", "false", "--temp-dir", str(self.folder)]
        environment = surroundings({**self.environment, **FRUGAL, MARK: node.mark, "ONWARD_LEASE": LEASE})
        if not self.nodes:
            environment.pop("RAY_ADDRESS")
        self.nodes.append(node)
        with tempfile.TemporaryFile() as said:
            ended = subprocess.run(
                command, env=environment, stdout=said, stderr=said, stdin=subprocess.DEVNULL, timeout=STARTS_WITHIN
            )
            if ended.returncode:
                said.seek(0)
                raise NoRay(f"Ray does not start: {said.read().decode('utf-8', 'replace')[-2000:]}")
        return node


@contextlib.contextmanager
def cluster(cpus: int) -> Iterator[Nodes]:
    """A cluster of one node. Raises NoRay."""
    if find_spec("ray") is None:
        raise NoRay("no Ray: pip install 'onward[ray]'")
    folder = Path(tempfile.mkdtemp(prefix="ow-", dir="/tmp"))  # short: it holds sockets
    (folder / "token").write_text(secrets.token_hex(32))
    nodes = Nodes(folder, free_port(), free_port())
    try:
        nodes.start(cpus)
        yield nodes
    finally:
        for node in reversed(nodes.nodes):
            node.kill()
        shutil.rmtree(folder, ignore_errors=True)
