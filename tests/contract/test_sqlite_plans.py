"""How SQLite goes about the statements: nothing that is asked for often may cost what the store holds."""

from __future__ import annotations

import re

import apsw
import pytest
from sqlite_stores import SqliteStores
from store_conformance import Bench, failed

from onward.ports.work import Batch
from onward.store.sql import statements
from onward.store.sqlite.connection import open_writer
from onward.store.sqlite.statements import PACKAGE

SQL = {
    **statements.load(PACKAGE, "work.sql"),
    **statements.load(PACKAGE, "gates.sql"),
    **statements.load(PACKAGE, "reading.sql"),
    **statements.load(PACKAGE, "batching.sql"),
}
ONCE_A_PASS = {
    "forget_partial",
    "new_pass",
    "vanishing",
    "vanishing_lineages",
    "vanishing_steps",
    "vanish",
    "vanishing_records",
}
"""These read every record of an instance: when a pass begins or ends."""


@pytest.fixture(scope="module")
def store() -> apsw.Connection:
    return open_writer(None)[0]


def plan_of(store: apsw.Connection, block: str) -> list[tuple[int, str]]:
    """(parent, what) of each node; tables by their names, not as they are called in the statement."""
    bindings = dict.fromkeys(re.findall(r":(\w+)", SQL[block]), 1)
    listed = ("rows", "ids", "only", "shut", "versions", "today")
    bindings.update({name: "[]" for name in listed if name in bindings})
    return [(row[1], row[3]) for row in store.execute("EXPLAIN QUERY PLAN " + SQL[block], bindings)]


@pytest.mark.parametrize("block", SQL)
def test_no_statement_reads_all_records_but_those_of_a_pass(store: apsw.Connection, block: str) -> None:
    whole = [what for _, what in plan_of(store, block) if _reads_an_instance(what)]
    assert not whole or block in ONCE_A_PASS, whole


def _reads_an_instance(what: str) -> bool:
    table = re.match(r"(SCAN|SEARCH) (records|r|inputs|i|checkpoints|c|failures|f|history)\b", what)
    if table is None:
        return False
    return what.startswith("SCAN") or "records_by_key (instance=?)" in what


@pytest.mark.parametrize("block", [name for name in SQL if "json_each" in SQL[name]])
def test_what_a_batch_brings_is_read_once_and_not_for_every_row(store: apsw.Connection, block: str) -> None:
    """Joined the wrong way round, a block of n records costs n times the instance."""
    tables = [what for parent, what in plan_of(store, block) if parent == 0 and re.match("SCAN|SEARCH", what)]
    behind = [what for what in tables[1:] if "VIRTUAL TABLE" in what]
    assert behind == [], tables


def test_a_thousand_entries_of_history_are_few_statements() -> None:
    stores = SqliteStores(None)
    bench = Bench(stores)
    run = bench.start(*range(1000))
    claimed = bench.claim(run, 1000)
    store = bench.store.store
    made: list[str] = []

    def heard(cursor: object, statement: str, bindings: object) -> bool:
        made.append(statement)
        return True

    store._connection.exec_trace = heard
    store.write(run, Batch(facts=[failed(one) for one in claimed]))
    store._connection.exec_trace = None
    assert len(stores.chain(run)) == 1001
    assert sum("history" in statement for statement in made) == 1
    assert len(made) < 25
    stores.close()
