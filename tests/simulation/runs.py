"""One made-up world: a source that is edited, a clock, and runs that claim, work, feed, die, freeze and wake.

Everything that happens is drawn from the seed. After each act the store's answer is held against the model's, and what
a step would have done in the world is checked against what the store holds at that moment.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import apsw

from clocks import HandClock
from onward.engine.attempt import Attempt
from onward.errors import LeaseLost
from onward.job.plan import JobReference, Plan, StepPlan
from onward.model import Claimed, Fact, Failure, FeedBlock, Kind, Retry, SourceRecord, State, StepVersion
from onward.policy.attempts import History, decide
from onward.policy.failures import Classified
from onward.policy.suspects import DEATHS_TO_CONVICT
from onward.ports.desk import Choice
from onward.ports.work import Batch, ClaimWish, RunStart
from onward.store.sqlite.desk import SqliteDesk
from onward.store.sqlite.liveness import RunLocks
from onward.store.sqlite.work import SqliteWorkStore
from simulation.model import LEASE, Lost, Model
from simulation.source import Source

RESUME_CAP = 3
RETRY = Retry(attempts=2, base=2.0, cap=20.0)
MUCH = 1 << 20
COMPARED = """
number key position in_pass state vanished hold not_before run fence generation step started attempts deaths solo_deaths
failed_runs input_changed
""".split()  # noqa: SIM905


def plan_of(versions: dict[str, str]) -> Plan:
    """A plan of steps that are never called here; only their names and versions matter."""
    steps = tuple(
        StepPlan(
            index,
            name,
            version,
            function=lambda value: value,
            is_async=False,
            retry=RETRY,
            timeout=60.0,
            concurrency=None,
            process=False,
            max_output=1 << 20,
            calls_out=False,
            arguments=(),
            encode=str,
        )
        for index, (name, version) in enumerate(versions.items())
    )
    return Plan("job", steps, {}, None, 8, None, RESUME_CAP, "stop", True, None, JobReference(None, None, "job"))


@dataclass(slots=True)
class Actor:
    """One simulated process with one run. `asleep`: it does nothing and knows nothing of what happens meanwhile."""

    store: SqliteWorkStore
    run: int
    plan: Plan
    held: dict[tuple[int, int], Attempt] = field(default_factory=dict)
    facts: dict[tuple[int, int], Fact] = field(default_factory=dict)
    asleep: bool = False
    snapshot: list[SourceRecord] | None = None
    fed: int = 0
    after: str | None = None


class Wrong(AssertionError):
    """The store and the model differ, or something happened that never may."""


class World:
    """`open_store` opens a store on the world's one database; `connection` reads it."""

    def __init__(
        self,
        seed: int,
        open_store: Callable[[HandClock], SqliteWorkStore],
        connection: Callable[[], apsw.Connection],
        die: Callable[[SqliteWorkStore, int], None],
    ):
        self.random = random.Random(seed)
        self.clock = HandClock()
        self.model = Model()
        self.actors: list[Actor] = []
        self.log: list[str] = []
        self.acknowledged: dict[tuple[int, int, str], str] = {}
        self._open_store = open_store
        self._connection = connection
        self._die = die
        self._outputs = 0
        self.versions = dict.fromkeys("abc"[: self.random.randint(1, 3)], "1")
        self.source = Source(self.random)

    # Comparing.

    def note(self, what: str) -> None:
        self.log.append(what)

    def same(self, what: str, told: Any, expected: Any) -> None:
        if told != expected:
            raise Wrong(f"{what}\n  the store: {told}\n  the model: {expected}")

    def both(self, what: str, ask: Callable[[], Any], expect: Callable[[], Any]) -> Any:
        """The store's answer, which is the model's; None where both say that the run was taken over."""
        self.note(what)
        try:
            told = ask()
        except LeaseLost:
            told = Lost
        try:
            expected = expect()
        except Lost:
            expected = Lost
        self.same(what, told, expected)
        return told

    def compare(self) -> None:
        """Every row and every counter."""
        self._compare_counts()
        names = COMPARED
        columns = ", ".join({"number": "id", "in_pass": "pass"}.get(name, name) for name in names)
        for row in self._connection().execute(f"SELECT {columns} FROM records ORDER BY id"):
            told = dict(zip(names, row, strict=True))
            record = self.model.records[told["key"]]
            expected = {name: getattr(record, name) for name in names}
            self.same(f"record {told['key']}", told, expected)
        told_made = {
            (record, generation, step): output
            for record, generation, step, output in self._connection().execute(
                "SELECT record, generation, step, output FROM checkpoints"
            )
        }
        self.same("checkpoints", told_made, self.acknowledged)

    def _compare_counts(self) -> None:
        if not self.actors:
            return
        counts = self.actors[0].store.counts(1)
        told = {
            "states": {str(state): n for state, n in counts.states.items() if n},
            "total": counts.total,
            "vanished": counts.vanished,
            "source_complete": counts.source_complete,
            "steps": {step: n for step, n in counts.steps.items() if n},
            "failures": {cause: n for cause, n in counts.failures.items() if n},
            "skipped": counts.skipped,
            "held": counts.held,
        }
        self.same("counts", told, self.model.counts())

    # Runs.

    def begin(self) -> Actor:
        store = self._open_store(self.clock)
        steps = tuple(StepVersion(name, version) for name, version in self.versions.items())
        versions = dict(self.versions)
        begun = store.begin_run(RunStart("job", "", "host", "{}", "in", steps, RESUME_CAP))
        expected = self.model.begin_run(versions, RESUME_CAP, self.clock.steady(), self.clock.boot)
        self.note(f"run {begun.run} begins: {expected[1:]}")
        self.same("begin_run", (begun.run, begun.dead_runs, begun.others, begun.reset_failed), expected)
        actor = Actor(store, begun.run, plan_of(versions))
        self.actors.append(actor)
        return actor

    def leave(self, actor: Actor) -> None:
        """The process is gone, whatever it held in memory with it."""
        self.actors.remove(actor)

    def kill(self, actor: Actor) -> None:
        self.note(f"run {actor.run} is killed holding {sorted(actor.held)}, unsaid {sorted(actor.facts)}")
        self._die(actor.store, actor.run)
        self.model.runs[actor.run].lock = False
        self.leave(actor)

    def end(self, actor: Actor) -> None:
        self.note(f"run {actor.run} ends")
        actor.store.end_run(actor.run, 0, "done")
        self.model.end_run(actor.run)
        self._die(actor.store, actor.run)
        self.leave(actor)

    def stop(self, actor: Actor) -> None:
        self.note(f"run {actor.run} is told to stop")
        actor.store.note_stop(actor.run, "SIGTERM")
        self.model.note_stop(actor.run, "SIGTERM")

    def renew(self, actor: Actor) -> None:
        steady = self.clock.steady()
        kept = self.both(
            f"run {actor.run} renews",
            lambda: actor.store.renew(actor.run),
            lambda: self.model.renew(actor.run, steady),
        )
        if not kept:
            self.kill(actor)

    def take_over(self, actor: Actor) -> None:
        told = self.both(
            f"run {actor.run} takes over",
            lambda: actor.store.take_over(actor.run),
            lambda: self.model.take_over(actor.run, self.clock.steady(), self.clock.boot),
        )
        if told is Lost:
            self.kill(actor)

    # Work.

    def write(self, actor: Actor, batch: Batch) -> Any:
        """One commit; the outcome, or None where the run finds itself taken over and ends."""
        now = self.clock.now()
        what = f"run {actor.run} {_words(batch)}"
        outcome = self.both(
            what,
            lambda: actor.store.write(actor.run, batch),
            lambda: self.model.write(actor.run, batch, now),
        )
        if outcome is Lost:
            self.kill(actor)
            return None
        for fact in batch.facts:
            self._settle(actor, fact, (fact.record, fact.fence) in outcome.lost)
        for claimed in outcome.claimed:
            for one in claimed:
                self._hold(actor, one, batch.wishes[0].start)
        return outcome

    def _settle(self, actor: Actor, fact: Fact, lost: bool) -> None:
        hold = fact.record, fact.fence
        if not lost and fact.checkpoint is not None:
            assert fact.done_step is not None
            place = fact.record, fact.generation, fact.done_step
            if place in self.acknowledged:
                raise Wrong(f"a second checkpoint of {place}")
            self.acknowledged[place] = fact.checkpoint
        if lost or fact.state is not State.IN_PROGRESS:
            actor.held.pop(hold)

    def _hold(self, actor: Actor, claimed: Claimed, started: bool) -> None:
        if claimed.failed_runs >= RESUME_CAP:
            raise Wrong(f"{claimed.key} is tried again after {claimed.failed_runs} runs that failed")
        attempt = Attempt(actor.plan, claimed, started)
        actor.held[claimed.id, claimed.fence] = attempt
        if attempt.step is None:
            actor.facts[claimed.id, claimed.fence] = attempt.nothing_left()

    def claim(self, actor: Actor) -> None:
        draw = self.random
        numbers = [one.number for one in self.model.records.values()]
        only = tuple(draw.sample(numbers, draw.randint(0, len(numbers)))) if draw.random() < 0.1 else None
        wish = ClaimWish(
            draw.randint(1, 5),
            draw.choice([MUCH, MUCH, 3, 70]),
            start=draw.random() < 0.7,
            suspects=draw.random() < 0.25,
            only=only,
        )
        self.write(actor, Batch(wishes=[wish]))

    def work(self, actor: Actor) -> None:
        """Calls are made of some records, and some of what came of calls is committed, perhaps with a claim."""
        free = [hold for hold in actor.held if hold not in actor.facts]
        for hold in self.random.sample(free, self.random.randint(0, len(free))):
            actor.facts[hold] = self._call(actor, actor.held[hold])
        ready = list(actor.facts)
        chosen = self.random.sample(ready, self.random.randint(0, len(ready)))
        if chosen:
            self.write(actor, Batch(facts=[actor.facts.pop(hold) for hold in chosen]))

    def _call(self, actor: Actor, attempt: Attempt, luck: float | None = None) -> Fact:
        """What the next step does, or that it is about to start. It really happens: here the world is checked."""
        if not attempt.started:
            return attempt.begin()
        self._check_call(actor, attempt)
        drawn = self.random.random() if luck is None else luck
        if drawn < 0.55:
            attempt.clear()
            self._outputs += 1
            return attempt.completed(str(self._outputs), start_next=self.random.random() < 0.7)
        if drawn < 0.6:
            attempt.clear()
            return attempt.done_early("no need")
        if drawn < 0.65:
            return attempt.given_back("the run is stopping")
        if drawn < 0.68:
            return attempt.held("stale", "an output no longer decodes")
        if drawn < 0.74:
            return self._die_alone(attempt)
        kinds = {0.88: Kind.TRANSIENT, 0.91: Kind.BUG, 0.96: Kind.REJECTED, 0.98: Kind.FATAL, 1.0: Kind.TRANSIENT}
        kind = next(kind for bound, kind in kinds.items() if drawn < bound)
        return self._fail(attempt, Classified(kind, "Error", "no", throttled=drawn >= 0.98))

    def _fail(self, attempt: Attempt, failure: Classified) -> Fact:
        assert attempt.step is not None
        attempt.clear()
        history = History(attempt.attempts, attempt.claimed.failed_runs, RESUME_CAP)
        decision = decide(failure, history, attempt.step.retry, self.random.random())
        return attempt.failed(failure, decision, self.clock.now())

    def _die_alone(self, attempt: Attempt) -> Fact:
        fact = attempt.died(DEATHS_TO_CONVICT, "signal 9")
        if fact.state is State.QUARANTINED:
            assert attempt.step is not None
            fact.failure = Failure(attempt.step.name, attempt.step.version, Kind.SYSTEM, "ProcessDied", "", 1)
        return fact

    def _check_call(self, actor: Actor, attempt: Attempt) -> None:
        """A step is called: its attempt is on record, and where this run still holds the record nobody else does, and
        the step has no checkpoint."""
        assert attempt.step is not None
        claimed = attempt.claimed
        row = (
            self._connection()
            .execute("SELECT run, fence, state, started, attempts FROM records WHERE id = ?", (claimed.id,))
            .fetchone()
        )
        run, fence, state, started, attempts = row
        if (run, fence, state) != (actor.run, claimed.fence, "in_progress"):
            return  # it lost the record and does not know: whatever it says of it will change nothing
        if not started or attempts < 1:
            raise Wrong(f"run {actor.run} calls {attempt.step.name} of {claimed.key} and no attempt is counted")
        if (claimed.id, claimed.generation, attempt.step.name) in self.acknowledged:
            raise Wrong(f"{attempt.step.name} of {claimed.key} is called though it has a checkpoint")

    # Feeding.

    def feed(self, actor: Actor) -> None:
        """Take the feed and begin a pass, or hand over the next blocks of it, perhaps with facts and a claim."""
        if actor.snapshot is None:
            self._begin_feeding(actor)
            if actor.snapshot is None or self.random.random() < 0.3:
                return
        batch = Batch(blocks=self._next_blocks(actor, actor.snapshot))
        if actor.facts and self.random.random() < 0.3:
            batch.facts = list(actor.facts.values())
            actor.facts.clear()
        if self.random.random() < 0.3:
            batch.wishes = [ClaimWish(self.random.randint(1, 5), MUCH)]
        outcome = self.write(actor, batch)
        if outcome is None:
            return
        refused = any(one.duplicates or one.out_of_turn for one in outcome.fed)
        last = batch.blocks[-1]
        if refused or last.partial or last.complete:
            actor.snapshot = None  # it stops reading, as at a bad line or at the end
        else:
            actor.fed, actor.after = actor.fed + sum(len(one.records) for one in batch.blocks), last.cursor

    def _next_blocks(self, actor: Actor, snapshot: list[SourceRecord]) -> list[FeedBlock]:
        blocks: list[FeedBlock] = []
        place, after = actor.fed, actor.after
        for _ in range(self.random.randint(1, 4)):
            size = self.random.randint(1, 4)
            end = min(place + size, len(snapshot))
            block = FeedBlock(snapshot[place:end], [], self._cursor(snapshot[:end]), end == len(snapshot), after=after)
            block = self._spoil(block)
            blocks.append(block)
            place, after = end, block.cursor
            if block.complete or block.partial:
                break
        return blocks

    def _cursor(self, read: list[SourceRecord]) -> str:
        return repr([(one.key, one.value) for one in read])

    def _begin_feeding(self, actor: Actor) -> None:
        taken = self.both(
            f"run {actor.run} takes the feed",
            lambda: actor.store.take_feed(actor.run),
            lambda: self.model.take_feed(actor.run),
        )
        if taken is Lost:
            self.kill(actor)
        if taken is None or taken is Lost:
            return
        snapshot = self.source.read()
        known = [place for place in range(len(snapshot) + 1) if self._cursor(snapshot[:place]) == taken.cursor]
        if known and taken.complete and known[0] == len(snapshot):
            return
        again = taken.cursor is not None and not known
        told = self.both(
            f"run {actor.run} reads {'again' if again else 'on'}",
            lambda: actor.store.begin_pass(actor.run, again, "it changed" if again else ""),
            lambda: self.model.begin_pass(actor.run, again),
        )
        if told is Lost:
            self.kill(actor)
            return
        actor.snapshot = snapshot
        actor.fed = known[0] if known and not again else 0
        actor.after = None if again else taken.cursor

    def _spoil(self, block: FeedBlock) -> FeedBlock:
        """Now and then a block that ends early, has a key twice, or comes out of turn."""
        drawn = self.random.random()
        if drawn < 0.05 and block.records:
            cut = block.records[: self.random.randint(0, len(block.records))]
            return FeedBlock(cut, [], block.cursor, partial=True, after=block.after)
        if drawn < 0.08 and block.records:
            first = block.records[0]
            twice = SourceRecord(first.key, first.value, block.records[-1].position + 1)
            return FeedBlock([*block.records, twice], [], block.cursor, block.complete, after=block.after)
        if drawn < 0.1:
            return FeedBlock(block.records, [], block.cursor, block.complete, after="elsewhere")
        return block

    # People.

    def act(self) -> None:
        if 1 not in self.model.runs:
            return
        act = self.random.choice(["retry", "release", "rerun"])
        connection = self._connection()
        choice = Choice(act, "ada", dict(self.versions), step=next(iter(self.versions)) if act == "rerun" else None)
        expected = {
            "retry": lambda: self.model.retry("failed"),
            "release": lambda: self.model.retry("quarantined"),
            "rerun": self.model.rerun,
        }[act]
        desk = SqliteDesk(None, self.clock, connection, RunLocks(None))
        self.both(act, lambda: desk.decide(1, choice).count, expected)

    def reset_first(self, actor: Actor) -> None:
        told = self.both(
            f"run {actor.run} puts the first ones back",
            lambda: actor.store.reset_first_ended(actor.run),
            lambda: self.model.reset_first_ended(actor.run),
        )
        if told is Lost:
            self.kill(actor)

    # Time.

    def pass_time(self) -> None:
        seconds = self.random.choice([0.1, 1.0, 5.0, 20.0, LEASE - 1, LEASE + 1, 100.0])
        self.note(f"{seconds} seconds pass")
        self.clock.pass_time(seconds)

    def jump(self) -> None:
        seconds = self.random.choice([-1e6, -5000.0, -10.0, 10.0, 5000.0])
        self.note(f"the clock is set by {seconds}")
        self.clock.jump(seconds)

    def reboot(self) -> None:
        self.note("the host boots")
        for actor in list(self.actors):
            self.kill(actor)
        self.clock.reboot()

    def edit_source(self) -> None:
        self.note(f"source: {self.source.edit()}")

    def deploy(self) -> None:
        """Another version of a step; runs that go on have the old one."""
        name = self.random.choice(list(self.versions))
        self.versions[name] = str(int(self.versions[name]) + 1)
        self.note(f"version {self.versions[name]} of {name}")


def _words(batch: Batch) -> str:
    """A batch in a line."""
    parts = [f"states {fact.record}/{fact.fence} {fact.done_step or ''}→{fact.state}" for fact in batch.facts]
    for block in batch.blocks:
        ends = " complete" * block.complete + " partial" * block.partial
        parts.append(f"feeds {[(one.key, one.value[:5], one.position) for one in block.records]}{ends}")
    for wish in batch.wishes:
        extra = " suspects" * wish.suspects + (f" only {wish.only}" if wish.only is not None else "")
        parts.append(f"claims {wish.limit} within {wish.max_bytes}{extra}{'' if wish.start else ' unstarted'}")
    return "; ".join(parts)
