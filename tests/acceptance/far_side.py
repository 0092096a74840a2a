"""A job with one effect against the registry of examples/filings, and what that registry's own log says of it."""

from __future__ import annotations

import json
import os
import sqlite3
from collections import Counter
from contextlib import closing
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple

from acceptance.jobs import Place, surroundings, wait_until
from torture.registry import Registry

JOB = """
import httpx, onward.http
job = onward.Job("@NAME@", source=onward.jsonl("in.jsonl", key="id"))

@job.resource
async def there():
    async with onward.http.client(base_url=(HERE / "url").read_text(), timeout=@PATIENCE@) as client:
        yield client

@job.effect(@EFFECT@)
async def send(payload, idempotency_key, there):
    headers = {"Idempotency-Key": idempotency_key, "X-Sent-At": repr(time.time())}
    answer = await there.post("/filings", json=payload, headers=headers)
    answer.raise_for_status()
    return answer.json()

@send.payload
def body(record):
    return {
        "entity": record["id"], "jurisdiction": "US-CA", "filing_type": record.get("revision", "first"),
        "filing_year": 2025, "fee": record.get("fee", 50),
    }
"""
PROBE = """
@send.probe
async def was_sent(idempotency_key, there):
    answer = await there.get("/filings", params={"key": idempotency_key})
    if answer.status_code == 404:
        return onward.ABSENT
    answer.raise_for_status()
    return answer.json()
"""
CLOCK = """
import time
ahead, real = {seconds}, time.time
time.time = lambda: real() + ahead
"""


class Request(NamedTuple):
    """One request as the registry logged it."""

    entity: str
    key: str
    fate: str


def job(effect: str, *parts: str, name: str = "notices", patience: float = 20.0) -> str:
    """The job's text. `effect`: what is declared; `patience`: seconds after which its client gives up."""
    text = JOB.replace("@NAME@", name).replace("@PATIENCE@", str(patience)).replace("@EFFECT@", effect)
    return text + "".join(parts)


def a_place(folder: Path, registry: Registry, text: str, records: int, **fields: Any) -> Place:
    """Records `n01`, `n02`, …, in a job that talks to the registry."""
    place = Place(folder, text)
    (folder / "url").write_text(registry.url)
    place.write("in.jsonl", names(records, **fields))
    return place


def names(records: int, **fields: Any) -> list[dict[str, Any]]:
    return [{"id": f"n{number:02}", **fields} for number in range(1, records + 1)]


def requests(registry: Registry, what: str = "submit") -> list[Request]:
    """All requests, in the order in which they came."""
    with closing(sqlite3.connect(f"{registry.book.as_uri()}?mode=ro", uri=True)) as book:
        rows = book.execute("SELECT obligation, key, fate FROM requests WHERE what = ? ORDER BY id", (what,))
        return [Request((obligation or "").split("|")[0], key, fate or "") for obligation, key, fate in rows]


def sent(registry: Registry) -> Counter[str]:
    """How many requests to submit there were for each entity."""
    return Counter(request.entity for request in requests(registry))


def applied(registry: Registry) -> Counter[str]:
    """How often each entity's obligation was applied."""
    found: Counter[str] = Counter()
    for verdict in registry.verdicts():
        found[verdict.obligation.split("|")[0]] += verdict.applied
    return found


def kill_once_applied(place: Place, registry: Registry, *entities: str, **options: Any) -> None:
    """Start a run and kill it when the registry has these on file and has not answered."""
    run = place.start("run", "job.py", **options)
    try:
        wait_until(lambda: all(applied(registry)[entity] for entity in entities))
    finally:
        run.kill()
        run.wait()


def clock_ahead(folder: Path, seconds: float) -> dict[str, str]:
    """The environment of a command whose clock is ahead."""
    (folder / "ahead").mkdir(exist_ok=True)
    (folder / "ahead" / "sitecustomize.py").write_text(CLOCK.format(seconds=seconds))
    return {"PYTHONPATH": os.pathsep.join([str(folder / "ahead"), surroundings()["PYTHONPATH"]])}


def events(place: Place, key: str) -> list[str]:
    """What the history has of a record's effect, in order; an intent that was stated anew counts once."""
    history = json.loads(place.fine("show", "job.py", key, "--json"))["history"]
    return [name for name, _ in groupby(one["event"] for one in history if one["event"].startswith("effect_"))]
