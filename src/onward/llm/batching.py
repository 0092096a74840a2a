"""Batches of requests through the Files and Batch APIs, at half the price."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import asdict
from typing import IO, Any

import openai

from onward.codec import dumps, loads
from onward.errors import BadResponse, Rejected, Transient
from onward.llm import chat, responses
from onward.llm.answers import Answer, Misshapen, Usage, given
from onward.llm.client import client_of
from onward.llm.declaration import Declared
from onward.llm.prices import charge
from onward.model import Spent
from onward.policy.failures import FATAL_CODES
from onward.ports.batches import BatchState, Said

ASK_WITHIN = 60.0
MOVE_WITHIN = 900.0
PAGE = 100
MOST_APART = 86400.0
"""Seconds that the provider's clock and ours may differ."""
LINES = 500
SIZE = 4 << 20
CHUNK = "onward_chunk"
AGAIN = frozenset({"batch_expired", "batch_cancelled"})
TRANSIENT = frozenset({408, 409, 425})
SOON = 1.0
NO_LINE_ENDS = "\x85\u2028\u2029"
"""Letters within texts that some take for ends of lines."""
_DIALECTS: Mapping[str, Any] = {"responses": responses, "chat": chat}


class Batches:
    """See `ports.batches.Provider`."""

    def __init__(self, model: Declared):
        self._model = model

    def line(self, fingerprint: str, path: str, body: str) -> bytes:
        for letter in NO_LINE_ENDS:
            body = body.replace(letter, f"\\u{ord(letter):04x}")
        return f'{{"custom_id":"{fingerprint}","method":"POST","url":"/v1{path}","body":{body}}}\n'.encode()

    async def upload(self, name: str, lines: IO[bytes]) -> str:
        file = f"{name}.jsonl", lines
        made = await self._client(MOVE_WITHIN).files.create(file=file, purpose="batch")
        return _text(made, "id")

    async def uploaded(self, name: str) -> str | None:
        async for file in self._client().files.list(purpose="batch"):
            if getattr(file, "filename", None) == f"{name}.jsonl":
                return file.id
        return None

    async def submit(self, file: str, path: str, chunk: str) -> BatchState:
        made = await self._client().batches.create(
            input_file_id=file,
            endpoint=f"/v1{path}",  # type: ignore[arg-type]
            completion_window="24h",
            metadata={CHUNK: chunk},
        )
        return _state(made)

    async def find(self, chunk: str, since: float) -> BatchState | None:
        async for batch in self._client().batches.list(limit=PAGE):  # newest first
            if (batch.metadata or {}).get(CHUNK) == chunk:
                return _state(batch)
            if (batch.created_at or since) < since - MOST_APART:
                break
        return None

    async def look(self, batch: str) -> BatchState | None:
        try:
            return _state(await self._client().batches.retrieve(batch))
        except openai.NotFoundError:
            return None

    async def results(self, batch: BatchState) -> AsyncIterator[list[Said]]:
        for file in batch.files:
            block, size = list[Said](), 0
            async for line in self._lines(file):
                with contextlib.suppress(Misshapen):  # without an answer its request counts as missing
                    block.append(self._said(line))
                size += len(line)
                if len(block) >= LINES or size >= SIZE:
                    yield block
                    block, size = [], 0
            if block:
                yield block

    async def _lines(self, file: str) -> AsyncIterator[bytes]:
        """The lines of a file; none where it is no longer there."""
        client, rest = self._client(MOVE_WITHIN), bytearray()
        try:
            async with client.files.with_streaming_response.content(file) as response:
                if response.headers.get("content-type", "").startswith("text/html"):  # the answers are still there
                    raise BadResponse(f"{self._model.traits.title} answered with a page in place of a file of results")
                async for piece in response.iter_bytes():
                    *lines, last = piece.split(b"\n")
                    if lines:
                        yield bytes(rest) + lines[0]
                        for line in lines[1:]:
                            yield line
                        rest.clear()
                    rest += last
        except openai.NotFoundError:
            return
        if rest:
            yield bytes(rest)

    async def forget(self, files: Sequence[str]) -> None:
        for file in files:
            try:
                await self._client().files.delete(file)
            except openai.NotFoundError:
                continue

    def fault(self, message: str) -> str:
        return dumps({"fault": message})

    def _client(self, within: float = ASK_WITHIN) -> openai.AsyncOpenAI:
        return client_of(self._model).with_options(timeout=within)

    def _said(self, line: bytes) -> Said:
        """What a line of a result file says. Raises Misshapen where it does not name a request of ours; what else is
        wrong with it is a fault of that request alone."""
        try:
            told = loads(line)
        except ValueError:
            told = None
        if not isinstance(told, dict):
            raise Misshapen("the line is no object")
        name = given(told, "custom_id", str)
        if not (name.isascii() and name.isprintable()):  # names of ours are, and a store may not hold others
            raise Misshapen("'custom_id' is no name")
        try:
            return self._told(name, told)
        except Misshapen as wrong:
            text = self.fault(f"the answer is none of its API: {wrong}")
            return Said(name, "fault", text, Spent(self._model.name, requests=1, uncounted=1))

    def _told(self, name: str, told: dict[str, Any]) -> Said:
        if told.get("response") is None:
            return self._not_done(name, given(told, "error", dict, {}))
        response = given(told, "response", dict)
        status, body = given(response, "status_code", int), given(response, "body", dict, {})
        if status == 200:
            return self._answered(name, body)
        return self._refused(name, status, given(body, "error", dict, {}))

    def _answered(self, name: str, body: dict[str, Any]) -> Said:
        dialect = responses if "output" in body else chat
        answer, spent = dialect.answer(body), Spent(self._model.name, requests=1)
        charge(spent, self._model.price, answer.usage, half=True)
        return Said(name, "answer", dumps({"answer": asdict(answer)}), spent)

    def _refused(self, name: str, status: int, error: dict[str, Any]) -> Said:
        """A status that is an error means what it means without a batch."""
        code, message = _words(error)
        told = f"{status} {code}: {message}" if code else f"{status}: {message}"
        spent = Spent(self._model.name, requests=1)
        if code in FATAL_CODES or status in (401, 402, 403) or code == "invalid_json_schema":
            return Said(name, "stop", told)
        if status == 429:
            return Said(name, "again", told)
        if status in TRANSIENT or not 400 <= status < 500:
            return Said(name, "fault", self.fault(f"the provider failed: {told}"), spent)
        return Said(name, "answer", dumps({"refused": f"the provider refused it: {told}"}), spent)

    def _not_done(self, name: str, error: dict[str, Any]) -> Said:
        code, message = _words(error)
        if code in AGAIN or not code:
            return Said(name, "again", message)
        if code in FATAL_CODES:
            return Said(name, "stop", f"{code}: {message}")
        return Said(name, "fault", self.fault(f"the provider failed: {code}: {message}"), None)


def _words(error: dict[str, Any]) -> tuple[str, str]:
    """An error's code, which some write as a number, and its message."""
    return str(error.get("code") or ""), given(error, "message", str, "")


def read(text: str) -> Answer:
    """What `Said.text` tells whoever asked. Raises Rejected and Transient."""
    told = loads(text)
    if "refused" in told:
        raise Rejected(told["refused"])
    if "fault" in told:
        raise Transient(told["fault"], retry_after=SOON)  # with one pause for all, they go together again
    usage = told["answer"].pop("usage")
    return Answer(**told["answer"], usage=None if usage is None else Usage(**usage))


def _state(batch: Any) -> BatchState:
    counts, errors = getattr(batch, "request_counts", None), getattr(batch, "errors", None)
    first = next(iter(getattr(errors, "data", None) or ()), None)
    files = [getattr(batch, name, None) for name in ("output_file_id", "error_file_id")]
    return BatchState(
        id=_text(batch, "id"),
        status=_text(batch, "status"),
        done=(counts.completed + counts.failed) if counts else 0,
        total=counts.total if counts else 0,
        sent_file=getattr(batch, "input_file_id", None),
        files=tuple(file for file in files if file),
        code=str(getattr(first, "code", None) or ""),
        message=str(getattr(first, "message", None) or ""),
    )


def _text(said: Any, name: str) -> str:
    value = getattr(said, name, None)
    if not isinstance(value, str) or not value:
        raise BadResponse(f"a server answered with what is no {type(said).__name__} of its API")
    return value
