"""What every store must do, told apart from how: the suite speaks to a `Bench`, and a store brings a `Stores`.

After every verb of every test the counters are held against a full recount of what the store keeps, and its rows
against what may be true of them at all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol

import pytest

from clocks import HandClock
from onward.codec import canonical_key
from onward.model import Claimed, Counts, Fact, Failure, FeedBlock, FeedOutcome, Kind, SourceRecord, State, StepVersion
from onward.ports.desk import Desk
from onward.ports.work import Batch, ClaimWish, Outcome, RunBegun, RunStart, WorkStore

MUCH = 1 << 30
LEASE = 30.0


@dataclass(slots=True)
class Versions:
    """Finished records by (lineage, step at which it ended early): those as they were made, those with a new input."""

    groups: dict[tuple[tuple[tuple[str, str], ...], str | None], tuple[int, int]] = field(default_factory=dict)


class Stores(Protocol):
    """One database of one kind, and the stores that are opened on it."""

    clock: HandClock
    several: bool
    """Whether `open` can give a second store on the same database."""

    one_host: bool
    """Whether all runs are on one host, whose clock counts, and where it is seen whether a process lives."""

    def open(self, store_inputs: bool = True) -> WorkStore: ...

    def desk(self) -> Desk:
        """Where people ask and decide; it is given once a store was opened."""

    def die(self, store: WorkStore, run: int) -> None:
        """The process of a run dies: nothing that it held in memory or by lock is left."""

    def instances(self) -> list[int]: ...

    def recount(self, instance: int) -> Counts:
        """Every counter counted afresh from the rows."""

    def told_versions(self, store: WorkStore, instance: int) -> Versions:
        """What the store says its finished records were made by."""

    def recounted_versions(self, instance: int) -> Versions: ...

    def faults(self) -> list[str]:
        """What is true of the rows and must not be."""

    def row(self, key: Any, instance: int = 1) -> dict[str, Any]:
        """One record: key, position, state, vanished, hold, not_before, run, fence, generation, step, started,
        attempts, deaths, solo_deaths, failed_runs, input_changed, inputs {generation: text}, checkpoints
        {(generation, step): (version, text)}, failure (dict or None), history [(event, step, reason)], lineage."""

    def run_row(self, run: int) -> dict[str, Any]: ...

    def chain(self, run: int | None, instance: int = 1) -> list[dict[str, Any]]:
        """The history of a run, or (None) of acts of people, oldest first: instance, run, seq, hash, record, at, actor,
        event, step, reason, detail."""

    def close(self) -> None: ...


class Checked:
    """A store whose every verb is followed by a recount of everything."""

    def __init__(self, store: WorkStore, stores: Stores):
        self.store = store
        self._stores = stores

    def __getattr__(self, name: str) -> Any:
        verb = getattr(self.store, name)
        if not callable(verb) or name == "close":
            return verb

        def checked(*given: Any, **named: Any) -> Any:
            try:
                return verb(*given, **named)
            finally:
                check(self._stores, self.store)

        return checked


def check(stores: Stores, store: WorkStore) -> None:
    """Raise AssertionError where counters and rows differ, or rows hold what must not be."""
    assert stores.faults() == []
    for instance in stores.instances():
        told, counted = store.counts(instance), stores.recount(instance)
        told.steps = {name: n for name, n in told.steps.items() if n}
        counted.spent = told.spent  # no rows say what was spent
        assert told == counted
        assert stores.told_versions(store, instance) == stores.recounted_versions(instance)


def records(*given: Any) -> list[SourceRecord]:
    """Source records from keys or (key, value) pairs, each at its place in the row."""
    made = []
    for position, one in enumerate(given):
        key, value = one if isinstance(one, tuple) else (one, "1")
        made.append(SourceRecord(canonical_key(key), value, position))
    return made


def plain(claimed: Sequence[Claimed]) -> list[str]:
    """The keys of claimed records."""
    return [one.key.strip('"') for one in claimed]


def failure(kind: Kind = Kind.TRANSIENT, step: str = "a", version: str = "1", message: str = "no") -> Failure:
    return Failure(step, version, kind, "SomeError", message, 1)


class Bench:
    """A database with one store opened, and short words for what tests do to it."""

    def __init__(self, stores: Stores):
        self.stores = stores
        self.clock = stores.clock
        self.store: Any = self.open()

    def open(self, store_inputs: bool = True) -> Any:
        return Checked(self.stores.open(store_inputs), self.stores)

    def another(self) -> Any:
        """A second store on the database where the kind can, else the same one."""
        return self.open() if self.stores.several else self.store

    def begin(self, store: Any = None, **given: Any) -> RunBegun:
        start: dict[str, Any] = {
            "job": "job",
            "instance": "",
            "host": "here",
            "params": "{}",
            "location": "in.jsonl",
            "steps": (StepVersion("a", "1"), StepVersion("b", "1")),
            "resume_cap": 3,
            **given,
        }
        begun: RunBegun = (store or self.store).begin_run(RunStart(**start))
        return begun

    def start(self, *keys: Any, store: Any = None, **given: Any) -> int:
        """A run that has fed these records, the whole of its source."""
        run = self.begin(store, **given).run
        if keys:
            self.pass_over(run, *keys, store=store)
        return run

    def pass_over(self, run: int, *keys: Any, again: bool = False, store: Any = None) -> FeedOutcome:
        """One whole pass of the source in one block."""
        on = store or self.store
        state = on.take_feed(run)
        assert state is not None
        on.begin_pass(run, again, "it changed" if again else "")
        after = None if again else state.cursor
        return self.feed(run, records(*keys), after=after, complete=True, store=on)

    def feed(
        self,
        run: int,
        given: list[SourceRecord],
        cursor: str = "end",
        after: str | None = None,
        complete: bool = False,
        partial: bool = False,
        store: Any = None,
    ) -> FeedOutcome:
        block = FeedBlock(given, [], cursor, complete, partial, after)
        return self.write(run, store, blocks=[block]).fed[0]

    def write(self, run: int, store: Any = None, **given: Any) -> Outcome:
        outcome: Outcome = (store or self.store).write(run, Batch(**given))
        return outcome

    def claim(self, run: int, limit: int = 100, store: Any = None, **given: Any) -> list[Claimed]:
        wish = ClaimWish(limit, given.pop("max_bytes", MUCH), **given)
        return self.write(run, store, wishes=[wish]).claimed[0]

    def state(self, run: int, *facts: Fact, store: Any = None) -> set[tuple[int, int]]:
        """(record, fence) of the lost ones."""
        return self.write(run, store, facts=list(facts)).lost

    def row(self, key: Any, instance: int = 1) -> dict[str, Any]:
        return self.stores.row(key, instance)

    def states(self) -> dict[str, int]:
        """Counters by state that are not zero."""
        return {str(state): n for state, n in self.store.counts(1).states.items() if n}

    def needs_one_host(self) -> None:
        """The test is about what only a host can tell: that a process lives, that it booted, that its clock was set."""
        if not self.stores.one_host:
            pytest.skip("runs are on many hosts: the server's clock and the leases tell it all")

    def die(self, run: int, store: Any = None) -> None:
        self.stores.die((store or self.store).store, run)


def fact(one: Claimed, state: State, **given: Any) -> Fact:
    common = {"deaths": one.deaths, "solo_deaths": one.solo_deaths, "failed_runs": one.failed_runs}
    return Fact(one.id, one.fence, one.generation, state, **{**common, **given})


def advanced(one: Claimed, step: str = "a", output: str = "1", then: str = "b", started: bool = True) -> Fact:
    """One step is complete, the next follows."""
    return fact(
        one,
        State.IN_PROGRESS,
        done_step=step,
        version="1",
        checkpoint=output,
        step=then,
        started=started,
        attempts=int(started),
    )


def finished(one: Claimed, step: str = "b", output: str = "2", **given: Any) -> Fact:
    """The last step is complete."""
    made = {"lineage": (("a", "1"), ("b", "1")), "done_step": step, "version": "1", "checkpoint": output, **given}
    return fact(one, State.SUCCEEDED, **made)


def retried(one: Claimed, not_before: float, attempts: int = 1, **given: Any) -> Fact:
    made = {
        "step": "a",
        "attempts": attempts,
        "not_before": not_before,
        "failure": failure(),
        "event": "record_retrying",
    }
    return fact(one, State.PENDING, **{**made, **given})


def failed(one: Claimed, kind: Kind = Kind.BUG, failed_runs: int = 1, **given: Any) -> Fact:
    made = {"step": "a", "attempts": 1, "failure": failure(kind), "event": "record_failed", "failed_runs": failed_runs}
    return fact(one, State.FAILED, **{**made, **given})


def quarantined(one: Claimed, kind: Kind = Kind.REJECTED, **given: Any) -> Fact:
    made = {"step": "a", "attempts": 1, "failure": failure(kind), "event": "record_quarantined"}
    return fact(one, State.QUARANTINED, **{**made, **given})


def given_back(one: Claimed, **given: Any) -> Fact:
    return fact(one, State.PENDING, **{"step": "a", "event": "record_reset", "reason": "stop", **given})


def at(position: int, key: Any, value: str = "1", invalid: str | None = None) -> SourceRecord:
    (one,) = records((key, value))
    return replace(one, position=position, invalid=invalid)


def told(outcome: FeedOutcome) -> dict[str, Any]:
    """What an outcome says that is not nothing."""
    names = FeedOutcome.__dataclass_fields__
    return {name: getattr(outcome, name) for name in names if getattr(outcome, name)}


def ended(bench: Bench, run: int, *keys: str, **given: Any) -> None:
    """These records succeed."""
    for one in bench.claim(run, only=tuple(bench.row(key)["id"] for key in keys)):
        bench.state(run, advanced(one))
        bench.state(run, finished(one, **given))
