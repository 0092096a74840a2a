"""`onward.http`: one request for one call, whatever the far side does; counted by a server of raw sockets."""

from __future__ import annotations

import asyncio
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest

import onward
from onward.errors import Transient, UsageError
from onward.policy.failures import classify

httpx = pytest.importorskip("httpx")
http = onward.http


class FarSide:
    """Answers each request with the next of `answers`, the last one over and over; `asked` are the requests' lines."""

    def __init__(self, server: socket.socket, answers: list[bytes]):
        self.answers = answers
        self.asked: list[str] = []
        self.connections = 0
        self._server = server
        self.url = f"http://127.0.0.1:{server.getsockname()[1]}"
        threading.Thread(target=self._serve, daemon=True).start()

    def _serve(self) -> None:
        while True:
            try:
                connection, _ = self._server.accept()
            except OSError:
                return
            self.connections += 1
            with connection:
                self._answer(connection)

    def _answer(self, connection: socket.socket) -> None:
        connection.settimeout(5)
        text = b""
        while b"\r\n\r\n" not in text:
            more = connection.recv(65536)
            if not more:
                return
            text += more
        self.asked.append(text.split(b" HTTP/")[0].decode())
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if answer == b"reset":
            connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        elif answer == b"silence":
            connection.settimeout(1)
            with_patience(connection)
        else:
            connection.sendall(answer)


def with_patience(connection: socket.socket) -> None:
    try:
        connection.recv(1)
    except TimeoutError:
        return


def answer(status: int, location: str | None = None, body: bytes = b"{}") -> bytes:
    where = f"Location: {location}\r\n" if location is not None else ""
    return f"HTTP/1.1 {status} X\r\n{where}Content-Length: {len(body)}\r\nConnection: close\r\n\r\n".encode() + body


@pytest.fixture
def far() -> Iterator[Callable[..., FarSide]]:
    servers: list[socket.socket] = []

    def start(*answers: bytes) -> FarSide:
        server = socket.create_server(("127.0.0.1", 0))
        servers.append(server)
        return FarSide(server, list(answers))

    yield start
    for server in servers:
        server.shutdown(socket.SHUT_RDWR)
        server.close()


def ask(method: str, url: str, client: dict[str, Any] | None = None, **given: Any) -> Any:
    async def call() -> Any:
        async with http.client(**(client or {})) as opened:
            return await opened.request(method, url, **given)

    return asyncio.run(call())


def refusing() -> socket.socket:
    held = socket.socket()
    held.bind(("127.0.0.1", 0))  # bound and not listening: nobody else takes it, and it refuses
    return held


def test_an_answer_is_an_answer(far: Callable[..., FarSide]) -> None:
    server = far(answer(201, body=b'{"receipt": 7}'))
    response = ask("POST", server.url + "/filings", json={"fee": 50}, headers={"Idempotency-Key": "ow1-x"})
    assert (response.status_code, response.json()) == (201, {"receipt": 7})
    assert server.asked == ["POST /filings"]


@pytest.mark.parametrize("status", [400, 404, 408, 409, 422, 425, 429, 500, 502, 503, 504])
def test_nothing_is_sent_again_whatever_is_answered(far: Callable[..., FarSide], status: int) -> None:
    server = far(answer(status))
    assert ask("POST", server.url).status_code == status
    assert len(server.asked) == 1


@pytest.mark.parametrize(
    ("bad", "error"),
    [(b"reset", httpx.NetworkError), (b"silence", httpx.ReadTimeout), (b"", httpx.RemoteProtocolError)],
)
@pytest.mark.parametrize("method", ["GET", "POST"])
def test_what_breaks_off_is_raised_and_not_sent_again(
    far: Callable[..., FarSide], method: str, bad: bytes, error: type[Exception]
) -> None:
    server = far(bad, answer(200))
    with pytest.raises(error) as caught:
        ask(method, server.url, timeout=0.3)
    assert not classify(caught.value, 0.0).not_applied
    assert len(server.asked) == 1


def test_a_refused_connection_never_left() -> None:
    with refusing() as held, pytest.raises(Transient, match="ConnectError") as caught:
        ask("POST", f"http://127.0.0.1:{held.getsockname()[1]}")
    assert caught.value.sent is False
    assert classify(caught.value, 0.0).not_applied


def test_a_name_that_is_not_found_never_left() -> None:
    with pytest.raises(Transient) as caught:
        ask("POST", "http://no-such-host.invalid")
    assert caught.value.sent is False


def test_what_waits_for_a_handshake_never_left(far: Callable[..., FarSide]) -> None:
    server = far(b"no TLS here")
    with pytest.raises(Transient) as caught:
        ask("POST", server.url.replace("http:", "https:"), timeout=0.5)
    assert caught.value.sent is False
    assert server.asked == []


class Failing(httpx.AsyncBaseTransport):  # type: ignore[misc]
    """A transport in which one thing goes wrong."""

    def __init__(self, error: Exception):
        self.error = error
        self.asked = 0

    async def handle_async_request(self, request: Any) -> Any:
        self.asked += 1
        raise self.error


@pytest.mark.parametrize("name", ["ConnectError", "ConnectTimeout", "PoolTimeout"])
def test_what_never_left(name: str) -> None:
    inner = Failing(getattr(httpx, name)("no"))
    with pytest.raises(Transient, match=name) as caught:
        ask("POST", "http://far.example", {"transport": inner})
    assert caught.value.sent is False
    assert isinstance(caught.value.__cause__, getattr(httpx, name))
    assert inner.asked == 1


@pytest.mark.parametrize(
    "name", ["ReadTimeout", "WriteTimeout", "ReadError", "WriteError", "RemoteProtocolError", "ProxyError"]
)
def test_what_may_have_left_is_as_httpx_has_it(name: str) -> None:
    inner = Failing(getattr(httpx, name)("no"))
    with pytest.raises(getattr(httpx, name)):
        ask("POST", "http://far.example", {"transport": inner})
    assert inner.asked == 1


def test_a_transport_that_calls_a_connection_in_use_one_to_be_made_is_not_believed() -> None:
    aiohttp = pytest.importorskip("aiohttp")
    for cause in (aiohttp.ServerDisconnectedError(), aiohttp.ClientOSError(104, "reset")):
        error = httpx.ConnectTimeout("no")
        error.__cause__ = cause
        with pytest.raises(httpx.ConnectTimeout):
            ask("POST", "http://far.example", {"transport": Failing(error)})
    error = httpx.ConnectTimeout("no")
    error.__cause__ = aiohttp.ConnectionTimeoutError("late")
    with pytest.raises(Transient) as caught:
        ask("POST", "http://far.example", {"transport": Failing(error)})
    assert caught.value.sent is False


@pytest.mark.parametrize("method", ["GET", "HEAD", "OPTIONS"])
def test_a_read_that_did_not_get_through_says_nothing_of_what_was_sent_before(method: str) -> None:
    with refusing() as held, pytest.raises(Transient) as caught:
        ask(method, f"http://127.0.0.1:{held.getsockname()[1]}")
    assert caught.value.sent is None
    assert not classify(caught.value, 0.0).not_applied


def test_a_full_pool_never_left(far: Callable[..., FarSide]) -> None:
    server = far(b"silence")

    async def two() -> list[Any]:
        limits = httpx.Limits(max_connections=1)
        timeout = httpx.Timeout(0.6, pool=0.1)
        async with http.client(limits=limits, timeout=timeout) as client:
            return await asyncio.gather(client.post(server.url), client.post(server.url), return_exceptions=True)

    late, waiting = asyncio.run(two())
    assert isinstance(late, httpx.ReadTimeout)
    assert isinstance(waiting, Transient)
    assert waiting.sent is False
    assert len(server.asked) == 1


# Redirects.


@pytest.mark.parametrize("status", [301, 302, 307, 308])
@pytest.mark.parametrize("method", ["POST", "PUT", "PATCH", "DELETE"])
@pytest.mark.parametrize("elsewhere", [False, True])
def test_a_request_is_not_sent_to_a_second_place(
    far: Callable[..., FarSide], method: str, status: int, elsewhere: bool
) -> None:
    other = far(answer(200))
    server = far(answer(status, other.url + "/new" if elsewhere else "/new"), answer(200))
    with pytest.raises(http.RedirectRefused, match=f"{method} was answered with {status}") as caught:
        ask(method, server.url + "/old")
    assert not classify(caught.value, 0.0).not_applied
    assert (server.asked, other.asked) == ([f"{method} /old"], [])


def test_nor_is_it_when_the_call_asks_for_redirects(far: Callable[..., FarSide]) -> None:
    server = far(answer(307, "/new"), answer(200))
    with pytest.raises(http.RedirectRefused):
        ask("POST", server.url, follow_redirects=True)
    assert len(server.asked) == 1


@pytest.mark.parametrize("asked", [{}, {"follow_redirects": True}])
def test_see_other_is_returned(far: Callable[..., FarSide], asked: dict[str, Any]) -> None:
    server = far(answer(303, "/receipts/7"), answer(200))
    response = ask("POST", server.url + "/filings", **asked)
    assert (response.status_code, response.headers["location"]) == (303, "/receipts/7")
    assert server.asked == ["POST /filings"]


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_a_read_is_redirected_within_its_origin(far: Callable[..., FarSide], status: int) -> None:
    server = far(answer(status, "/new"), answer(200))
    assert ask("GET", server.url + "/old").status_code == 200
    assert server.asked == ["GET /old", "GET /new"]


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
def test_and_not_beyond_it(far: Callable[..., FarSide], status: int) -> None:
    other = far(answer(200))
    server = far(answer(status, other.url + "/new"))
    with pytest.raises(http.RedirectRefused):
        ask("GET", server.url + "/old")
    assert (server.asked, other.asked) == (["GET /old"], [])


@pytest.mark.parametrize("location", ["http://[", "//other.example/x", "https://127.0.0.1/x", "ftp://127.0.0.1/x"])
def test_places_that_are_no_place_of_the_same_origin(far: Callable[..., FarSide], location: str) -> None:
    server = far(answer(302, location))
    with pytest.raises(http.RedirectRefused):
        ask("GET", server.url)
    assert len(server.asked) == 1


def test_a_read_may_be_told_not_to_follow(far: Callable[..., FarSide]) -> None:
    server = far(answer(302, "/new"))
    assert ask("GET", server.url, follow_redirects=False).status_code == 302
    assert len(server.asked) == 1


def test_redirects_in_a_circle_end(far: Callable[..., FarSide]) -> None:
    server = far(answer(302, "/round"))
    with pytest.raises(httpx.TooManyRedirects):
        ask("GET", server.url)
    assert len(server.asked) == 6


# Proxies, arguments, loading.


def test_proxies_of_the_environment_are_not_asked(far: Callable[..., FarSide], monkeypatch: pytest.MonkeyPatch) -> None:
    proxy, server = far(answer(200)), far(answer(200))
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY", "all_proxy"):
        monkeypatch.setenv(name, proxy.url)
    for name in ("NO_PROXY", "no_proxy"):
        monkeypatch.delenv(name, raising=False)
    ask("POST", server.url)
    assert (len(server.asked), proxy.asked) == (1, [])


@pytest.mark.parametrize("name", ["proxy", "mounts", "trust_env", "follow_redirects"])
def test_arguments_that_let_others_send_are_refused(name: str) -> None:
    with pytest.raises(UsageError, match=f"takes no {name}="):
        http.client(**{name: None})


def test_a_transport_of_ones_own_brings_its_own_settings() -> None:
    with pytest.raises(UsageError, match="verify, limits: give them to the transport"):
        http.client(transport=Failing(ValueError()), verify=False, limits=httpx.Limits())


def test_the_arguments_of_httpx_are_taken(far: Callable[..., FarSide]) -> None:
    server = far(answer(200))
    given = {"base_url": server.url + "/v1", "headers": {"x": "y"}, "timeout": 3.0}
    assert ask("GET", "/filings", given).request.headers["x"] == "y"
    assert server.asked == ["GET /v1/filings"]


def test_times_are_bounded_unless_told_otherwise() -> None:
    assert http.client().timeout == httpx.Timeout(60.0, connect=10.0)
    assert http.client(timeout=None).timeout == httpx.Timeout(None)


def test_httpx_is_loaded_on_use_and_missed_in_words() -> None:
    script = """
import sys
import onward
assert "httpx" not in sys.modules
sys.modules["httpx"] = None
try:
    onward.http
except ImportError as error:
    print(error)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "onward.http needs httpx: pip install 'onward[http]'"
