"""onward copy by the command line: a half-done job goes to another store, and is finished there."""

from __future__ import annotations

import json
import random
import sqlite3
import subprocess
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import psycopg
import pytest

from acceptance.far_side import requests
from acceptance.jobs import Place, plain, wait_until
from acceptance.test_filings_example import FILINGS, Office
from helpers import postgres
from judge import steplog
from onward import runner
from onward.errors import StoreError
from onward.ports.moving import Closed
from torture.registry import Registry, running

JOB = """
job = onward.Job("case", source=onward.jsonl("in.jsonl", key="id"), concurrency=8)

@job.step
async def first(record):
    started(record["id"], "first")
    import asyncio
    await asyncio.sleep(%s)
    return {"odd": record["text"], "n": 1.0 * record["id"]}

@job.step
def second(record, first):
    started(record["id"], "second")
    return [first["n"], first["odd"]]
"""
MANY = 6000


@pytest.fixture
def server(database: str) -> Iterator[str]:
    schema = postgres.new_schema()
    yield postgres.in_schema(database, schema)
    with psycopg.connect(database, autocommit=True) as own:
        own.execute(f"DROP SCHEMA IF EXISTS {schema} CASCADE")


def a_place(folder: Path, records: int, pause: float = 0.005) -> Place:
    folder.mkdir(exist_ok=True)
    place = Place(folder, JOB % pause)
    place.write("in.jsonl", [{"id": number, "text": f"a\0b\ud800 {number}"} for number in range(records)])
    return place


def undisturbed(folder: Path, records: int) -> bytes:
    place = a_place(folder, records)
    place.fine("run", "job.py")
    return exported(place)


def exported(place: Place, *words: str) -> bytes:
    place.fine("export", "job.py", "--out", "out.jsonl", *words)
    return (place.folder / "out.jsonl").read_bytes()


def killed_half_way(place: Place, records: int, *words: str) -> None:
    run = place.start("run", "job.py", *words)
    log = place.folder / "calls.log"
    wait_until(lambda: log.exists() and len(steplog.read(log)) >= records)
    run.kill()
    run.wait()


@pytest.mark.parametrize("way", ["to postgres", "to sqlite"])
def test_a_killed_job_is_finished_in_the_other_store(tmp_path: Path, server: str, way: str) -> None:
    """The export is byte for byte that of a run that nobody disturbed, and what was done is not done again."""
    place = a_place(tmp_path / "moved", 300)
    old, new = (".onward/onward.db", server) if way == "to postgres" else (server, "new.db")
    env = {"ONWARD_LEASE": "1"}
    run = place.start("run", "job.py", "--store", old, env=env)
    wait_until(lambda: (place.folder / "calls.log").exists() and len(place.calls()) >= 300)
    run.kill()
    run.wait()
    done = len(place.calls("second"))
    wait_until(lambda: place.onward("copy", "job.py", "--from", old, "--to", new).returncode == 0)
    refused = place.onward("run", "job.py", "--store", old)
    assert refused.returncode == 2 and "was moved from here to" in refused.stderr
    plain(refused.stderr)
    status = json.loads(place.fine("status", "job.py", "--store", old, "--json"))
    assert status["moved"]["whole"] and status["moved"]["store"] in refused.stderr
    assert "where it goes on" in place.fine("status", "job.py", "--store", old)
    place.fine("run", "job.py", "--store", new)
    assert exported(place, "--store", new) == undisturbed(tmp_path / "alone", 300)
    assert "the history fits" in place.fine("log", "job.py", "--store", new, "--verify")
    assert "the history fits" in place.fine("log", "job.py", "--store", old, "--verify")
    kept = status["counts"]["succeeded"]
    assert 0 < kept <= done < 300 and len(place.calls("second")) - done == 300 - kept


def applied(registry: Registry) -> int:
    """How many filings it has, once it has begun its book."""
    try:
        return sum(one.applied for one in registry.verdicts())
    except sqlite3.OperationalError:
        return 0


@pytest.mark.timeout(400)
def test_filings_are_applied_once_across_both_stores(tmp_path: Path, server: str) -> None:
    with running(tmp_path / "registry.db", "--seed", "7", "--switch", "reset_after_apply=0.2") as registry:
        office = Office(tmp_path, registry)
        run = office.place.start("run", "job.py", *office.words())
        wait_until(lambda: applied(registry) >= FILINGS // 3)
        run.kill()
        run.wait()
        office.place.fine("copy", "job.py", "--to", server)
        run = office.place.start("run", "job.py", *office.words(), "--store", server, env={"ONWARD_LEASE": "2"})
        wait_until(lambda: applied(registry) >= FILINGS * 2 // 3)
        run.kill()
        run.wait()
        ran = office.run("--store", server)
        assert (ran.code, ran.counts) == (0, {"succeeded": FILINGS})
        office.applied_once()
        assert any("reset_after_apply" in request.fate for request in requests(registry))
        refused = office.place.onward("run", "job.py", *office.words())
        assert refused.returncode == 2 and "was moved from here to" in refused.stderr
        office.applied_once()


def standing(url: str) -> Closed | None:
    try:
        if not runner.is_there(url):
            return None
        desk = runner.open_desk(url)
    except StoreError as error:
        assert "older schema" in str(error)  # killed between two migrations: it holds nothing yet
        return None
    try:
        found = desk.movable("case")
        return found[0].closed if found else None
    finally:
        desk.close()


@pytest.mark.timeout(400)
def test_kill_9_at_any_moment_leaves_one_store_and_the_same_command_finishes_it(tmp_path: Path, server: str) -> None:
    place = a_place(tmp_path, MANY, 0)
    place.fine("run", "job.py", "--limit", str(MANY // 2))
    old = str(tmp_path / ".onward" / "onward.db")
    draw, seen, kills = random.Random(11), Counter[tuple[Closed | None, Closed | None]](), 0
    for attempt in range(50):
        copying = place.start("copy", "job.py", "--to", server)
        try:
            code = copying.wait(draw.uniform(0.1, 0.3) * 1.2**attempt)  # a busy machine gets there, too
        except subprocess.TimeoutExpired:
            copying.kill()
            copying.wait()
            kills += 1
            now = standing(old), standing(server)
            seen[now] += 1
            assert (now[0] is Closed.NO) != (now[1] is Closed.NO) or now == (Closed.MOVED, Closed.ARRIVING)
            continue
        if code == 0:
            break
        assert "alive" not in (tmp_path / "said.txt").read_text()
    assert kills >= 3, seen
    assert (standing(old), standing(server)) == (Closed.MOVED, Closed.NO)
    place.fine("run", "job.py", "--store", server)
    assert Counter(place.calls("second")) == Counter(range(MANY))
    rows = [json.loads(line) for line in exported(place, "--store", server).splitlines()]
    assert [row["key"] for row in rows] == list(range(MANY))
    assert "the history fits" in place.fine("log", "job.py", "--store", server, "--verify")


def test_which_job_is_said_by_the_store_if_it_has_one(tmp_path: Path) -> None:
    place = a_place(tmp_path, 5)
    place.fine("run", "job.py")
    words = ("copy", "--from", ".onward/onward.db", "--to", "new.db")
    (tmp_path / "other.py").write_text((tmp_path / "job.py").read_text().replace('"case"', '"more"'))
    place.fine("run", "other.py")
    refused = place.onward(*words)
    assert refused.returncode == 2
    assert "which job? Give JOB or --job NAME; jobs in" in refused.stderr and "case, more" in refused.stderr
    assert not (tmp_path / "new.db").exists()
    assert "job case: 5 records" in place.fine(*words, "--job", "case")
    assert "job more: 5 records" in place.fine(*words, "--job", "more")
    old = place.onward("export", "job.py", "--out", "old.jsonl")
    assert (old.returncode, len((tmp_path / "old.jsonl").read_text().splitlines())) == (0, 5)
    assert "the job goes on in" in old.stderr and "new.db; what is done there is not in it" in old.stderr
    said = place.fine("run", "job.py", "--store", "new.db", "--json")
    assert json.loads(said)["counts"]["succeeded"] == 5


def test_what_is_wrong_is_said_in_words(tmp_path: Path) -> None:
    place = a_place(tmp_path, 5)
    place.fine("run", "job.py")
    for words, why in (
        (("job.py", "--to", ".onward/onward.db"), "are the same store"),
        (("job.py", "--from", "nowhere.db", "--to", "new.db"), "there is no store at"),
        (("job.py", "--to", "sqlite://"), "a store in memory ends with its run"),
        (("job.py", "--to", "new.db", "--instance", "x"), "has no instance 'x'"),
        (("--to", "new.db"), "which store is it to leave?"),
        (("job.py",), "--to"),
    ):
        refused = place.onward("copy", *words)
        assert refused.returncode == 2 and why in refused.stderr, refused.stderr
        plain(refused.stderr)
    place.fine("run", "job.py", "--store", "new.db")
    refused = place.onward("copy", "job.py", "--to", "new.db")
    assert refused.returncode == 2 and "already; nothing was copied" in refused.stderr
    place.fine("run", "job.py")
