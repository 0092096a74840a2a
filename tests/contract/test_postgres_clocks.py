"""A worker whose clock is wrong: what is stored is by the server's clock, what it is told is by its own."""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from postgres_stores import PostgresStores
from store_conformance import LEASE, Bench, retried
from test_store_ledger import FILING, begin, claim, entry_of, going_on, intent, met, unconfirmed

from clocks import HandClock
from helpers import postgres
from onward.model import EntryState
from onward.ports.work import Batch, ClaimWish, GateStanding
from onward.store.postgres.work import PostgresWorkStore

SCHEMA = postgres.new_schema()


@pytest.fixture
def bench(database: str) -> Iterator[Bench]:
    made = PostgresStores(database, SCHEMA)
    yield Bench(made)
    made.close()


@pytest.fixture(params=[300.0, -300.0])
def off(request: pytest.FixtureRequest, bench: Bench) -> float:
    """The worker's clock is so many seconds ahead."""
    bench.clock.jump(request.param)
    return float(request.param)


def test_back_offs_end_by_the_servers_clock(bench: Bench, off: float) -> None:
    run = bench.start("k")
    (one,) = bench.claim(run)
    bench.state(run, retried(one, bench.clock.now() + 20))
    assert bench.row("k")["not_before"] == bench.stores.clock.moment + 20
    outcome = bench.write(run, wishes=[ClaimWish(1, 1)])
    assert (outcome.claimed, outcome.next_due) == ([[]], bench.clock.now() + 20)
    bench.clock.pass_time(20)
    assert len(bench.claim(run)) == 1


def test_a_worker_with_another_clock_takes_it_up_at_the_same_time(bench: Bench, off: float) -> None:
    run = bench.start("k")
    (one,) = bench.claim(run)
    bench.state(run, retried(one, bench.clock.now() + 20))
    right = PostgresWorkStore(bench.stores.address, HandClock(bench.stores.clock.moment), LEASE)
    own = bench.begin(right).run
    outcome = right.write(own, Batch(wishes=[ClaimWish(1, 1)]))
    assert (outcome.claimed, outcome.next_due) == ([[]], bench.stores.clock.moment + 20)
    right.close()


def test_leases_are_none_of_its_business(bench: Bench, off: float) -> None:
    run = bench.start("k")
    assert bench.begin().others == 1
    assert bench.stores.run_row(run)["lease_until"] == bench.stores.clock.moment + LEASE


def test_entries_are_told_by_the_workers_clock(bench: Bench, off: float) -> None:
    run = bench.start("k")
    (one,) = claim(bench, run)
    (told,) = met(bench, run, intent(one))
    assert (told.entry.intended_at, told.entry.first_at) == (bench.clock.now(), bench.clock.now())
    made = bench.clock.now()
    bench.clock.pass_time(10)
    fact = unconfirmed(one, EntryState.UNKNOWN)
    fact.effect.ask_at = fact.not_before = bench.clock.now() + 5
    bench.state(run, fact)
    assert bench.row("k")["not_before"] == bench.stores.clock.moment + 5
    assert bench.store.answers_by_gate(run) == {None: bench.clock.now() + 5}
    bench.clock.pass_time(5)
    (again,) = claim(bench, run)
    entry = entry_of(again)
    assert (entry.intended_at, entry.ask_at, entry.ended_at) == (made, bench.clock.now(), bench.clock.now() - 5)
    bench.state(run, going_on(again, EntryState.SENT))
    bench.clock.pass_time(1)
    bench.die(run)
    (again,) = claim(bench, begin(bench))
    assert entry_of(again).sent_at == bench.clock.now() - 1


def test_gates_are_shut_until_the_same_moment(bench: Bench, off: float) -> None:
    run = bench.start("k")
    bench.store.note_gates(run, [GateStanding('["g", 1]', "hours", bench.clock.now() + 60)], [])
    (row,) = bench.stores.query("SELECT until FROM gates")
    assert row["until"] == bench.stores.clock.moment + 60


def test_a_run_that_has_ended_shows_that_its_calls_go_on(bench: Bench) -> None:
    bench.store.store._sending._lease = 0.3
    for key in ("a", "b"):  # and again, once none was left
        run = bench.start("a", "b", effects=((FILING, ()),))
        (one,) = claim(bench, run, only=(bench.row(key)["id"],))
        met(bench, run, intent(one, f"ow1-{key}"))
        bench.store.end_run(run, 3, "stopped")
        assert bench.row(key)["hold"] == "sending"
        bench.clock.pass_time(LEASE + 1)
        until = time.monotonic() + 30
        while bench.stores.run_row(run)["lease_until"] <= bench.stores.clock.moment:
            assert time.monotonic() < until, "nobody renews it"
            time.sleep(0.05)
        second = begin(bench)
        asked = {"only": (bench.row(key)["id"],)}
        assert claim(bench, second, **asked) == [], "its call may go on"
        bench.store.sends_ended(run)
        bench.store.take_over(second)
        assert len(claim(bench, second, **asked)) == 1
        bench.store.end_run(second, 3, "stopped")


def test_who_waits_for_locks_learns_nothing_of_the_clocks(bench: Bench, off: float) -> None:
    line = bench.store.store._line
    bench.start("k")
    assert line.offset == -off
    began, moment = bench.clock.now() - 5, bench.stores.clock.moment - 2  # it was read some time between then and now
    line._compare(moment, began)
    assert line.offset == -off
    line._compare(bench.stores.clock.moment + 60, bench.clock.now())
    assert line.offset == 60 - off, "a clock was set"
