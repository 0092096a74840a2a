"""One chunk of requests on its way: submitted as a batch, found again, waited for, brought in."""

from __future__ import annotations

import asyncio
import contextlib
import tempfile
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass, field
from typing import IO, TypeVar

from onward.engine.journal import Journal
from onward.errors import OnwardError
from onward.model import Kind
from onward.policy import batching
from onward.policy.endings import NEEDS_A_PERSON, STOPPED_EARLY, Ending
from onward.policy.failures import Classified, classify
from onward.ports.batches import BatchState, BatchStore, Chunk, Provider, Said

T = TypeVar("T")

SETTLE = 30.0
"""Seconds after which a batch that was to be made is listed by its provider, if it was made."""
FIRST_PAUSE = 1.0
LONGEST_PAUSE = 60.0
PAGE = 1000
IN_MEMORY = 8 << 20
ABSENT = "never made"
REFUSED = "refused"


class Parted(Exception):
    """The run cannot go on for what a provider said."""

    def __init__(self, ending: Ending):
        super().__init__(ending.text)
        self.ending = ending


class RefusedAsWhole(Exception):
    """A batch failed before any of its requests was carried out; they wait again."""

    def __init__(self, state: BatchState):
        super().__init__(state.code)
        self.state = state


@dataclass(slots=True)
class Carrier:
    """Carries one chunk. `say` tells of an event, `brought` that records wait no more; `outage_limit` in seconds;
    `is_bringing`: more answers are about to come.

    Whether a batch was made is unknown where that was under way as its run died, or failed without an answer: then the
    provider is asked, and again after SETTLE. A run that comes upon a chunk whose batch was never made lets its
    requests wait again, for not all of them need still be wanted.
    """

    chunk: Chunk
    provider: Provider
    journal: Journal
    outage_limit: float
    say: Callable[..., None]
    brought: Callable[[], None]
    is_bringing: bool = False
    _told: list[Said] = field(default_factory=list)

    async def carry(self, is_new: bool) -> None:
        """Raises Parted and RefusedAsWhole."""
        state = await self._on_its_way(is_new)
        if state is None:
            return
        if not state.is_over:
            state = await self._over(state.id)
        over, self.is_bringing = state, True
        await self._patiently(lambda: self._bring_in(over))
        await self._end(over)

    async def _on_its_way(self, is_new: bool) -> BatchState | None:
        """The chunk's batch; None where there is none, and the requests wait again."""
        chunk = self.chunk
        if chunk.batch is not None:
            self.say("batch_found", batch=chunk.batch)
            return BatchState(chunk.batch, "")
        if is_new:
            return await self._submitted()
        found = await self._found()
        if found is None:
            await self._put_back(ABSENT)
            await self._forget([await self.provider.uploaded(chunk.id) if chunk.file is None else chunk.file])
        return found

    # To the provider.

    async def _submitted(self) -> BatchState:
        try:
            file = await self._uploaded()
        except Parted:
            await self._put_back(REFUSED)
            raise
        await self._store(lambda store: store.note_file(self.journal.run, self.chunk.id, file))
        while True:
            await self._leave_to_send()
            try:
                made = await self.provider.submit(file, self.chunk.path, self.chunk.id)
            except Exception as error:
                failure = await self._not_submitted(error, file)
                if failure.not_applied:
                    await asyncio.sleep(max(failure.retry_after or 0.0, FIRST_PAUSE))
                elif (found := await self._found()) is not None:
                    return found
                continue
            await self._note(made, found=False)
            return made

    async def _not_submitted(self, error: Exception, file: str) -> Classified:
        """A refusal ends the run, and the requests wait again: what they are asked by may be what is wrong."""
        try:
            return _judged(error, f"requests to model {self.chunk.model}")
        except Parted:
            await self._put_back(REFUSED)
            await self._forget([file])
            raise

    async def _uploaded(self) -> str:
        """A file with the requests: where an upload had no answer, the one that it may have left."""
        try:
            return await self._upload()
        except Exception as error:
            _judged(error, f"a file of requests to model {self.chunk.model}")

        async def again() -> str:
            there = await self.provider.uploaded(self.chunk.id)
            return await self._upload() if there is None else there

        return await self._patiently(again)

    async def _upload(self) -> str:
        with tempfile.SpooledTemporaryFile(IN_MEMORY) as lines:
            await self._write(lines)
            lines.seek(0)
            return await self.provider.upload(self.chunk.id, lines)

    async def _write(self, lines: IO[bytes]) -> None:
        after = 0
        while page := await self._bodies(after):
            for number, fingerprint, body in page:
                lines.write(self.provider.line(fingerprint, self.chunk.path, body))
                after = number

    async def _bodies(self, after: int) -> list[tuple[int, str, str]]:
        return await self._store(lambda store: store.bodies(self.journal.run, self.chunk.id, after, PAGE))

    async def _leave_to_send(self) -> None:
        """A run that may have lost its lease must not send what another may be sending."""
        while not self.journal.may_send():
            await asyncio.sleep(0.1)

    async def _found(self) -> BatchState | None:
        """The chunk's batch, if it was made; its absence is believed once it would have been listed."""
        chunk, until = self.chunk, time.monotonic() + SETTLE
        while True:
            is_settled = time.monotonic() >= until
            found = await self._patiently(lambda: self.provider.find(chunk.id, chunk.at))
            if found is not None:
                await self._note(found, found=True)
                return found
            if is_settled:
                return None
            await asyncio.sleep(min(max(until - time.monotonic(), 0.0), 5.0))

    # And back.

    async def _over(self, batch: str) -> BatchState:
        began, noted = time.monotonic(), None
        while True:
            state = await self._patiently(lambda: self.provider.look(batch))
            if state is None:
                return self._forgotten(batch)
            if state.is_over:
                return state
            if state != noted:
                noted = state
                await self._note_progress(state)
            await asyncio.sleep(batching.pause_before_look(time.monotonic() - began))

    def _forgotten(self, batch: str) -> BatchState:
        if batching.is_forgotten(self.chunk.at, time.time()):
            return BatchState(batch, "expired")
        what = f"batch {batch} of model {self.chunk.model} is not known where the model is asked now"
        raise Parted(Ending(NEEDS_A_PERSON, what, "it is paid for; set back what has changed, the key or the address"))

    async def _bring_in(self, state: BatchState) -> None:
        """Make durable what came of it; what was so before is passed over."""
        self._told = []
        async for page in self.provider.results(state):
            self._told += [one for one in page if one.what in ("again", "stop")]
            if await self._take_in(page):
                self.brought()

    async def _end(self, state: BatchState) -> None:
        stops = [one for one in self._told if one.what == "stop"]
        fault = None
        if state.status != "failed" and not stops:
            fault = self.provider.fault(f"batches came back without an answer to it ({state.status})")
        left = await self._put_back(state.status, state.code, fault)
        self.say("batch_finished", batch=state.id, reason=state.status, again=left)
        await self._forget([state.sent_file, *state.files])
        if state.status == "failed":
            raise RefusedAsWhole(state)
        if stops:
            reason = f"nothing can go on after what batch {state.id} of model {self.chunk.model} brought"
            raise Parted(Ending(NEEDS_A_PERSON, reason, stops[0].text))

    async def _forget(self, files: Sequence[str | None]) -> None:
        with contextlib.suppress(Exception):  # they cost nothing, and are of no harm
            await self.provider.forget([file for file in files if file is not None])

    # What becomes durable.

    async def _store(self, question: Callable[[BatchStore], T]) -> T:
        return await asyncio.wrap_future(self.journal.ask(lambda store: question(store.batches)))

    async def _note(self, state: BatchState, found: bool) -> None:
        await self._store(lambda store: store.note_batch(self.journal.run, self.chunk.id, state, found))
        self.say("batch_found" if found else "batch_submitted", batch=state.id)

    async def _note_progress(self, state: BatchState) -> None:
        await self._store(lambda store: store.note_progress(self.journal.run, self.chunk.id, state))

    async def _take_in(self, page: Sequence[Said]) -> int:
        return await self._store(lambda store: store.take_in(self.journal.run, self.chunk.id, page))

    async def _put_back(self, status: str, code: str = "", fault: str | None = None) -> int:
        told = {one.fingerprint for one in self._told}
        return await self._store(
            lambda store: store.end_chunk(self.journal.run, self.chunk.id, status, code, fault, told)
        )

    async def _patiently(self, call: Callable[[], Awaitable[T]]) -> T:
        """What the call returns, once it does: what may be over soon is waited for, with growing pauses."""
        began, pause = time.monotonic(), FIRST_PAUSE
        while True:
            try:
                return await call()
            except Exception as error:
                failure = _judged(error, "to tell of batches")
                if time.monotonic() - began > self.outage_limit:
                    what = f"a provider's batches cannot be reached: {failure.error_type}"
                    raise Parted(Ending(STOPPED_EARLY, what, failure.message)) from None
                await asyncio.sleep(max(pause, failure.retry_after or 0.0))
                pause = min(pause * 2, LONGEST_PAUSE)


def _judged(error: Exception, what: str) -> Classified:
    """What may be over soon. Raises Parted for what the provider refuses, and the error where it is onward's own."""
    if isinstance(error, OnwardError | Parted):
        raise error
    failure = classify(error, time.time())
    if failure.kind in (Kind.BUG, Kind.SYSTEM):
        raise error
    if failure.kind is not Kind.TRANSIENT:
        detail = f"{failure.error_type}: {failure.message}"
        raise Parted(Ending(NEEDS_A_PERSON, f"the provider refuses {what}", detail)) from None
    return failure
