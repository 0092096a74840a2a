"""A registry of annual reports that behaves as badly as real ones do: an HTTP server in a process of its own.

python registry.py registry.db [--port 8700] [--seed 1] [--switch reset_after_apply=0.2] [--switch …]
python registry.py registry.db --judge
curl -X PUT localhost:8700/switches -d '{"closed": {"US-CA": 120}, "throttle": [0.5, 1]}'

POST /filings                      Idempotency-Key: …   → 201 {"number", "fee"}; 200 for a key that is known
GET  /filings?key=…&jurisdiction=…                      → 200 {"number", "fee"}, 404
GET  /acknowledgements/NUMBER                           → 200 {"number", "fee"}, 404 as long as there is none
GET, PUT /switches · GET /verdict?entities=PREFIX
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import hashlib
import json
import logging
import math
import socket
import struct
import sys
import threading
import time
from collections.abc import AsyncIterator
from dataclasses import asdict
from email.utils import formatdate
from pathlib import Path
from typing import Any

import uvicorn
from registry_book import Book, Filing, told, verdicts
from registry_switches import CHANCES, Switches
from starlette.applications import Starlette
from starlette.requests import ClientDisconnect, Request
from starlette.responses import JSONResponse, Response
from starlette.routing import Route
from starlette.types import Receive, Scope, Send
from uvicorn.protocols.http.h11_impl import H11Protocol

OBLIGATION = ("entity", "jurisdiction", "filing_type", "filing_year")
OPEN: dict[tuple[str, int], asyncio.Transport] = {}


class Wire(H11Protocol):
    """Keeps the connections in reach, so that they can be cut."""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        super().connection_made(transport)
        OPEN[transport.get_extra_info("peername")] = transport

    def connection_lost(self, exc: Exception | None) -> None:
        OPEN.pop(self.transport.get_extra_info("peername"), None)
        super().connection_lost(exc)


class Reset(Response):
    """No answer at all: the connection is reset."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        transport = OPEN.get(tuple(scope["client"]))
        if transport is not None:  # else its client has gone already
            transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            transport.abort()
            await receive()  # until the server has noticed


class Truncated(Response):
    """The beginning of an answer, and then nothing."""

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        await send({"type": "http.response.start", "status": 201, "headers": [(b"content-length", b"4096")]})
        await send({"type": "http.response.body", "body": b'{"number": "', "more_body": True})
        transport = OPEN.get(tuple(scope["client"]))
        if transport is not None:
            transport.close()
            await receive()


class Registry:
    """The registry's office hours, manners and memory, one request at a time."""

    def __init__(self, book: Book, switches: Switches):
        self.book = book
        self.switches = switches
        self._landing: set[asyncio.Task[None]] = set()

    async def submit(self, request: Request) -> Response:
        key = request.headers.get("idempotency-key", "")
        try:
            raw = await request.body()
        except ClientDisconnect:  # its client died in the middle of a request, or gave up
            await self.book.arrived("broken off", key, "", "", None)
            return Response(status_code=400)
        body, obligation = _read(raw)
        hashed = hashlib.blake2b(raw, digest_size=16).hexdigest()
        sent_at = float(request.headers.get("x-sent-at", "nan"))
        number = await self.book.arrived("submit", key, obligation, hashed, None if math.isnan(sent_at) else sent_at)
        if refused := self._refused(body, key):
            return await self._answer(number, *refused)
        if self.switches.fires("reset_before_apply", key):
            return await self._answer(number, "reset_before_apply", Reset())
        if known := self._known(key):
            return await self._again(number, known, hashed, key)
        if self.switches.fires("late_landing", key):
            task = asyncio.create_task(self._land_late(number, key, obligation, hashed, int(body["fee"])))
            self._landing.add(task)
            task.add_done_callback(self._landing.discard)
            return await self._answer(number, "late_landing", Reset())
        filing = await self.book.apply(number, key, obligation, hashed, int(body["fee"]))
        return await self._badly(number, "applied", filing, 201)

    async def lookup(self, request: Request) -> Response:
        key = request.query_params.get("key", "")
        number = await self.book.arrived("lookup", key, "", "", None)
        filing = self.book.by_key.get(key)
        if self.switches.is_out(filing.jurisdiction if filing else request.query_params.get("jurisdiction", "")):
            return await self._answer(number, "outage", JSONResponse({"error": "out of order"}, 503))
        if self.switches.fires("lookup_error", key):
            return await self._answer(number, "lookup_error", JSONResponse({"error": "try again"}, 500))
        if filing is None or time.time() < filing.at + self.switches["lookup_lag"]:
            return await self._answer(number, "not found", JSONResponse({"error": "no such filing"}, 404))
        return await self._answer(number, "found", JSONResponse(_receipt(filing)))

    async def acknowledgement(self, request: Request) -> Response:
        filing = self.book.by_number.get(request.path_params["number"])
        key = filing.key if filing else ""
        number = await self.book.arrived("acknowledgement", key, "", "", None)
        if self.switches.is_out(filing.jurisdiction if filing else ""):
            return await self._answer(number, "outage", JSONResponse({"error": "out of order"}, 503))
        if filing is None or time.time() < filing.at + self.switches["acknowledged_after"]:
            return await self._answer(number, "not found", JSONResponse({"error": "no acknowledgement"}, 404))
        if self.switches.fires("wrong_fee", key):
            wrong = {**_receipt(filing), "fee": filing.fee - 10}
            return await self._answer(number, "wrong_fee", JSONResponse(wrong))
        return await self._answer(number, "acknowledged", JSONResponse(_receipt(filing)))

    async def change(self, request: Request) -> Response:
        try:
            self.switches.set(json.loads(await request.body()))
        except (ValueError, TypeError, AttributeError) as error:
            return JSONResponse({"error": str(error)}, 422)
        return JSONResponse(self.switches.shown())

    async def shown(self, request: Request) -> Response:
        return JSONResponse({"switches": self.switches.shown(), "what": CHANCES})

    async def verdict(self, request: Request) -> Response:
        entities = request.query_params.get("entities", "")
        found = await asyncio.to_thread(lambda: list(verdicts(self.book.path, entities)))
        return JSONResponse([asdict(one) for one in found])

    def _refused(self, body: dict[str, Any], key: str) -> tuple[str, Response] | None:
        """What is answered to a request that is not looked at any further; nothing is applied."""
        if not key or not body:
            told = "a filing needs an Idempotency-Key and entity, jurisdiction, filing_type, filing_year and fee"
            return "malformed", JSONResponse({"error": told}, 400 if not key else 422)
        if self.switches.is_out(body["jurisdiction"]):
            return "outage", JSONResponse({"error": "out of order"}, 503)
        if closed := self.switches.closed_for(body["jurisdiction"]):
            return "closed", JSONResponse({"error": "closed"}, 503, {"retry-after": str(math.ceil(closed))})
        if self.switches.fires("throttle", key):
            after = self.switches["retry_after"]
            is_date = self.switches["retry_after_form"] == "date"
            value = formatdate(math.ceil(time.time() + after), usegmt=True) if is_date else f"{after:g}"
            return "throttle", JSONResponse({"error": "too many requests"}, 429, {"retry-after": value})
        return None

    def _known(self, key: str) -> Filing | None:
        """The filing that came under the key, as long as keys are remembered."""
        filing = self.book.by_key.get(key)
        remembered = filing is not None and time.time() < filing.at + self.switches["dedupe_window"]
        return filing if remembered else None

    async def _again(self, number: int, known: Filing, hashed: str, key: str) -> Response:
        if known.body_hash != hashed:
            return await self._answer(number, "other body", JSONResponse({"error": "key used before"}, 422))
        if self.switches.fires("conflict_on_resend", key):
            return await self._answer(number, "conflict_on_resend", JSONResponse({"error": "filed already"}, 409))
        return await self._badly(number, "known", known, 200)

    async def _badly(self, number: int, fate: str, filing: Filing, status: int) -> Response:
        """The filing is on file; whether the client hears of it is another matter."""
        if self.switches.fires("reset_after_apply", filing.key):
            return await self._answer(number, f"{fate}, reset_after_apply", Reset())
        if self.switches.fires("truncated_reply", filing.key):
            return await self._answer(number, f"{fate}, truncated_reply", Truncated())
        if self.switches.fires("error_after_apply", filing.key):
            return await self._answer(number, f"{fate}, error_after_apply", JSONResponse({"error": "fault"}, 500))
        if self.switches.fires("slow_reply", filing.key):
            await asyncio.sleep(self.switches["reply_after"])
        return await self._answer(number, fate, JSONResponse(_receipt(filing), status))

    async def _land_late(self, number: int, key: str, obligation: str, hashed: str, fee: int) -> None:
        await asyncio.sleep(self.switches["landing_after"])
        if self._known(key):
            await self.book.note(number, "late_landing, known by then", None)
        else:
            await self.book.apply(number, key, obligation, hashed, fee)
            await self.book.note(number, "late_landing, applied", None)

    async def _answer(self, number: int, fate: str, response: Response) -> Response:
        is_answer = not isinstance(response, Reset | Truncated)
        await self.book.note(number, fate, response.status_code if is_answer else None)
        if is_answer:
            self.book.answered(number)
        return response


def _read(raw: bytes) -> tuple[dict[str, Any], str]:
    """The filing and its obligation; nothing of both where it is malformed."""
    try:
        body = json.loads(raw)
        int(body["fee"])
        return body, "|".join(str(body[name]) for name in OBLIGATION)
    except (ValueError, KeyError, TypeError):
        return {}, ""


def _receipt(filing: Filing) -> dict[str, Any]:
    return {"number": filing.number, "fee": filing.fee}


def application(path: Path, switches: Switches) -> Starlette:
    @contextlib.asynccontextmanager
    async def open_book(app: Starlette) -> AsyncIterator[None]:
        keeping = asyncio.create_task(registry.book.keep())
        yield
        keeping.cancel()

    registry = Registry(Book(path), switches)
    return Starlette(
        lifespan=open_book,
        routes=[
            Route("/filings", registry.submit, methods=["POST"]),
            Route("/filings", registry.lookup, methods=["GET"]),
            Route("/acknowledgements/{number}", registry.acknowledgement, methods=["GET"]),
            Route("/switches", registry.change, methods=["PUT"]),
            Route("/switches", registry.shown, methods=["GET"]),
            Route("/verdict", registry.verdict, methods=["GET"]),
        ],
    )


def serve(path: Path, port: int, switches: Switches, until_eof: bool = False) -> None:
    """Listen on the loopback until a signal, or until standard input ends."""
    listening = socket.create_server(("127.0.0.1", port), backlog=1024)
    print(f"listening on http://127.0.0.1:{listening.getsockname()[1]}", flush=True)
    logging.getLogger("uvicorn.error").setLevel(logging.ERROR)
    config = uvicorn.Config(application(path, switches), http=Wire, log_config=None, access_log=False, loop="asyncio")
    server = uvicorn.Server(config)
    if until_eof:
        threading.Thread(target=_end_with_input, args=(server,), daemon=True).start()
    server.run(sockets=[listening])


def _end_with_input(server: uvicorn.Server) -> None:
    sys.stdin.buffer.read()
    server.should_exit = server.force_exit = True


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("book", type=Path, help="the registry's SQLite file")
    parser.add_argument("--port", type=int, default=8700, help="0: any; the address is printed")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--switch", action="append", default=[], metavar="NAME=VALUE", help=", ".join(CHANCES))
    parser.add_argument("--until-eof", action="store_true", help="end when standard input does")
    parser.add_argument("--judge", action="store_true", help="say how often each obligation was applied; 1: some twice")
    given = parser.parse_args()
    if given.judge:
        found = list(verdicts(given.book))
        print(told(found))
        return int(any(one.applied > 1 for one in found))
    switches = Switches()
    try:
        wanted = dict(one.split("=", 1) for one in given.switch)
        switches.set({"seed": given.seed, **{name: _value(text) for name, text in wanted.items()}})
    except ValueError as error:
        parser.error(str(error))
    serve(given.book, given.port, switches, given.until_eof)
    return 0


def _value(text: str) -> Any:
    """A number, JSON, or a word."""
    try:
        return json.loads(text)
    except ValueError:
        return text


if __name__ == "__main__":
    sys.exit(main())
