"""What is asked again and again never reads all records, however many there are."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import psycopg
import pytest

from clocks import HandClock
from helpers import postgres
from onward.store.postgres import statements
from onward.store.postgres.address import parse
from onward.store.postgres.work import PostgresWorkStore

RECORDS = 20_000
OFTEN = """
pick_unconfirmed pick_asked pick_due pick_fresh next_due candidates input claim finish advance leave holders
keys_of presented seen_again count_held count_failures held_by held_by_dead put_back_dead give_back
failed_before reset_failed release_stale release_undecodable first_wait_began mend_waits gates_waited_at
wake_due pick_at_gates next_due_at_gates first_waits_began_at_gates given_up_calls calls_of_dead_ended
back_off held_by_the_dead in_flight failed_page find record unconfirmed_due unconfirmed_held in_state
release_batched entries entries_of set_aside superseded_steps
""".split()  # noqa: SIM905
ROWS = {
    "presented": '[["x1"], ["x2"]]',
    "leave": '[[1, 1, "pending", "a", 1, 0, 0, 0, 0, null, null]]',
    "entries": '[["a", "b"]]',
    "pick_at_gates": '[["g", 3]]',
}
GIVEN: dict[str, Any] = {
    "rows": "[1, 2]",
    "only": None,
    "shut": None,
    "hold": None,
    "keys": '["1"]',
    "states": '["failed"]',
}
NESTED = {"holders", "seen_again", "set_aside", "superseded_steps"}


@pytest.fixture(scope="module")
def filled(database: str) -> Iterator[psycopg.Connection[Any]]:
    address = parse(postgres.in_schema(database, postgres.new_schema()))
    PostgresWorkStore(address, HandClock()).close()
    with psycopg.connect(address.server, autocommit=True, cursor_factory=psycopg.RawCursor) as own:
        own.execute(f"SET search_path TO {address.quoted}")
        own.execute(
            "INSERT INTO records (id, instance, key, position, pass, state) "
            f"SELECT n, 1, 'x' || n, n, 1, CASE n % 2 WHEN 0 THEN 'pending' ELSE 'succeeded' END "
            f"FROM generate_series(1, {RECORDS}) n"
        )
        own.execute("INSERT INTO inputs SELECT id, 0, 'h', '1' FROM records")
        own.execute("INSERT INTO checkpoints SELECT id, 0, 'a', '1', '1', 1, 0 FROM records WHERE state = 'succeeded'")
        own.execute("ANALYZE")
        yield own
        own.execute(f"DROP SCHEMA {address.quoted} CASCADE")


@pytest.mark.parametrize("block", OFTEN)
def test_what_is_asked_often_reads_few_records(filled: psycopg.Connection[Any], block: str) -> None:
    statement = statements.blocks()[block]
    rows = ROWS.get(block, "[[1, 1]]" if block in NESTED else "[1, 2]")
    given = {**GIVEN, "rows": rows}
    kinds = {"bigint": 1, "double precision": 1.0, "json": "[1]"}
    values = [given.get(name, kinds.get(statements.TYPE_OF.get(name, "text"), "[]")) for name in statement.names]
    with filled.transaction(force_rollback=True):
        plan = [row[0] for row in filled.execute(f"EXPLAIN {statement.text}", values).fetchall()]
    assert not [line for line in plan if "Seq Scan on records" in line or "Seq Scan on inputs" in line], "\n".join(plan)


OFTEN_CHANGED = {
    "effects": {"state", "receipt", "ask_at", "asks", "sent_at", "ended_at"},
    "counts": {"n"},
    "runs": {"lease_until", "entries", "head", "pace", "done", "rate", "noted", "told"},
    "instances": {"cursor", "fed_position", "entries", "head"},
    "writers": {"batch"},
}


@pytest.mark.parametrize("table", OFTEN_CHANGED)
def test_no_index_depends_on_what_changes_often(filled: psycopg.Connection[Any], table: str) -> None:
    """So that a change stays on its page and leaves the indexes alone; columns of conditions and expressions count."""
    used = filled.execute(
        "SELECT DISTINCT a.attname FROM pg_index i "
        "JOIN pg_depend d ON d.objid = i.indexrelid AND d.refobjid = i.indrelid "
        "JOIN pg_attribute a ON a.attrelid = d.refobjid AND a.attnum = d.refobjsubid "
        "WHERE i.indrelid = $1::regclass",
        [table],
    ).fetchall()
    assert used or table == "writers"
    assert OFTEN_CHANGED[table].isdisjoint(name for (name,) in used)
