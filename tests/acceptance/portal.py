"""A small server on the loopback in a process of its own: it answers each group as a file says, and logs all requests.

`rules.json` in its folder: {group: {"status": 503, "headers": {…}, "body": …, "delay": seconds, "until": …, "from": …}}
with times of the clock (UTC seconds). `requests.log`: one line a request: [time, group, key, status, requests in
progress].
"""

from __future__ import annotations

import contextlib
import json
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, ClassVar

DELAY = 0.02
ASK = """
import urllib.request
BASE = "http://127.0.0.1:" + (HERE / "port").read_text()

def ask(group, key):
    with urllib.request.urlopen(f"{BASE}/{group}/{key}", timeout=20) as answer:
        return json.loads(answer.read())
"""


class Portal:
    """The server as a test has it."""

    def __init__(self, folder: Path):
        self.folder = folder

    def rule(
        self,
        group: str,
        status: int = 503,
        begin: float = 0.0,
        seconds: float = 1e9,
        body: Any = None,
        delay: float = DELAY,
        **headers: str,
    ) -> None:
        """Answer a group so, from `begin` seconds from now on, each request after `delay` seconds."""
        path = self.folder / "rules.json"
        rules = json.loads(path.read_text())
        now = time.time()
        named = {name.replace("_", "-"): text for name, text in headers.items()}
        what = {"status": status, "headers": named, "body": body, "delay": delay}
        rules[group] = {**what, "from": now + begin, "until": now + begin + seconds}
        new = path.with_name("rules.new")
        new.write_text(json.dumps(rules))
        new.replace(path)

    def requests(self, group: str | None = None, status: int | None = None) -> list[list[Any]]:
        lines = (self.folder / "requests.log").read_text().splitlines()
        found = [json.loads(line) for line in lines]
        return [one for one in found if group in (None, one[1]) and status in (None, one[3])]


@contextlib.contextmanager
def portal(folder: Path) -> Iterator[Portal]:
    """A server that lives as long as the block."""
    (folder / "rules.json").write_text("{}")
    (folder / "requests.log").touch()
    process = subprocess.Popen([sys.executable, __file__, str(folder)], stdin=subprocess.PIPE)
    try:
        while not (folder / "port").exists():
            assert process.poll() is None, "the server does not start"
            time.sleep(0.01)
        yield Portal(folder)
    finally:
        process.kill()
        process.wait()
        assert process.stdin is not None
        process.stdin.close()


class Handler(BaseHTTPRequestHandler):
    folder: Path
    lock = threading.Lock()
    in_progress: ClassVar[Counter[str]] = Counter()

    def do_GET(self) -> None:
        _, group, key = self.path.split("/", 2)
        rule = json.loads((self.folder / "rules.json").read_text()).get(group)
        now = time.time()
        if rule is not None and not rule["from"] <= now < rule["until"]:
            rule = None
        status = rule["status"] if rule else 200
        with self.lock:
            self.in_progress[group] += 1
            with (self.folder / "requests.log").open("a") as log:
                log.write(json.dumps([now, group, key, status, self.in_progress[group]]) + "\n")
        time.sleep(rule["delay"] if rule else DELAY)
        with self.lock:
            self.in_progress[group] -= 1
        body = json.dumps({"key": key} if rule is None or rule["body"] is None else rule["body"]).encode()
        self.send_response(status)
        for name, text in (rule or {}).get("headers", {}).items():
            self.send_header(name, text)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(body)))
        self.end_headers()
        self.wfile.write(body)

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers.get("Content-Length", 0)))
        self.do_GET()

    def log_message(self, *told: Any) -> None:
        """Nothing on the error output."""


class Server(ThreadingHTTPServer):
    request_queue_size = 256
    daemon_threads = True


def serve(folder: Path) -> None:
    Handler.folder = folder
    server = Server(("127.0.0.1", 0), Handler)
    new = folder / "port.new"
    new.write_text(str(server.server_address[1]))
    new.replace(folder / "port")
    server.serve_forever()


if __name__ == "__main__":
    serve(Path(sys.argv[1]))
