"""What this run has done so far, and how long the rest will take."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from onward.engine.spending.bill import AtModel, Money
from onward.model import Counts, Fact, State
from onward.policy.effects import UNDECODABLE
from onward.policy.forecast import Range, time_left
from onward.policy.windows import Windows
from onward.ports.bill import Bill, Pace

AVERAGING_SECONDS = 20.0
LATELY = 60.0
MOST_REMEMBERED = 10_000


@dataclass(frozen=True, slots=True)
class Progress:
    """A moment of a run, for a display. `eta` in seconds, None while it cannot be told; `rate` in records a second,
    `rate_of_all`: that of all runs of the instance together.

    `retrying`: records that wait for another try, by "step: type of error", the first until `next_try`; `held`:
    records that wait for something else, by what it is; `longest`: key, step and age in seconds of the oldest call;
    `elsewhere`: records in progress with other runs, which may have died a moment ago; `target`: how many records
    `--limit` allows. `time_left`: as `eta`, with its P10 and P90; `money`: None where no step asks a model; `models`:
    those that steps ask.
    """

    job: str
    instance: str
    counts: Mapping[State, int]
    total: int
    source_complete: bool
    started: float
    now: float
    rate: float
    eta: float | None
    calls: int
    retrying: Mapping[str, int]
    ended_here: int
    longest: tuple[str, str, float] | None
    held: Mapping[str, int] = field(default_factory=dict)
    next_try: float | None = None
    target: int | None = None
    time_left: Range | None = None
    money: Money | None = None
    models: tuple[AtModel, ...] = ()
    rate_of_all: float = 0.0
    elsewhere: int = 0

    @property
    def waits_for_others(self) -> bool:
        """Whether nothing is left but what other runs hold."""
        return (
            not self.calls
            and 0 < self.elsewhere == self.counts.get(State.IN_PROGRESS, 0)
            and not self.counts.get(State.PENDING, 0)
            and self.source_complete
        )

    @property
    def asked_again(self) -> int:
        """Unconfirmed records that somebody will be asked about, so that they are not done."""
        for_a_person = self.held.get("person", 0) + self.held.get(UNDECODABLE, 0)
        return max(self.counts.get(State.UNCONFIRMED, 0) - for_a_person, 0)

    @property
    def done(self) -> int:
        """Records that nothing is to be done about any more, or nothing but by a person."""
        at_work = (State.PENDING, State.IN_PROGRESS)
        return sum(n for state, n in self.counts.items() if state not in at_work) - self.asked_again


class Tally:
    """Counts kept in step with the commits that this run hears of, refreshed from the store now and then. `bill`: what
    costs are told from, as the store said it the last time.

    The rate is of this run alone: what earlier runs did says nothing about how fast this one is.
    """

    def __init__(self, counts: Counts, now: float):
        self.counts = counts
        self.started = now
        self.ended = 0
        self.left_failed = 0
        self.unconfirmed: set[int] = set()
        self.adopted: Counter[str | None] = Counter()  # obligations that were done already, as `Fact.sent_by` has it
        self.calls_done = 0
        self.bill = Bill()
        self._waits: dict[int, tuple[str, float]] = {}
        self._marks: list[tuple[float, int, int]] = [(now, 0, _ended(counts))]
        self._own, self._all = Windows(now, 0), Windows(now, _ended(counts))

    def add(self, fact: Fact) -> None:
        """A committed fact."""
        states = self.counts.states
        if fact.event == "effect_deduplicated":
            self.adopted[fact.sent_by] += 1
        if fact.checkpoint is not None:
            self.calls_done += 1
            if fact.done_step is not None:
                self.counts.steps[fact.done_step] = self.counts.steps.get(fact.done_step, 0) + 1
        if fact.state is State.IN_PROGRESS:
            return
        states[State.IN_PROGRESS] -= 1
        states[fact.state] += 1
        if fact.state is State.UNCONFIRMED:
            self.unconfirmed.add(fact.record)
        elif fact.state is not State.PENDING:
            self.unconfirmed.discard(fact.record)
            self.ended += 1
            if fact.state is not State.SUCCEEDED:
                self.left_failed += 1
                self.fail(fact)
        elif fact.failure is not None:
            self._waits[fact.record] = f"{fact.failure.step}: {fact.failure.error_type}", fact.not_before
            if len(self._waits) > MOST_REMEMBERED:
                del self._waits[next(iter(self._waits))]

    def fail(self, fact: Fact) -> None:
        if fact.failure is not None:
            cause = (fact.failure.step, str(fact.failure.kind))
            self.counts.failures[cause] = self.counts.failures.get(cause, 0) + 1

    def claimed(self, n: int) -> None:
        self.counts.states[State.PENDING] -= n
        self.counts.states[State.IN_PROGRESS] += n

    def has_succeeded(self, step: str) -> bool:
        """Whether the step has for some record of the instance."""
        return self.counts.steps.get(step, 0) > 0

    def refresh(self, counts: Counts) -> None:
        self.counts = counts

    def retrying(self, now: float) -> Counter[str]:
        """Records whose back-off is not over yet, by step and type of error."""
        for record in [record for record, (_, not_before) in self._waits.items() if not_before <= now]:
            del self._waits[record]
        return Counter(cause for cause, _ in self._waits.values())

    def next_try(self) -> float | None:
        """When the first of them is due again."""
        return min((not_before for _, not_before in self._waits.values()), default=None)

    def mark(self, now: float, at_work: bool = True) -> None:
        """Remember a moment for the rate. `at_work`: whether anything was meant to happen."""
        self._own.mark(now, self.ended, at_work)
        self._all.mark(now, _ended(self.counts), at_work)
        self._marks.append((now, self.ended, _ended(self.counts)))
        while len(self._marks) > 2 and self._marks[0][0] < now - LATELY:
            self._marks.pop(0)

    def _mark_since(self, then: float) -> tuple[float, int, int]:
        """The first of the marks from then on, or the last but one."""
        return next((mark for mark in self._marks[:-2] if mark[0] >= then), self._marks[-2:][0])

    def rate(self, now: float, seconds: float = AVERAGING_SECONDS) -> float:
        """Records that this run ended a second, over the last seconds."""
        then, ended, _ = self._mark_since(now - seconds)
        return (self.ended - ended) / (now - then) if now > then else 0.0

    def rate_of_all(self, now: float) -> float:
        """Records of the instance that all runs together ended a second, over the last seconds."""
        then, _, ended = self._mark_since(now - AVERAGING_SECONDS)
        return max((_ended(self.counts) - ended) / (now - then), 0.0) if now > then else 0.0

    def lately(self, now: float) -> float:
        """The same over the last minute."""
        return self.rate(now, LATELY)

    def time_left(self, target: int | None = None) -> Range | None:
        """As `eta`, from the spread of what ended in equal stretches of time."""
        windows = self._all if target is None else self._own
        if target is None and not self.counts.source_complete:
            return None
        left = self._to_go() if target is None else target - self.ended
        return time_left(windows.moments, windows.seconds, left) if left > 0 else None

    def pace(self) -> Pace | None:
        """How quickly records of the instance end; None before the first window."""
        moments = self._all.moments
        return Pace(self._all.seconds, moments.count, moments.total, moments.squares) if moments.count else None

    def _to_go(self) -> int:
        return self.counts.of(State.PENDING) + self.counts.of(State.IN_PROGRESS)

    def eta(self, now: float, target: int | None = None) -> float | None:
        """Seconds until all is done, at the rate of all runs of the instance together.

        `target`: this run is to take up so many records and no more.
        """
        if target is not None:
            rate, left = self.rate(now), target - self.ended
        elif self.counts.source_complete:
            rate, left = self.rate_of_all(now), self._to_go()
        else:
            return None
        return left / rate if rate > 0 and left > 0 else None


def _ended(counts: Counts) -> int:
    return sum(n for state, n in counts.states.items() if state not in (State.PENDING, State.IN_PROGRESS))
