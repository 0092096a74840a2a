"""An HTTP client for effects: it sends a request once, and what it raises says truly whether it left.

    @job.resource
    async def registry():
        async with onward.http.client(base_url="https://registry.example") as client:
            yield client

It is httpx (`pip install 'onward[http]'`) without what sends behind one's back: no retries, no proxies, no redirects
but those of reads within the same origin.
"""

from __future__ import annotations

from typing import Any

from onward.errors import Transient, UsageError
from onward.policy.clients import Connection, connection

try:
    import httpx
except ImportError:
    raise ImportError("onward.http needs httpx: pip install 'onward[http]'") from None

__all__ = ["RedirectRefused", "client"]

READS = frozenset({"GET", "HEAD", "OPTIONS"})
MOST_REDIRECTS = 5
OF_TRANSPORT = ("verify", "cert", "http1", "http2", "limits")
NOT_TAKEN = {
    "proxy": "a proxy may send again by itself",
    "mounts": "a proxy may send again by itself",
    "trust_env": "proxies from the environment would come in unseen",
    "follow_redirects": "a redirect may send a request a second time, or to another host",
}


class RedirectRefused(Exception):
    """The far side pointed to another place, which was not asked. Whether it applied the request is not known."""


def client(**kwargs: Any) -> httpx.AsyncClient:
    """An `httpx.AsyncClient`, with its arguments, that sends each request at most once.

    What surely never left raises `onward.Transient(sent=False)`: a name that is not found, a connection that is refused
    or not made in time, TLS that cannot be agreed on, a pool without a free connection. For GET, HEAD and OPTIONS it
    leaves `sent` open: a read that did not get through says nothing of what was sent before it. Everything else
    (answers, resets, timeouts) is as httpx has it.

    A redirect of a read is followed within the same scheme, host and port. Of other requests none is followed: 303,
    "see the result there", is returned as it is. Any other redirect raises RedirectRefused, so that nothing is sent to
    a second place, nor again to the first.

    `timeout` is 10 seconds for the connection and 60 for the rest, unless given; an effect's `deadline` cuts it too.
    A `transport` of one's own must not send again by itself. Raises UsageError for arguments that let others do so.
    """
    for name, why in NOT_TAKEN.items():
        if name in kwargs:
            raise UsageError(f"onward.http.client() takes no {name}=: {why}; use httpx.AsyncClient where that is right")
    secured = {name: kwargs.pop(name) for name in OF_TRANSPORT if name in kwargs}
    given = kwargs.pop("transport", None)
    if given is not None and secured:
        raise UsageError(f"{', '.join(secured)}: give them to the transport, since it is given")
    inner = given if given is not None else httpx.AsyncHTTPTransport(trust_env=False, retries=0, **secured)
    return _Client(**{
        "timeout": httpx.Timeout(60.0, connect=10.0),
        "max_redirects": MOST_REDIRECTS,
        **kwargs,
        "transport": _OnceOnly(inner),
        "trust_env": False,
    })  # fmt: skip


class _Client(httpx.AsyncClient):
    async def send(self, request: httpx.Request, **kwargs: Any) -> httpx.Response:
        """Reads follow redirects, as far as the transport lets them, unless told not to; nothing else does."""
        asked = kwargs.pop("follow_redirects", True)
        return await super().send(request, follow_redirects=request.method in READS and bool(asked), **kwargs)


class _OnceOnly(httpx.AsyncBaseTransport):
    """Tells truthfully what never left, and stops redirects before the client sees them."""

    def __init__(self, inner: httpx.AsyncBaseTransport):
        self._inner = inner

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        try:
            response = await self._inner.handle_async_request(request)
        except httpx.TransportError as error:
            if connection(error) is Connection.UNKNOWN:
                raise
            sent = None if request.method in READS else False
            raise Transient(f"{type(error).__name__}: {error}", sent=sent) from error
        if response.has_redirect_location and not _is_harmless(request, response):
            await response.aclose()
            raise RedirectRefused(
                f"{request.method} was answered with {response.status_code}, a redirect, which is not followed"
            )
        return response

    async def aclose(self) -> None:
        await self._inner.aclose()


def _is_harmless(request: httpx.Request, response: httpx.Response) -> bool:
    """Whether a redirect sends nothing a second time, nor anything to another host."""
    if request.method not in READS:
        return response.status_code == 303  # it is returned, and not followed
    try:
        there = request.url.join(response.headers["location"])
    except httpx.InvalidURL:
        return False
    return _origin(there) == _origin(request.url)


def _origin(url: httpx.URL) -> tuple[str, str, int | None]:
    port = url.port or {"http": 80, "https": 443}.get(url.scheme)
    return url.scheme, url.host, port
