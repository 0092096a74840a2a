"""HTTP/1.1 over a socket, with the ways in which a connection goes wrong."""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Callable
from dataclasses import dataclass, field
from http import HTTPStatus
from typing import Protocol

ABORT = struct.pack("ii", 1, 0)
REASONS = {status.value: status.phrase for status in HTTPStatus}


@dataclass(frozen=True)
class Request:
    method: str
    path: str
    query: str
    headers: dict[str, str]
    body: bytes


@dataclass
class Reply:
    """`way`: "" for an answer, else hang, cut or reset. `ended` is told once whether all of it was handed over."""

    status: int
    body: bytes
    headers: list[tuple[str, str]] = field(default_factory=list)
    kind: str = "application/json"
    delay: float = 0.0
    way: str = ""
    ended: Callable[[bool], None] = lambda delivered: None


class Handler(Protocol):
    def __call__(self, request: Request) -> Reply: ...


class Connection(asyncio.Protocol):
    """One connection. It answers one request after the other."""

    def __init__(self, handler: Handler, all_of_them: set[Connection]):
        self._handler = handler
        self._all = all_of_them
        self._received = b""
        self._waiting: Reply | None = None
        self._transport: asyncio.Transport | None = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        self._all.add(self)

    def connection_lost(self, error: Exception | None) -> None:
        self._transport = None
        self._all.discard(self)
        if self._waiting is not None and self._waiting.way == "hang":
            self._waiting.ended(False)

    def data_received(self, data: bytes) -> None:
        self._received += data
        self._next()

    def _next(self) -> None:
        if self._waiting is not None or not self._received:
            return
        found = parsed(self._received)
        if found is None:
            return
        request, self._received = found
        self._waiting = reply = self._handler(request)
        if reply.way == "hang":
            return
        if reply.delay > 0:
            asyncio.get_running_loop().call_later(reply.delay, self._send, reply)
        else:
            self._send(reply)

    def _send(self, reply: Reply) -> None:
        self._waiting = None
        there = self._transport is not None and not self._transport.is_closing()
        reply.ended(there and not reply.way)
        if self._transport is None or not there:
            return
        if reply.way == "reset":
            self.reset()
        elif reply.way == "cut":
            head, body = head_of(reply), reply.body
            self._transport.write(head + body[: len(body) // 2])
            self._transport.close()
        else:
            self._transport.write(head_of(reply) + reply.body)
            self._next()

    def reset(self) -> None:
        """End it with RST, not with FIN."""
        if self._transport is not None:
            self._transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, ABORT)
            self._transport.abort()


def head_of(reply: Reply) -> bytes:
    lines = [
        f"HTTP/1.1 {reply.status} {REASONS.get(reply.status, '')}",
        f"content-type: {reply.kind}",
        f"content-length: {len(reply.body)}",
        *(f"{name}: {value}" for name, value in reply.headers),
    ]
    return ("\r\n".join(lines) + "\r\n\r\n").encode("latin-1")


def parsed(received: bytes) -> tuple[Request, bytes] | None:
    """The first request and what follows it, or None while it is not all there."""
    head, blank, rest = received.partition(b"\r\n\r\n")
    if not blank:
        return None
    first, *lines = head.decode("latin-1").split("\r\n")
    headers = {name.strip().lower(): value.strip() for name, _, value in (line.partition(":") for line in lines)}
    if headers.get("transfer-encoding", "").lower() == "chunked":
        whole = unchunked(rest)
        if whole is None:
            return None
        body, rest = whole
    else:
        length = int(headers.get("content-length", 0))
        if len(rest) < length:
            return None
        body, rest = rest[:length], rest[length:]
    method, target, _version = first.split(" ", 2)
    path, _, query = target.partition("?")
    return Request(method, path, query, headers, body), rest


def unchunked(data: bytes) -> tuple[bytes, bytes] | None:
    body = b""
    while True:
        size, end, data = data.partition(b"\r\n")
        if not end:
            return None
        length = int(size.split(b";")[0], 16)
        if len(data) < length + 2:
            return None
        body, data = body + data[:length], data[length + 2 :]
        if not length:
            return body, data


class Listener:
    """A port that can be closed and opened again."""

    def __init__(self, handler: Handler, port: int):
        self.port = port
        self._handler = handler
        self._connections: set[Connection] = set()
        self._server: asyncio.Server | None = None

    async def open(self) -> None:
        if self._server is None:
            loop = asyncio.get_running_loop()
            self._server = await loop.create_server(
                lambda: Connection(self._handler, self._connections),
                "127.0.0.1",
                self.port,
                backlog=1024,
                reuse_address=True,
            )
            self.port = self._server.sockets[0].getsockname()[1]

    def refuse(self) -> None:
        """New connections are refused, those that are open are reset."""
        if self._server is not None:
            self._server.close()
            self._server = None
        for connection in list(self._connections):
            connection.reset()
