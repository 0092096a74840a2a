"""Many runs of several jobs at once: every record and every obligation once, and counters that hold."""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from postgres_stores import PostgresStores
from store_conformance import Bench, fact, failed, finished
from test_store_ledger import FILING, about, intent

from helpers import postgres
from onward.clock import SystemClock
from onward.codec import canonical_key
from onward.model import Claimed, EntryState, Fact, State
from onward.ports.work import Batch, ClaimWish
from onward.store.postgres.work import PostgresWorkStore

OBLIGATIONS = 60
SCHEMA = postgres.new_schema()


@pytest.fixture
def stores(database: str) -> Iterator[PostgresStores]:
    made = PostgresStores(database, SCHEMA)
    yield made
    made.close()


@pytest.fixture
def bench(stores: PostgresStores) -> Bench:
    return Bench(stores)


def together(acts: list[Callable[[], None]]) -> None:
    faults: list[BaseException] = []

    def one(act: Callable[[], None]) -> None:
        try:
            act()
        except BaseException as error:
            faults.append(error)

    threads = [threading.Thread(target=one, args=(act,)) for act in acts]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(100)
    assert not faults, faults
    assert not any(thread.is_alive() for thread in threads)


def done(one: Claimed) -> Fact:
    key = f"ow1-{one.key}"
    return fact(
        one, State.SUCCEEDED, done_step="b", version="1", checkpoint='"r"', lineage=(("b", "1"),),
        effect=about(EntryState.CONFIRMED, key=key, receipt='"r"'),
    )  # fmt: skip


def test_obligations_of_two_jobs_are_sent_once(bench: Bench, stores: PostgresStores) -> None:
    names = ("a", "b")
    for name in names:
        bench.start(*range(OBLIGATIONS), job=name, location=name, effects=((FILING, ()),))
    sent: Counter[str] = Counter()
    guard = threading.Lock()

    def work(name: str, seed: int) -> None:
        draw = random.Random(seed)
        store = PostgresWorkStore(stores.address, stores.clock, 30.0)
        run = bench.begin(store, job=name, location=name, effects=((FILING, ()),)).run
        idle = 0
        while idle < 40:
            claimed = store.write(run, Batch(wishes=[ClaimWish(draw.randint(1, 6), 10_000, effects=True)])).claimed[0]
            idle = 0 if claimed else idle + 1
            outcome = store.write(run, Batch(facts=[intent(one, f"ow1-{one.key}") for one in claimed]))
            facts = []
            for one in claimed:
                if (one.id, one.fence) in outcome.lost:
                    continue
                met = outcome.met[one.id, one.fence]
                if met.meeting == "go":
                    with guard:
                        sent[one.key] += 1
                if met.meeting == "wait":
                    facts.append(fact(one, State.PENDING, step="b", attempts=1))
                else:
                    assert met.meeting in ("go", "adopt"), met
                    facts.append(done(one))
            store.write(run, Batch(facts=facts))
        store.end_run(run, 0, "done")
        store.close()

    together([lambda name=name, seed=seed: work(name, seed) for seed in range(2) for name in names])  # type: ignore[misc]
    assert sent == Counter({canonical_key(key): 1 for key in range(OBLIGATIONS)})
    for instance in (1, 2):
        assert bench.store.counts(instance).states[State.SUCCEEDED] == OBLIGATIONS
    assert bench.stores.faults() == []


def test_runs_that_come_and_go_and_a_source_that_changes_leave_counters_that_hold(
    bench: Bench, stores: PostgresStores
) -> None:
    bench.start(*range(80))

    def work(seed: int) -> None:
        draw = random.Random(seed)
        for _ in range(3):
            store = PostgresWorkStore(stores.address, SystemClock(), 30.0)
            run = bench.begin(store, batch_models=()).run
            if (state := store.take_feed(run)) is not None and draw.random() < 0.7:
                store.begin_pass(run, True, "it changed")
                bench.feed(run, _source(draw), after=None, complete=True, store=store)
                assert state.pass_number >= 1
            for _ in range(8):
                claimed = store.write(run, Batch(wishes=[ClaimWish(5, 10_000)])).claimed[0]
                store.write(run, Batch(facts=[_ending(draw, one) for one in claimed]))
            store.end_run(run, draw.choice([0, 3]), "done")
            store.close()

    together([lambda seed=seed: work(seed) for seed in range(4)])  # type: ignore[misc]
    bench.store.counts(1)
    assert bench.stores.faults() == []
    assert bench.store.counts(1).states[State.IN_PROGRESS] == 0


def _source(draw: random.Random) -> list[Any]:
    from store_conformance import records

    return records(*[(key, str(draw.randint(1, 2))) for key in range(80) if draw.random() < 0.9])


def _ending(draw: random.Random, one: Claimed) -> Fact:
    kind = draw.random()
    if kind < 0.6:
        return finished(one)
    if kind < 0.8:
        return failed(one)
    return fact(one, State.PENDING, step="a", event="record_reset", reason="stop")


def test_people_decide_while_runs_work(bench: Bench, stores: PostgresStores) -> None:
    from onward.ports.desk import Choice

    bench.start(*range(60))
    over = threading.Event()

    def work(seed: int) -> None:
        draw = random.Random(seed)
        store = PostgresWorkStore(stores.address, SystemClock(), 30.0)
        run = bench.begin(store).run
        for _ in range(25):
            claimed = store.write(run, Batch(wishes=[ClaimWish(4, 10_000)])).claimed[0]
            store.write(run, Batch(facts=[_ending(draw, one) for one in claimed]))
        store.end_run(run, 0, "done")
        store.close()
        over.set()

    def decide() -> None:
        desk = stores.desk()
        today = {"a": "1", "b": "1"}
        while not over.wait(0.02):
            desk.decide(1, Choice("retry", "ann", today))
            desk.decide(1, Choice("rerun", "ann", today, step="a"))
            desk.pause(1, None, "ann", None)
            desk.resume(1, None, "ann", None)

    together([lambda: work(1), lambda: work(2), decide])
    bench.store.counts(1)
    assert bench.stores.faults() == []
