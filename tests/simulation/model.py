"""What a store must do, as plain Python over dicts and lists: the oracle of the simulation of runs.

It shares no code with any store. Each verb answers as `ports.work.WorkStore` does, or raises Lost for a run that was
taken over.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from onward.model import Claimed, Fact, FeedBlock, FeedOutcome, SourceRecord, StoredOutput
from onward.ports.work import Batch, ClaimWish, DeadRun, FeedState, Outcome

LEASE = 30.0
SUSPECT_FROM = 2
SLACK = 1.0
TOO_LONG = 3600.0 + 60.0
ENDED_BADLY = ("failed", "quarantined")


class Lost(Exception):
    """The run was taken over."""


@dataclass(slots=True)
class Record:
    number: int
    key: str
    position: int
    in_pass: int
    inputs: dict[int, str]
    state: str = "pending"
    vanished: bool = False
    hold: str | None = None
    not_before: float = 0.0
    since: float = 0.0
    run: int | None = None
    fence: int = 0
    generation: int = 0
    step: str | None = None
    started: bool = False
    attempts: int = 0
    deaths: int = 0
    solo_deaths: int = 0
    failed_runs: int = 0
    input_changed: bool = False
    lineage: tuple[Any, str | None] | None = None
    failure: tuple[str | None, str, str | None] | None = None
    checkpoints: dict[tuple[int, str], tuple[str, str]] = field(default_factory=dict)

    @property
    def input(self) -> str:
        """The input of the generation in work."""
        return self.inputs[max(generation for generation in self.inputs if generation <= self.generation)]

    @property
    def newest_input(self) -> str:
        return self.inputs[max(self.inputs)]

    @property
    def is_suspect(self) -> bool:
        return self.deaths >= SUSPECT_FROM or self.solo_deaths > 0

    def give_back(self, died: bool = False) -> None:
        """From in progress to pending, with the attempt uncounted."""
        if self.started:
            self.attempts -= 1
            self.deaths += died
        self.state, self.run, self.started = "pending", None, False
        self.fence += 1
        self.hold = "suspect" if self.is_suspect else None

    def begin_again(self) -> None:
        """From whatever it is to pending, as if nothing had happened to it."""
        self.state, self.run, self.started, self.hold, self.step = "pending", None, False, None, None
        self.fence += 1
        self.not_before = 0.0
        self.attempts = self.deaths = self.solo_deaths = self.failed_runs = 0


@dataclass(slots=True)
class Run:
    number: int
    boot: str
    lease_until: float
    lock: bool = True
    open: bool = True
    told: str | None = None


class Model:
    """One instance of one job."""

    def __init__(self) -> None:
        self.records: dict[str, Record] = {}
        self.runs: dict[int, Run] = {}
        self.cursor: str | None = None
        self.complete = False
        self.pass_number = 1
        self.partly_fed = 0
        self.fed_position = -1
        self.feeder: int | None = None

    # Runs.

    def begin_run(self, versions: Mapping[str, str], cap: int, steady: float, boot: str) -> tuple[int, Any, int, int]:
        """(run, dead runs, others alive, failed records put back)."""
        number = len(self.runs) + 1
        self.runs[number] = Run(number, boot, steady + LEASE)
        dead, others = self._bury(number, steady, boot)
        reset = 0 if others else self._next_run(versions)
        for record in self.records.values():
            if record.state == "pending" and not record.vanished and record.hold == "stale":
                record.hold = None
        return number, dead, others, reset

    def _bury(self, run: int, steady: float, boot: str) -> tuple[list[DeadRun], int]:
        dead, others = [], 0
        for other in self.runs.values():
            if not other.open or other.number == run:
                continue
            if other.boot == boot and other.lease_until > steady and other.lock:
                others += 1
                continue
            other.open = False
            held = [record for record in self.records.values() if record.run == other.number]
            started = [record for record in held if record.started]
            for record in held:
                record.give_back(died=other.told is None)
            suspects = 0 if other.told is not None else sum(record.is_suspect for record in started)
            dead.append(DeadRun(other.number, other.told is not None, len(held), len(started), suspects))
        return dead, others

    def _next_run(self, versions: Mapping[str, str]) -> int:
        reset = 0
        for record in self.records.values():
            if record.state != "failed" or record.vanished:
                continue
            assert record.failure is not None
            step, _, version = record.failure
            if step in versions and versions[step] != version:
                record.failed_runs = 0
            record.state, record.attempts, record.not_before = "pending", 0, 0.0
            record.hold = "suspect" if record.is_suspect else None
            reset += 1
        return reset

    def take_over(self, run: int, steady: float, boot: str) -> list[DeadRun]:
        self._require_open(run)
        return self._bury(run, steady, boot)[0]

    def renew(self, run: int, steady: float) -> bool:
        if self.runs[run].open:
            self.runs[run].lease_until = steady + LEASE
        return self.runs[run].open

    def note_stop(self, run: int, reason: str) -> None:
        if self.runs[run].open and self.runs[run].told is None:
            self.runs[run].told = reason

    def end_run(self, run: int) -> None:
        if self.runs[run].open:
            self.runs[run].open = False
            for record in self.records.values():
                if record.run == run:
                    record.give_back()
        self.runs[run].lock = False

    def _require_open(self, run: int) -> None:
        if not self.runs[run].open:
            raise Lost

    # Writing.

    def write(self, run: int, batch: Batch, now: float) -> Outcome:
        self._require_open(run)
        outcome = Outcome()
        for fact in batch.facts:
            if not self._state(run, fact, now):
                outcome.lost.add((fact.record, fact.fence))
        outcome.fed = [self._feed(block) for block in batch.blocks]
        if batch.wishes:
            self._mend_waits(now)
        outcome.claimed = [self._claim(run, wish, now) for wish in batch.wishes]
        if batch.wishes:
            outcome.next_due = self._next_due(now)
        return outcome

    def _state(self, run: int, fact: Fact, now: float) -> bool:
        record = next(one for one in self.records.values() if one.number == fact.record)
        if (record.state, record.run, record.fence) != ("in_progress", run, fact.fence):
            return False
        if fact.checkpoint is not None:
            assert fact.done_step is not None
            place = fact.generation, fact.done_step
            assert place not in record.checkpoints, f"{record.key} has two checkpoints of {place}"
            record.checkpoints[place] = str(fact.version), fact.checkpoint
        if fact.failure is not None:
            record.failure = fact.failure.step, str(fact.failure.kind), fact.failure.version
        if fact.state == "succeeded":
            record.begin_again()
            record.fence -= 1
            record.state, record.input_changed = "succeeded", False
            record.lineage = fact.lineage, fact.skipped
            return True
        if not fact.moves:  # its row says as much already
            assert (record.step, record.started, record.attempts) == (None, fact.started, fact.attempts)
            return True
        record.step, record.started, record.attempts = fact.step, fact.started, fact.attempts
        record.deaths, record.solo_deaths = fact.deaths, fact.solo_deaths
        if fact.state != "in_progress":
            record.state, record.run, record.started = str(fact.state), None, False
            record.fence += 1
            record.not_before, record.hold, record.failed_runs = fact.not_before, fact.hold, fact.failed_runs
            record.since = now
        return True

    def _claim(self, run: int, wish: ClaimWish, now: float) -> list[Claimed]:
        hold = "suspect" if wish.suspects else None
        free = [
            record
            for record in self.records.values()
            if record.state == "pending" and not record.vanished and record.hold == hold
            if wish.only is None or record.number in wish.only
        ]
        due = [record for record in free if 0 < record.not_before <= now]
        fresh = [record for record in free if not record.not_before]
        due.sort(key=lambda record: (record.not_before, record.position, record.number))
        fresh.sort(key=lambda record: (record.position, record.number))
        claimed: list[Claimed] = []
        size = 0
        for record in [*due, *fresh][: wish.limit]:
            size += len(record.input.encode())
            if claimed and size > wish.max_bytes:
                break
            claimed.append(self._take(run, record, wish.start))
        return claimed

    def _take(self, run: int, record: Record, start: bool) -> Claimed:
        record.state, record.run, record.hold, record.not_before = "in_progress", run, None, 0.0
        record.fence += 1
        record.started = start
        record.attempts += start
        return Claimed(
            record.number,
            record.fence,
            record.generation,
            record.key,
            record.position,
            record.input,
            record.step,
            record.attempts,
            record.deaths,
            record.solo_deaths,
            record.failed_runs,
            {
                step: StoredOutput(*made)
                for (generation, step), made in record.checkpoints.items()
                if generation == record.generation
            },
        )

    def _waits(self) -> list[Record]:
        return [
            record
            for record in self.records.values()
            if record.state == "pending" and not record.vanished and record.hold is None and record.not_before
        ]

    def _mend_waits(self, now: float) -> None:
        """The clock was set back under waits that began later than now: they begin again, with their own length."""
        waits = self._waits()
        if waits and min(waits, key=lambda record: record.not_before).since > now + SLACK:
            for record in waits:
                if record.not_before > now and record.since > now:
                    record.not_before, record.since = now + record.not_before - record.since, now

    def _next_due(self, now: float) -> float | None:
        waits = self._waits()
        if waits and min(record.not_before for record in waits) > now + TOO_LONG:
            for record in waits:
                record.not_before = now + 60.0
        return min((record.not_before for record in waits), default=None)

    # Feeding.

    def take_feed(self, run: int) -> FeedState | None:
        self._require_open(run)
        if self.feeder not in (None, run) and self.runs[self.feeder].open:  # type: ignore[index]
            return None
        self.feeder = run
        if self.partly_fed == 1:
            self.partly_fed = 2
            for record in self.records.values():
                if record.in_pass == self.pass_number and record.position > self.fed_position:
                    record.in_pass -= 1
        return FeedState(self.cursor, self.complete, self.pass_number)

    def begin_pass(self, run: int, again: bool) -> None:
        self._require_open(run)
        self.complete = False
        if again:
            self.cursor, self.fed_position, self.partly_fed = None, -1, 0
            self.pass_number += bool(self.records)

    def _feed(self, block: FeedBlock) -> FeedOutcome:
        outcome = FeedOutcome(out_of_turn=block.after != self.cursor)
        if outcome.out_of_turn:
            return outcome
        outcome.duplicates = self._duplicates(block)
        if outcome.duplicates:
            return outcome
        for one in block.records:
            self._present(one, outcome)
        outcome.unchanged -= outcome.changed_finished + outcome.changed_unfinished
        vanishes = self.pass_number > 1 or self.partly_fed
        if block.partial:
            self.partly_fed = 1
        else:
            self.cursor, self.complete = block.cursor, block.complete
            self.fed_position = max([self.fed_position, *[one.position for one in block.records[-1:]]])
            if block.complete and vanishes:
                outcome.vanished = self._vanish()
        return outcome

    def _duplicates(self, block: FeedBlock) -> list[tuple[str, int, int]]:
        found = []
        first: dict[str, int] = {}
        for one in block.records:
            before = self.records.get(one.key)
            if first.setdefault(one.key, one.position) != one.position:
                found.append((one.key, first[one.key], one.position))
            elif before and before.in_pass == self.pass_number and before.position != one.position:
                found.append((one.key, before.position, one.position))
        return found

    def _present(self, one: SourceRecord, outcome: FeedOutcome) -> None:
        record = self.records.get(one.key)
        if record is None:
            record = Record(len(self.records) + 1, one.key, one.position, self.pass_number, {0: one.value})
            self.records[one.key] = record
            outcome.added += 1
        else:
            outcome.unchanged += 1
            outcome.returned += record.vanished
            record.vanished, record.in_pass, record.position = False, self.pass_number, one.position
            if record.state == "succeeded":
                outcome.done_again.append(one.key)
            if one.value != record.newest_input:
                self._change(record, one.value, outcome)
        if one.invalid is not None and record.state == "pending":
            record.state, record.hold, record.not_before = "quarantined", None, 0.0
            record.failure = None, "invalid", None
            outcome.misfits += 1

    def _change(self, record: Record, value: str, outcome: FeedOutcome) -> None:
        if record.state != "succeeded":
            record.begin_again()
            record.generation += 1
            record.inputs[record.generation] = value
            outcome.changed_unfinished += 1
        elif value == record.input:
            del record.inputs[record.generation + 1]
            record.input_changed = False
        else:
            record.inputs[record.generation + 1] = value
            record.input_changed = True
            outcome.changed_finished += 1

    def _vanish(self) -> int:
        gone = [one for one in self.records.values() if one.in_pass < self.pass_number and not one.vanished]
        for record in gone:
            record.vanished = True
            if record.state == "in_progress":
                record.give_back()
        return len(gone)

    # What people do.

    def retry(self, state: str) -> int:
        """Retry failed, or release quarantined, records."""
        chosen = [one for one in self.records.values() if one.state == state and not one.vanished]
        for record in chosen:
            step, convict = record.step, record.solo_deaths >= 3
            record.begin_again()
            record.step = step
            if convict:
                record.deaths, record.hold = SUSPECT_FROM, "suspect"
        return len(chosen)

    def rerun(self) -> int:
        """All finished ones, and those that wait with a stale checkpoint, from the first step on."""
        chosen = [
            one
            for one in self.records.values()
            if not one.vanished and (one.state == "succeeded" or (one.state == "pending" and one.hold == "stale"))
        ]
        for record in chosen:
            record.begin_again()
            record.generation += 1
            record.input_changed = False
        return len(chosen)

    def reset_first_ended(self, run: int) -> int:
        self._require_open(run)
        reset = 0
        for record in self.records.values():
            if record.state in ENDED_BADLY and not record.vanished:
                assert record.failure is not None
                if record.failure[0] is not None:
                    record.state, record.not_before, record.attempts, record.failed_runs = "pending", 0.0, 0, 0
                    record.hold = "suspect" if record.is_suspect else None
                    reset += 1
        return reset

    # Counting.

    def counts(self) -> dict[str, Any]:
        """As `model.Counts`, without what is zero."""
        present = [one for one in self.records.values() if not one.vanished]
        made = Counter(step for one in present for generation, step in one.checkpoints if generation == one.generation)
        bad = [one.failure for one in present if one.state in ENDED_BADLY and one.failure is not None]
        return {
            "states": dict(Counter(one.state for one in present)),
            "total": len(present),
            "vanished": len(self.records) - len(present),
            "source_complete": self.complete,
            "steps": dict(made),
            "failures": dict(Counter((step, kind) for step, kind, _ in bad)),
            "skipped": sum(one.state == "succeeded" and one.lineage[1] is not None for one in present if one.lineage),
            "held": dict(Counter(one.hold for one in present if one.hold is not None)),
        }
