"""A proxy between a client and its PostgreSQL server that cuts connections at commits."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable
from typing import Literal

Cut = Literal["before", "after", "in mid-answer"] | None
COMMIT = b"COMMIT\x00"


class Cutter:
    """Asks `when` at each COMMIT that passes: cut "before" it reaches the server, "after" it did, with the answer lost;
    "in mid-answer": after the first bytes of the answer. `url` is that of the server, by way of this."""

    def __init__(self, host: str, port: int, when: Callable[[], Cut]):
        self._server = (host, port)
        self._when = when
        self._listening = socket.create_server(("127.0.0.1", 0))
        self.port: int = self._listening.getsockname()[1]
        self.cuts = 0
        self.refuses = False
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self) -> None:
        while True:
            try:
                client, _ = self._listening.accept()
            except OSError:
                return
            if self.refuses:
                client.close()
                continue
            server = socket.create_connection(self._server)
            for one in (client, server):
                one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            link = _Link(client, server, self)
            threading.Thread(target=link.upwards, daemon=True).start()
            threading.Thread(target=link.downwards, daemon=True).start()

    def decide(self) -> Cut:
        how = self._when()
        self.cuts += how is not None
        return how

    def close(self) -> None:
        self._listening.close()


class _Link:
    def __init__(self, client: socket.socket, server: socket.socket, cutter: Cutter):
        self._client, self._server, self._cutter = client, server, cutter
        self._swallow: int | None = None  # so many bytes of the answer still pass

    def upwards(self) -> None:
        with contextlib.suppress(OSError):
            while data := self._client.recv(1 << 16):
                how = self._cutter.decide() if COMMIT in data else None
                if how == "before":
                    break
                if how is not None:
                    self._swallow = 3 if how == "in mid-answer" else 0
                self._server.sendall(data)
        self._end()

    def downwards(self) -> None:
        with contextlib.suppress(OSError):
            while data := self._server.recv(1 << 16):
                if self._swallow is not None:
                    self._client.sendall(data[: self._swallow])
                    break
                self._client.sendall(data)
        self._end()

    def _end(self) -> None:
        for one in (self._client, self._server):
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_RDWR)
            one.close()
