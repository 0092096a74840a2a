"""What a store answers to people's questions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from onward.model import Counts, EntryState, Misfit, ResultGroup, Spent, State, StepVersion
from onward.ports.work import OlderOutputs


@dataclass(frozen=True, slots=True)
class RunFacts:
    """A run as it is known. Times in UTC seconds. A run without an end that is not `alive` died, or, where it was
    `told` why, was stopping when its process ended. `head`: that of its chain of history. `lease`: seconds for which
    its lease still holds, less than 0 where it has run out, None where nobody can tell (a host that has booted since).
    `drain`: why it is to end, as a person said; `done`, `rate`, `concurrency`: as the run said of itself when it was
    `noted` (`ports.work.Work`)."""

    run: int
    started: float
    ended: float | None
    exit_code: int | None
    host: str
    reason: str | None
    told: str | None
    alive: bool
    head: str
    lease: float | None = None
    pid: int | None = None
    drain: str | None = None
    done: int = 0
    rate: float | None = None
    concurrency: int | None = None
    noted: float | None = None


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
    when the first of them waits for a person, or is paused (UTC seconds)."""

    reason: str
    count: int
    until: float | None = None
    since: float | None = None


@dataclass(frozen=True, slots=True)
class InFlight:
    """A step in progress in a living run, for so long (`since`, UTC seconds). `done`: the steps that the record has
    checkpoints of."""

    key: str
    step: str | None
    done: frozenset[str]
    since: float
    run: int


@dataclass(frozen=True, slots=True)
class Standing:
    """One consistent reading of an instance. `results`: finished records by what made them; `older`: what unfinished
    ones go on from; `now`: its moment; `concurrency`: as people said it for each run, if they did."""

    counts: Counts
    results: list[ResultGroup]
    waiting: list[Waiting]
    runs: list[RunFacts]
    in_flight: list[InFlight]
    older: OlderOutputs
    now: float
    concurrency: int | None


@dataclass(frozen=True, slots=True)
class FailedRecord:
    """A failed, quarantined or unconfirmed record and its newest failure. `step` None: its value did not fit. An
    unconfirmed one need not have failed: it has no `kind` then, its `error` is what it waits for. `vanished`: the
    source no longer has it; what it owes is open all the same. `received`: what a model had answered."""

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
    vanished: bool = False
    received: str | None = None


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
class UsageFacts:
    """What a step's requests to one model came to in one generation, those of attempts that failed included."""

    step: str
    version: str
    spent: Spent


@dataclass(frozen=True, slots=True)
class GenerationFacts:
    """One generation of a record: its input (JSON text, None: not stored), checkpoints in order of time, and, if it
    succeeded, the versions that made it. `succeeded` None: it has no outputs, be it that a vacuum has removed them or
    that it never had any."""

    generation: int
    succeeded: bool | None
    input: str | None
    input_hash: str | None
    made_by: Mapping[str, str] | None
    skipped: str | None
    checkpoints: list[CheckpointFacts]
    usage: list[UsageFacts] = field(default_factory=list)


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
    """A record's newest failure. `received`: what a model had answered."""

    step: str | None
    version: str | None
    kind: str
    error_type: str
    error: str
    attempts: int
    at: float
    run: int | None
    received: str | None = None


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
class Holder:
    """The record that has taken over the obligation of another."""

    key: str
    job: str
    instance: str
    effect: str
    idempotency_key: str


@dataclass(frozen=True, slots=True)
class RecordFacts:
    """All that is known of one record. `held_by`: who answers for what it owes, where it has been taken over."""

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
    held_by: Holder | None = None
