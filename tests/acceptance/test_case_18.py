"""Calls that never return are cut at their timeout, and the run ends."""

from __future__ import annotations

import socket
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from acceptance.jobs import Place, wait_until

RECORDS = 20
JOB = """
import asyncio, http.client
job = onward.Job("case", source=onward.iterable(lambda: [{"id": f"r{n:02}"} for n in range(20)], key="id"),
                 concurrency=2)
TWICE = onward.Retry(attempts=2, base=0.01, cap=0.02)
PORT = %d

@job.step(timeout=%s, retry=TWICE)
%s
"""
ASYNC = """
async def post(record):
    started(record["id"], "post")
    reader, writer = await asyncio.open_connection("127.0.0.1", PORT)
    writer.write(b"POST /" + record["id"].encode() + b" HTTP/1.0\\r\\n\\r\\n")
    answer = await reader.read()
    writer.close()
    return answer.decode().splitlines()[-1]
"""
SYNC = """
def post(record):
    started(record["id"], "post")
    connection = http.client.HTTPConnection("127.0.0.1", PORT)
    connection.request("POST", "/" + record["id"])
    return connection.getresponse().read().decode()
"""
NO_END = """
def post(record):
    started(record["id"], "post")
    while record["id"] in ("r07", "r08"):
        try:
            time.sleep(0.1)
        except BaseException:
            pass
    return "fine"
"""


class Endpoint:
    """Answers at once, but never for r07, and for r08 one byte in five seconds."""

    def __init__(self) -> None:
        self._socket = socket.create_server(("127.0.0.1", 0))
        self.port = self._socket.getsockname()[1]
        self._open: list[socket.socket] = []
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                connection, _ = self._socket.accept()
            except OSError:
                return
            self._open.append(connection)
            threading.Thread(target=self._answer, args=(connection,), daemon=True).start()

    def _answer(self, connection: socket.socket) -> None:
        try:
            path = connection.recv(4096).split(b" ")[1]
            if path == b"/r07":
                return
            head = b"HTTP/1.0 200 OK\r\n\r\n"
            if path == b"/r08":
                for byte in head + b"x" * 1000:
                    connection.sendall(bytes([byte]))
                    time.sleep(5)
            connection.sendall(head + b"fine")
            connection.close()
        except OSError:
            pass

    def close(self) -> None:
        for connection in [self._socket, *self._open]:
            connection.close()


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    server = Endpoint()
    yield server
    server.close()


@pytest.mark.parametrize("step", [ASYNC, SYNC, NO_END], ids=["async", "a thread", "a thread that swallows all"])
def test_both_end_as_timeouts_and_the_others_finish(tmp_path: Path, endpoint: Endpoint, step: str) -> None:
    place = Place(tmp_path, JOB % (endpoint.port, "1.0", step))
    began = time.monotonic()
    ended = place.run()
    assert time.monotonic() - began < 20
    assert ended.code == 1
    assert ended.counts == {"succeeded": RECORDS - 2, "failed": 2}
    failures = place.failures()
    assert [failure["key"] for failure in failures] == ["r07", "r08"]
    assert all("timeout" in failure["error"].lower() for failure in failures)
    assert all(failure["kind"] == "transient" and failure["attempts"] == 2 for failure in failures)
    assert sorted(place.calls()) == sorted([f"r{n:02}" for n in range(RECORDS)] + ["r07", "r08"])
    assert "Traceback" not in ended.said


def test_status_names_what_is_in_progress_the_longest(tmp_path: Path, endpoint: Endpoint) -> None:
    place = Place(tmp_path, JOB % (endpoint.port, "30", ASYNC))
    process = place.start("run", "job.py")
    wait_until(lambda: {"r07", "r08"} <= set(place.calls()))
    time.sleep(1)
    in_flight = place.status()["in_flight"]
    assert {"r07", "r08"} <= {one["key"] for one in in_flight}
    assert all(one["step"] == "post" and one["since"].endswith("Z") for one in in_flight)
    shown = place.fine("status", "job.py")
    assert "r07" in shown and "since" in shown
    process.kill()
    process.wait()
