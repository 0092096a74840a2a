"""The side of a store that people ask and decide at: no run is needed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, Protocol

from onward.errors import UsageError
from onward.model import State
from onward.ports.bill import Bill, Pace
from onward.ports.facts import (
    Cause,
    FailedRecord,
    InstanceFacts,
    LogEntry,
    RecordFacts,
    Standing,
    Verified,
    Waiting,
)
from onward.ports.moving import Moving
from onward.ports.sink import ExportRow
from onward.ports.work import Pause


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
    step. `today`: versions by step, in step order. `actor`: who decides. `effects`: ledger names by step."""

    act: Literal["retry", "release", "rerun"]
    actor: str
    today: Mapping[str, str]
    records: Sequence[int] | None = None
    kind: str | None = None
    step: str | None = None
    having: str | None = None
    stale: bool = False
    dry_run: bool = False
    effects: Mapping[str, str] = field(default_factory=dict)


@dataclass(slots=True)
class Decided:
    """How many records an act marked (or would), at which step they go on (None: the first), how many of them got
    another input, and the states of named ones that it is not for (`bad line` for one that is no record). `sent`: by
    the effect's name, how many come upon what was sent for them before."""

    count: int = 0
    from_steps: dict[str | None, int] = field(default_factory=dict)
    corrected: int = 0
    passed_over: dict[str, int] = field(default_factory=dict)
    sent: dict[str, int] = field(default_factory=dict)

    def add(self, more: Decided) -> None:
        """What another act of the same kind did is counted here, too."""
        self.count += more.count
        self.corrected += more.corrected
        for step, number in more.from_steps.items():
            self.from_steps[step] = self.from_steps.get(step, 0) + number
        for state, number in more.passed_over.items():
            self.passed_over[state] = self.passed_over.get(state, 0) + number
        for effect, number in more.sent.items():
            self.sent[effect] = self.sent.get(effect, 0) + number


@dataclass(frozen=True, slots=True)
class Word:
    """A person's word on one obligation: with a `receipt` (JSON text) it was sent, without one it was not.

    `effect` and `key` are those of the ledger. `step`: which of today's steps (`today`: versions by step, in order) it
    is; None where that is not known, and then only for one that was not sent. `dry_run`: only whether it could be.
    """

    actor: str
    record: int
    effect: str
    key: str
    receipt: str | None
    reason: str | None
    step: str | None
    today: Mapping[str, str]
    dry_run: bool = False


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
    living run is at work on (`busy`), those whose call, in a living process, may still be sending (`sending`), and
    those whose obligation another record has taken over (`elsewhere`)."""

    records: list[int] = field(default_factory=list)
    left: int = 0
    busy: int = 0
    sending: int = 0
    elsewhere: int = 0


@dataclass(frozen=True, slots=True)
class Became:
    """What has become of a record by now."""

    key: str
    state: State
    step: str | None
    waiting: Waiting | None


@dataclass(frozen=True, slots=True)
class Drained:
    """A run that was told to finish its calls and end. One that is not `alive` shows no sign of life. `before`: it had
    been told so already."""

    run: int
    host: str
    alive: bool
    before: bool


@dataclass(slots=True)
class Vacuumed:
    """What nobody needs any more: outputs and inputs that newer ones have replaced, of how many `records`, in how many
    `results` (generations); and errors of records that have succeeded since. Sizes in bytes of text."""

    records: int = 0
    results: int = 0
    outputs: int = 0
    output_bytes: int = 0
    inputs: int = 0
    input_bytes: int = 0
    errors: int = 0
    error_bytes: int = 0
    standings: int = 0

    def add(self, more: Vacuumed) -> None:
        for name in self.__dataclass_fields__:
            setattr(self, name, getattr(self, name) + getattr(more, name))

    @property
    def is_any(self) -> bool:
        return any(getattr(self, name) for name in self.__dataclass_fields__)


@dataclass(frozen=True, slots=True)
class Shrunk:
    """Bytes that the store takes on disk, before and after; `why_not`: why nothing was given back to the system."""

    before: int
    after: int
    why_not: str | None = None


class Desk(Moving, Protocol):
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

    def bill(self, instance: int, steps: Sequence[str], again: bool) -> Bill:
        """What the cost to come is told from. `steps`: today's, in order; `again`: with what failed, too."""

    def version_parts(self, instance: int) -> Mapping[tuple[str, str], Mapping[str, str]]:
        """By step and version the fingerprints of what the version was made of."""

    def pace(self, instance: int) -> Pace | None:
        """How quickly records ended, by all runs together, as the run has it that was the last to tell."""

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

    def drain(self, instance: int, run: int | None, actor: str, reason: str | None) -> list[Drained]:
        """Tell a run, or all of the instance that have not ended, to finish the calls in progress and end. Who is alive
        counts as told to stop from then on."""

    def concurrency(self, instance: int) -> int | None:
        """How many calls each run of the instance may have in progress, as people say; None where nobody does."""

    def set_concurrency(self, instance: int, number: int | None, actor: str, reason: str | None) -> None:
        """Say so, to runs at work and those to come; None takes it back."""

    def vacuum(self, instance: int, older_than: float, actor: str, dry_run: bool) -> Vacuumed:
        """Remove what nobody has needed for so many seconds, some hundred records in a commit, with pauses, so that
        runs at work are not held up; `dry_run`: only count it. The ledger, the history, the newest result of each
        record and whatever something was sent for stay. One that was interrupted is given again."""

    def shrink(self) -> Shrunk:
        """Give disk space back, as far as that does not hold up runs at work."""

    def sample(self, instance: int, choice: Choice, number: int) -> tuple[list[int], int]:
        """So many finished records among those that a rerun would mean, spread evenly over the source's order, the same
        each time; and how many it would mean."""

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
        Not sent: the entry is known as not applied, and the record pending, with its changed input where one has
        waited. Raises UsageError where its call may still be sending, in a process that lives: nothing was changed.
        """

    def settle_all(self, instance: int, words: Sequence[Word]) -> list[State | UsageError | None]:
        """`settle` some hundred obligations in one commit, each for itself: what it answers, or would raise. Of a word
        that is a `dry_run` it is said what would become of the record, and nothing is changed."""

    def ask_again(self, instance: int, asking: Asking) -> Asked:
        """Note in their histories which records are asked about again; a run of these alone asks (`ClaimWish`)."""

    def became(self, records: Sequence[int]) -> Iterator[Became]:
        """What has become of these records, in source order."""

    def close(self) -> None:
        """Let go of the store."""
