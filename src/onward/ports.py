"""What the engine asks of the world, in prose. Adapters live in `sources`, `sinks` and `store`; `runner` joins them."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, Protocol

from onward.model import (
    Claimed,
    Counts,
    EntryState,
    Fact,
    FeedBlock,
    FeedOutcome,
    Met,
    Misfit,
    ResultGroup,
    State,
    StepVersion,
)

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
        """Compare the input with the stored cursor. `complete`: the stored pass had reached the end.

        Raises SourceError where there is no such input.
        """

    def read(self, cursor: str | None, validate: Validate | None) -> Iterator[FeedBlock]:
        """Yield blocks in source order, from behind `cursor` or from the start; memory stays constant.

        Every block's cursor covers the block itself. The last block has `complete=True` and may be empty. Positions
        grow with source order. A bad place is a `BadLine` in its block, never an exception; after it reading goes on
        where it can. From `damage` on no block is complete, and all are partial: no cursor passes the damage.
        Raises SourceError where nothing can be read at all (no such file, no such column).
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
    """What a run says of itself when it begins. `location`: None when it will not feed, nor look at its input.
    `effects`: the ledger names that its job declares, each with those that it had before. `asks_only`: it is no "next
    run", but asks about effects, and leaves all else as it is. `gates`: the names of its groups."""

    job: str
    instance: str
    host: str
    params: str
    location: str | None
    steps: tuple[StepVersion, ...]
    resume_cap: int
    source_changed: bool = False
    effects: tuple[tuple[str, tuple[str, ...]], ...] = ()
    asks_only: bool = False
    gates: tuple[str, ...] = ()


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
class GateWish:
    """Which records may be claimed by where they wait. `shut`: gates whose records are left out; `rooms`: how many of
    a gate's records are wanted, `room` for those not named; `fresh`: how many that wait at none (None: any)."""

    shut: frozenset[str]
    rooms: Mapping[str, int]
    room: int
    fresh: int | None


@dataclass(frozen=True, slots=True)
class Pause:
    """A person's word that nothing is to begin, in one group or (None) in all of the instance."""

    group: str | None
    at: float
    actor: str
    reason: str | None


@dataclass(frozen=True, slots=True)
class GateStanding:
    """Why a gate is shut, until when (UTC seconds; None: not known). `whole`: also for records that wait at none."""

    gate: str
    reason: str
    until: float | None
    whole: bool = False


@dataclass(frozen=True, slots=True)
class ClaimWish:
    """How many records a run wants next. `start`: their attempts start at once and count; `suspects`: only
    those; `only`: none but these records; `effects`: also unconfirmed ones that are due, and what the ledger knows;
    `asked`: a person asks about them, so that they need not be due. `ranked`: a priority decides, also among back-offs
    that are over; `gates`: None where no record waits at one."""

    limit: int
    max_bytes: int
    start: bool = True
    suspects: bool = False
    only: tuple[int, ...] | None = None
    effects: bool = False
    asked: bool = False
    ranked: bool = False
    gates: GateWish | None = None


@dataclass(slots=True)
class Batch:
    """Everything that is to become durable in one commit. Each record's change is atomic; the batch need not be."""

    facts: list[Fact] = field(default_factory=list)
    blocks: list[FeedBlock] = field(default_factory=list)
    wishes: list[ClaimWish] = field(default_factory=list)


@dataclass(slots=True)
class Outcome:
    """What a batch brought, in the order of what was asked. `lost`: (record, fence) of the facts whose fence no longer
    held; they changed nothing. `met`: by (record, fence) what intents came
    upon. `next_due`: when the next back-off of the instance ends (UTC seconds), told with claims.
    """

    lost: set[tuple[int, int]] = field(default_factory=set)
    met: dict[tuple[int, int], Met] = field(default_factory=dict)
    claimed: list[list[Claimed]] = field(default_factory=list)
    fed: list[FeedOutcome] = field(default_factory=list)
    next_due: float | None = None


@dataclass(frozen=True, slots=True)
class OlderOutputs:
    """Unfinished records with checkpoints that today's steps would make anew: how many records, and how many
    checkpoints by step and version."""

    records: int = 0
    steps: Mapping[str, Mapping[str, int]] = field(default_factory=dict)


class WorkStore(Protocol):
    """The writing side of a store; one thread calls it. Every verb is durable when it returns or raises
    StoreWriteError and has then changed nothing; after a fault of the disk all verbs do. A run that was taken over
    changes nothing by any verb: `renew` tells it, `note_stop` and `end_run` pass over it, the others raise LeaseLost.
    `new`: this opening made it; `lease`: seconds that a lease holds."""

    new: bool
    lease: float

    def begin_run(self, start: RunStart) -> RunBegun:
        """Register the instance and the run, take over dead runs, and, if no other run of the instance is alive,
        return failed records to pending. Raises UsageError, and has then changed nothing, where the job has obligations
        under ledger names that it no longer declares and does not say what became of them."""

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

    def end_run(self, run: int, exit_code: int, reason: str, detail: str = "") -> str | None:
        """Give back what the run still holds and close it; the head of its chain of history, None where it was taken
        over. `detail` may quote data: it is kept with the run and stays out of the history."""

    def instance_of(self, run: int) -> int:
        """The instance that a run began."""

    def counts(self, instance: int) -> Counts:
        """The counters as of the last commit."""

    def results_by_version(self, instance: int) -> list[ResultGroup]:
        """What the finished records of an instance were made by."""

    def pauses(self, instance: int) -> list[Pause]:
        """What people have paused."""

    def waiting_by_gate(self, run: int, only: Sequence[int] | None = None) -> dict[str | None, int]:
        """Pending records of the run's instance, or of these, by where they wait; without those for a person."""

    def answers_by_gate(self, run: int, only: Sequence[int] | None = None) -> dict[str | None, float]:
        """When the first of the unconfirmed records of the run's instance, or of these, may be asked about (UTC
        seconds), by where they wait; without those for a person."""

    def note_gates(self, run: int, standings: Sequence[GateStanding], told: Sequence[tuple[str, str]]) -> None:
        """Say which gates are shut for this run, instead of what it said before; `told`: (event, reason) for the
        history."""

    def older_outputs(self, instance: int, today: Mapping[str, str]) -> OlderOutputs:
        """What unfinished records go on from though today's steps (versions by step) would make it anew. It costs
        what is unfinished, and nothing while no run had other versions."""

    def reset_first_ended(self, run: int) -> int:
        """First-50 rule: put failed and quarantined records back to pending; how many."""

    def log_bytes(self) -> int:
        """Bytes of write-ahead log; a foreign reader that stays open makes it grow."""

    def tidy(self) -> int:
        """Shrink what may be shrunk; the bytes of write-ahead log that remain."""

    def reopen(self) -> None:
        """After a fault of the disk: go on through a fresh connection, to close the run and no more; otherwise
        nothing. Raises OnwardError."""

    def close(self) -> None:
        """Let go of the store."""


@dataclass(frozen=True, slots=True)
class RunFacts:
    """A run as it is known. Times in UTC seconds. A run without an end that is not `alive` died, or, where it was
    `told` why, was stopping when its process ended. `head`: that of its chain of history."""

    run: int
    started: float
    ended: float | None
    exit_code: int | None
    host: str
    reason: str | None
    told: str | None
    alive: bool
    head: str


@dataclass(frozen=True, slots=True)
class InstanceFacts:
    """An instance of a job. `params` (JSON text) and `versions` are those of its newest run."""

    number: int
    name: str
    counts: Counts
    params: str
    versions: tuple[StepVersion, ...]
    last_run: RunFacts | None


@dataclass(frozen=True, slots=True)
class Waiting:
    """Pending or unconfirmed records that no run takes up now. `until`: when the first of them may be; `since`: since
    when the first of them waits for a person (UTC seconds)."""

    reason: str
    count: int
    until: float | None = None
    since: float | None = None


@dataclass(frozen=True, slots=True)
class InFlight:
    """A step in progress in a living run. `done`: the steps that the record has checkpoints of."""

    key: str
    step: str | None
    done: frozenset[str]
    since: float
    run: int


@dataclass(frozen=True, slots=True)
class Standing:
    """One consistent reading of an instance. `results`: finished records by what made them; `older`: what unfinished
    ones go on from."""

    counts: Counts
    results: list[ResultGroup]
    waiting: list[Waiting]
    runs: list[RunFacts]
    in_flight: list[InFlight]
    older: OlderOutputs


@dataclass(frozen=True, slots=True)
class FailedRecord:
    """A failed, quarantined or unconfirmed record and its newest failure. `step` None: its value did not fit. An
    unconfirmed one need not have failed: it has no `kind` then, its `error` is what it waits for."""

    key: str
    state: State
    step: str | None
    kind: str | None
    error_type: str
    error: str
    attempts: int
    deaths: int
    failed_runs: int
    at: float
    waiting: Waiting | None = None


@dataclass(frozen=True, slots=True)
class Cause:
    """Failures alike: how many of each state, and one of them as an example."""

    step: str | None
    kind: str | None
    error_type: str
    states: Mapping[State, int]
    key: str
    error: str


@dataclass(frozen=True, slots=True)
class CheckpointFacts:
    step: str
    version: str
    output: str
    at: float
    run: int | None


@dataclass(frozen=True, slots=True)
class GenerationFacts:
    """One generation of a record: its input (JSON text, None: not stored), checkpoints in order of time, and, if it
    succeeded, the versions that made it."""

    generation: int
    succeeded: bool
    input: str | None
    input_hash: str | None
    made_by: Mapping[str, str] | None
    skipped: str | None
    checkpoints: list[CheckpointFacts]


@dataclass(frozen=True, slots=True)
class HistoryEntry:
    at: float
    event: str
    step: str | None
    reason: str | None
    actor: str | None
    run: int | None
    detail: str | None


@dataclass(frozen=True, slots=True)
class LogEntry:
    """One entry of an instance's history, and its place in its chain. `key` is canonical JSON text, `detail` and
    `payload` (asked for: what an intent is to send, unless another superseded it) JSON text."""

    run: int | None
    seq: int
    at: float
    event: str
    key: str | None
    step: str | None
    reason: str | None
    actor: str | None
    detail: str | None
    hash: str
    payload: str | None = None


@dataclass(frozen=True, slots=True)
class Verified:
    """What came of recomputing chains of history. `heads`: that of the newest run, and, of a single instance, that of
    what people decided (None)."""

    chains: int
    entries: int
    heads: list[tuple[int | None, str]]
    misfit: Misfit | None


@dataclass(frozen=True, slots=True)
class FailureFacts:
    step: str | None
    version: str | None
    kind: str
    error_type: str
    error: str
    attempts: int
    at: float
    run: int | None


@dataclass(frozen=True, slots=True)
class EntryFacts:
    """An obligation that a record answers for, as the ledger has it. `payload` and `receipt` are JSON text; `first_at`:
    when the first intent was made, `intended_at`: the newest; `ask_at`: when it is asked about again."""

    effect: str
    key: str
    state: EntryState
    generation: int
    payload: str
    payload_hash: str
    receipt: str | None
    first_at: float
    intended_at: float
    sent_at: float | None
    ask_at: float | None
    asks: int
    run: int


@dataclass(frozen=True, slots=True)
class RecordFacts:
    """All that is known of one record."""

    key: str
    state: State
    vanished: bool
    waiting: Waiting | None
    generation: int
    input_changed: bool
    step: str | None
    attempts: int
    deaths: int
    failed_runs: int
    run: int | None
    generations: list[GenerationFacts]
    failure: FailureFacts | None
    history: list[HistoryEntry]
    entries: list[EntryFacts] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class ExportWish:
    """What an export is to hold. `state` `succeeded`: records that have a finished generation, with their newest
    (`generations="last"`) or every one, oldest first; another state: the records that are in it, with what they have
    so far of `steps`; None: every record, finished or not. Vanished records only where `vanished` asks for them, and
    then for no others."""

    state: State | None
    steps: tuple[str, ...]
    generations: Literal["last", "all"] = "last"
    vanished: bool = False


@dataclass(frozen=True, slots=True)
class Choice:
    """Which records an act is for; all that is given has to hold. `records`: none but these, and then vanished ones
    too. `step`: where they failed; for rerun, where the new generation begins. `having`: that have an output of this
    step. `today`: versions by step, in step order. `actor`: who decides."""

    act: Literal["retry", "release", "rerun"]
    actor: str
    today: Mapping[str, str]
    records: Sequence[int] | None = None
    kind: str | None = None
    step: str | None = None
    having: str | None = None
    stale: bool = False
    dry_run: bool = False


@dataclass(slots=True)
class Decided:
    """How many records an act marked (or would), at which step they go on (None: the first), how many of them got
    another input, and the states of named ones that it is not for (`bad line` for one that is no record)."""

    count: int = 0
    from_steps: dict[str | None, int] = field(default_factory=dict)
    corrected: int = 0
    passed_over: dict[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Word:
    """A person's word on one obligation: with a `receipt` (JSON text) it was sent, without one it was not.

    `effect` and `key` are those of the ledger. `step`: which of today's steps (`today`: versions by step, in order) it
    is; None where that is not known, and then only for one that was not sent.
    """

    actor: str
    record: int
    effect: str
    key: str
    receipt: str | None
    reason: str | None
    step: str | None
    today: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Asking:
    """Which open obligations a person wants to have asked about. `found_out`: ledger names of effects whose unknown
    outcome can be found out; `confirmed`: of those whose receipts can be confirmed; `among`: none but these."""

    actor: str
    reason: str | None
    found_out: Sequence[str]
    confirmed: Sequence[str]
    among: Sequence[str] | None = None


@dataclass(slots=True)
class Asked:
    """`records` are to be asked about. How many are not: those that nobody can be asked about (`left`), those that a
    living run is at work on (`busy`), and those whose call, in a living process, may still be sending (`sending`)."""

    records: list[int] = field(default_factory=list)
    left: int = 0
    busy: int = 0
    sending: int = 0


@dataclass(frozen=True, slots=True)
class Became:
    """What has become of a record by now."""

    key: str
    state: State
    step: str | None
    waiting: Waiting | None


class Desk(Protocol):
    """Where people ask and decide. Questions are short readings, each consistent in itself; none stays open while
    its answer is used. Acts change many records in commits of some hundreds, each record wholly or not at all, only
    while it still is in the state that the act is for, and with a reason in its history; one that was interrupted is
    given again. No run needs to be alive, and one that is keeps working."""

    @property
    def store(self) -> str:
        """The store's absolute address, passwords masked."""

    def jobs(self) -> list[str]:
        """The names of all jobs in the store."""

    def instances(self, job: str) -> list[InstanceFacts]:
        """A job's instances, oldest first."""

    def standing(self, instance: int, today: Mapping[str, str]) -> Standing:
        """How an instance stands. `today`: versions by step."""

    def failures(self, instance: int, states: Sequence[State], kind: str | None) -> Iterator[FailedRecord]:
        """Records in these states, in source order, without vanished ones."""

    def causes(self, instance: int, states: Sequence[State], kind: str | None) -> list[Cause]:
        """The same, those alike put together, most frequent first."""

    def find(self, instance: int, keys: Iterable[str]) -> dict[str, int]:
        """The records of those canonical keys that there are."""

    def record(self, record: int) -> RecordFacts:
        """One record and its history."""

    def log(self, instance: int, since: float | None, payloads: bool = False) -> Iterator[LogEntry]:
        """An instance's history, oldest first, in constant memory."""

    def verify(self, instances: Sequence[int] | None, expected: str | None) -> Verified:
        """Recompute the chains of these instances, or of all, as they stand now, in constant memory. `expected`: the
        head of one of them as it was noted elsewhere."""

    def export(self, instance: int, wish: ExportWish) -> Iterator[ExportRow]:
        """Rows in source order, as the instance stood when the first was asked for, in constant memory."""

    def pause(self, instance: int, group: str | None, actor: str, reason: str | None) -> bool:
        """Have nothing begin any more in a group, or in all of the instance; False where it is paused already."""

    def resume(self, instance: int, group: str | None, actor: str, reason: str | None) -> bool:
        """Take a pause back; False where there is none."""

    def pauses(self, instance: int) -> list[Pause]:
        """What is paused."""

    def decide(self, instance: int, choice: Choice) -> Decided:
        """Mark failed records (retry), quarantined ones (release), finished ones and those that wait with a stale
        checkpoint (rerun) as pending."""

    def correct(self, instance: int, values: Iterable[tuple[int, str]], choice: Choice) -> Decided:
        """Release quarantined records, each with a new input (JSON text), as a new generation; one whose input is the
        same goes on where it was."""

    def settle(self, instance: int, word: Word) -> State | None:
        """Settle an unconfirmed record's open obligation as a person says, in one commit; the record's state then, or
        None where the record is not unconfirmed, or the obligation no longer open: nothing was changed.

        Sent: the receipt is the output of the effect's step, and the record goes on with the next, or has succeeded.
        Not sent: the entry is known as not applied, and the record pending.
        """

    def ask_again(self, instance: int, asking: Asking) -> Asked:
        """Note in their histories which records are asked about again; a run of these alone asks (`ClaimWish`)."""

    def became(self, records: Sequence[int]) -> Iterator[Became]:
        """What has become of these records, in source order."""

    def close(self) -> None:
        """Let go of the store."""
