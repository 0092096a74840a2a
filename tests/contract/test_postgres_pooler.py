"""By way of PgBouncer, which gives each transaction another connection."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
from postgres_stores import PostgresStores
from store_conformance import Bench, advanced, finished

from clocks import HandClock
from helpers import postgres
from onward.errors import OnwardError
from onward.model import State
from onward.ports.desk import Choice, ExportWish
from onward.ports.work import Batch, ClaimWish
from onward.store.postgres.address import parse
from onward.store.postgres.desk import PostgresDesk
from onward.store.postgres.work import PostgresWorkStore

SCHEMA = postgres.new_schema()
RECORDS = 120


@pytest.fixture
def bench(database: str) -> Iterator[Bench]:
    made = PostgresStores(database, SCHEMA)
    yield Bench(made)
    made.close()


def by_way(database: str, mode: str) -> Iterator[str]:
    try:
        with postgres.pooler(database, mode) as url:
            yield postgres.in_schema(url, SCHEMA)
    except postgres.NoServer as error:
        pytest.skip(str(error))


@pytest.fixture(params=["transaction", "session"])
def pooled(request: pytest.FixtureRequest, database: str) -> Iterator[str]:
    yield from by_way(database, request.param)


@pytest.fixture
def by_statement(database: str) -> Iterator[str]:
    yield from by_way(database, "statement")


def test_several_runs_share_two_connections(bench: Bench, pooled: str, request: pytest.FixtureRequest) -> None:
    number = 4 if "transaction" in request.node.name else 2
    bench.start(*range(RECORDS))
    done: list[str] = []
    faults: list[BaseException] = []

    def work() -> None:
        try:
            store = PostgresWorkStore(parse(pooled), bench.clock, 30.0)
            run = bench.begin(store).run
            while claimed := store.write(run, Batch(wishes=[ClaimWish(5, 10_000)])).claimed[0]:
                assert store.write(run, Batch(facts=[advanced(one) for one in claimed])).lost == set()
                assert store.renew(run)
                assert store.write(run, Batch(facts=[finished(one) for one in claimed])).lost == set()
                store.counts(1)
                done.extend(one.key for one in claimed)
            store.end_run(run, 0, "done")
            store.close()
        except BaseException as error:
            faults.append(error)

    threads = [threading.Thread(target=work) for _ in range(number)]
    for one in threads:
        one.start()
    for one in threads:
        one.join(100)
    assert not faults, faults
    assert sorted(done) == sorted(map(str, range(RECORDS)))
    assert bench.store.counts(1).states[State.SUCCEEDED] == RECORDS
    desk = PostgresDesk(parse(pooled), bench.clock)
    assert len(list(desk.export(1, ExportWish(State.SUCCEEDED, ("a", "b"))))) == RECORDS
    assert desk.decide(1, Choice("rerun", "ann", {"a": "1", "b": "1"}, step="a")).count == RECORDS
    assert desk.verify([1], None).misfit is None
    desk.close()
    assert bench.stores.faults() == []


def test_a_pooler_that_allows_no_transactions_is_refused(by_statement: str) -> None:
    with pytest.raises(OnwardError) as refused:
        PostgresWorkStore(parse(by_statement), HandClock(), 30.0)
    assert "pool_mode" in str(refused.value)
