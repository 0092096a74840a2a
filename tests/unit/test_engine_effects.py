"""Effects in whole runs: what is durable before the first byte leaves, whose key is sent, and what a run stays for."""

from __future__ import annotations

import asyncio
import json
import time
from collections import Counter
from pathlib import Path
from typing import Any

import apsw
import pytest

import onward
from onward import api
from onward.engine.journal import Journal
from onward.policy import outage
from onward.policy.identity import idempotency_key
from onward.ports.work import Batch, Outcome
from onward.store.sqlite.work import SqliteWorkStore


def rows(ids: Any) -> Any:
    return onward.iterable(lambda: [{"id": n} for n in ids], key="id", version=str(list(ids)))


class FarSide:
    """Counts what is sent by key; `fails` raises where it is to be in vain."""

    def __init__(self) -> None:
        self.sends: Counter[str] = Counter()

    def job(self, name: str = "filings", ids: Any = range(2), fails: Any = None, **declared: Any) -> onward.Job:
        job = onward.Job(name, source=rows(ids))

        @job.effect("report", key="id", **declared)
        async def submit(record: Any, idempotency_key: str) -> str:
            self.sends[idempotency_key] += 1
            if fails is not None:
                fails(self.sends[idempotency_key])
            return idempotency_key

        self.submit = submit
        return job


def reset_at_first(sends: int) -> None:
    if sends == 1:
        raise ConnectionResetError(104, "reset")


def keys_of(ids: Any) -> set[str]:
    return {idempotency_key("report", {"id": n}) for n in ids}


def test_nothing_is_sent_before_its_intent_is_durable(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each send looks into the store through a connection of its own."""
    path, seen = tmp_path / "store.db", []
    job = onward.Job("filings", source=rows(range(12)), concurrency=4)

    @job.effect("report", key="id")
    async def submit(payload: Any, idempotency_key: str) -> str:
        connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)
        query = "SELECT state, payload FROM effects WHERE key = ?"
        seen.append((connection.execute(query, (idempotency_key,)).fetchone(), payload))
        connection.close()
        await asyncio.sleep(0.1)  # so that what comes of it is never in the same commit
        return "receipt"

    @submit.payload
    def body(record: Any) -> Any:
        return {"number": record["id"]}

    real = SqliteWorkStore.write

    def slow(self: SqliteWorkStore, run: int, batch: Batch) -> Outcome:
        time.sleep(0.01)  # a send that does not wait for the commit begins within this
        return real(self, run, batch)

    monkeypatch.setattr(SqliteWorkStore, "write", slow)
    assert onward.run(job, store=str(path)).exit_code == 0
    assert len(seen) == 12
    for found, payload in seen:
        assert found is not None
        assert (found[0], json.loads(found[1])) == ("intended", payload)


def test_the_key_is_that_of_the_obligation_in_every_attempt(tmp_path: Path) -> None:
    far = FarSide()

    def not_now(sends: int) -> None:
        if sends < 3:
            raise onward.Transient("not now", sent=False)

    job = far.job(fails=not_now, retry=onward.Retry(attempts=3, base=0.01))
    assert onward.run(job, store=str(tmp_path / "store.db")).exit_code == 0
    assert far.sends == dict.fromkeys(keys_of(range(2)), 3)


def test_neither_order_nor_name_nor_division_of_jobs_sends_again(tmp_path: Path) -> None:
    far, store = FarSide(), str(tmp_path / "store.db")
    assert onward.run(far.job(ids=range(8)), store=store).exit_code == 0
    assert far.sends == dict.fromkeys(keys_of(range(8)), 1)
    for name, ids in (("scored again", range(7, -1, -1)), ("part one", (5, 2, 0)), ("part two", (7, 1, 3, 4, 6))):
        result = onward.run(far.job(name, ids), store=store)
        assert (result.exit_code, result.counts["succeeded"]) == (0, len(ids))
    assert far.sends == dict.fromkeys(keys_of(range(8)), 1)


def test_a_run_ends_in_an_outage_when_persons_have_to_look_at_all_that_is_left(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The far side forgets keys while it is down: nobody is left to be tried, and nothing to stay for."""
    monkeypatch.setattr(outage, "FIRST_PAUSE", 0.02)

    def down(sends: int) -> None:
        raise ConnectionResetError(104, "reset")

    job = FarSide().job(ids=range(8), fails=down, keyed=True, deadline=0.3, settle=0, expires=0.5)
    result = onward.run(job, store=str(tmp_path / "store.db"), concurrency=8, max_time=20)
    assert (result.exit_code, result.counts["unconfirmed"]) == (1, 8), result.reason


def test_a_send_begins_soon_after_its_intent_however_slowly_its_resources_open(tmp_path: Path) -> None:
    """The time in which it may land counts from its intent: what has used that up is made anew before it is sent."""
    path, begun = tmp_path / "store.db", []
    job = onward.Job("filings", source=rows(range(3)))

    @job.resource
    async def far_side() -> Any:
        await asyncio.sleep(1.5)
        yield "session"

    @job.effect("report", key="id", deadline=2, settle=0)
    async def submit(record: Any, far_side: str, idempotency_key: str) -> str:
        connection = apsw.Connection(str(path), flags=apsw.SQLITE_OPEN_READWRITE)
        query = "SELECT intended_at FROM effects WHERE key = ?"
        begun.append(time.time() - connection.execute(query, (idempotency_key,)).get)
        connection.close()
        return "receipt"

    result = onward.run(job, store=str(path))
    assert (result.exit_code, len(begun)) == (0, 3)
    assert max(begun) < 1.0


def test_a_run_that_stops_while_resources_open_has_sent_nothing(tmp_path: Path) -> None:
    job = onward.Job("filings", source=rows(range(3)))

    @job.resource
    async def far_side() -> Any:
        await asyncio.sleep(30)
        yield "session"

    @job.effect("report", key="id", deadline=2, settle=0)
    async def submit(record: Any, far_side: str) -> str:
        return "receipt"

    result = onward.run(job, store=str(tmp_path / "store.db"), max_time=1, grace=0.2)
    assert (result.exit_code, result.counts["pending"]) == (3, 3)


def test_what_onward_itself_says_no_to_inside_a_send_says_nothing_of_what_was_sent(tmp_path: Path) -> None:
    far, store = FarSide(), str(tmp_path / "store.db")

    def looks_elsewhere(sends: int) -> None:
        list(onward.results("another", store=str(tmp_path / "none.db")))

    for _ in range(3):
        result = onward.run(far.job(ids=range(1), fails=looks_elsewhere), store=store, wait=0)
        assert result.counts["unconfirmed"] == 1
    assert far.sends == dict.fromkeys(keys_of(range(1)), 1)


def test_what_was_declared_when_it_was_sent_holds_for_who_asks_about_it(tmp_path: Path) -> None:
    """Edited to less, or less in another job: what was sent may still land for as long as was said then."""
    far, asked, store = FarSide(), [], str(tmp_path / "store.db")

    def job(name: str, fails: Any, settle: float) -> onward.Job:
        made = far.job(name, ids=range(1), fails=fails, deadline=0.5, settle=settle, probe_first=False)

        @far.submit.probe
        async def filed(idempotency_key: str) -> Any:
            asked.append(time.time())
            return "receipt"

        return made

    sent = time.time()
    result = onward.run(job("first", reset_at_first, settle=4.0), store=store, wait=0)
    assert (result.counts["unconfirmed"], asked) == (1, [])
    result = onward.run(job("first", reset_at_first, settle=0.0), store=store, wait=20)
    assert (result.exit_code, len(asked)) == (0, 1)
    assert asked[0] - sent > 4.0


@pytest.mark.parametrize("answer", ["raises", "nothing", "unknown"])
def test_a_probe_that_does_not_answer_says_nothing(tmp_path: Path, answer: str) -> None:
    far, asked = FarSide(), []
    job = far.job(ids=range(1), fails=reset_at_first, deadline=0.1, settle=0, probe_first=False)

    @far.submit.probe
    async def filed(idempotency_key: str) -> Any:
        asked.append(idempotency_key)
        if answer == "raises":
            raise ConnectionResetError(104, "reset")
        return onward.UNKNOWN if answer == "unknown" else None

    result = onward.run(job, store=str(tmp_path / "store.db"), wait=1.0)
    assert (result.exit_code, result.counts["unconfirmed"]) == (1, 1)
    assert len(asked) >= 1
    assert set(far.sends.values()) == {1}


@pytest.mark.parametrize("said", [True, False])
def test_a_probe_that_answers_yes_or_no_brings_no_receipt(tmp_path: Path, said: bool) -> None:
    far, store = FarSide(), str(tmp_path / "store.db")
    job = far.job(ids=range(1), deadline=0.1, settle=0)
    far.submit.probe(lambda idempotency_key: said)
    result = onward.run(job, store=store, wait=0)
    assert (result.exit_code, result.counts["unconfirmed"], far.sends) == (1, 1, {})
    (failure,) = api.failures(job, store=store)
    assert f"the probe returned {said}, which is no receipt: return the receipt, onward.ABSENT" in failure["error"]


def test_what_a_confirmation_says_is_quoted_nowhere(tmp_path: Path) -> None:
    far, store = FarSide(), str(tmp_path / "store.db")
    job = far.job(ids=range(1))
    far.submit.confirm(lambda payload, submit: {"ssn": "SECRET"})
    assert onward.run(job, store=store, wait=0).counts["unconfirmed"] == 1
    entries = [one for one in api.log(job, store=store) if one["event"] == "effect_unconfirmed"]
    assert "the confirm returned dict: neither True, False, onward.UNKNOWN nor onward.Mismatch" in entries[-1]["reason"]
    assert "SECRET" not in str(entries)


@pytest.mark.parametrize("declared", [bool, bool | None, "bool", "bool | None"])
def test_a_bool_is_a_receipt_where_it_is_declared_as_one(tmp_path: Path, declared: Any) -> None:
    job = onward.Job("filings", source=rows(range(1)))

    def submit(record: Any, idempotency_key: str) -> bool:
        raise AssertionError("it is there already")

    submit.__annotations__["return"] = declared
    effect = job.effect("report", key="id")(submit)
    effect.probe(lambda idempotency_key: True)
    assert onward.run(job, store=str(tmp_path / "store.db")).counts["succeeded"] == 1


def test_nothing_is_sent_under_a_lease_that_is_old(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another run may have taken over: the record goes back, and is sent once the lease is renewed."""
    far, refused = FarSide(), []
    real = Journal.may_send

    def old_at_first(self: Journal) -> bool:
        if len(refused) < 3:
            refused.append(dict(far.sends))
            self._renewed_at -= 1e6
            answer = real(self)
            self._renewed_at += 1e6
            return answer
        return real(self)

    monkeypatch.setattr(Journal, "may_send", old_at_first)
    assert onward.run(far.job(ids=range(1)), store=str(tmp_path / "store.db")).exit_code == 0
    assert refused == [{}] * 3
    assert set(far.sends.values()) == {1}


def test_a_run_stays_for_what_an_outage_has_left_unconfirmed(tmp_path: Path) -> None:
    """Nothing but those few is left, and they wait at a gate that is shut for a moment."""
    far = FarSide()
    result = onward.run(far.job(ids=range(6), fails=reset_at_first, keyed=True), store=str(tmp_path / "store.db"))
    assert (result.exit_code, result.counts["succeeded"]) == (0, 6)
    assert set(far.sends.values()) == {2}


def test_a_paused_job_is_stayed_for_as_long_as_told_and_no_longer(tmp_path: Path) -> None:
    far, store = FarSide(), str(tmp_path / "store.db")
    job = far.job(fails=reset_at_first, keyed=True)
    assert onward.run(job, store=store, wait=0).counts["unconfirmed"] == 2
    api.pause(job, store=store)
    assert onward.run(job, store=store, wait=0.2).counts["unconfirmed"] == 2
    assert set(far.sends.values()) == {1}
    api.resume(job, store=store)
    assert onward.run(job, store=store).exit_code == 0
    assert set(far.sends.values()) == {2}


@pytest.mark.parametrize("group", [None, "CA"])
def test_nothing_at_all_begins_under_a_pause_that_was_there_before_the_run(tmp_path: Path, group: str | None) -> None:
    store, asked, began = str(tmp_path / "store.db"), [], []
    source = onward.iterable(lambda: [{"id": n, "state": "CA"} for n in range(40)], key="id", version="1")
    job = onward.Job("paused", source=source, group="state", concurrency=4)

    @job.step
    def before(record: Any) -> int:
        began.append(record["id"])
        return 1

    @job.effect("filing", key="id", settle=0)
    def file(record: Any) -> None:
        raise TimeoutError

    @file.probe
    def found(record: Any) -> Any:
        asked.append(record["id"])
        return onward.UNKNOWN

    assert onward.run(job, store=store, wait=0, limit=10).counts["unconfirmed"] == 10
    api.pause(job, store=store, group=group)
    said = len(asked), len(began)
    time.sleep(1.1)  # what is unconfirmed is due by then
    result = onward.run(job, store=store, wait=0.2)
    assert (result.exit_code, len(asked), len(began)) == (3, *said)


def test_what_another_run_has_put_at_a_gate_is_taken_up(tmp_path: Path) -> None:
    """As a run does that met an outage and has ended meanwhile; this one has met none."""
    path, put = str(tmp_path / "store.db"), [0]
    job = onward.Job("plain", source=rows(range(200)), concurrency=1)

    @job.step
    def work(record: Any) -> int:
        time.sleep(0.005)  # so that little is claimed ahead
        if not put[-1]:
            connection = apsw.Connection(path)
            connection.set_busy_timeout(5000)
            connection.execute("UPDATE records SET gate = ? WHERE state = 'pending'", ('["","work"]',))
            put.append(connection.changes())
            connection.close()
        return int(record["id"])

    result = onward.run(job, store=path)
    assert put[-1] > 0
    assert (result.exit_code, result.counts["succeeded"]) == (0, 200)
