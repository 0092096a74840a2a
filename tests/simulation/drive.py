"""Drives one world from a seed: a run of acts, then peace, in which everything has to come to its end."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterator
from pathlib import Path

import apsw

from clocks import HandClock
from onward.model import State
from onward.ports.work import Batch, ClaimWish
from onward.store.sqlite.work import SqliteWorkStore
from simulation.model import LEASE
from simulation.runs import MUCH, Actor, World, Wrong

MOST_RUNS = 4
ACTS = 40
TABLES = """
instances runs records inputs checkpoints lineages generations failures history counts sqlite_sequence
""".split()  # noqa: SIM905


class Database:
    """One database for all seeds, emptied before each. In memory all stores share its one connection, each with what
    a process remembers of its own; in a file each has its own connection."""

    def __init__(self, path: Path | None):
        self.path = path
        self._clock = HandClock()
        self._first = SqliteWorkStore(path, self._clock, LEASE)
        self._spare: list[SqliteWorkStore] = []
        self._used: list[SqliteWorkStore] = []

    def empty(self) -> None:
        with self.connection():
            for table in TABLES:
                self.connection().execute(f"DELETE FROM {table}")
        for store in self._used:
            for run in store._instances:
                self._first._locks.drop(run)
            store._instances, store._lineages = {}, {}
        self._spare += self._used
        self._used = []

    def connection(self) -> apsw.Connection:
        return self._first._connection

    def open(self, clock: HandClock) -> SqliteWorkStore:
        store = self._spare.pop() if self._spare else SqliteWorkStore(self.path, clock, LEASE)
        store._clock = clock
        if self.path is None:
            store._connection, store._locks = self._first._connection, self._first._locks
        self._used.append(store)
        return store

    def die(self, store: SqliteWorkStore, run: int) -> None:
        store._locks.drop(run)


def simulate(seed: int, database: Database, acts: int = ACTS) -> World:
    """Raises Wrong, with everything that happened, where the store does what the model does not."""
    database.empty()
    world = World(seed, database.open, database.connection, database.die)
    try:
        for number in range(acts):
            one_act(world)
            if number % 15 == 14:
                world.compare()
        peace(world)
    except Exception as error:
        story = "\n".join(world.log)
        raise Wrong(f"{story}\n\nseed {seed}: {type(error).__name__}: {error}") from error
    return world


def one_act(world: World) -> None:
    draw = world.random
    awake = [actor for actor in world.actors if not actor.asleep]
    if not awake or (len(world.actors) < MOST_RUNS and draw.random() < 0.06):
        if len(world.actors) < MOST_RUNS:
            world.begin()
            return
        awake = [world.actors[0]]
    act = draw.choices(list(WEIGHTS), list(WEIGHTS.values()))[0]
    if act in ("edit_source", "act", "pass_time", "jump", "reboot", "deploy"):
        getattr(world, act)()
    elif act == "sleep":
        draw.choice(world.actors).asleep ^= True
    else:
        getattr(world, act)(draw.choice(awake))


WEIGHTS = {
    "claim": 18,
    "work": 34,
    "feed": 20,
    "renew": 7,
    "take_over": 4,
    "stop": 2,
    "end": 2,
    "kill": 5,
    "sleep": 4,
    "edit_source": 7,
    "act": 2,
    "reset_first": 1,
    "pass_time": 9,
    "jump": 1.5,
    "reboot": 0.7,
    "deploy": 1.5,
}


def peace(world: World) -> None:
    """Every run ends or dies; one more finds the source as it is and works until nothing is left to do."""
    for actor in list(world.actors):
        (world.end if world.random.random() < 0.5 else world.kill)(actor)
    world.clock.pass_time(LEASE + 1)
    last = world.begin()
    _feed_all(world, last)
    for _ in range(200):
        if not _work_all(world, last):
            break
    else:
        raise Wrong("the last run never came to its end")
    world.compare()
    _judge(world, last)
    world.end(last)
    _judge_ended(world)


def _feed_all(world: World, last: Actor) -> None:
    world.random.random = lambda: 0.99  # type: ignore[method-assign] # no more mishaps
    for _ in range(60):
        world.feed(last)
        if world.model.complete and last.snapshot is None and _is_fed(world):
            return
    raise Wrong("the source was never read to its end")


def _is_fed(world: World) -> bool:
    present = {one.key: one.newest_input for one in world.model.records.values() if not one.vanished}
    return present == {one.key: one.value for one in world.source.read()}


def _work_all(world: World, last: Actor) -> bool:
    """Claim and finish what there is; False where nothing was left, not even a wait."""
    found = False
    for suspects in (False, True):
        outcome = world.write(last, Batch(wishes=[ClaimWish(100, MUCH, suspects=suspects)]))
        found = found or bool(outcome.claimed[0])
        while last.held:
            facts = []
            for hold, attempt in list(last.held.items()):
                facts.append(last.facts.pop(hold, None) or world._call(last, attempt, luck=0.0))
            world.write(last, Batch(facts=facts))
        if outcome.next_due is not None:
            world.clock.pass_time(max(outcome.next_due - world.clock.now(), 0) + 0.001)
            found = True
    return found


def _judge(world: World, last: Actor) -> None:
    """Nothing is lost, nothing is left, and what succeeded has an output of every step."""
    counts = last.store.counts(1)
    if counts.total != len(world.source.lines) or not counts.source_complete:
        raise Wrong(f"{counts.total} records of {len(world.source.lines)}: {counts}")
    open_records = counts.of(State.PENDING) + counts.of(State.IN_PROGRESS) + counts.of(State.FAILED)
    if open_records:
        raise Wrong(f"{open_records} records were left undone: {counts}")
    for record in world.model.records.values():
        if record.vanished or record.state != "succeeded":
            continue
        assert record.lineage is not None
        made = {step for generation, step in record.checkpoints if generation == record.generation}
        if record.lineage[1] is None and not made >= set(world.versions):
            raise Wrong(f"{record.key} succeeded with {made} alone")


def _judge_ended(world: World) -> None:
    open_runs = world._connection().execute("SELECT count(*) FROM runs WHERE ended IS NULL").fetchone()
    if open_runs != (0,):
        raise Wrong(f"{open_runs[0]} runs never ended")


@contextlib.contextmanager
def database(path: Path | None = None) -> Iterator[Database]:
    made = Database(path)
    try:
        yield made
    finally:
        made.connection().close()


def many(first: int, number: int, path: Path | None = None, acts: int = ACTS) -> float:
    """Simulate that many seeds; the seconds that it took."""
    began = time.perf_counter()
    with database(path) as made:
        for seed in range(first, first + number):
            simulate(seed, made, acts)
    return time.perf_counter() - began
