"""`log` and its verification as they are asked from Python: what an entry says, and edits of the store's tables."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import apsw
import pytest
from operate_jobs import Batch

import onward
from judge.chains import HASHED
from onward import api
from onward.errors import UsageError
from onward.operate.history import since_moment
from onward.policy.chain import Link, link_hash


@pytest.fixture
def batch(tmp_path: Path) -> Batch:
    """Two runs, with a person's acts between them; in the first some records failed."""
    made = Batch(tmp_path, [{"id": key, "v": key} for key in range(8)])
    made.fails = {"a": {1: lambda: ValueError("SECRET")}, "c": {2: lambda: onward.Rejected("SECRET")}}  # in this order
    made.run()
    onward.release(made.job(), 2, store=made.store)
    made.fails.clear()
    made.run()
    return made


def log(batch: Batch, **given: Any) -> list[dict[str, Any]]:
    return list(api.log(batch.job(), store=batch.store, **given))


def verify(batch: Batch, **given: Any) -> dict[str, Any]:
    return api.verify_log(batch.job(), store=batch.store, **given)


def edit(batch: Batch, statement: str, *bindings: Any) -> None:
    connection = apsw.Connection(batch.store)
    connection.execute(statement, bindings)
    connection.close()


def test_every_decision_and_its_reason(batch: Batch) -> None:
    entries = log(batch)
    assert [(one["run"], one["event"], one["key"]) for one in entries] == [
        ("1", "run_started", None),
        ("1", "record_failed", 1),
        ("1", "record_quarantined", 2),
        ("1", "run_finished", None),
        (None, "record_released", 2),
        ("2", "run_started", None),
        ("2", "record_reset", 1),
        ("2", "run_finished", None),
    ]
    failed, released = entries[1], entries[4]
    assert failed["detail"] == {"kind": "bug", "error_type": "ValueError", "attempts": 1}
    assert (failed["step"], failed["reason"]) == ("a", "bug")
    assert (failed["job"], failed["instance"], failed["seq"]) == ("batch", "", 2)
    assert released["actor"]
    assert "SECRET" not in str(entries)


def test_since(batch: Batch) -> None:
    entries = log(batch)
    half = datetime.fromisoformat(entries[4]["time"]).timestamp()
    assert [one["hash"] for one in log(batch, since=half - 0.0005)] == [one["hash"] for one in entries[4:]]
    assert log(batch, since=half + 3600) == []


@pytest.mark.parametrize(
    "given, meant",
    [
        ("2026-11-30", datetime(2026, 11, 30, tzinfo=UTC)),
        ("2026-11-30T09:00:01", datetime(2026, 11, 30, 9, 0, 1, tzinfo=UTC)),
        ("2026-11-30 09:00+02:00", datetime(2026, 11, 30, 7, 0, tzinfo=UTC)),
        ("2026-11-30T09:00Z", datetime(2026, 11, 30, 9, 0, tzinfo=UTC)),
    ],
)
def test_moments(given: str, meant: datetime) -> None:
    assert since_moment(given, 0.0, None) == meant.timestamp()


def test_spans_and_what_is_neither() -> None:
    assert since_moment("2h", 10_000.0, 7200.0) == 2800.0
    with pytest.raises(UsageError, match="neither a time"):
        since_moment("yesterday", 0.0, None)


def test_what_was_written_fits_and_its_heads_are_told(batch: Batch) -> None:
    entries = log(batch)
    found = verify(batch)
    heads = [{"run": "2", "hash": entries[-1]["hash"]}, {"run": None, "hash": entries[4]["hash"]}]
    assert found == {"fits": True, "chains": 3, "entries": 8, "heads": heads, "misfit": None}
    told = onward.status(batch.job(), store=batch.store)["runs"]
    assert [run["head"] for run in told] == [entries[3]["hash"], entries[-1]["hash"]]
    for one in (*heads, {"hash": entries[3]["hash"]}):
        assert verify(batch, expected=one["hash"])["fits"]


EDITS = {
    "a reason": ("UPDATE history SET reason = 'fine' WHERE id = 2", "1", 2, "record_failed"),
    "a time": ("UPDATE history SET at = at - 1 WHERE id = 3", "1", 3, "record_quarantined"),
    "an actor": ("UPDATE history SET actor = 'nobody' WHERE id = 5", None, 1, "record_released"),
    "a detail": ("UPDATE history SET detail = replace(detail, 'bug', 'bog') WHERE id = 2", "1", 2, "record_failed"),
    "a record": ("UPDATE history SET record = record + 1 WHERE id = 2", "1", 2, "record_failed"),
    "an event": ("UPDATE history SET event = 'record_done' WHERE id = 2", "1", 2, "record_done"),
    "a hash": ("UPDATE history SET hash = 'x' WHERE id = 2", "1", 2, "record_failed"),
    "a text that is none": ("UPDATE history SET reason = CAST(x'ff' AS TEXT) WHERE id = 2", "1", 2, "record_failed"),
    "a type": ("UPDATE history SET reason = CAST(reason AS BLOB) WHERE id = 2", "1", 2, "record_failed"),
    "a number that is text": ("UPDATE history SET seq = 'x' WHERE id = 2", "1", 0, "record_failed"),
    "a time that is text": ("UPDATE history SET at = 'x' WHERE id = 2", "1", 2, "record_failed"),
    "a run": ("UPDATE history SET run = 2 WHERE id = 2", "2", 2, "record_failed"),
    "an instance": ("UPDATE history SET instance = 9 WHERE id = 2", "1", 2, "record_failed"),
    "a removed entry": ("DELETE FROM history WHERE id = 2", "1", 3, "record_quarantined"),
    "the first removed": ("DELETE FROM history WHERE id = 1", "1", 2, "record_failed"),
    "the end removed": ("DELETE FROM history WHERE id = 4", "1", 4, None),
    "the newest end removed": ("DELETE FROM history WHERE id = 8", "2", 3, None),
    "the last act removed": ("DELETE FROM history WHERE id = 5", None, 1, None),
    "a whole chain removed": ("DELETE FROM history WHERE run = 1", "1", 1, None),
    "all of it removed": ("DELETE FROM history", "1", 1, None),
    "a head": ("UPDATE runs SET head = 'x' WHERE id = 1", "1", 4, "run_finished"),
    "a run's row removed": ("DELETE FROM runs WHERE id = 1", "1", 1, "run_started"),
    "a run and its chain removed": ("DELETE FROM runs WHERE id = 1; DELETE FROM history WHERE run = 1", "1", 1, None),
    "an entry inserted": (
        "INSERT INTO history (instance, run, seq, hash, at, event) VALUES (1, 1, 3, 'x', 9.0, 'record_done')",
        "1",
        3,
        "record_done",
    ),
    "two exchanged": (
        "UPDATE history SET id = 99 WHERE id = 2; UPDATE history SET id = 2 WHERE id = 3;"
        "UPDATE history SET id = 3 WHERE id = 99",
        "1",
        3,
        "record_quarantined",
    ),
}


@pytest.mark.parametrize("name", EDITS)
def test_an_edit_is_found_and_the_entry_named(batch: Batch, name: str) -> None:
    statement, run, seq, event = EDITS[name]
    edit(batch, statement)
    found = verify(batch)
    assert not found["fits"]
    misfit = found["misfit"]
    assert (misfit["job"] in ("batch", None), misfit["run"], misfit["seq"]) == (True, run, seq)
    assert event is None or misfit["event"] == event
    assert log(batch) is not None  # what was edited can still be looked at


REMOVED = "this store is missing: its row was removed"
ROWS = {
    "all runs removed": ("DELETE FROM history; DELETE FROM runs; UPDATE instances SET entries = 0, head = ''", REMOVED),
    "and the numbers of runs": (
        "DELETE FROM history; DELETE FROM runs; UPDATE instances SET entries = 0, head = '';"
        "DELETE FROM sqlite_sequence",
        REMOVED,
    ),
    "the newest run removed": ("DELETE FROM history WHERE run = 2; DELETE FROM runs WHERE id = 2", REMOVED),
    "the newest run cut": (
        "DELETE FROM history WHERE id = 8; UPDATE runs SET ended = NULL, exit_code = NULL, entries = 2,"
        " head = (SELECT hash FROM history WHERE id = 7) WHERE id = 2",
        "entries are missing: 8 were written in this store, and 7 are there",
    ),
    "an entry of no instance": (
        "INSERT INTO history (instance, run, seq, hash, at, event) VALUES (7, NULL, 1, 'x', 9.0, 'effect_denied')",
        "nobody wrote it",
    ),
    "a host": ("UPDATE runs SET host = 'elsewhere' WHERE id = 1", "it has another host"),
    "versions": ("UPDATE runs SET versions = '[]' WHERE id = 1", "it has another set of versions"),
    "versions that are none": ("UPDATE runs SET versions = x'ff' WHERE id = 1", "it has another set of versions"),
    "an exit code": ("UPDATE runs SET exit_code = 0 WHERE id = 1", "it has another exit code"),
    "a run's reason": ("UPDATE runs SET reason = 'all done' WHERE id = 1", "it has another reason"),
    "an end": ("UPDATE runs SET ended = NULL WHERE id = 1", "it has another end"),
}


@pytest.mark.parametrize("name", ROWS)
def test_an_edit_beside_the_entries_is_found(batch: Batch, name: str) -> None:
    statement, why = ROWS[name]
    edit(batch, statement)
    for whole in (False, True):
        found = api.verify_log(None, store=batch.store) if whole else verify(batch)
        assert (found["fits"], why in (found["misfit"] or {"why": ""})["why"]) == (False, True), found


def recompute(batch: Batch, edited: Callable[[dict[str, Any]], None]) -> None:
    """Edit entries and compute all chains and heads anew, as somebody would who knows how."""
    connection = apsw.Connection(batch.store)
    tips: dict[Any, tuple[int, str]] = {}
    for number, *row in connection.execute(f"SELECT h.id, {HASHED} FROM history h ORDER BY h.id").fetchall():
        entry = Link(*row)._asdict()
        edited(entry)
        seq, head = tips.get(entry["run"], (0, ""))
        head = link_hash(head, tuple(entry.values()))
        tips[entry["run"]] = seq + 1, head
        connection.execute("UPDATE history SET reason = ?, hash = ? WHERE id = ?", (entry["reason"], head, number))
    for run, (_, head) in tips.items():
        connection.execute("UPDATE runs SET head = ? WHERE id = ?", (head, run))
        connection.execute("UPDATE instances SET head = ? WHERE ? IS NULL", (head, run))
    connection.close()


def test_a_recomputed_chain_is_found_by_the_head_that_was_noted(batch: Batch) -> None:
    first, newest = (run["head"] for run in onward.status(batch.job(), store=batch.store)["runs"])

    def forge(entry: dict[str, Any]) -> None:
        if (entry["run"], entry["seq"]) == (2, 2):
            entry["reason"] = "forged"

    recompute(batch, forge)
    assert verify(batch)["fits"]
    assert verify(batch, expected=first)["fits"]
    found = verify(batch, expected=newest)
    assert not found["fits"]
    assert newest in found["misfit"]["why"]


def test_an_older_chain_that_was_recomputed_no_longer_fits_the_run_after_it(batch: Batch) -> None:
    def forge(entry: dict[str, Any]) -> None:
        if (entry["run"], entry["seq"]) == (1, 2):
            entry["reason"] = "forged"

    recompute(batch, forge)
    misfit = verify(batch)["misfit"]
    assert (misfit["run"], misfit["seq"]) == ("2", 1)


def test_an_act_that_no_run_has_seen_yet_is_missed(batch: Batch) -> None:
    """Nothing but the head of its chain tells of it."""
    onward.rerun(batch.job(), all=True, store=batch.store)
    assert verify(batch)["fits"]
    edit(batch, "DELETE FROM history WHERE id = (SELECT max(id) FROM history)")
    misfit = verify(batch)["misfit"]
    assert (misfit["run"], misfit["event"], misfit["why"].startswith("it is missing")) == (None, None, True)


def test_chains_of_another_instance_are_not_looked_at(tmp_path: Path, batch: Batch) -> None:
    other = onward.Job("other", source=onward.iterable(lambda: [1]))

    @other.step(version="1")
    def same(record: int) -> int:
        return record

    onward.run(other, store=batch.store)
    edit(batch, "UPDATE history SET reason = 'x' WHERE run = 3")
    assert verify(batch)["fits"]
    assert not api.verify_log(other, store=batch.store)["fits"]
    found = api.verify_log(None, store=batch.store)
    assert (found["fits"], found["misfit"]["job"], found["misfit"]["run"]) == (False, "other", "3")


def test_a_long_history_stays_out_of_memory(batch: Batch) -> None:
    edit(
        batch,
        "INSERT INTO history (instance, run, seq, hash, at, event, reason) WITH RECURSIVE n(i) AS "
        "(SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 60000) SELECT 1, 2, i + 3, '', 1.5, 'e', printf('%900s', i) "
        "FROM n",
    )
    recompute_heads(batch)
    tracemalloc.start()
    assert verify(batch)["fits"]
    assert sum(1 for _ in api.log(batch.job(), store=batch.store)) == 60_008
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 16 << 20


def recompute_heads(batch: Batch) -> None:
    """Make what was inserted behind the chain of run 2 a part of it."""
    connection = apsw.Connection(batch.store)
    head = connection.execute("SELECT head FROM runs WHERE id = 2").fetchone()[0]
    with connection:
        rows = connection.execute(f"SELECT h.id, {HASHED} FROM history h WHERE h.run = 2 AND h.seq > 3 ORDER BY h.id")
        for number, *row in rows.fetchall():
            head = link_hash(head, tuple(row))
            connection.execute("UPDATE history SET hash = ? WHERE id = ?", (head, number))
        connection.execute("UPDATE runs SET head = ?, entries = 60003 WHERE id = 2", (head,))
    connection.close()


def test_an_effect_has_its_intent_its_key_and_only_if_asked_its_payload(tmp_path: Path) -> None:
    job = onward.Job("filings", source=onward.iterable(lambda: [{"n": n} for n in (1, 2)], key="n"))

    @job.effect("pay", key={"n": int}, keyed=True)
    def pay(payload: dict[str, Any]) -> str:
        if payload["n"] == 2:
            raise onward.Rejected("SECRET")
        return "RECEIPT"

    @pay.payload  # type: ignore[untyped-decorator, unused-ignore]
    def body(record: dict[str, Any]) -> dict[str, Any]:
        return {"n": record["n"], "fee": "SECRET"}

    @pay.confirm  # type: ignore[untyped-decorator, unused-ignore]
    def acknowledged(payload: dict[str, Any], pay: str) -> bool:
        return pay == "RECEIPT"

    store = str(tmp_path / "s.db")
    onward.run(job, store=store)
    found = list(api.log(job, store=store))
    said = {(one["key"], one["event"]): one for one in found}
    assert set(said) >= {(1, "effect_intended"), (1, "effect_confirmed"), (2, "effect_intended")}
    intended = said[1, "effect_intended"]
    assert intended["idempotency_key"].startswith("ow1-")
    assert intended["detail"]["effect"] == "pay"
    assert said[1, "effect_confirmed"]["idempotency_key"] == intended["idempotency_key"]
    assert "SECRET" not in str(found)
    assert "RECEIPT" not in str(found)
    asked = {(one["key"], one["event"]): one["payload"] for one in api.log(job, store=store, payloads=True)}
    assert asked[1, "effect_intended"] == {"n": 1, "fee": "SECRET"}
    assert asked[None, "run_started"] is None
    assert api.verify_log(job, store=store)["fits"]
