"""Requests to models that are sent together: what talks to the provider, and what the store keeps of it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Collection, Sequence
from dataclasses import dataclass, replace
from typing import IO, Literal, Protocol

from onward.model import Spent

FINISHED = frozenset({"completed", "failed", "expired", "cancelled"})


@dataclass(frozen=True, slots=True)
class BatchState:
    """A batch as its provider sees it: of `total` requests `done` are done. `files` hold what came of them; `code` and
    `message` why it "failed" as a whole; `sent_file` is what was uploaded."""

    id: str
    status: str
    done: int = 0
    total: int = 0
    sent_file: str | None = None
    files: tuple[str, ...] = ()
    code: str = ""
    message: str = ""

    @property
    def is_over(self) -> bool:
        return self.status in FINISHED


@dataclass(frozen=True, slots=True)
class Said:
    """What came of one request. `text` is JSON text that whoever asked can read: of an "answer", be it a refusal, or of
    a "fault", after which the request may be made again. "again": it was not carried out; "stop": nothing can go on
    before a person has acted, and `text` says why. `spent` None: nothing was charged."""

    fingerprint: str
    what: Literal["answer", "fault", "again", "stop"]
    text: str
    spent: Spent | None = None


class Provider(Protocol):
    """Batches of one model. All of it raises what `policy.failures` classifies."""

    async def upload(self, name: str, lines: IO[bytes]) -> str:
        """The provider's name for a file with these lines."""

    async def uploaded(self, name: str) -> str | None:
        """The same of a file that may have been uploaded before."""

    async def submit(self, file: str, path: str, chunk: str) -> BatchState:
        """Have the file's requests carried out; `chunk` goes with the batch, so that it can be found by it."""

    async def find(self, chunk: str, since: float) -> BatchState | None:
        """The batch of this chunk, which was not made before `since` (UTC seconds)."""

    async def look(self, batch: str) -> BatchState | None:
        """How it stands; None where it is not known there."""

    def results(self, batch: BatchState) -> AsyncIterator[list[Said]]:
        """What came of its requests, in blocks."""

    async def forget(self, files: Sequence[str]) -> None:
        """Delete these files; those that are not there are no fault."""

    def line(self, fingerprint: str, path: str, body: str) -> bytes:
        """A request as a line of a file."""

    def fault(self, message: str) -> str:
        """The text of a "fault" in these words."""


@dataclass(frozen=True, slots=True)
class Queue:
    """Requests that wait to be sent: how many, and their bytes."""

    model: str
    place: str
    path: str
    requests: int
    bytes: int

    def without(self, requests: int) -> Queue:
        """What is left once its first ones have been sent."""
        left = self.requests - requests
        return replace(self, requests=left, bytes=self.bytes * left // self.requests)


@dataclass(frozen=True, slots=True)
class Chunk:
    """Requests that are sent as one batch. `at`: when it became durable that they are going to be (UTC seconds); `file`
    and `batch`: the provider's names, as far as they are known."""

    id: str
    model: str
    place: str
    path: str
    requests: int
    at: float
    file: str | None = None
    batch: str | None = None


@dataclass(frozen=True, slots=True)
class ChunkWish:
    """The first requests of a queue, as many as may go together and as the model's caps leave room for."""

    id: str
    model: str
    place: str
    path: str
    most_requests: int
    most_bytes: int
    most_picodollars: int | None = None
    most_tokens: int | None = None


@dataclass(frozen=True, slots=True)
class NoRoom:
    """A cap leaves no room for even one request: what it needs, and what is spent and set aside."""

    picodollars: int
    tokens: int
    spent_picodollars: int
    spent_tokens: int
    set_aside: bool


@dataclass(frozen=True, slots=True)
class KnownAnswer:
    """`spent` None: another record has told it."""

    text: str
    spent: Spent | None


@dataclass(frozen=True, slots=True)
class NoAnswer:
    """None is known yet. `strays`: how often the record's step has asked something else than what it had waited for."""

    strays: int


@dataclass(frozen=True, slots=True)
class OpenChunks:
    """Those that are this run's to carry on, and how many are carried on by other runs that live."""

    own: list[Chunk]
    elsewhere: int


class BatchStore(Protocol):
    """What a store keeps of batches, for the runs of one instance; each verb is one commit."""

    def answer(self, run: int, record: int, version: str, fingerprint: str) -> KnownAnswer | NoAnswer:
        """What is known of a request that a record's step, in this version, makes; a fault is told once."""

    def queues(self, run: int) -> list[Queue]:
        """What waits to be sent for records that wait for it."""

    def make_chunk(self, run: int, wish: ChunkWish) -> Chunk | NoRoom | None:
        """Make it durable which requests are going to be sent together, and set aside the most that they can cost;
        None where nothing waits."""

    def open_chunks(self, run: int) -> OpenChunks:
        """Take over those of runs that have ended."""

    def bodies(self, run: int, chunk: str, after: int, limit: int) -> list[tuple[int, str, str]]:
        """Requests of a chunk as (number, fingerprint, body), from behind a number."""

    def note_file(self, run: int, chunk: str, file: str) -> None:
        """Its file was uploaded."""

    def note_batch(self, run: int, chunk: str, state: BatchState, found: bool) -> None:
        """It is under way. `found`: by a search."""

    def note_progress(self, run: int, chunk: str, state: BatchState) -> None:
        """What the provider says of it."""

    def take_in(self, run: int, chunk: str, said: Sequence[Said]) -> int:
        """Keep what came of requests, count what it cost, and let go of the records that waited for no more. What is
        known already is passed over; how many were not."""

    def end_chunk(
        self, run: int, chunk: str, status: str, reason: str, fault: str | None, told: Collection[str]
    ) -> int:
        """Its batch is over, or will not be made. Requests without an answer wait again, or, where they have been sent
        in vain too often, have `fault` for an answer (None: that does not count); how many they are. `told`: those of
        which it is known that they were not carried out; others of a batch that was completed may be charged."""
