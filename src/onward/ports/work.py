"""The writing side of a store: what a run asks of it, and what it answers."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from onward.model import Claimed, Counts, Fact, FeedBlock, FeedOutcome, Met, ResultGroup, Spending, StepVersion
from onward.ports.batches import BatchStore
from onward.ports.bill import Bill, Pace


@dataclass(frozen=True, slots=True)
class RunStart:
    """What a run says of itself when it begins. `location`: None when it will not feed, nor look at its input.
    `effects`: the ledger names that its job declares, each with those that it had before. `asks_only`: it is no "next
    run", but asks about effects, and leaves all else as it is. `gates`: the names of its groups. `key_fields`: what
    the keys of its effects are made of, by ledger name. `batch_models`: (name, place, path) of models asked in
    batches; `deduped`: the ledger names of effects whose far side knows a key for ever, so that a send may be repeated
    while another one goes on. `ceilings`: it is under some that all runs of the instance share."""

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
    key_fields: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    batch_models: tuple[tuple[str, str, str], ...] = ()
    deduped: tuple[str, ...] = ()
    pid: int | None = None
    ceilings: bool = False


@dataclass(frozen=True, slots=True)
class OtherKey:
    """Obligations of a job under keys that were made of other `fields` than the effect declares `now`."""

    effect: str
    fields: tuple[str, ...]
    now: tuple[str, ...]
    obligations: int


@dataclass(frozen=True, slots=True)
class DeadRun:
    """A run found dead: its records were put back; of them at most `started` had an attempt in progress: a claim
    is written as a start, before the call."""

    run: int
    told_to_stop: bool
    put_back: int
    started: int
    suspects: int


@dataclass(slots=True)
class RunBegun:
    """What a run finds. `others` are live runs of the same instance; failed records are reset only without any.
    `other_keys`: what the job owes, or has done, under keys that it no longer makes. `alone`: no other run is under
    ceilings, and this one has all of each until it shares them."""

    run: int
    instance: int
    new_instance: bool
    others: int
    reset_failed: int = 0
    dead_runs: list[DeadRun] = field(default_factory=list)
    other_keys: list[OtherKey] = field(default_factory=list)
    alone: bool = True


@dataclass(frozen=True, slots=True)
class FeedState:
    """How far an instance was fed. `complete`: the pass reached the end of the source."""

    cursor: str | None
    complete: bool
    pass_number: int


@dataclass(frozen=True, slots=True)
class GateWish:
    """Which records may be claimed by where they wait. `shut`: gates whose records are left out; `rooms`: how many of
    a gate's records are wanted, `room` for those not named; `fresh`: how many that wait at none (None: any).

    `last`: records (ids) by gate that are taken only where no other waits there. `first`: the gate that those pass
    that wait at none: they come before its last."""

    shut: frozenset[str]
    rooms: Mapping[str, int]
    room: int
    fresh: int | None
    last: Mapping[str, Sequence[int]] = field(default_factory=dict)
    first: str | None = None


@dataclass(frozen=True, slots=True)
class Pause:
    """A person's word that nothing is to begin, in one group or (None) in all of the instance."""

    group: str | None
    at: float
    actor: str
    reason: str | None

    def __str__(self) -> str:
        what = "the job is paused" if self.group is None else f"group {self.group} is paused"
        return f"{what} by {self.actor}" + (f": {self.reason}" if self.reason else "")


@dataclass(frozen=True, slots=True)
class Orders:
    """What people have said to a run that is at work. `drain`: why it is to finish its calls and end, if it is;
    `concurrency`: how many calls each run may have in progress, None where nobody says; `said`: how often they have.
    `others`: there are other runs under ceilings, so that these have to be shared."""

    pauses: list[Pause]
    drain: str | None
    concurrency: int | None
    said: int
    others: bool = False


@dataclass(frozen=True, slots=True)
class Offer:
    """What a run says of a ceiling: its `size` for all runs together, how much of it the run keeps, having stopped
    using more than that, and how much it wants. `whole`: calls in progress, not calls or tokens a minute."""

    ceiling: str
    size: float
    keep: float
    want: float
    whole: bool


@dataclass(frozen=True, slots=True)
class Portion:
    """How much of a ceiling a run may use, and how much of it is to be its own: what is more is to be given back."""

    held: float
    target: float


@dataclass(frozen=True, slots=True)
class Shared:
    """What a run has of the ceilings that it said something of. `alone`: it has all of each until it shares again."""

    alone: bool
    portions: Mapping[str, Portion] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Work:
    """What a run says of its work now and then: how many records it has ended, how many of them a second over the last
    minute, and how many calls it may have in progress. `pace`: None before it can be told."""

    done: int
    rate: float
    concurrency: int
    pace: Pace | None = None


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


@dataclass(frozen=True, slots=True)
class Reservation:
    """The most that one request to a model can cost, to be set aside if its caps leave room for it (None: no cap)."""

    model: str
    picodollars: int
    tokens: int
    most_picodollars: int | None
    most_tokens: int | None


@dataclass(frozen=True, slots=True)
class Reserved:
    """Whether it was set aside, and what the instance has spent on the model, without what is set aside."""

    granted: bool
    picodollars: int
    tokens: int


@dataclass(slots=True)
class Batch:
    """Everything that is to become durable in one commit. Each record's change is atomic; the batch need not be.
    `spending` belongs to calls that nobody states a fact of any more."""

    facts: list[Fact] = field(default_factory=list)
    blocks: list[FeedBlock] = field(default_factory=list)
    wishes: list[ClaimWish] = field(default_factory=list)
    spending: list[Spending] = field(default_factory=list)
    reservations: list[Reservation] = field(default_factory=list)


@dataclass(slots=True)
class Outcome:
    """What a batch brought, in the order of what was asked. `lost`: (record, fence) of the facts whose fence no longer
    held; they changed nothing. `renewed`: those of records that took the changed input that waited, for their effect is
    settled: they are pending with it, whatever the fact says. `met`: by (record, fence) what intents came upon.
    `next_due`: when the next back-off of the instance ends (UTC seconds), told with claims.
    """

    lost: set[tuple[int, int]] = field(default_factory=set)
    renewed: set[tuple[int, int]] = field(default_factory=set)
    met: dict[tuple[int, int], Met] = field(default_factory=dict)
    claimed: list[list[Claimed]] = field(default_factory=list)
    fed: list[FeedOutcome] = field(default_factory=list)
    reserved: list[Reserved] = field(default_factory=list)
    next_due: float | None = None


@dataclass(frozen=True, slots=True)
class OlderOutputs:
    """Unfinished records with checkpoints that today's steps would make anew: how many records, how many of them a run
    takes up without a person's word, and how many checkpoints by step and version. How many records have an output of
    a step that is no longer one (`removed`), or none of a step before ones that have run (`passed_over`)."""

    records: int = 0
    going_on: int = 0
    steps: Mapping[str, Mapping[str, int]] = field(default_factory=dict)
    removed: Mapping[str, int] = field(default_factory=dict)
    passed_over: Mapping[str, int] = field(default_factory=dict)


class WorkStore(Protocol):
    """The writing side of a store; one thread calls it. Every verb is durable when it returns or raises
    StoreWriteError and has then changed nothing; after a fault of the disk all verbs do. A run that was taken over
    changes nothing by any verb: `renew` tells it, `note_stop` and `end_run` pass over it, the others raise LeaseLost.
    `new`: this opening made it; `lease`: seconds that a lease holds."""

    new: bool
    lease: float

    @property
    def batches(self) -> BatchStore:
        """What is kept of requests to models that are sent together."""

    def begin_run(self, start: RunStart) -> RunBegun:
        """Register the instance and the run, take over dead runs, and, if no other run of the instance is alive,
        return failed records to pending. Raises UsageError, and has then changed nothing, where the job has obligations
        under ledger names that it no longer declares and does not say what became of them."""

    def write(self, run: int, batch: Batch) -> Outcome:
        """Apply facts whose fences hold, feed blocks, then claim."""

    def renew(self, run: int) -> bool:
        """Prolong the run's lease; False when it was taken over."""

    def take_over(self, run: int) -> list[DeadRun]:
        """Put back the records of dead runs of this run's instance. Where a lease has run out in a process that lives,
        records that it may be sending for are held back until `sends_ended` there, or its death."""

    def note_stop(self, run: int, reason: str) -> None:
        """Record that the run was told to stop: its death from now on makes nobody a suspect."""

    def take_feed(self, run: int) -> FeedState | None:
        """Make this run the one that feeds; None while another live run is."""

    def begin_pass(self, run: int, again: bool, why: str) -> None:
        """Reading goes on (`again=False`) or starts over: the cursor is dropped and records are matched by key."""

    def end_run(self, run: int, exit_code: int, reason: str, detail: str = "") -> str | None:
        """Give back what the run still holds and close it; the head of its chain of history, None where it was taken
        over. Records that it may be sending for are held back until `sends_ended`, or the death of its process; where
        this raises, its sign of life stays until then. `detail` may quote data: it is kept with the run and stays out
        of the history."""

    def sends_ended(self, run: int) -> None:
        """No call of a run that has ended goes on any more: its records may be asked about, where they were held back
        for that. It may be called from any thread, and after `close`."""

    def instance_of(self, run: int) -> int:
        """The instance that a run began."""

    def counts(self, instance: int) -> Counts:
        """The counters as of the last commit."""

    def results_by_version(self, instance: int) -> list[ResultGroup]:
        """What the finished records of an instance were made by."""

    def orders(self, run: int) -> Orders:
        """What people have said to the run, all of it in one reading."""

    def waiting_by_gate(self, run: int, only: Sequence[int] | None = None) -> dict[str | None, int]:
        """Pending records of the run's instance, or of these, by where they wait; without those for a person."""

    def answers_by_gate(self, run: int, only: Sequence[int] | None = None) -> dict[str | None, float]:
        """When the first of the unconfirmed records of the run's instance, or of these, may be asked about (UTC
        seconds), by where they wait; without those for a person."""

    def note_gates(self, run: int, standings: Sequence[GateStanding], told: Sequence[tuple[str, str]]) -> None:
        """Say which gates are shut for this run, instead of what it said before; `told`: (event, reason) for the
        history."""

    def share(self, run: int, offers: Sequence[Offer]) -> Shared:
        """Share ceilings with the other runs of the instance. What all of them hold together is never more than there
        is; while another run has all of each, nothing is given."""

    def shared_answer(self, run: int, fingerprint: str) -> str | None:
        """The answer to a request that the run's instance has had before."""

    def bill(self, instance: int, steps: Sequence[str]) -> Bill:
        """What cost and time to come are told from, without what failed. `steps`: today's, in order."""

    def version_parts(self, instance: int) -> Mapping[tuple[str, str], Mapping[str, str]]:
        """By step and version the fingerprints of what the version was made of."""

    def note_work(self, run: int, work: Work) -> None:
        """What the run has done, and how quickly; nothing where it has ended. A pace that is None leaves what was
        noted."""

    def older_outputs(self, instance: int, today: Mapping[str, str]) -> OlderOutputs:
        """What unfinished records go on from though today's steps (versions by step, in step order) would make it anew,
        or are others. It costs what is unfinished, and nothing while no run had other steps or versions."""

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
