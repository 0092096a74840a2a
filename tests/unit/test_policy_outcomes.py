"""What an exception says of an effect: known as not applied, or unknown. All doubt is unknown."""

from __future__ import annotations

import asyncio
import socket
import struct
import threading
import urllib.error
import urllib.request
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from email.message import Message
from typing import Any

import pytest

from onward.errors import Done, Fatal, Invalid, MisfitRecord, OutputError, Rejected, Transient
from onward.model import Kind
from onward.policy.failures import Classified, classify

NOT_APPLIED = (400, 401, 403, 404, 422, 429)
UNKNOWN = (202, 302, 307, 402, 405, 408, 409, 410, 412, 423, 425, 451, 500, 502, 503, 504, 520)
TIMEOUT = 0.2


def told(error: BaseException, **given: Any) -> Classified:
    return classify(error, 0.0, **given)


class Mine(Exception):
    """An exception of the user's own."""


@pytest.mark.parametrize(
    ("error", "not_applied"),
    [
        (Invalid("no such entity"), True),
        (Rejected("fee missing"), True),
        (Fatal("revoked"), True),
        (MisfitRecord("the record no longer fits"), True),
        (Transient("pool is empty", sent=False), True),
        (ConnectionRefusedError(111, "refused"), True),
        (Transient("later"), False),
        (Transient("cut off", sent=True), False),
        (Done("nothing to do"), False),
        (OutputError("a receipt that cannot be stored"), False),
        (ConnectionResetError(104, "reset"), False),
        (ConnectionAbortedError(), False),
        (BrokenPipeError(), False),
        (ConnectionError(), False),
        (TimeoutError("late"), False),
        (socket.gaierror(-3, "no name"), False),
        (OSError(113, "no route to host"), False),
        (asyncio.CancelledError(), False),
        (KeyboardInterrupt(), False),
        (SystemExit(1), False),
        (MemoryError(), False),
        (ValueError("7 is odd"), False),
        (Mine("whatever"), False),
    ],
    ids=repr,
)
def test_what_a_step_raises(error: BaseException, not_applied: bool) -> None:
    assert told(error).not_applied is not_applied


def test_the_jobs_own_opinion_counts() -> None:
    assert told(Mine("closed"), ask=lambda error: Rejected).not_applied
    assert told(Mine("busy"), ask=lambda error: Transient(sent=False)).not_applied
    assert not told(ConnectionRefusedError(111, "x"), ask=lambda error: Transient(sent=True)).not_applied
    assert not told(ConnectionRefusedError(111, "x"), ask=lambda error: Transient()).not_applied


@pytest.mark.parametrize(
    ("members", "not_applied"),
    [
        ([ConnectionRefusedError(111, "a"), ConnectionRefusedError(111, "b")], True),
        ([Rejected("a"), Invalid("b")], True),
        ([Rejected("a"), TimeoutError()], False),
        ([ConnectionRefusedError(111, "a"), ConnectionResetError(104, "b")], False),
        ([ExceptionGroup("inner", [ConnectionRefusedError(111, "a"), ValueError()])], False),
    ],
    ids=repr,
)
def test_of_a_group_every_member_has_to_say_so(members: list[Exception], not_applied: bool) -> None:
    assert told(ExceptionGroup("g", members)).not_applied is not_applied


def test_a_refusal_that_was_being_handled_says_nothing_of_the_call_that_failed_then() -> None:
    """The first address refused, the second was sent to."""
    for later in (TimeoutError("late"), ConnectionResetError(104, "reset"), urllib.error.URLError(TimeoutError())):
        try:
            try:
                raise ConnectionRefusedError(111, "the first address")
            except ConnectionRefusedError:
                raise later  # noqa: B904
        except OSError as error:
            assert error.__context__ is not None
            assert not told(error).not_applied


def test_what_an_own_error_was_raised_from_says_nothing() -> None:
    error = Mine("the copy failed as well")
    error.__cause__ = ConnectionRefusedError(111, "refused")
    assert not told(error).not_applied


def test_errors_that_wrap_each_other_in_a_circle() -> None:
    one, other = urllib.error.URLError("x"), urllib.error.URLError("y")
    one.reason, other.reason = other, one  # type: ignore[assignment]
    assert not told(one).not_applied


def test_the_refusals_of_several_addresses_that_asyncio_tells_in_one() -> None:
    refused = "[Errno 111] Connect call failed ('::1', 9, 0, 0)"
    assert told(OSError(f"Multiple exceptions: {refused}, {refused}")).not_applied
    unreachable = "[Errno 101] Network is unreachable"
    assert not told(OSError(f"Multiple exceptions: {refused}, {unreachable}")).not_applied
    assert not told(OSError("Multiple exceptions: ")).not_applied
    assert not told(OSError(refused)).not_applied


# Statuses, as the well-known clients raise them.


def raised_by_urllib(status: int) -> Exception:
    return urllib.error.HTTPError("http://far.example", status, "said", Message(), None)


def raised_by_httpx(status: int) -> Exception:
    httpx = pytest.importorskip("httpx")
    request = httpx.Request("POST", "http://far.example")
    error: Exception = httpx.HTTPStatusError("said", request=request, response=httpx.Response(status, request=request))
    return error


def raised_by_requests(status: int) -> Exception:
    requests = pytest.importorskip("requests")
    response = requests.Response()
    response.status_code = status
    error: Exception = requests.HTTPError("said", response=response)
    return error


def raised_by_openai(status: int) -> Exception:
    openai = pytest.importorskip("openai")
    client = openai.OpenAI(api_key="x", base_url="http://far.example")
    module = type(client._client).__mro__[-3].__module__.split(".")[0]  # the httpx that it is made with
    httpx = pytest.importorskip(module if module.startswith("httpx") else "httpx")
    request = httpx.Request("POST", "http://far.example")
    error: Exception = client._make_status_error("said", body=None, response=httpx.Response(status, request=request))
    return error


def raised_by_aiohttp(status: int) -> Exception:
    aiohttp = pytest.importorskip("aiohttp")
    error: Exception = aiohttp.ClientResponseError(None, (), status=status, message="said")
    return error


CLIENTS = [raised_by_urllib, raised_by_httpx, raised_by_requests, raised_by_openai, raised_by_aiohttp]


@pytest.mark.parametrize("raised", CLIENTS, ids=lambda one: one.__name__)
@pytest.mark.parametrize("status", NOT_APPLIED + UNKNOWN)
def test_statuses(raised: Callable[[int], Exception], status: int) -> None:
    found = told(raised(status))
    assert found.not_applied is (status in NOT_APPLIED)
    assert found.status == status


# Connections, with real ones.


def post_urllib(url: str) -> None:
    urllib.request.urlopen(url, b"{}", timeout=TIMEOUT).read()


def post_httpx(url: str) -> None:
    httpx = pytest.importorskip("httpx")
    httpx.post(url, timeout=TIMEOUT, trust_env=False).raise_for_status()


def post_httpx_async(url: str) -> None:
    httpx = pytest.importorskip("httpx")

    async def post() -> None:
        async with httpx.AsyncClient(timeout=TIMEOUT, trust_env=False) as client:
            (await client.post(url)).raise_for_status()

    asyncio.run(post())


def post_requests(url: str) -> None:
    requests = pytest.importorskip("requests")
    requests.post(url, timeout=TIMEOUT).raise_for_status()


def post_openai(url: str) -> None:
    openai = pytest.importorskip("openai")
    client = openai.OpenAI(base_url=url, api_key="x", max_retries=0, timeout=TIMEOUT)
    client.chat.completions.create(model="small", messages=[])


def post_aiohttp(url: str) -> None:
    aiohttp = pytest.importorskip("aiohttp")

    async def post() -> None:
        limit = aiohttp.ClientTimeout(total=TIMEOUT)
        async with aiohttp.ClientSession(timeout=limit) as session, session.post(url) as response:
            response.raise_for_status()
            await response.read()

    asyncio.run(post())


POSTS = [post_urllib, post_httpx, post_httpx_async, post_requests, post_openai, post_aiohttp]


@contextmanager
def far_side(answer: Callable[[socket.socket], None]) -> Iterator[str]:
    """A server on this host that treats each connection in the same way."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        server.settimeout(5)

        def serve() -> None:
            try:
                while True:
                    connection, _ = server.accept()
                    with connection:
                        answer(connection)
            except OSError:
                return

        thread = threading.Thread(target=serve, daemon=True)
        thread.start()
        yield f"http://127.0.0.1:{server.getsockname()[1]}/"
        server.close()
    thread.join(6)


def raised(post: Callable[[str], None], url: str) -> Classified:
    with pytest.raises(Exception) as caught:
        post(url)
    return told(caught.value)


def reset(connection: socket.socket) -> None:
    connection.recv(65536)
    connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def hang_up(connection: socket.socket) -> None:
    connection.recv(65536)


def cut_off(connection: socket.socket) -> None:
    connection.recv(65536)
    connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf")


def say_nothing(connection: socket.socket) -> None:
    connection.recv(65536)
    connection.settimeout(2)
    connection.recv(1)


@pytest.mark.parametrize("post", POSTS, ids=lambda one: one.__name__)
@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
def test_a_refused_connection_is_not_applied(post: Callable[[str], None], host: str) -> None:
    with socket.socket() as held:
        held.bind(("127.0.0.1", 0))  # bound and not listening: nobody else takes it, and it refuses
        found = raised(post, f"http://{host}:{held.getsockname()[1]}/")
    assert (found.kind, found.not_applied) == (Kind.TRANSIENT, True)


@pytest.mark.parametrize("post", POSTS, ids=lambda one: one.__name__)
@pytest.mark.parametrize("answer", [reset, hang_up, cut_off, say_nothing], ids=lambda one: one.__name__)
def test_what_ends_after_the_request_left_is_unknown(
    post: Callable[[str], None], answer: Callable[[socket.socket], None]
) -> None:
    with far_side(answer) as url:
        found = raised(post, url)
    assert (found.kind, found.not_applied) == (Kind.TRANSIENT, False)


@pytest.mark.parametrize(
    "name", ["ConnectTimeout", "ReadTimeout", "WriteTimeout", "PoolTimeout", "RemoteProtocolError"]
)
def test_timeouts_of_httpx_are_unknown(name: str) -> None:
    httpx = pytest.importorskip("httpx")
    found = told(getattr(httpx, name)("late"))
    assert (found.kind, found.not_applied) == (Kind.TRANSIENT, False)


def test_timeouts_of_requests_and_aiohttp_are_unknown() -> None:
    requests, aiohttp = pytest.importorskip("requests"), pytest.importorskip("aiohttp")
    for error in (
        requests.ConnectTimeout("late"),
        requests.ReadTimeout("late"),
        requests.exceptions.SSLError("bad"),
        aiohttp.ConnectionTimeoutError("late"),
        aiohttp.SocketTimeoutError("late"),
        aiohttp.ServerDisconnectedError(),
    ):
        assert not told(error).not_applied
