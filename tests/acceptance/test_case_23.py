"""Case 23: the probe says "not there" because the search index lags."""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest

from acceptance.far_side import PROBE, a_place, applied, job, kill_once_applied, requests, sent
from torture.registry import Registry, running

CASES = 10
KEYS = [f"n{number:02}" for number in range(1, CASES + 1)]
SILENT_ONCE = {"slow_reply": [1.0, 1], "reply_after": 20}
UNREPEATED = {"dedupe_window": 0}
LAG = 2.5
"""Seconds for which the search does not show what was booked."""
SETTLED = f'"case", key="id", deadline=0.5, settle={LAG + 0.5}'
HURRIED = '"case", key="id", deadline=0.5, settle=0.0'


@pytest.mark.parametrize("memory", [{}, UNREPEATED], ids=["a", "b"])
def test_one_entry_however_soon_it_is_started_again(tmp_path: Path, memory: dict[str, float]) -> None:
    """(a) the server knows keys that it has seen, (b) it does not: a second send would be a second entry."""
    with running(tmp_path / "server.db") as server:
        server.switch(**SILENT_ONCE, lookup_lag=LAG, **memory)
        place = a_place(tmp_path, server, job(SETTLED, PROBE), CASES)
        kill_once_applied(place, server, "n04")
        ran = place.run()
        assert (ran.code, ran.counts) == (0, {"succeeded": CASES})
        assert applied(server) == dict.fromkeys(KEYS, 1)
        assert sent(server)["n04"] == 1
        asked = [request.fate for request in requests(server, "lookup") if request.key == key_of(server, "n04")]
        assert asked == ["not found", "found"]  # before it was first sent; when it was worth asking


def key_of(server: Registry, entity: str) -> str:
    (key,) = {request.key for request in requests(server) if request.entity == entity}
    return key


def test_a_probe_that_fails_says_unknown_and_never_not_found(tmp_path: Path) -> None:
    with running(tmp_path / "server.db") as server:
        server.switch(**SILENT_ONCE, **UNREPEATED)
        place = a_place(tmp_path, server, job(HURRIED, PROBE), 3)
        kill_once_applied(place, server, "n01", "n02", "n03")
        server.switch(lookup_error=[1.0, 1], **UNREPEATED)
        ran = place.run()
        assert (ran.code, ran.counts) == (0, {"succeeded": 3})
        assert applied(server) == sent(server) == {"n01": 1, "n02": 1, "n03": 1}


def test_a_probe_that_is_not_answered_in_time_says_unknown(tmp_path: Path) -> None:
    with running(tmp_path / "server.db") as server, silence() as nobody:
        server.switch(**SILENT_ONCE, **UNREPEATED)
        asks = PROBE.replace('"/filings"', '(HERE / "search").read_text() + "/filings", timeout=0.3')
        place = a_place(tmp_path, server, job(HURRIED, asks), 3)
        (tmp_path / "search").write_text(server.url)
        kill_once_applied(place, server, "n01", "n02", "n03")
        (tmp_path / "search").write_text(nobody)
        ran = place.run("--wait", "2s")
        assert (ran.code, ran.counts) == (1, {"unconfirmed": 3})
        (tmp_path / "search").write_text(server.url)
        assert place.run().counts == {"succeeded": 3}
        assert applied(server) == sent(server) == {"n01": 1, "n02": 1, "n03": 1}


@contextlib.contextmanager
def silence() -> Iterator[str]:
    """The address of a server that takes connections and answers nothing."""
    with socket.create_server(("127.0.0.1", 0)) as listening:
        yield f"http://127.0.0.1:{listening.getsockname()[1]}"


def test_a_probe_that_was_not_to_be_believed_shows_in_the_log(tmp_path: Path) -> None:
    """What a settle shorter than the lag costs: the registry's log says it, so that the test above can fail."""
    with running(tmp_path / "server.db") as server:
        server.switch(**SILENT_ONCE, lookup_lag=30, **UNREPEATED)
        place = a_place(tmp_path, server, job(HURRIED, PROBE), 1)
        kill_once_applied(place, server, "n01")
        place.run()
        assert applied(server) == {"n01": 2}
