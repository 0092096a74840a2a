"""The group commit: one thread owns the store's writing connection and makes facts durable in batches.

Everything that waits is committed together, and whoever waited hears of it only after the commit returned. A failed
commit fails all of it. The run's lease is renewed from here, so that a step that blocks the event loop cannot make a
living run look dead.
"""

from __future__ import annotations

import contextlib
import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future, InvalidStateError
from typing import Any, Protocol, TypeVar

from onward.errors import LeaseLost, OnwardError
from onward.model import Fact, FeedBlock, FeedOutcome, Spending
from onward.ports.clock import Clock
from onward.ports.work import Batch, ClaimWish, Outcome, Reservation, Reserved, WorkStore

T = TypeVar("T")

FLUSH_AT = 512
LARGE_BATCH = 32 << 20
TICK = 0.5
LARGE_LOG = 256 << 20

_log = logging.getLogger("onward")


def size_of(fact: Fact) -> int:
    """Characters of the output that a fact carries."""
    return 0 if fact.checkpoint is None else len(fact.checkpoint)


class Reader(Protocol):
    """Who hears of commits; called in the journal's thread."""

    def committed(self, facts: list[Fact], outcome: Outcome) -> None: ...

    def broken(self, error: BaseException) -> None: ...


class Journal:
    """Takes facts, claims and blocks from other threads and commits them together.

    `renew_every` in seconds. `alive_until` (steady clock) bounds the renewal: the event loop moves it on, and a loop
    that hangs longer than any step may take loses its lease.
    """

    def __init__(self, store: WorkStore, run: int, clock: Clock, reader: Reader, renew_every: float):
        self.run = run
        self.alive_until = float("inf")
        self.log_warning: Callable[[int], None] = lambda size: None
        self._store = store
        self._clock = clock
        self._reader = reader
        self._renew_every = renew_every
        self._facts: deque[Fact] = deque()
        self._wishes: deque[ClaimWish] = deque()
        self._blocks: deque[tuple[FeedBlock, Future[FeedOutcome]]] = deque()
        self._spending: deque[Spending] = deque()
        self._reservations: deque[tuple[Reservation, Future[Reserved]]] = deque()
        self._questions: deque[tuple[Callable[[WorkStore], Any], Future[Any]]] = deque()
        self._wake = threading.Event()
        self._closing = False
        self._error: BaseException | None = None
        self._warned = False
        self._renewed_at = clock.steady()
        self._renewed = time.monotonic()
        self._thread = threading.Thread(target=self._work, name="onward-journal", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def steady(self) -> float:
        """The clock of leases."""
        return self._clock.steady()

    def may_send(self) -> bool:
        """Whether the lease is young enough for something to be sent under it."""
        return self._clock.steady() - self._renewed_at < self._renew_every * 2

    def state(self, fact: Fact) -> None:
        """Hand over a fact; it is committed at the next flush."""
        self._facts.append(fact)
        if len(self._facts) >= FLUSH_AT and not self._wake.is_set():
            self._wake.set()

    def wish(self, wish: ClaimWish) -> None:
        """Ask for records; they come with the outcome of the next commit."""
        self._wishes.append(wish)

    def flush(self) -> None:
        """Commit now what waits."""
        self._wake.set()

    def feed(self, block: FeedBlock) -> Future[FeedOutcome]:
        """Hand over a block; the future ends once it is durable."""
        future: Future[FeedOutcome] = Future()
        self._blocks.append((block, future))
        self._wake.set()
        if self._error is not None:
            self._fail_waiting(self._error)
        return future

    def spent(self, spending: Spending) -> None:
        """Hand over what a call came to that nobody states a fact of; it is counted at the next flush."""
        self._spending.append(spending)

    def reserve(self, reservation: Reservation) -> Future[Reserved]:
        """Have money set aside at the next flush; the future ends once that is durable, or refused."""
        future: Future[Reserved] = Future()
        self._reservations.append((reservation, future))
        if self._error is not None:
            self._fail_waiting(self._error)
        return future

    def ask(self, question: Callable[[WorkStore], T]) -> Future[T]:
        """Have another verb of the store called in the journal's thread."""
        future: Future[T] = Future()
        self._questions.append((question, future))
        self._wake.set()
        if self._error is not None:
            self._fail_waiting(self._error)
        return future

    def close(self, seconds: float = 60.0) -> None:
        """Commit what waits and end the thread."""
        self.finish()
        self._thread.join(seconds)

    def finish(self) -> None:
        """Have the thread end once it has committed what waits."""
        self._closing = True
        self._wake.set()

    @property
    def has_ended(self) -> bool:
        return not self._thread.is_alive()

    def _work(self) -> None:
        self._renewed = time.monotonic()
        self._renewed_at = self._clock.steady()
        try:
            while True:
                self._wake.wait(TICK)
                self._wake.clear()
                closing = self._closing
                self._commit_waiting()
                self._answer()
                self._renew_when_due()
                if closing and not (self._facts or self._blocks or self._questions or self._spending):
                    break
            self._error = OnwardError("the run has ended")
            self._fail_waiting(self._error)
        except BaseException as error:
            if not isinstance(error, OnwardError):
                _log.debug("the journal failed", exc_info=True)
            self._error = error
            self._fail_waiting(error)
            self._reader.broken(error)

    def _commit_waiting(self) -> None:
        while self._facts or self._wishes or self._blocks or self._spending or self._reservations:
            batch = Batch(facts=self._take_facts())
            # Taken one by one: the loop's thread goes on appending.
            batch.wishes = [self._wishes.popleft() for _ in range(len(self._wishes))]
            # Before the spending: what was handed over to make room for a reservation is never behind it.
            reserving = [self._reservations.popleft() for _ in range(len(self._reservations))]
            batch.spending = [self._spending.popleft() for _ in range(len(self._spending))]
            batch.reservations = [reservation for reservation, _ in reserving]
            feeding = [self._blocks.popleft() for _ in range(len(self._blocks))]
            batch.blocks = [block for block, _ in feeding]
            try:
                outcome = self._store.write(self.run, batch)
            except BaseException as error:
                waiting: list[Future[Any]] = [fed for _, fed in feeding]
                waiting += [asked for _, asked in reserving]
                for future in waiting:
                    _refuse(future, error)
                raise
            self._reader.committed(batch.facts, outcome)
            for (_, future), fed in zip(feeding, outcome.fed, strict=True):
                _give(future, fed)
            for (_, asked), reserved in zip(reserving, outcome.reserved, strict=True):
                _give(asked, reserved)
            was_cut = bool(self._facts) and sum(map(size_of, batch.facts)) >= LARGE_BATCH
            self._renew_when_due()  # there may be no end of what waits
            if len(self._facts) < FLUSH_AT and not self._wake.is_set() and not was_cut:
                return

    def _take_facts(self) -> list[Fact]:
        """What waits, cut where it grows large: a commit holds several copies of what it writes."""
        facts: list[Fact] = []
        size = 0
        for _ in range(len(self._facts)):
            facts.append(self._facts.popleft())
            size += size_of(facts[-1])
            if size >= LARGE_BATCH:
                break
        return facts

    def _answer(self) -> None:
        while self._questions:
            question, future = self._questions.popleft()
            try:
                answer = question(self._store)
            except BaseException as error:
                _refuse(future, error)
                raise
            _give(future, answer)

    def _renew_when_due(self) -> None:
        if time.monotonic() - self._renewed >= self._renew_every:
            self._renewed = time.monotonic()
            self._renew()

    def _renew(self) -> None:
        if self._clock.steady() > self.alive_until:
            return
        asked = self._clock.steady()
        if not self._store.renew(self.run):
            raise LeaseLost(f"run {self.run} lost its lease to another run; it changes nothing any more")
        self._renewed_at = asked
        size = self._store.log_bytes()
        if size > LARGE_LOG and not self._warned:
            self._warned = True
            self.log_warning(size)

    def _fail_waiting(self, error: BaseException) -> None:
        for waiting in (self._blocks, self._questions, self._reservations):
            with contextlib.suppress(IndexError):  # whoever hands something over now empties it, too
                while waiting:
                    _refuse(waiting.popleft()[1], error)


def _give(future: Future[T], answer: T) -> None:
    with contextlib.suppress(InvalidStateError):  # who waited has given up
        future.set_result(answer)


def _refuse(future: Future[Any], error: BaseException) -> None:
    with contextlib.suppress(InvalidStateError):
        future.set_exception(error)
