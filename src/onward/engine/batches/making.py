"""Requests that records wait for go out together. Which of them go is durable before they are sent, under a name by
which their provider can be asked for them, so that nothing is sent twice whenever the process dies."""

from __future__ import annotations

import asyncio
import secrets
from collections.abc import Callable, Mapping
from functools import partial
from typing import TypeVar

from onward.engine.batches.carrying import Carrier, Parted, RefusedAsWhole
from onward.engine.events import Events
from onward.engine.journal import Journal
from onward.engine.loops import spawn
from onward.engine.spending.desk import Budgets, used_up, why_reached
from onward.engine.worker import Worker
from onward.model import Spent
from onward.policy import batching
from onward.policy.endings import NEEDS_A_PERSON, Ending
from onward.ports.batches import BatchState, BatchStore, Chunk, ChunkWish, NoRoom, Provider, Queue
from onward.ports.work import Reserved

T = TypeVar("T")
Where = tuple[str, str]

CLOSE_WITHIN = 1.0


class Batches:
    """Makes chunks of what waits, to be carried. `providers` by the model's (name, place); `stop` ends the run."""

    def __init__(
        self,
        providers: Mapping[Where, Provider],
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
        self._carriers: dict[str, Carrier] = {}
        self._something_waits = True  # be it from an earlier run
        self._elsewhere = 0
        self._most: dict[Where, int] = {}
        worker.on_put_off = self.look_again

    def look_again(self) -> None:
        """Records are put off, by this run or another: what they wait for may have to be sent."""
        self._something_waits = True

    async def _ask(self, question: Callable[[BatchStore], T]) -> T:
        return await asyncio.wrap_future(self._journal.ask(lambda store: question(store.batches)))

    async def look(self, is_quiet: bool) -> bool:
        """Send what is to be sent: full files at once, the others when it `is_quiet`. Whether there is something to
        stay for."""
        if self._worker.stopping:
            return False
        if not is_quiet or not self._tasks:
            await self._take_over()
        if self._worker.admission.pause is not None:
            return False
        if self._something_waits:
            more_to_come = any(carrier.is_bringing for carrier in self._carriers.values())
            await self._send_waiting(is_quiet and not more_to_come)
        if not self._stays:
            await self._take_over()  # another run may have sent meanwhile what waited
        return self._stays

    @property
    def _stays(self) -> bool:
        return bool(self._tasks or self._elsewhere or self._something_waits)

    async def _take_over(self) -> None:
        """Carry on what runs that have ended had begun."""
        chunks = await self._ask(lambda store: store.open_chunks(self._journal.run))
        self._elsewhere = chunks.elsewhere
        for chunk in chunks.own:
            if chunk.id not in self._tasks and (chunk.model, chunk.place) in self._providers:
                self._carry(chunk, is_new=False)

    async def _send_waiting(self, is_quiet: bool) -> None:
        self._something_waits = not is_quiet
        for queue in await self._ask(lambda store: store.queues(self._journal.run)):
            where = queue.model, queue.place
            if where not in self._providers:
                continue
            most = self._most.get(where, batching.MOST_REQUESTS)
            one_by_one = where in self._most  # the provider has had no room for more
            while queue.requests and (is_quiet or batching.is_full(queue.requests, queue.bytes, most)):
                if one_by_one and self._tasks:
                    self._something_waits = True
                    break
                sent = await self._send_first_of(queue, most)
                if not sent:
                    break
                queue = queue.without(sent)

    async def _send_first_of(self, queue: Queue, most: int) -> int:
        """How many have been sent; 0 where they have to wait for money."""
        cap, name = self._budgets.cap_of(queue.model), f"onward-{secrets.token_hex(12)}"
        limits = most, batching.MOST_BYTES, cap.picodollars, cap.tokens
        wish = ChunkWish(name, queue.model, queue.place, queue.path, *limits)
        made = await self._ask(lambda store: store.make_chunk(self._journal.run, wish))
        if isinstance(made, Chunk):
            self._carry(made, is_new=True)
            return made.requests
        if isinstance(made, NoRoom):
            self._no_room(queue.model, made)
        return 0

    def _no_room(self, model: str, found: NoRoom) -> None:
        if found.set_aside:
            self._something_waits = True  # it may fit when what is under way has cost less than it may
            return
        needed = Spent(model, picodollars=found.picodollars)
        spent = Reserved(False, found.spent_picodollars, found.spent_tokens)
        self.stop(used_up(why_reached(model, self._budgets.cap_of(model), spent, needed, found.tokens)))

    def _carry(self, chunk: Chunk, is_new: bool) -> None:
        say = partial(self._events.emit, model=chunk.model, requests=chunk.requests, chunk=chunk.id)
        provider = self._providers[chunk.model, chunk.place]
        parts = chunk, provider, self._journal, self._outage_limit, say, self._brought
        carrier = self._carriers[chunk.id] = Carrier(*parts)
        task = self._tasks[chunk.id] = spawn(carrier.carry(is_new))
        task.add_done_callback(lambda task: self._ended(chunk, task))

    def _brought(self) -> None:
        self._worker.dry = False
        self._worker.claim_more()

    def _ended(self, chunk: Chunk, task: asyncio.Task[None]) -> None:
        del self._tasks[chunk.id], self._carriers[chunk.id]
        self._something_waits = True
        error = None if task.cancelled() else task.exception()
        if isinstance(error, RefusedAsWhole):
            self._refused(chunk, error.state)
        elif isinstance(error, Parted):
            self.stop(error.ending)
        elif error is not None:
            self._worker.fault(error)
        self._worker.changed.set()

    def _refused(self, chunk: Chunk, state: BatchState) -> None:
        """The provider has carried out none of it: of fewer requests it may."""
        fewer = batching.fewer(chunk.requests, len(self._tasks)) if state.code in batching.NO_ROOM_CODES else None
        if fewer is None:
            reason = f"batch {state.id} of model {chunk.model} was refused"
            self.stop(Ending(NEEDS_A_PERSON, reason, f"{state.code}: {state.message}"))
        else:
            self._most[chunk.model, chunk.place] = fewer

    async def close(self) -> None:
        """Leave batches to the next run."""
        tasks = list(self._tasks.values())
        for task in tasks:
            task.cancel()
        if tasks:
            await asyncio.wait(tasks, timeout=CLOSE_WITHIN)
