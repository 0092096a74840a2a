"""A server that cannot be reached: what is said of it, and that it counts as a connection that was never made."""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterator

import httpx2
import openai
import pytest

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


def error_of(url: str, in_run: bool, seconds: float | None = None) -> openai.APIConnectionError:
    """What a request to this address raises."""

    async def go() -> None:
        client = _new(url, "key", in_run)
        if seconds is not None:
            client = client.with_options(timeout=seconds)
        try:
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


def test_outside_of_a_run_it_is_said_too(port: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    model = Model("small", base_url=f"http://127.0.0.1:{port}/v1")
    with pytest.raises(openai.APIConnectionError, match="connection refused; check base_url"):
        asyncio.run(model.ask(Prompt("x")))
