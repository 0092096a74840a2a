"""What the engine asks of the world, in prose. Adapters live in `sources`, `sinks` and `store`; `runner` joins them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from onward.model import Claimed, Counts, Fact, FeedBlock, FeedOutcome, StepVersion

Validate = Callable[[Any], Any]
"""Turns a source's plain value into the job's record type; raises MisfitRecord."""


class Clock(Protocol):
    """Time, handed in so that it can be simulated."""

    def now(self) -> float:
        """Seconds since 1970 in UTC; may jump."""

    def steady(self) -> float:
        """Seconds that only grow, also while the host sleeps. Comparable only within one `boot`."""

    @property
    def boot(self) -> str:
        """Identity of this boot of this host."""


@dataclass(frozen=True, slots=True)
class Resume:
    """How a source goes on from a stored cursor.

    `done`: read to its end and unchanged, nothing to read. `continue`: read what lies behind `cursor`.
    `again`: read from the start and match by key; `why` says what changed (empty where re-reading is the rule).
    """

    how: Literal["done", "continue", "again"]
    cursor: str | None = None
    why: str = ""


class Source(Protocol):
    """Where records come from. Reading is repeatable; a cursor is JSON text that only the source understands."""

    @property
    def location(self) -> str:
        """Identity of the place (paths, query), absolute; another location is not the same input."""

    @property
    def title(self) -> str:
        """What people are shown: a short path or name."""

    @property
    def max_ahead(self) -> int | None:
        """At most so many records may be fed before they are worked on; None: no bound."""

    def resume(self, cursor: str | None, complete: bool) -> Resume:
        """Compare the input with the stored cursor. `complete`: the stored pass had reached the end."""

    def read(self, cursor: str | None, validate: Validate | None) -> Iterator[FeedBlock]:
        """Yield blocks in source order, from behind `cursor` or from the start; memory stays constant.

        Every block's cursor covers the block itself. The last block has `complete=True` and may be empty. Positions
        grow with source order. A bad place is a `BadLine` in its block, never an exception; after it reading goes on
        where it can. Raises SourceError where nothing can be read at all (no such file, no such column).
        """

    def where(self, position: int) -> str:
        """The place of a position for people: `file:line`."""


@dataclass(frozen=True, slots=True)
class ExportRow:
    """One record as it leaves the store. `key`, `input` and `outputs` are JSON text, exactly as stored."""

    key: str
    input: str | None
    outputs: dict[str, str]
    state: str
    versions: dict[str, str]
    generation: int


class Sink(Protocol):
    """Writes rows to one file that appears whole or not at all."""

    def write(self, rows: Iterable[ExportRow]) -> int:
        """Write all rows, make them durable under the final name, return their number."""


@dataclass(frozen=True, slots=True)
class RunStart:
    """What a run says of itself when it begins. `location`: None when it will not feed (its input was not looked at)."""

    job: str
    instance: str
    host: str
    params: str
    location: str | None
    steps: tuple[StepVersion, ...]
    resume_cap: int
    source_changed: bool = False


@dataclass(frozen=True, slots=True)
class DeadRun:
    """A run found dead: its records were put back; `started` of them had an attempt in progress."""

    run: int
    told_to_stop: bool
    put_back: int
    started: int
    suspects: int


@dataclass(slots=True)
class RunBegun:
    """What a run finds. `others` are live runs of the same instance; failed records are reset only without any."""

    run: int
    instance: int
    new_instance: bool
    others: int
    reset_failed: int = 0
    dead_runs: list[DeadRun] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class FeedState:
    """How far an instance was fed. `complete`: the pass reached the end of the source."""

    cursor: str | None
    complete: bool
    pass_number: int


@dataclass(frozen=True, slots=True)
class ClaimWish:
    """How many records a run wants next. `start`: their attempts start at once and count; `suspects`: only
    those; `only`: none but these records."""

    limit: int
    max_bytes: int
    start: bool = True
    suspects: bool = False
    only: tuple[int, ...] | None = None


@dataclass(slots=True)
class Batch:
    """Everything that is to become durable in one commit. Each record's change is atomic; the batch need not be."""

    facts: list[Fact] = field(default_factory=list)
    blocks: list[FeedBlock] = field(default_factory=list)
    wishes: list[ClaimWish] = field(default_factory=list)


@dataclass(slots=True)
class Outcome:
    """What a batch brought, in the order of what was asked. `lost`: (record, fence) of the facts whose fence no longer
    held; they changed nothing. `next_due`: when the next back-off of the instance ends (UTC seconds), told with claims.
    """

    lost: set[tuple[int, int]] = field(default_factory=set)
    claimed: list[list[Claimed]] = field(default_factory=list)
    fed: list[FeedOutcome] = field(default_factory=list)
    next_due: float | None = None


class WorkStore(Protocol):
    """The writing side of a store; one thread calls it. Every verb is durable when it returns or raises
    StoreWriteError and has then changed nothing. A run that was taken over changes nothing by any verb: `renew` tells
    it, `note_stop` and `end_run` pass over it, the others raise LeaseLost."""

    def begin_run(self, start: RunStart) -> RunBegun:
        """Register the instance and the run, take over dead runs, and, if no other run of the instance is alive,
        return failed records to pending."""

    def write(self, run: int, batch: Batch) -> Outcome:
        """Apply facts whose fences hold, feed blocks, then claim."""

    def renew(self, run: int) -> bool:
        """Prolong the run's lease; False when it was taken over."""

    def take_over(self, run: int) -> list[DeadRun]:
        """Put back the records of dead runs of this run's instance."""

    def note_stop(self, run: int, reason: str) -> None:
        """Record that the run was told to stop: its death from now on makes nobody a suspect."""

    def take_feed(self, run: int) -> FeedState | None:
        """Make this run the one that feeds; None while another live run is."""

    def begin_pass(self, run: int, again: bool, why: str) -> None:
        """Reading goes on (`again=False`) or starts over: the cursor is dropped and records are matched by key."""

    def end_run(self, run: int, exit_code: int, reason: str) -> None:
        """Give back what the run still holds and close it."""

    def instance_of(self, run: int) -> int:
        """The instance that a run began."""

    def counts(self, instance: int) -> Counts:
        """The counters as of the last commit."""

    def reset_first_ended(self, run: int) -> int:
        """First-50 rule: put failed and quarantined records back to pending; how many."""

    def log_bytes(self) -> int:
        """Bytes of write-ahead log; a foreign reader that stays open makes it grow."""

    def tidy(self) -> int:
        """Shrink what may be shrunk; the bytes of write-ahead log that remain."""

    def close(self) -> None:
        """Let go of the store."""
