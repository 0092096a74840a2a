"""The words of onward as frozen values. No I/O, no decisions."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import Enum, StrEnum
from typing import Any, Literal


class State(StrEnum):
    """Where a record stands. Only `SUCCEEDED` is done."""

    PENDING = "pending"
    IN_PROGRESS = "in_progress"
    SUCCEEDED = "succeeded"
    FAILED = "failed"
    UNCONFIRMED = "unconfirmed"
    QUARANTINED = "quarantined"


class Kind(StrEnum):
    """What a failure means."""

    TRANSIENT = "transient"
    REJECTED = "rejected"
    INVALID = "invalid"
    BUG = "bug"
    SYSTEM = "system"
    CONFLICT = "conflict"
    FATAL = "fatal"


@dataclass(frozen=True, slots=True)
class Retry:
    """How often a step is tried in one run and how long is waited in between.

    The wait before attempt n+1 is drawn evenly from 0 to `min(cap, base * factor**(n-1))` seconds: "full jitter" of
    the AWS Architecture Blog, "Exponential Backoff And Jitter" (2015).
    """

    attempts: int = 3
    base: float = 1.0
    factor: float = 2.0
    cap: float = 60.0

    def __post_init__(self) -> None:
        if self.attempts < 1:
            raise ValueError("Retry(attempts=…) must be at least 1")
        if not all(math.isfinite(number) for number in (self.base, self.factor, self.cap)):
            raise ValueError("Retry(base=…, factor=…, cap=…) must be finite numbers")
        if min(self.base, self.cap) < 0 or self.factor < 1:
            raise ValueError("Retry(base=…, cap=…) must not be negative and factor must be at least 1")


@dataclass(slots=True, frozen=True)
class Failure:
    """One failed attempt, as it is stored and shown. `message` may quote data and never goes to logs;
    `received`: what a model had answered."""

    step: str
    version: str
    kind: Kind
    error_type: str
    message: str
    attempts: int
    received: str | None = None


@dataclass(slots=True)
class Spent:
    """What requests to one model came to. `tokens_in` has `cached_tokens` among them; `picodollars` are 10^-12 USD.

    Of the requests so many were `unpriced` (their cost is not known), `uncounted` (nor are their tokens), `lost` (no
    answer came, and it may be charged all the same) and `repairs` (of an answer that did not fit). `seconds` in all.
    """

    model: str
    requests: int = 0
    tokens_in: int = 0
    tokens_out: int = 0
    cached_tokens: int = 0
    picodollars: int = 0
    unpriced: int = 0
    uncounted: int = 0
    lost: int = 0
    repairs: int = 0
    seconds: float = 0.0

    def add(self, other: Spent) -> None:
        for name in _COUNTED:
            setattr(self, name, getattr(self, name) + getattr(other, name))


_COUNTED = (
    "requests", "tokens_in", "tokens_out", "cached_tokens", "picodollars", "unpriced", "uncounted", "lost", "repairs",
    "seconds",
)  # fmt: skip


@dataclass(slots=True)
class Spending:
    """What a fact says of money: what a model's requests came to, and what is no longer set aside for them. `batched`:
    the fingerprint of a request that was counted when its batch came back; it is its record's from now on. So it is
    where what a request came to was `counted` on its own, before its step was through."""

    spent: Spent
    freed_picodollars: int = 0
    freed_tokens: int = 0
    batched: str | None = None
    counted: bool = False


@dataclass(frozen=True, slots=True)
class BatchRequest:
    """A request to a model that is sent together with others; `fingerprint` is the same for those that ask the same.

    `place` is where the model was declared to be, empty for where the environment says; `path` that of the API, `body`
    JSON text. `picodollars` and `tokens`: the most that it can come to. `repairs`: 1 where it asks for a better answer.
    """

    fingerprint: str
    model: str
    place: str
    path: str
    body: str
    picodollars: int
    tokens: int
    repairs: int = 0


@dataclass(frozen=True, slots=True)
class Deferral:
    """What a record waits for: answers to `requests`, for the step of this `version`. `known`: fingerprints of others
    whose answers the step has used, which stay until it has ended."""

    version: str
    requests: tuple[BatchRequest, ...]
    known: tuple[str, ...] = ()


@dataclass(slots=True, frozen=True)
class StoredOutput:
    """A step's durable output: JSON text exactly as it was written, and the version of the step that made it."""

    version: str
    output: str


Meeting = Literal["go", "go on", "adopt", "wait", "conflict", "other key"]


class EntryState(StrEnum):
    """What is known of one obligation in the ledger of effects."""

    INTENDED = "intended"  # the intent is durable: from here on it may be under way
    UNKNOWN = "unknown"  # a call ended, or its process did, without an answer
    SENT = "sent"  # the receipt is durable, and nothing is confirmed
    CONFIRMED = "confirmed"
    ABSENT = "absent"  # known as not applied; a corrected payload may follow


class Answer(Enum):
    """What a probe or confirm says besides a receipt or True."""

    ABSENT = "absent"
    UNKNOWN = "unknown"


ABSENT = Answer.ABSENT
UNKNOWN = Answer.UNKNOWN


@dataclass(frozen=True, slots=True)
class Mismatch:
    """What a confirm says of an acknowledgement that does not match: a person must look."""

    reason: str


@dataclass(slots=True)
class Entry:
    """One obligation in the ledger, as its holder sees it. `payload` and `receipt` are JSON text; times in UTC seconds.

    `record` is the one that answers for it, in its `generation`; `fence` that of its newest intent, made `intended_at`;
    `first_at`: when the first was; `ask_at`: not to be asked about before; `asks`: questions without an answer.
    `origin`: whose it was before it was adopted, in words; `origin_job`: the job that had made it, with its instance;
    `ended_at`: when it was seen that the call under its newest intent had ended without an answer; `deadline` and
    `settle` (seconds) are what was declared when that intent was made.
    """

    name: str
    key: str
    state: EntryState
    payload: str
    payload_hash: str
    receipt: str | None
    record: int
    generation: int
    fence: int
    first_at: float
    intended_at: float
    ask_at: float = 0.0
    asks: int = 0
    sent_at: float | None = None
    origin: str | None = None
    origin_job: str | None = None
    ended_at: float | None = None
    deadline: float = 0.0
    settle: float = 0.0


@dataclass(slots=True)
class EffectFact:
    """What a fact says of its record's obligation; written together with it.

    With `payload` it is an intent: the entry is made, or superseded where it was not applied, or met. Without, it is
    what became of an entry that the record answers for. `former`: (name, key) under which it may be known from before;
    `fields`: the names of the fields that the key is made of; `deadline` and `settle` (seconds) belong to intents.
    """

    name: str
    key: str
    state: EntryState
    payload: str | None = None
    payload_hash: str = ""
    receipt: str | None = None
    ask_at: float = 0.0
    asks: int = 0
    former: tuple[tuple[str, str], ...] = ()
    fields: tuple[str, ...] = ()
    deadline: float = 0.0
    settle: float = 0.0


@dataclass(slots=True)
class Met:
    """What an intent came upon. `entry` is as it stands now; `meeting` says what it is to this record. `sending`: a
    call that was given up may still be going on, in a process that lives."""

    meeting: Meeting
    entry: Entry
    sending: bool = False


@dataclass(slots=True)
class Claimed:
    """A record that this run holds. `key` is canonical JSON text, `value` the input as JSON text (None: not stored)."""

    id: int
    fence: int
    generation: int
    key: str
    position: int
    value: str | None
    step: str | None
    attempts: int
    deaths: int
    solo_deaths: int
    failed_runs: int
    checkpoints: dict[str, StoredOutput] = field(default_factory=dict)
    entries: dict[str, Entry] = field(default_factory=dict)


@dataclass(slots=True)
class Fact:
    """What is to become true of one claimed record, all at once, provided its fence still holds.

    `state` is the state afterwards. IN_PROGRESS means that the record stays with this run: its attempt `attempts` of
    `step` counts as started when `started`. `checkpoint` is the output of `done_step`, made by `version`.
    `lineage` is set with SUCCEEDED: the versions that made the result, in step order. `gate`: where a record that
    leaves this run waits for its next call (JSON text of a group's or step's name and a value), None for no such place.
    `sent_by`: the job that had sent what this checkpoint adopts; empty: the far side said that it had it; None: it was
    this record itself. `spending` counts also where the fence is gone, and is not None where a step that asks
    models is over; `answers`: (fingerprint of a request, the answer's text) that other records may take; `deferral`:
    what a record that leaves, held, waits for. `moves` False: the record stays with its run as it was claimed, at the
    first step that has no checkpoint, and nothing but the checkpoint is new.
    """

    record: int
    fence: int
    generation: int
    state: State
    done_step: str | None = None
    version: str | None = None
    checkpoint: str | None = None
    step: str | None = None
    started: bool = False
    attempts: int = 0
    not_before: float = 0.0
    deaths: int = 0
    solo_deaths: int = 0
    failed_runs: int = 0
    hold: str | None = None
    failure: Failure | None = None
    event: str | None = None
    reason: str | None = None
    lineage: tuple[tuple[str, str], ...] | None = None
    skipped: str | None = None
    effect: EffectFact | None = None
    gate: str | None = None
    sent_by: str | None = None
    spending: list[Spending] | None = None
    answers: list[tuple[str, str]] | None = None
    deferral: Deferral | None = None
    moves: bool = True


@dataclass(slots=True)
class SourceRecord:
    """One record read from a source: canonical key, JSON text of its value, and where it stands.

    `invalid` is set where the value does not fit the job's record type: it is set aside when it is fed. `bad`: it is
    no record at all but a bad line that is set aside, and goes on only with a corrected value. `rank` sorts as records
    are to be admitted, before their position does; `gate` as in `Fact`.
    Not frozen: they are made by the million, and a frozen one takes three times as long to make.
    """

    key: str
    value: str
    position: int
    invalid: str | None = None
    bad: bool = False
    rank: str = ""
    gate: str | None = None


@dataclass(slots=True, frozen=True)
class BadLine:
    """A place in a source that yields no record. `where` is `file:line`.

    `damage`: nothing behind it in its file can be read, so that records are missing that nobody can name.
    """

    where: str
    reason: str
    position: int
    raw: str = ""
    damage: bool = False


@dataclass(slots=True, frozen=True)
class FeedBlock:
    """Records to be fed together with the cursor that covers them. `complete` marks the end of the pass.

    `partial`: a block cut before its end; its records are kept, its cursor is not. `after`: the stored cursor that
    the block continues from; a block out of turn is refused, so that a cursor never passes records that were.
    """

    records: list[SourceRecord]
    bad: list[BadLine]
    cursor: str
    complete: bool = False
    partial: bool = False
    after: str | None = None


@dataclass(slots=True)
class FeedOutcome:
    """What became of one block. With `duplicates` (key, first position, second position), or `out_of_turn`, nothing
    of it was applied. `changed_kept`: records that keep their input, since an effect of it is open."""

    added: int = 0
    unchanged: int = 0
    changed_unfinished: int = 0
    changed_finished: int = 0
    changed_kept: int = 0
    returned: int = 0
    vanished: int = 0
    misfits: int = 0
    out_of_turn: bool = False
    done_again: list[str] = field(default_factory=list)
    duplicates: list[tuple[str, int, int]] = field(default_factory=list)


@dataclass(slots=True, frozen=True)
class StepVersion:
    """`parts`: fingerprints of what the version is made of, by what it is: code, model, prompt."""

    name: str
    version: str
    parts: tuple[tuple[str, str], ...] = ()


@dataclass(slots=True, frozen=True)
class ResultGroup:
    """Finished records that the same versions made: `count` of them, and `changed` more whose input has changed since.

    `made_by`: versions by step, in step order. `skipped`: the step that ended them early.
    """

    made_by: Mapping[str, str]
    skipped: str | None
    count: int
    changed: int


@dataclass(slots=True)
class Counts:
    """A consistent reading of an instance's counters. `vanished_open`: how many `vanished` are unconfirmed;
    `inputs_waiting`: unfinished records whose changed input waits for an effect; `spent`: by model, with the most that
    lost requests can have cost."""

    states: dict[State, int]
    total: int
    vanished: int
    source_complete: bool
    steps: dict[str, int]
    failures: dict[tuple[str, str], int]
    skipped: int = 0
    vanished_open: int = 0
    held: dict[str, int] = field(default_factory=dict)
    inputs_waiting: int = 0
    spent: dict[str, Spent] = field(default_factory=dict)

    def of(self, state: State) -> int:
        return self.states.get(state, 0)


@dataclass(frozen=True, slots=True)
class Misfit:
    """The first entry of a history that does not fit its chain, and why: that of `run`, or (None) of what people
    decided about the instance. `at` and `event` None: it is not there; `instance` None: no chain in particular."""

    instance: int | None
    run: int | None
    seq: int
    at: float | None
    event: str | None
    why: str


@dataclass(frozen=True, slots=True)
class Result:
    """One exported record. `key`, `input` and `outputs` are plain JSON values."""

    key: Any
    input: Any
    outputs: Mapping[str, Any]
    state: str
    versions: Mapping[str, str]
    generation: int


@dataclass(frozen=True, slots=True)
class RunResult:
    """How a run ended. `counts` has every state; `reason` says in words why the run ended."""

    exit_code: int
    reason: str
    run: str
    counts: Mapping[str, int]
    total: int
    seconds: float
    results: list[Result] = field(default_factory=list)

    @property
    def ok(self) -> bool:
        return self.exit_code == 0
