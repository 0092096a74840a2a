"""What this run has done so far, and how long the rest will take."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

from onward.model import Counts, Fact, State

AVERAGING_SECONDS = 20.0


@dataclass(frozen=True, slots=True)
class Progress:
    """A moment of a run, for a display. `eta` in seconds, None while it cannot be told; `rate` in records a second."""

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
    messages: list[str] = field(default_factory=list)


class Tally:
    """Counts kept in step with the commits that this run hears of, refreshed from the store now and then.

    The rate is of this run alone: what earlier runs did says nothing about how fast this one is.
    """

    def __init__(self, counts: Counts, now: float):
        self.counts = counts
        self.started = now
        self.ended = 0
        self.left_failed = 0
        self.calls_done = 0
        self.retrying: Counter[str] = Counter()
        self._marks: list[tuple[float, int]] = [(now, 0)]

    def add(self, fact: Fact) -> None:
        """A committed fact."""
        states = self.counts.states
        if fact.checkpoint is not None:
            self.calls_done += 1
            if fact.done_step is not None:
                self.counts.steps[fact.done_step] = self.counts.steps.get(fact.done_step, 0) + 1
        if fact.state is State.IN_PROGRESS:
            return
        states[State.IN_PROGRESS] -= 1
        states[fact.state] += 1
        if fact.state is not State.PENDING:
            self.ended += 1
            if fact.state is not State.SUCCEEDED:
                self.left_failed += 1
                self.fail(fact)
        elif fact.failure is not None:
            self.retrying[f"{fact.failure.step}: {fact.failure.error_type}"] += 1

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

    def mark(self, now: float) -> None:
        """Remember a moment for the rate."""
        self._marks.append((now, self.ended))
        while len(self._marks) > 2 and self._marks[0][0] < now - AVERAGING_SECONDS:
            self._marks.pop(0)

    def rate(self, now: float) -> float:
        """Records ended a second, over the last seconds."""
        then, ended = self._marks[0]
        return (self.ended - ended) / (now - then) if now > then else 0.0

    def eta(self, now: float) -> float | None:
        left = self.counts.of(State.PENDING) + self.counts.of(State.IN_PROGRESS)
        rate = self.rate(now)
        if not self.counts.source_complete or rate <= 0:
            return None
        return left / rate
