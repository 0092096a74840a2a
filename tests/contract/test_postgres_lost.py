"""A server that has gone back to an earlier state: said plainly, nothing changed any more, intents back in the ledger.

What a promoted standby lacks is taken away by hand here; `tests/torture` has real ones.
"""

from __future__ import annotations

import time
from collections.abc import Iterator

import pytest
from postgres_stores import PostgresStores
from store_conformance import Bench, advanced
from test_store_ledger import ABSENT, FILING, SENT, begin, claim, entry_of, fact, going_on, intent, met

from helpers import postgres
from onward.errors import HistoryLost
from onward.model import State
from onward.ports.work import Batch, ClaimWish
from onward.store.postgres import lost
from onward.store.postgres.work import PostgresWorkStore

SCHEMA = postgres.new_schema()


@pytest.fixture
def stores(database: str) -> Iterator[PostgresStores]:
    made = PostgresStores(database, SCHEMA)
    yield made
    made.close()


@pytest.fixture
def bench(stores: PostgresStores) -> Bench:
    return Bench(stores)


def going_back(bench: Bench) -> list[str]:
    """Copies of all rows as they are now; `back` puts them in their place again."""
    tables = [
        row["tablename"] for row in bench.stores.query("SELECT tablename FROM pg_tables WHERE schemaname = ?", SCHEMA)
    ]
    tables = [name for name in tables if not name.startswith("kept_") and name not in ("hand", "about")]
    for name in tables:
        bench.stores.connection.execute(f"CREATE TABLE kept_{name} AS TABLE {name}".encode())
    return tables


def back(bench: Bench, tables: list[str]) -> None:
    for name in tables:
        bench.stores.connection.execute(
            f"DELETE FROM {name}; INSERT INTO {name} OVERRIDING SYSTEM VALUE TABLE kept_{name}; DROP TABLE kept_{name}"
        )


def loses(bench: Bench, run: int) -> HistoryLost:
    with pytest.raises(HistoryLost, match="has gone back to an earlier state") as told:
        bench.store.store.write(run, Batch(wishes=[ClaimWish(1, 100)]))
    return told.value


def test_a_run_says_so_and_changes_nothing_more_but_to_end(bench: Bench) -> None:
    run = bench.start("a", "b")
    tables = going_back(bench)
    (one,) = bench.claim(run, 1)
    bench.state(run, advanced(one))
    back(bench, tables)
    told = loses(bench, run)
    assert "it lacks 2 changes that it had acknowledged" in str(told) and told.exit_code == 3
    store = bench.store.store
    for act in (
        lambda: store.write(run, Batch(facts=[advanced(one)])),
        lambda: store.renew(run),
        lambda: store.take_over(run),
        lambda: store.counts(1),
    ):
        with pytest.raises(HistoryLost):
            act()
    assert bench.row("a")["state"] == "pending"
    store.reopen()
    assert store.end_run(run, told.exit_code, "the run cannot go on") is not None
    assert bench.stores.run_row(run)["exit_code"] == 3
    assert bench.stores.faults() == []


def test_one_that_only_reads_says_so_too(bench: Bench) -> None:
    run = bench.start("a")
    tables = going_back(bench)
    bench.claim(run)
    back(bench, tables)
    with pytest.raises(HistoryLost):
        bench.store.store.take_over(run)


def test_a_run_that_is_not_known_any_more_leaves_the_one_alone_that_has_its_number(bench: Bench) -> None:
    bench.store.store.close()
    tables = going_back(bench)
    bench.store = bench.open()
    run = bench.start("a")
    back(bench, tables)
    other = bench.another()
    again = bench.start("a", store=other)
    assert again == run
    assert "it knows nothing of this process" in str(loses(bench, run))
    store = bench.store.store
    store.reopen()
    assert store.end_run(run, 3, "the run cannot go on") is None
    with pytest.raises(HistoryLost):
        store.note_stop(run, "told")
    assert bench.stores.run_row(run)["ended"] is None
    assert len(bench.claim(again, store=other)) == 1


def test_intents_that_were_lost_are_back_and_are_asked_about(bench: Bench) -> None:
    run = bench.start("a", "b", "c", effects=((FILING, ()),))
    held, waits = claim(bench, run, limit=2)
    tables = going_back(bench)
    met(bench, run, intent(held, "ow1-a", payload='{"fee":50}', digest="h1"))
    bench.state(run, going_on(held, SENT, "ow1-a", receipt='"r"'))
    bench.state(run, fact(waits, State.PENDING, step="a", event="record_reset", reason="stop"))
    (again, third) = claim(bench, run)
    met(bench, run, intent(again, "ow1-b"), intent(third, "ow1-c"))
    back(bench, tables)
    told = loses(bench, run)
    assert "3 effects that it had lost are back in its ledger" in str(told) and told.exit_code == 4
    entries = {row["key"]: row for row in bench.stores.query("SELECT * FROM effects")}
    assert {key: row["state"] for key, row in entries.items()} == {
        "ow1-a": "intended",  # held by this run still: it may be sending
        "ow1-b": "unknown",
        "ow1-c": "unknown",
    }
    assert (entries["ow1-a"]["payload"], entries["ow1-a"]["payload_hash"]) == ('{"fee":50}', "h1")
    store = bench.store.store
    store.reopen()
    store.end_run(run, 4, "the run cannot go on")
    store.sends_ended(run)
    assert bench.row("a")["state"] == "unconfirmed"
    later = bench.another()
    second = begin(bench, later)
    later.take_over(second)
    found = {one.key: entry_of(one) for one in claim(bench, second, later)}
    assert set(found) == {'"a"', '"b"', '"c"'}
    assert found['"a"'].payload == '{"fee":50}'
    assert bench.stores.faults() == []


def test_an_entry_that_is_as_if_it_had_not_been_sent_again_is_doubted(bench: Bench) -> None:
    run = bench.start("a", effects=((FILING, ()),))
    (one,) = claim(bench, run)
    met(bench, run, intent(one, payload='{"fee":50}'))
    bench.state(run, going_on(one, ABSENT))
    tables = going_back(bench)
    met(bench, run, intent(one, payload='{"fee":60}', digest="h2"))
    back(bench, tables)
    assert "1 effect that it had lost is back" in str(loses(bench, run))
    (entry,) = bench.stores.query("SELECT * FROM effects")
    assert (entry["state"], entry["payload"], entry["payload_hash"]) == ("unknown", '{"fee":60}', "h2")


def test_effects_of_records_that_are_lost_too_are_named(bench: Bench) -> None:
    run = bench.start(effects=((FILING, ()),))
    tables = going_back(bench)
    bench.pass_over(run, "a", "b")
    one, two = claim(bench, run)
    met(bench, run, intent(one, "ow1-a"), intent(two, "ow1-b"))
    back(bench, tables)
    told = str(loses(bench, run))
    assert "of 2 more it has lost the records, too" in told and "ow1-a" in told and "ow1-b" in told
    assert bench.stores.query("SELECT * FROM effects") == []


def test_what_the_server_still_has_is_left_as_it_is(bench: Bench) -> None:
    run = bench.start("a", "b", effects=((FILING, ()),))
    one, two = claim(bench, run)
    met(bench, run, intent(one, "ow1-a"))
    bench.state(run, going_on(one, SENT, "ow1-a", receipt='"r"'))
    tables = going_back(bench)
    met(bench, run, intent(two, "ow1-b"))
    back(bench, tables)
    loses(bench, run)
    entries = {row["key"]: row["state"] for row in bench.stores.query("SELECT * FROM effects")}
    assert entries == {"ow1-a": "sent", "ow1-b": "intended"}


def test_only_the_newest_intents_are_kept(monkeypatch: pytest.MonkeyPatch, bench: Bench) -> None:
    monkeypatch.setattr(lost, "MOST", 2)
    run = bench.start(*range(5), effects=((FILING, ()),))
    claimed = claim(bench, run)
    tables = going_back(bench)
    for one in claimed:
        met(bench, run, intent(one, f"ow1-{one.key}"))
    back(bench, tables)
    told = str(loses(bench, run))
    assert "2 effects" in told and "there may have been more of them than are remembered" in told


def test_a_server_that_was_replaced_between_runs_is_told_of(bench: Bench, stores: PostgresStores) -> None:
    said: list[str] = []

    def opened() -> PostgresWorkStore:
        return PostgresWorkStore(stores.address, stores.clock, 30.0, waits=said.append)

    for timeline in (None, None, 7, None):
        if timeline is not None:
            stores.connection.execute("UPDATE numbers SET n = %s WHERE what = 'timeline'", [timeline])
        store = opened()
        store.end_run(bench.begin(store).run, 0, "done")
        store.close()
    told = [one for one in said if "another history" in one]
    assert len(told) == 1 and "a standby was promoted" in told[0]


def test_after_an_outage_others_get_time_to_come_back(bench: Bench) -> None:
    bench.start("a", "b")
    other = bench.another()
    second = bench.begin(other).run
    assert len(bench.claim(second, 1, other)) == 1
    bench.clock.pass_time(31)  # neither could renew its lease
    store, run = bench.store.store, 1
    store.renew(run)
    store._line._was_away, store._line._back_at = 40.0, time.monotonic()
    assert store.take_over(run) == []
    store._line._back_at -= 31
    assert [dead.run for dead in store.take_over(run)] == [second]


def test_a_change_that_was_made_without_our_knowing_is_no_loss(bench: Bench) -> None:
    """Whoever interrupts a COMMIT does not hear what became of it."""
    run = bench.start("a")
    line = bench.store.store._line
    line.made -= 1
    assert len(bench.claim(run)) == 1
