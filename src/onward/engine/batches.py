"""Requests that records wait for go out together: which of them is durable before they are sent, under a name by which
the provider can be asked for them, so that nothing is sent twice whenever the process dies."""

from __future__ import annotations

import asyncio
import contextlib
import secrets
import tempfile
import time
from collections.abc import Awaitable, Callable, Mapping
from typing import BinaryIO, TypeVar

from onward.engine.desk import Budgets, why_reached
from onward.engine.events import Events
from onward.engine.journal import Journal
from onward.engine.loops import spawn
from onward.engine.worker import Worker
from onward.errors import OnwardError
from onward.model import Kind, Spent
from onward.policy import batching
from onward.policy.endings import NEEDS_A_PERSON, STOPPED_EARLY, Ending
from onward.policy.failures import Classified, classify
from onward.ports.batches import BatchState, BatchStore, Chunk, ChunkWish, NoRoom, Provider, Queue, Said
from onward.ports.work import Reserved

T = TypeVar("T")

SETTLE = 30.0
"""Seconds after which a batch that was to be made is listed by its provider, if it was made."""
FIRST_PAUSE = 1.0
LONGEST_PAUSE = 60.0
PAGE = 1000
IN_MEMORY = 8 << 20
NO_ROOM_CODES = frozenset({"token_limit_exceeded"})


class _Parted(Exception):
    """The run cannot go on for what a provider said."""

    def __init__(self, ending: Ending):
        self.ending = ending


class Batches:
    """Carries chunks of requests from the store to their providers, by (model, place), and their answers back.

    Whether a batch was made is unknown when its making was under way as its run died, or failed without an answer: then
    its provider is asked, and again after SETTLE, before it is made another time. `stop` ends the run.
    """

    def __init__(
        self,
        providers: Mapping[tuple[str, str], Provider],
        worker: Worker,
        journal: Journal,
        budgets: Budgets,
        events: Events,
        outage_limit: float,
    ):
        self.stop: Callable[[Ending], None] = lambda ending: None
        self._providers = providers
        self._worker = worker
        self._journal = journal
        self._budgets = budgets
        self._events = events
        self._outage_limit = outage_limit
        self._tasks: dict[str, asyncio.Task[None]] = {}
        self._something_waits = True  # be it from an earlier run
        self._elsewhere = 0
        self._most: dict[tuple[str, str], int] = {}
        worker.on_put_off = self._put_off

    def _put_off(self) -> None:
        self._something_waits = True

    async def _ask(self, question: Callable[[BatchStore], T]) -> T:
        return await asyncio.wrap_future(self._journal.ask(lambda store: question(store.batches)))

    async def look(self, is_quiet: bool) -> bool:
        """Send what is to be sent: full files at once, the others when it `is_quiet`. Whether there is something to
        stay for."""
        if self._worker.stopping:
            return False
        run = self._journal.run
        if not is_quiet or not self._tasks:
            chunks = await self._ask(lambda store: store.open_chunks(run))
            self._elsewhere = chunks.elsewhere
            for chunk in chunks.own:
                if chunk.id not in self._tasks and (chunk.model, chunk.place) in self._providers:
                    self._carry(chunk, is_new=False)
        is_paused = self._worker.admission.pause is not None
        if self._something_waits and not is_paused:
            await self._send_waiting(is_quiet)
        return not is_paused and bool(self._tasks or self._elsewhere or (self._something_waits and not is_quiet))

    async def _send_waiting(self, is_quiet: bool) -> None:
        run = self._journal.run
        if is_quiet:
            self._something_waits = False
        for queue in await self._ask(lambda store: store.queues(run)):
            most = self._most.get((queue.model, queue.place), batching.MOST_REQUESTS)
            left = queue.requests
            while left > 0 and (is_quiet or batching.is_full(left, queue.bytes, most)):
                sent = await self._send_first_of(queue, most)
                if not sent:
                    break
                left -= sent
                if most < batching.MOST_REQUESTS:  # the provider had no room for more: one after the other
                    self._something_waits = self._something_waits or left > 0
                    break
                if not is_quiet:
                    break

    async def _send_first_of(self, queue: Queue, most: int) -> int:
        """How many have been sent; 0 where they have to wait for money, or for others to end."""
        where = queue.model, queue.place
        if where not in self._providers or (most < batching.MOST_REQUESTS and self._tasks):
            self._something_waits = self._something_waits or where in self._providers
            return 0
        run, cap = self._journal.run, self._budgets.cap_of(queue.model)
        caps = cap.picodollars, cap.tokens
        name = f"onward-{secrets.token_hex(12)}"
        wish = ChunkWish(name, *where, queue.path, min(most, batching.MOST_REQUESTS), batching.MOST_BYTES, *caps)
        made = await self._ask(lambda store: store.make_chunk(run, wish))
        if isinstance(made, NoRoom):
            if made.set_aside:
                self._something_waits = True  # it may fit when what is under way has cost less
                return 0
            needed = Spent(queue.model, picodollars=made.picodollars)
            reserved = Reserved(False, made.spent_picodollars, made.spent_tokens)
            reason = why_reached(queue.model, cap, reserved, needed, made.tokens)
            self.stop(Ending(NEEDS_A_PERSON, "the budget is used up", reason))
            return 0
        if made is None:
            return 0
        self._carry(made, is_new=True)
        return made.requests

    # One chunk.

    def _carry(self, chunk: Chunk, is_new: bool) -> None:
        task = self._tasks[chunk.id] = spawn(self._carried(chunk, is_new))
        task.add_done_callback(lambda task: self._ended(chunk, task))

    def _ended(self, chunk: Chunk, task: asyncio.Task[None]) -> None:
        del self._tasks[chunk.id]
        self._something_waits = True
        if not task.cancelled() and (error := task.exception()) is not None:
            if isinstance(error, _Parted):
                self.stop(error.ending)
            else:
                self._worker.fault(error)
        self._worker.changed.set()

    async def _carried(self, chunk: Chunk, is_new: bool) -> None:
        provider = self._providers[chunk.model, chunk.place]
        if chunk.batch is not None:
            self._say("batch_found", chunk, batch=chunk.batch)
            state = await self._over(provider, chunk, chunk.batch)
        else:
            made = None if is_new else await self._found(provider, chunk)
            made = made or await self._submitted(provider, chunk, is_new)
            state = made if made.is_over else await self._over(provider, chunk, made.id)
        stops = await self._patiently(lambda: self._bring_in(provider, chunk, state))
        await self._end(provider, chunk, state, stops)

    async def _submitted(self, provider: Provider, chunk: Chunk, is_new: bool) -> BatchState:
        file = chunk.file
        while True:
            if file is None:
                file = await self._uploaded(provider, chunk, is_new)
                await self._note_file(chunk, file)
            await self._leave_to_send()
            try:
                made = await provider.submit(file, chunk.path, chunk.id)
            except Exception as error:
                failure = self._judged(error, chunk)
                if failure.not_applied:
                    await asyncio.sleep(max(failure.retry_after or 0.0, FIRST_PAUSE))
                    continue
                found = await self._found(provider, chunk)
                if found is None:
                    continue
                return found
            await self._note_batch(chunk, made, found=False)
            return made

    async def _uploaded(self, provider: Provider, chunk: Chunk, is_new: bool) -> str:
        """A file that nothing is known to have been made of; one that an upload without an answer has left is taken."""
        tries = 0

        async def upload() -> str:
            nonlocal tries
            tries += 1
            if not is_new or tries > 1:
                there = await provider.uploaded(chunk.id)
                if there is not None:
                    return there
            with tempfile.SpooledTemporaryFile(IN_MEMORY) as lines:
                await self._write(provider, chunk, lines)  # type: ignore[arg-type]
                lines.seek(0)
                return await provider.upload(chunk.id, lines)  # type: ignore[arg-type]

        return await self._patiently(upload)

    async def _write(self, provider: Provider, chunk: Chunk, lines: BinaryIO) -> None:
        after = 0
        while page := await self._bodies(chunk, after):
            for number, fingerprint, body in page:
                lines.write(provider.line(fingerprint, chunk.path, body))
                after = number

    async def _leave_to_send(self) -> None:
        """A run that may have lost its lease must not send what another may be sending."""
        while not self._journal.may_send():
            await asyncio.sleep(0.1)

    async def _found(self, provider: Provider, chunk: Chunk) -> BatchState | None:
        """The chunk's batch, if it was made; its absence is believed once it would have been listed."""
        until = time.monotonic() + SETTLE
        while True:
            is_settled = time.monotonic() >= until
            found = await self._patiently(lambda: provider.find(chunk.id, chunk.at))
            if found is not None:
                await self._note_batch(chunk, found, found=True)
                return found
            if is_settled:
                return None
            await asyncio.sleep(min(max(until - time.monotonic(), 0.0), 5.0))

    async def _over(self, provider: Provider, chunk: Chunk, batch: str) -> BatchState:
        began, noted = time.monotonic(), None
        while True:
            state = await self._patiently(lambda: provider.look(batch))
            if state is None:
                if not batching.is_forgotten(chunk.at, time.time()):
                    what = f"{_title(chunk, batch)} is not known where the model is asked now"
                    raise _Parted(Ending(NEEDS_A_PERSON, what, "set back what has changed: the key, or the address"))
                return BatchState(batch, "expired")
            if state.is_over:
                return state
            if state != noted:
                noted = state
                await self._note_progress(chunk, state)
            await asyncio.sleep(batching.pause_before_look(time.monotonic() - began))

    async def _bring_in(self, provider: Provider, chunk: Chunk, state: BatchState) -> list[Said]:
        """Make durable what came of it; what was so before is passed over. What nothing can go on after."""
        stops = list[Said]()
        async for page in provider.results(state):
            stops += [one for one in page if one.what == "stop"]
            if await self._take_in(chunk, page):
                self._worker.dry = False
                self._worker.claim_more()
        return stops

    async def _end(self, provider: Provider, chunk: Chunk, state: BatchState, stops: list[Said]) -> None:
        run = self._journal.run
        failed = state.status == "failed"
        fault = None if failed or stops else provider.fault(f"its batches came back without an answer ({state.status})")
        left = await self._ask(
            lambda store: store.end_chunk(run, chunk.id, state.status, state.code, fault)
        )  # the message may quote data
        self._say("batch_finished", chunk, batch=state.id, reason=state.status, again=left)
        with contextlib.suppress(Exception):  # they expire by themselves
            await provider.forget([file for file in (state.sent_file, *state.files) if file is not None])
        if failed:
            self._refused(chunk, state)
        if stops:
            reason = f"nothing can go on after what {_title(chunk, state.id)} brought"
            raise _Parted(Ending(NEEDS_A_PERSON, reason, stops[0].text))

    def _refused(self, chunk: Chunk, state: BatchState) -> None:
        """The provider has carried out none of it: with fewer requests it may."""
        fewer = batching.fewer(chunk.requests) if state.code in NO_ROOM_CODES else None
        if fewer is None:
            reason = f"{_title(chunk, state.id)} was refused"
            raise _Parted(Ending(NEEDS_A_PERSON, reason, f"{state.code}: {state.message}"))
        self._most[chunk.model, chunk.place] = fewer

    # Faults of the way there.

    async def _patiently(self, call: Callable[[], Awaitable[T]]) -> T:
        """What the call returns, once it does: what may be over soon is waited for, with growing pauses."""
        began, pause = time.monotonic(), FIRST_PAUSE
        while True:
            try:
                return await call()
            except Exception as error:
                failure = self._judged(error)
                if time.monotonic() - began > self._outage_limit:
                    what = f"a provider's batches cannot be reached: {failure.error_type}"
                    raise _Parted(Ending(STOPPED_EARLY, what, failure.message)) from None
                await asyncio.sleep(max(pause, failure.retry_after or 0.0))
                pause = min(pause * 2, LONGEST_PAUSE)

    def _judged(self, error: Exception, chunk: Chunk | None = None) -> Classified:
        """What may be over soon; all else ends the run."""
        if isinstance(error, OnwardError | _Parted):
            raise error
        failure = classify(error, time.time())
        if failure.kind is Kind.BUG:
            raise error
        if failure.kind is not Kind.TRANSIENT:
            model = f"requests to model {chunk.model}" if chunk is not None else "a batch"
            reason = f"the provider refuses {model}"
            raise _Parted(Ending(NEEDS_A_PERSON, reason, f"{failure.error_type}: {failure.message}")) from None
        return failure

    # What becomes durable.

    async def _note_file(self, chunk: Chunk, file: str) -> None:
        await self._ask(lambda store: store.note_file(self._journal.run, chunk.id, file))

    async def _note_batch(self, chunk: Chunk, state: BatchState, found: bool) -> None:
        await self._ask(lambda store: store.note_batch(self._journal.run, chunk.id, state, found))
        self._say("batch_found" if found else "batch_submitted", chunk, batch=state.id)

    async def _note_progress(self, chunk: Chunk, state: BatchState) -> None:
        await self._ask(lambda store: store.note_progress(self._journal.run, chunk.id, state))

    async def _bodies(self, chunk: Chunk, after: int) -> list[tuple[int, str, str]]:
        return await self._ask(lambda store: store.bodies(self._journal.run, chunk.id, after, PAGE))

    async def _take_in(self, chunk: Chunk, page: list[Said]) -> int:
        return await self._ask(lambda store: store.take_in(self._journal.run, chunk.id, page))

    def _say(self, event: str, chunk: Chunk, **fields: object) -> None:
        self._events.emit(event, model=chunk.model, requests=chunk.requests, chunk=chunk.id, **fields)

    async def close(self) -> None:
        """Leave batches to the next run."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=1.0)


def _title(chunk: Chunk, batch: str) -> str:
    return f"batch {batch} of model {chunk.model}"
