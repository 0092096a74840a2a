"""A server that cannot be reached: what is said of it, and that it counts as a connection that was never made."""

from __future__ import annotations

import asyncio
import socket
import struct
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import httpx2
import openai
import pytest

from onward.errors import Fatal
from onward.llm import Model, Prompt
from onward.llm.asking import _may_be_charged
from onward.llm.client import _new
from onward.model import Kind
from onward.policy.failures import classify


@pytest.fixture(params=[True, False], ids=["in a run", "outside"])
def in_run(request: pytest.FixtureRequest) -> bool:
    found: bool = request.param
    return found


@pytest.fixture
def port() -> int:
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        found: int = free.getsockname()[1]
    return found


@pytest.fixture
def says_nothing() -> Iterator[int]:
    """A port at which connections are taken and nothing is answered."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


ANSWER = b"HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 2\r\n\r\n{}"


def hangs_up(connection: socket.socket) -> None:
    connection.close()


def resets(connection: socket.socket) -> None:
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
    connection.close()


def breaks_off(connection: socket.socket) -> None:
    connection.sendall(ANSWER[:-1])
    connection.close()


@contextmanager
def answering(first: int, then: Callable[[socket.socket], None]) -> Iterator[str]:
    """A server that answers the first requests of a connection, and reads the one behind them all the same."""

    def requests(connection: socket.socket) -> None:
        for _ in range(first):
            read(connection)
            connection.sendall(ANSWER)
        read(connection)
        then(connection)

    def read(connection: socket.socket) -> None:
        said = b""
        while not said.endswith(b"{}") and (more := connection.recv(65536)):
            said += more

    with socket.create_server(("127.0.0.1", 0)) as server:
        thread = threading.Thread(target=lambda: requests(server.accept()[0]), daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}/v1"
        thread.join(20)


def error_of(url: str, in_run: bool, seconds: float | None = None, answered: int = 0) -> openai.APIConnectionError:
    """What a request to this address raises, behind others that are answered."""

    async def go() -> None:
        client = _new(url, "key", in_run)
        if seconds is not None:
            client = client.with_options(timeout=seconds)
        try:
            for _ in range(answered + 1):
                await client.post("/responses", body={}, cast_to=httpx2.Response)
        finally:
            await client.close()

    with pytest.raises(openai.APIConnectionError) as raised:
        asyncio.run(go())
    return raised.value


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_a_refused_connection_names_the_address_and_was_never_made(port: int, in_run: bool, host: str) -> None:
    error = error_of(f"http://{host}:{port}/v1", in_run)
    assert str(error) == f"no connection to {host}:{port}: connection refused; check base_url or OPENAI_BASE_URL"
    failure = classify(error, 0.0)
    assert (failure.kind, failure.not_applied, failure.status) == (Kind.TRANSIENT, True, None)
    assert failure.cause == failure.message == str(error)
    assert not _may_be_charged(error)


def test_a_host_that_nobody_knows(in_run: bool) -> None:
    error = error_of("https://nowhere.invalid/v1", in_run)
    assert str(error).startswith("no connection to nowhere.invalid:443: ")
    assert "timed out" not in str(error)
    assert "in time" not in str(error)
    failure = classify(error, 0.0)
    assert (failure.kind, failure.not_applied) == (Kind.TRANSIENT, False)  # as it is of other clients
    assert not _may_be_charged(error)


def test_where_the_address_comes_from_is_named(port: int, in_run: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_BASE_URL", f"http://127.0.0.1:{port}/v1/")
    assert str(error_of(f"http://127.0.0.1:{port}/v1", in_run)).endswith("; check OPENAI_BASE_URL")


def test_a_connection_that_was_made_may_have_been_charged(says_nothing: int, in_run: bool) -> None:
    error = error_of(f"http://127.0.0.1:{says_nothing}/v1", in_run, seconds=0.3)  # it is never answered
    assert "no connection" not in str(error)
    assert classify(error, 0.0).cause == ""
    assert _may_be_charged(error)


@pytest.mark.parametrize("answered", [0, 1])
@pytest.mark.parametrize("then", [hangs_up, resets, breaks_off], ids=lambda one: one.__name__)
def test_a_connection_that_is_lost_once_the_request_was_read_may_have_been_charged(
    in_run: bool, then: Callable[[socket.socket], None], answered: int
) -> None:
    with answering(answered, then) as url:
        error = error_of(url, in_run, answered=answered)
    assert "no connection" not in str(error)
    failure = classify(error, 0.0)
    assert (failure.kind, failure.not_applied) == (Kind.TRANSIENT, False)
    assert not isinstance(error, openai.APITimeoutError)
    assert _may_be_charged(error)


def test_where_tls_is_not_agreed_on_nothing_was_sent(in_run: bool) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:

        def refuse() -> None:
            connection = server.accept()[0]
            connection.recv(65536)
            connection.sendall(b"no TLS here")
            connection.close()

        thread = threading.Thread(target=refuse, daemon=True)
        thread.start()
        error = error_of(f"https://127.0.0.1:{server.getsockname()[1]}/v1", in_run)
        thread.join(20)
    assert "no connection to 127.0.0.1:" in str(error)
    assert not _may_be_charged(error)


def test_what_became_of_a_lost_connection_is_said(in_run: bool) -> None:
    with answering(0, resets) as url:
        error = error_of(url, in_run)
    address = url.removeprefix("http://").removesuffix("/v1")
    told = f"the connection to {address} was lost: connection reset by peer" if in_run else "Connection error."
    assert str(error) == told


@pytest.mark.parametrize(
    "url",
    ["localhost:8000/v1", "ftp://localhost/v1", "http:///v1", "http://localhost:port/v1", "http://localhost:65536/v1"],
)
def test_what_is_no_address_of_a_server_stops_the_run(url: str) -> None:
    with pytest.raises(Fatal, match="base_url or OPENAI_BASE_URL is no address of a server"):
        asyncio.run(Model("small", base_url=url).ask(Prompt("x")))


@pytest.mark.parametrize("key", ["a key\r", "a k\u00e9y", "a\tkey"])
def test_a_key_that_no_request_can_hold_stops_the_run_and_is_not_quoted(
    key: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", key)
    with pytest.raises(Fatal, match="OPENAI_API_KEY has a letter in it") as raised:
        asyncio.run(Model("small", base_url="http://127.0.0.1:9/v1").ask(Prompt("x")))
    assert key not in str(raised.value)


def test_outside_of_a_run_it_is_said_too(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    model = Model("small", base_url=f"http://127.0.0.1:{port}/v1")
    with pytest.raises(openai.APIConnectionError, match="connection refused; check base_url"):
        asyncio.run(model.ask(Prompt("x")))
