"""The API: from a request to its reply, with whatever goes wrong on the way."""

from __future__ import annotations

import asyncio
import math
import re
import time
from collections import Counter
from dataclasses import asdict
from typing import Any
from urllib.parse import parse_qs, unquote

import orjson

from .answers import Answers, input_tokens
from .asked import CHAT, RESPONSES, Asked, read
from .batches import Batches, Files
from .bodies import PAGE, TROUBLES, Trouble, answered, not_found
from .limits import Limits, retry_after
from .logged import Entry, Log
from .schemas import refused
from .switches import FAULTS, Switches, drawn, share, split
from .wire import Listener, Reply, Request

ASKING = (RESPONSES, CHAT)
CONTROLS = ("/control", "/log")
PAGES = {"html": 200, "html_503": 503}
BODIES = {"empty": b"", "broken_json": b'{"id": "resp_1", "object": "response", "output": [{"type": "mess'}
WAYS = {"hang": "hang", "reset": "reset", "lost": "reset", "cut": "cut"}
BOUNDARY = re.compile(r'boundary="?([^";]+)')
LIMIT_SWITCHES = ("requests_per_minute", "tokens_per_minute", "burst_seconds")


class Service:
    def __init__(self, switches: Switches, log: Log):
        self.first = self.switches = switches
        self.log = log
        self.open = 0
        self.listener: Listener | None = None
        self._limits = Limits(switches)
        self._answers = Answers()
        self._files = Files()
        self._batches = Batches(self._files, self._of_a_batch)
        self._asked: Counter[str] = Counter()
        self._struck: Counter[tuple[str, str]] = Counter()
        self._made = 0
        self._outage_ends: asyncio.TimerHandle | None = None

    # -- control ------------------------------------------------------------------------------------------------------

    def control(self, request: Request) -> Reply:
        """What the second port answers, and the first one, too, while it listens."""
        if request.path == "/log":
            return Reply(200, self.log.path.read_bytes(), kind="application/jsonl")
        if request.path != "/control":
            return failed(not_found("page; there are /control and /log"))
        if request.method == "POST":
            try:
                self.change(orjson.loads(request.body))
            except (ValueError, TypeError) as error:
                return failed(Trouble(400, str(error)))
        return Reply(200, orjson.dumps({**asdict(self.switches), "open": self.open, "port": self._port()}))

    def _port(self) -> int | None:
        return self.listener.port if self.listener else None

    def change(self, words: dict[str, Any]) -> None:
        base = self.first if words.pop("reset", False) else self.switches
        before, self.switches = self.switches, base.changed(words)
        if any(getattr(before, name) != getattr(self.switches, name) for name in LIMIT_SWITCHES):
            self._limits = Limits(self.switches)
        if self.switches.end_batches:
            self._batches.end_all(self.switches.end_batches)
            self.switches = self.switches.changed({"end_batches": None})
        if "outage" in words or before.outage != self.switches.outage:
            self._outage()

    def _outage(self) -> None:
        if self._outage_ends is not None:
            self._outage_ends.cancel()
            self._outage_ends = None
        seconds = self.switches.outage_seconds
        if self.switches.outage and seconds is not None:
            loop = asyncio.get_running_loop()
            self._outage_ends = loop.call_later(seconds, self.change, {"outage": None, "outage_seconds": None})
        if self.listener is not None:
            if self.switches.outage == "refused":
                self.listener.refuse()
            else:
                self._opening = asyncio.ensure_future(self.listener.open())

    # -- the API ------------------------------------------------------------------------------------------------------

    def handle(self, request: Request) -> Reply:
        """One request. It counts as open until its reply has been sent, or its client has gone."""
        if request.path in CONTROLS:
            return self.control(request)
        entry = Entry(request.method, request.path, request.body)
        self.open += 1
        try:
            reply = self._reply(request, entry)
        except Trouble as trouble:
            reply = failed(trouble)
        reply.delay += self._latency(entry) if not reply.delay else 0.0
        reply.headers.append(("x-request-id", f"req_{entry.body_hash}"))
        if self.switches.rate_headers and request.path in ASKING:
            reply.headers += self._limits.headers()

        def ended(delivered: bool) -> None:
            self.open -= 1
            self.log.write(entry, None if reply.way in ("hang", "reset") else reply.status, delivered)

        reply.ended = ended
        return reply

    def _latency(self, entry: Entry) -> float:
        if entry.asked is None:
            return 0.0
        given = entry.asked.markers.get("latency")
        base = float(given) if given else drawn(self.switches.latency, self.switches.seed, entry.body_hash)
        return base + self.switches.latency_per_open * self.open

    def _reply(self, request: Request, entry: Entry) -> Reply:
        place = f"{request.method} {request.path}"
        fault = self.switches.outage or self._due(self.switches.at.get(place, ""), place)
        if fault and fault not in ("late", "lost"):
            entry.fault = fault
            return spoilt(fault, b"{}")
        self._admit(request)
        if request.path in ASKING and request.method == "POST":
            reply = self._ask(request, entry)
        else:
            reply = self._other(request)
        if fault == "lost":
            entry.fault, reply.way = fault, "reset"
        elif fault == "late":
            entry.fault, reply.delay = fault, self.switches.late_after
        return reply

    def _admit(self, request: Request) -> None:
        if self.switches.key is not None and request.headers.get("authorization") != f"Bearer {self.switches.key}":
            raise TROUBLES["401"]
        if self.switches.chat_only and request.path == RESPONSES:
            raise Trouble(404, f"Invalid URL ({request.method} {request.path})")

    def _ask(self, request: Request, entry: Entry) -> Reply:
        asked = parsed(request.path, loaded(request.body))
        entry.asked = asked
        self._asked[asked.identity] += 1
        entry.nth = self._asked[asked.identity]
        if self.switches.most_open is not None and self.open > self.switches.most_open:
            return failed(TROUBLES["429"], retry_after(1.0, self.switches))
        fault = self._fault(asked, entry.nth)
        answer = self._answers.answer(asked, fault, self.switches)
        limited = self._limits.take(asked, answer.input_tokens + answer.output_tokens)
        if limited is not None:
            return failed(limited.trouble, retry_after(limited.wait, self.switches))
        entry.fault = fault or None
        self._refuse(asked, fault)
        if fault in TROUBLES:
            return failed(TROUBLES[fault], retry_after(1.0, self.switches) if fault == "429" else [])
        if fault != "reset":
            entry.answer = answer
        body = orjson.dumps(answered(asked, answer, self._number(), time.time()))
        reply = spoilt(fault, body)
        if fault == "late":
            reply.delay = self.switches.late_after
        return reply

    def _refuse(self, asked: Asked, fault: str) -> None:
        """Raise Trouble for what this model, this tenant or this schema may not have."""
        if self.switches.models is not None and asked.model not in self.switches.models:
            raise TROUBLES["model"]
        if asked.markers.get("tenant") in self.switches.forbidden_tenants:
            raise TROUBLES["403"]
        if input_tokens(asked, self.switches) > self.switches.context_tokens:
            raise TROUBLES["context"]
        checked = asked.schema is not None and asked.strict and self.switches.strict_schemas
        if checked and (why := refused(asked.schema or {})):
            words = f"Invalid schema for response_format '{asked.schema_name}': {why}"
            raise Trouble(400, words, code="invalid_json_schema", param="text.format.schema")

    def _number(self) -> int:
        self._made += 1
        return self._made

    # -- faults -------------------------------------------------------------------------------------------------------

    def _fault(self, asked: Asked, nth: int) -> str:
        """The fault that strikes now: that of a marker, else one by chance, else none."""
        if found := self._due(asked.markers.get("fault", ""), asked.identity):
            return found
        for name, chance in self.switches.chances.items():
            likely, most = chance if isinstance(chance, list) else (chance, math.inf)
            strikes = share(self.switches.seed, "chance", name, asked.identity, nth) < likely
            if strikes and (found := self._due(f"{name}*{most}", asked.identity)):
                return found
        return ""

    def _due(self, spec: str, whom: str) -> str:
        """The fault of `misfit*2`, unless it has struck this one often enough."""
        name, most = split(spec)
        if not name:
            return ""
        if name not in FAULTS:
            raise Trouble(400, f"no such fault: {name}; there are {', '.join(sorted(FAULTS))}")
        if self._struck[name, whom] >= most:
            return ""
        self._struck[name, whom] += 1
        return name

    # -- models, files, batches ---------------------------------------------------------------------------------------

    def _other(self, request: Request) -> Reply:
        match [request.method, *unquote(request.path).strip("/").split("/")[1:]]:
            case ["GET", "models"]:
                names = self.switches.models or ["small", "large"]
                return fine({"object": "list", "data": [model(name) for name in names]})
            case ["GET", "models", name]:
                if self.switches.models is not None and name not in self.switches.models:
                    raise TROUBLES["model"]
                return fine(model(name))
            case [method, "files", *rest]:
                return self._of_files(method, rest, request)
            case [method, "batches", *rest]:
                return self._of_batches(method, rest, request)
        raise Trouble(404, f"Invalid URL ({request.method} {request.path})")

    def _of_files(self, method: str, rest: list[str], request: Request) -> Reply:
        match [method, *rest]:
            case ["POST"]:
                content, name, purpose = upload(request)
                return fine(self._files.add(content, name, purpose))
            case ["GET"]:
                return fine({"object": "list", "data": self._files.all(), "has_more": False})
            case ["GET", file]:
                return fine(self._files.described(file))
            case ["GET", file, "content"]:
                return Reply(200, self._files.content(file), kind="application/octet-stream")
            case ["DELETE", file]:
                return fine(self._files.delete(file))
        raise Trouble(405, f"Not allowed: {method} {request.path}")

    def _of_batches(self, method: str, rest: list[str], request: Request) -> Reply:
        match [method, *rest]:
            case ["POST"]:
                return fine(self._batches.create(loaded(request.body), self.switches))
            case ["GET"]:
                query = parse_qs(request.query)
                return fine(self._batches.listed(query.get("after", [None])[0], int(query.get("limit", ["20"])[0])))
            case ["GET", name]:
                return fine(self._batches.retrieve(name))
            case ["POST", name, "cancel"]:
                return fine(self._batches.cancel(name))
        raise Trouble(405, f"Not allowed: {method} {request.path}")

    def _of_a_batch(self, endpoint: str, body: Any, batch: str) -> tuple[int, dict[str, Any]]:
        """The answer to one line of a batch: no latency, no limits; a fault of the wire is a 500."""
        entry = Entry("POST", endpoint, orjson.dumps(body))
        entry.batch = batch
        status, result = 200, {}
        try:
            entry.asked = asked = parsed(endpoint, body)
            self._asked[asked.identity] += 1
            entry.nth = self._asked[asked.identity]
            entry.fault = fault = self._fault(asked, entry.nth)
            self._refuse(asked, fault)
            if fault in TROUBLES or fault in WAYS or fault in PAGES or fault in BODIES:
                raise TROUBLES.get(fault, TROUBLES["500"])
            entry.answer = self._answers.answer(asked, fault, self.switches)
            result = answered(asked, entry.answer, self._number(), time.time())
        except Trouble as trouble:
            status, result = trouble.status, trouble.body()
        self.log.write(entry, status, True)
        return status, result


def spoilt(fault: str, body: bytes) -> Reply:
    """The reply with this body, or what the fault makes of it."""
    if fault in TROUBLES:
        return failed(TROUBLES[fault])
    if fault in PAGES:
        return Reply(PAGES[fault], PAGE, kind="text/html; charset=utf-8")
    return Reply(200, BODIES.get(fault, body), way=WAYS.get(fault, ""))


def parsed(api: str, body: Any) -> Asked:
    try:
        return read(api, body)
    except ValueError as error:
        raise Trouble(400, str(error)) from None


def loaded(body: bytes) -> Any:
    try:
        return orjson.loads(body)
    except ValueError:
        raise Trouble(400, "We could not parse the JSON body of your request.") from None


def fine(body: dict[str, Any]) -> Reply:
    return Reply(200, orjson.dumps(body))


def failed(trouble: Trouble, headers: list[tuple[str, str]] | None = None) -> Reply:
    return Reply(trouble.status, orjson.dumps(trouble.body()), list(headers or ()))


def model(name: str) -> dict[str, Any]:
    return {"id": name, "object": "model", "created": 1_700_000_000, "owned_by": "local"}


def upload(request: Request) -> tuple[bytes, str, str]:
    """Content, file name and purpose from a multipart form."""
    found = BOUNDARY.search(request.headers.get("content-type", ""))
    if found is None:
        raise Trouble(400, "Expected a multipart form.")
    form: dict[str, tuple[bytes, str]] = {}
    for part in request.body.split(b"--" + found.group(1).encode())[1:-1]:
        head, _, content = part.removeprefix(b"\r\n").partition(b"\r\n\r\n")
        said = dict(re.findall(r'[; ](name|filename)="([^"]*)"', head.decode("utf-8", "replace")))
        form[said.get("name", "")] = content.removesuffix(b"\r\n"), said.get("filename", "")
    if "file" not in form or "purpose" not in form:
        raise Trouble(400, "Missing required parameter: file or purpose.")
    return form["file"][0], form["file"][1], form["purpose"][0].decode()
