"""Changes are made once or not at all, whatever becomes of connections, backends and answers in mid-commit."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import psycopg
import pytest
from postgres_stores import PostgresStores
from store_conformance import LEASE, Bench, advanced, finished, records

from acceptance.jobs import wait_until
from helpers import postgres, tls
from helpers.cutting import Cut, Cutter
from onward.clock import SystemClock
from onward.errors import StoreWriteError
from onward.model import State
from onward.ports.work import Batch, ClaimWish
from onward.store.postgres import connection as connections
from onward.store.postgres.address import parse
from onward.store.postgres.line import OLD_WRITERS, Line
from onward.store.postgres.work import PostgresWorkStore

STEPS = 12
SCHEMA = postgres.new_schema()


@pytest.fixture
def stores(database: str) -> Iterator[PostgresStores]:
    made = PostgresStores(database, SCHEMA)
    yield made
    made.close()


@pytest.fixture
def bench(stores: PostgresStores) -> Bench:
    return Bench(stores)


def through(port: int, stores: PostgresStores, more: str = "") -> PostgresWorkStore:
    """A store whose connections pass what listens there. `more`: settings for the address."""
    parts = urlsplit(stores.address.settled)
    place = f"{parts.username}@127.0.0.1:{port}"
    return PostgresWorkStore(parse(parts._replace(netloc=place).geturl() + more), stores.clock, 30.0)


def cutter_at(stores: PostgresStores, when: Callable[[], Cut]) -> Cutter:
    parts = urlsplit(stores.address.settled)
    assert parts.hostname is not None and parts.port is not None
    return Cutter(parts.hostname, parts.port, when)


@pytest.mark.parametrize("how", ["before", "after", "in mid-answer"])
def test_a_commit_without_an_answer_is_made_once(bench: Bench, stores: PostgresStores, how: Cut) -> None:
    cuts: list[Cut] = []
    cutter = cutter_at(stores, lambda: cuts.pop() if cuts else None)
    bench.store.store.close()
    bench.store = bench.open()
    store = through(cutter.port, stores)
    run = bench.start("a", "b")
    own = bench.begin(store).run
    for key in ("a", "b"):
        cuts.append(how)
        (one,) = store.write(own, Batch(wishes=[ClaimWish(1, 100)])).claimed[0]
        assert one.key == f'"{key}"'
        cuts.append(how)
        assert store.write(own, Batch(facts=[finished(one)])).lost == set()
    assert cutter.cuts == 4
    assert bench.states() == {"succeeded": 2}
    assert [bench.row(key)["fence"] for key in "ab"] == [1, 1]
    bench.store.counts(1)
    bench.store.end_run(run, 0, "done")
    store.close()
    cutter.close()


@pytest.mark.parametrize("rough", [False, True], ids=["with a farewell", "without one"])
def test_a_connection_over_tls_that_is_lost_is_opened_anew(
    bench: Bench, stores: PostgresStores, rough: bool, tmp_path: Path
) -> None:
    """What the driver says of it speaks of SSL, and not of settings."""
    cuts: list[Cut] = []
    cutter = cutter_at(stores, lambda: cuts.pop() if cuts else None)
    try:
        with tls.front(cutter.port, tmp_path, rough) as port:
            store = through(port, stores, "&sslmode=require")
            bench.start("a", "b", "c")
            own = bench.begin(store).run
            for how in ("before", "after", "in mid-answer"):
                cuts.append(how)
                (one,) = store.write(own, Batch(wishes=[ClaimWish(1, 100)])).claimed[0]
                assert store.write(own, Batch(facts=[finished(one)])).lost == set()
            assert store._line._connection.pgconn.ssl_in_use
            store.close()
    except tls.NoTls as error:
        pytest.skip(str(error))
    cutter.close()
    assert (cutter.cuts, bench.states()) == (3, {"succeeded": 3})


def test_many_cuts_at_random(bench: Bench, stores: PostgresStores, request: pytest.FixtureRequest) -> None:
    draw = random.Random(7)
    cutter = cutter_at(stores, lambda: draw.choice(["before", "after", "in mid-answer", None]))
    store = through(cutter.port, stores)
    bench.start(*range(STEPS))
    own = bench.begin(store).run
    seen: dict[str, int] = {}
    while claimed := store.write(own, Batch(wishes=[ClaimWish(3, 1000)])).claimed[0]:
        for one in claimed:
            seen[one.key] = seen.get(one.key, 0) + 1
        assert store.write(own, Batch(facts=[advanced(one) for one in claimed])).lost == set()
        assert store.write(own, Batch(facts=[finished(one) for one in claimed])).lost == set()
    assert cutter.cuts > STEPS / 3
    assert set(seen.values()) == {1}
    assert bench.states() == {"succeeded": STEPS}
    bench.store.counts(1)
    store.close()
    cutter.close()


def killed_backend(stores: PostgresStores, own: int) -> None:
    stores.connection.execute("SELECT pg_terminate_backend(%s)", [own])


def test_a_backend_that_dies_in_mid_change_leaves_nothing_and_the_change_is_made_again(
    bench: Bench, stores: PostgresStores
) -> None:
    run = bench.start("k")
    line = bench.store.store._line
    tries = []

    def make(transaction: Any) -> int:
        transaction.execute("note_stop", {"run": run, "reason": "told"})
        tries.append(line._connection.info.backend_pid)
        if len(tries) == 1:
            killed_backend(stores, tries[0])
        return transaction.execute("renew_run", {"run": run, "steady": transaction.steady, "lease": LEASE})

    assert line.change(make, []) == 1
    assert len(set(tries)) == 2
    assert bench.stores.run_row(run)["told"] == "told"


@pytest.mark.parametrize("state", ["40001", "40P01"])
def test_what_the_database_undid_is_made_again_as_a_whole(bench: Bench, state: str) -> None:
    run = bench.start("k")
    (one,) = bench.claim(run)
    line = bench.store.store._line
    bench.stores.connection.execute(
        f"""CREATE OR REPLACE FUNCTION fails_once() RETURNS trigger LANGUAGE plpgsql AS $$ BEGIN
            IF nextval('fails') < 3 THEN RAISE 'no' USING ERRCODE = '{state}'; END IF; RETURN NEW; END $$"""
    )
    bench.stores.connection.execute("CREATE SEQUENCE fails")
    bench.stores.connection.execute(
        "CREATE CONSTRAINT TRIGGER fails AFTER INSERT ON checkpoints DEFERRABLE INITIALLY DEFERRED "
        "FOR EACH ROW EXECUTE FUNCTION fails_once()"
    )
    try:
        before = line._batch
        assert bench.state(run, finished(one)) == set()
        assert line._batch >= before + 3
    finally:
        bench.stores.connection.execute("DROP TRIGGER fails ON checkpoints; DROP SEQUENCE fails")
    assert bench.states() == {"succeeded": 1}


def test_a_stopped_process_in_mid_change_holds_up_others_for_seconds_only(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "IDLE_SECONDS", 1)
    run = bench.start("a", "b")
    other = bench.another()
    second = bench.begin(other).run
    line = bench.store.store._line
    tries = []

    def sleeps(transaction: Any) -> int:
        tries.append(1)
        if len(tries) == 1:
            time.sleep(3.0)
        return transaction.execute("renew_run", {"run": run, "steady": transaction.steady, "lease": LEASE})

    from onward.store.postgres.line import LEDGER, Lock

    slow = threading.Thread(target=line.change, args=(sleeps, [(LEDGER, Lock.ALONE), (1, Lock.ALONE)]))
    slow.start()
    while not tries:
        time.sleep(0.01)
    assert len(bench.claim(second, 1, other)) == 1
    slow.join(60)
    assert len(tries) == 2, "what it had begun was undone, and made again"


HOLDS_THE_ROW = "UPDATE SCHEMA.runs SET rate = rate"


@pytest.mark.parametrize(
    "said",
    [
        pytest.param(["SELECT pg_advisory_xact_lock(CLASS, 1)"], id="a lock"),
        pytest.param([HOLDS_THE_ROW], id="its row, without any lock"),
        pytest.param([HOLDS_THE_ROW, "SELECT repeat('x', 1000) FROM generate_series(1, 50000)"], id="untaken answers"),
    ],
)
def test_one_that_was_stopped_in_the_middle_of_an_exchange_does_not_hold_up_others_for_longer(
    bench: Bench, stores: PostgresStores, monkeypatch: pytest.MonkeyPatch, said: list[str]
) -> None:
    """The server waits for the rest of what it was to be told, or until it can tell, which it does not call idle."""
    monkeypatch.setattr(connections, "IDLE_SECONDS", 1)
    monkeypatch.setattr(connections, "LOCK_ONCE", 2)
    monkeypatch.setattr(connections, "LOCK_SECONDS", 10)
    run = bench.start("a")
    stopped = psycopg.connect(stores.address.server, autocommit=True, application_name="onward")
    wire = stopped.pgconn
    wire.enter_pipeline_mode()
    number = str(stores.address.lock_class)
    for text in ["BEGIN", *said]:
        text = text.replace("SCHEMA", stores.address.quoted).replace("CLASS", number)
        wire.send_query_params(text.encode(), None)
    wire.send_flush_request()
    while wire.flush():
        time.sleep(0.01)
    ask = "SELECT 1 FROM pg_stat_activity WHERE pid = %s AND state = 'active' AND wait_event LIKE 'Client%%'"
    try:
        wait_until(lambda: stores.connection.execute(ask, [wire.backend_pid]).fetchone(), 20)
        assert len(bench.claim(run, 1)) == 1
        bench.store.renew(run)
    finally:
        wire.finish()


@pytest.mark.parametrize("name", ["onward", "psql"])
def test_one_that_was_stopped_between_two_exchanges_is_ended_if_it_is_one_of_ours(
    bench: Bench, stores: PostgresStores, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """PostgreSQL does not always end it: here as if it never did."""
    monkeypatch.setattr(connections, "IDLE_SECONDS", 1)
    monkeypatch.setattr(connections, "LOCK_ONCE", 2)
    monkeypatch.setattr(connections, "LOCK_SECONDS", 3)
    run = bench.start("a")
    with closing(psycopg.connect(stores.address.server, autocommit=True, application_name=name)) as stopped:
        stopped.execute("BEGIN")
        stopped.execute("SET LOCAL idle_in_transaction_session_timeout TO 0")
        stopped.execute(HOLDS_THE_ROW.replace("SCHEMA", stores.address.quoted).encode())
        if name == "onward":
            bench.store.renew(run)
            assert len(bench.claim(run, 1)) == 1
        else:
            with pytest.raises(StoreWriteError, match="held its tables for too long"):
                bench.store.renew(run)
            stopped.execute("COMMIT")


def test_whoever_brings_rows_for_long_is_not_taken_for_stopped(
    bench: Bench, stores: PostgresStores, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(connections, "IDLE_SECONDS", 1)
    monkeypatch.setattr(connections, "LOCK_ONCE", 2)
    monkeypatch.setattr(connections, "LOCK_SECONDS", 3)
    run = bench.start("a")
    with psycopg.connect(stores.address.server, application_name="onward") as bringing:
        bringing.execute("CREATE TEMPORARY TABLE brought (n int)")
        bringing.execute(f"SELECT pg_advisory_xact_lock({stores.address.lock_class}, 1)".encode())
        with bringing.cursor().copy("COPY brought FROM STDIN") as copy:
            copy.write_row([1])
            with pytest.raises(StoreWriteError, match="held its tables for too long"):
                bench.claim(run, 1)
            copy.write_row([2])
        assert bringing.execute("SELECT count(*) FROM brought").fetchone() == (2,)
    assert len(bench.claim(run, 1)) == 1


def test_the_row_of_a_writer_that_was_tidied_away_is_made_anew(bench: Bench) -> None:
    run = bench.start("k")
    bench.stores.connection.execute("DELETE FROM writers")
    bench.store.store._line._made_at -= OLD_WRITERS  # it was long idle
    assert len(bench.claim(run)) == 1
    assert bench.store.take_over(run) == []


def test_many_runs_in_threads_share_the_records_and_the_counters_hold(bench: Bench, stores: PostgresStores) -> None:
    keys = range(300)
    bench.start(*keys)
    done: list[str] = []
    faults: list[BaseException] = []

    def work() -> None:
        try:
            store = PostgresWorkStore(stores.address, SystemClock(), 30.0)
            run = bench.begin(store).run
            while claimed := store.write(run, Batch(wishes=[ClaimWish(7, 10_000)])).claimed[0]:
                facts = [advanced(one) for one in claimed]
                assert store.write(run, Batch(facts=facts)).lost == set()
                again = [finished(one) for one in claimed]
                assert store.write(run, Batch(facts=again)).lost == set()
                done.extend(one.key for one in claimed)
            store.end_run(run, 0, "done")
            store.close()
        except BaseException as error:
            faults.append(error)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for one in threads:
        one.start()
    for one in threads:
        one.join(120)
    assert not faults
    assert sorted(done) == sorted(str(key) for key in keys)
    assert bench.states() == {"succeeded": 300}
    bench.store.counts(1)


def test_a_connection_may_get_lost_as_often_as_it_likes(
    bench: Bench, stores: PostgresStores, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("onward.store.postgres.line.FIRST_PAUSE", 0.0)
    cuts: list[Cut] = []
    cutter = cutter_at(stores, lambda: cuts.pop() if cuts else None)
    store = through(cutter.port, stores)
    run = bench.begin(store).run
    cuts += ["before"] * 25
    assert store.renew(run)
    assert cutter.cuts == 25
    store.close()
    cutter.close()


def test_a_server_that_was_waited_for_in_vain_is_not_waited_for_again(
    bench: Bench, stores: PostgresStores, monkeypatch: pytest.MonkeyPatch
) -> None:
    cutter = cutter_at(stores, lambda: None)
    store = through(cutter.port, stores)
    run = bench.begin(store).run
    monkeypatch.setattr(connections, "PATIENCE", 2.0)
    waited: list[float] = []
    patiently = connections.patiently
    monkeypatch.setattr(
        connections, "patiently", lambda act, address, waits, seconds: patiently(act, address, waits, noted(seconds))
    )

    def noted(seconds: float) -> float:
        waited.append(seconds)
        return min(seconds, 0.5)

    cutter.refuses = True
    store._line._connection.close()
    with pytest.raises(StoreWriteError, match="cannot be reached"):
        store.renew(run)
    for _ in range(2):
        with pytest.raises(StoreWriteError, match="cannot be reached"):
            store.end_run(run, 3, "the run cannot go on")
    assert waited == [2.0, connections.ONCE_MORE, connections.ONCE_MORE]
    cutter.refuses = False
    assert store.renew(run)
    store._line._connection.close()
    assert store.renew(run)
    assert waited[3:] == [connections.ONCE_MORE, 2.0]
    store.close()
    cutter.close()


def test_an_old_answer_is_not_taken_for_a_new_one(stores: PostgresStores) -> None:
    """The row tells of the last change alone."""
    line = Line(stores.address, stores.clock)
    line.change(lambda transaction: 1, [])
    assert line._was_made()
    line._batch += 1
    assert not line._was_made()
    line.close()


def test_a_database_that_is_full_says_so(bench: Bench) -> None:
    run = bench.start("k")
    line = bench.store.store._line

    def make(transaction: Any) -> None:
        line._connection.execute("DO $$ BEGIN RAISE 'disk' USING ERRCODE = '53100'; END $$")

    with pytest.raises(StoreWriteError, match="no space left on the disk of postgresql://"), line.explained():
        line.change(make, [])
    assert bench.store.counts(1).states[State.PENDING] == 1
    assert len(bench.claim(run)) == 1
    assert records("k")


def test_a_postmaster_that_is_killed_in_mid_work_comes_back_with_all_that_was_told() -> None:
    try:
        with postgres.server() as own:
            stores = PostgresStores(own.url, "onward_killed")
            bench = Bench(stores)
            store = bench.store.store
            run = bench.start(*range(40))
            told = 0
            for number in range(4):
                claimed = store.write(run, Batch(wishes=[ClaimWish(5, 1000)])).claimed[0]
                if number in (1, 2):
                    own.kill() if number == 1 else own.stop(postgres.signal.SIGQUIT)
                    threading.Timer(1.0, own.start).start()
                assert store.write(run, Batch(facts=[finished(one) for one in claimed])).lost == set()
                told += len(claimed)
            with psycopg.connect(stores.address.server) as looking:
                row = looking.execute("SELECT count(*) FROM onward_killed.records WHERE state = 'succeeded'").fetchone()
            assert row == (told,)
            assert store.counts(1).states[State.SUCCEEDED] == told
            store.close()
    except postgres.NoServer as error:
        pytest.skip(str(error))


def test_what_is_foreseen_holds_until_the_change_itself_makes_it_untrue(bench: Bench) -> None:
    run = bench.start("k")
    work = bench.store.store

    def make(transaction: Any) -> list[bool]:
        about = {"instance": 1, "run": run, "now": 1.0}
        before = bool(transaction.rows("has_waits", about))
        of_another = bool(transaction.rows("has_waits", {**about, "instance": 2}))
        transaction.send("add_waits", {**about, "rows": '[[1, 0, "1", 0, "print"]]'})
        return [before, of_another, bool(transaction.rows("has_waits", about))]

    assert work._line.change(make, [], {"instance": 1, "run": run}) == [False, False, True]


def test_what_is_only_sent_is_made_with_the_commit(bench: Bench) -> None:
    run = bench.start("k")
    work = bench.store.store
    work._line.change(lambda transaction: transaction.send("note_stop", {"run": run, "reason": "enough"}), [])
    assert (
        work._line.read(lambda transaction: transaction.rows("open_runs", {"instance": 1, "run": 0}))[0][1] == "enough"
    )
    with pytest.raises(psycopg.Error):
        wrong = {"run": run, "now": "none", "seq": None, "head": None}
        work._line.change(lambda transaction: transaction.send("move_run_head", wrong), [])
    assert bench.store.counts(1).total == 1
