"""Case 28: a wrong API key is retried for every record."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from acceptance.jobs import Place, Ran, plain, wait_until
from acceptance.portal import Portal, portal

KEY = "sk-live-4f9a27c1d8e35b60"
RECORDS, CONCURRENCY = 1000, 10
JOB = """
import httpx
BASE = "http://127.0.0.1:" + (HERE / "port").read_text()
job = onward.Job("answers", source=onward.jsonl("in.jsonl", key="id"), concurrency=10)

@job.resource
async def model():
    headers = {"Authorization": "Bearer " + os.environ["OPENAI_API_KEY"]}
    async with httpx.AsyncClient(base_url=BASE, headers=headers) as client:
        yield client

@job.step(retry=onward.Retry(attempts=5))
async def answer(record, model):
"""
BY_HTTPX = """
    found = await model.get(f"/{record['tenant']}/{record['id']}")
    found.raise_for_status()
    return found.json()["key"]
"""
BY_OPENAI = """
    import openai
    provider = openai.AsyncOpenAI(base_url=BASE + "/model", http_client=model, max_retries=0)
    return (await provider.responses.create(model="small", input=str(record["id"]))).key
"""
EFFECT = (
    JOB.partition("@job.step")[0]
    + """
@job.effect("message", key="id", deadline=5.0, settle=0.0)
async def answer(record, model):
    found = await model.get(f"/{record['tenant']}/{record['id']}")
    found.raise_for_status()
    return found.json()["key"]

@answer.probe
async def answered(record, model):
    found = await model.get(f"/lookups/{record['id']}")
    found.raise_for_status()
    return onward.ABSENT
"""
)
BAD_KEY = {"error": {"message": f"Incorrect API key provided: {KEY}", "code": "invalid_api_key"}}
NO_CREDIT = {"error": {"message": "You exceeded your current quota", "code": "insufficient_quota"}}


def a_place(folder: Path, text: str, records: int = RECORDS, tenants: int = 1) -> Place:
    """Record `n` is that of the tenant `n % tenants`; there is one, `model`, unless more are wanted."""
    place = Place(folder, text)
    names = ["model"] if tenants == 1 else [f"tenant{number}" for number in range(tenants)]
    place.write("in.jsonl", [{"id": number, "tenant": names[number % tenants]} for number in range(records)])
    return place


def run(place: Place, *words: str) -> Ran:
    return place.run(*words, env={"OPENAI_API_KEY": KEY})


def stopped_at_once(place: Place, server: Portal, ran: Ran, status: int) -> None:
    """A handful of requests after the first refusal, one message, no record harmed, and the key nowhere."""
    assert ran.code == 4
    assert len(server.requests(status=status)) <= 2 * CONCURRENCY
    assert place.failures() == []
    assert ran.said.count("stopped: ") == 1
    assert "Mend that, then: " in ran.said
    plain(ran.said)
    kept = [path.read_bytes() for path in (place.folder / ".onward").iterdir()]
    assert all(KEY.encode() not in data for data in [ran.said.encode(), *kept])


@pytest.mark.parametrize("asks", [BY_HTTPX, BY_OPENAI], ids=["httpx", "openai"])
def test_a_key_that_is_bad_from_the_start(tmp_path: Path, asks: str) -> None:
    with portal(tmp_path) as server:
        server.rule("model", 401, body=BAD_KEY)
        place = a_place(tmp_path, JOB + asks)
        ran = run(place)
        stopped_at_once(place, server, ran, 401)
        assert ran.counts == {"pending": RECORDS}


@pytest.mark.parametrize(
    ("text", "where", "status", "body", "records"),
    [
        (JOB + BY_HTTPX, "model", 401, BAD_KEY, RECORDS),
        (JOB + BY_HTTPX, "model", 429, NO_CREDIT, 200),
        (EFFECT, "lookups", 401, BAD_KEY, 200),
    ],
    ids=["401", "no credit in a 429", "401 to an effect's questions"],
)
def test_a_key_that_is_revoked_on_the_way(
    tmp_path: Path, text: str, where: str, status: int, body: Any, records: int
) -> None:
    with portal(tmp_path) as server:
        place = a_place(tmp_path, text, records)
        started = place.start("run", "job.py", env={"OPENAI_API_KEY": KEY})
        wait_until(lambda: len(server.requests("model")) >= records * 3 // 10)
        server.rule(where, status, body=body)
        assert started.wait(60) == 4
        assert len(server.requests(status=status)) <= 2 * CONCURRENCY
        counts = {state: number for state, number in place.status()["counts"].items() if number}
        answered = len(server.requests("model", 200))
        assert counts.pop("succeeded") == answered
        assert counts.pop("pending") + counts.pop("unconfirmed", 0) == records - answered
        assert counts == {}
        server.rule(where, 200, body={"key": 1})
        assert run(place).counts == {"succeeded": records}


@pytest.mark.parametrize("text", [JOB + BY_HTTPX, EFFECT], ids=["step", "effect"])
def test_one_tenant_is_refused_and_the_others_are_served(tmp_path: Path, text: str) -> None:
    """Also where the very first record is refused, and sooner than others are answered."""
    with portal(tmp_path) as server:
        server.rule("tenant0", 403, delay=0.0)
        place = a_place(tmp_path, text, 100, tenants=5)
        ran = run(place)
        assert (ran.code, ran.counts) == (1, {"succeeded": 80, "quarantined": 20})
        assert {(one["key"] % 5, one["kind"], one["attempts"]) for one in place.failures()} == {(0, "rejected", 1)}
        assert len(server.requests(status=403)) == 20


def test_where_everybody_is_refused_the_run_stops(tmp_path: Path) -> None:
    with portal(tmp_path) as server:
        server.rule("model", 403)
        place = a_place(tmp_path, JOB + BY_HTTPX)
        ran = run(place)
        stopped_at_once(place, server, ran, 403)
        assert ran.counts == {"pending": RECORDS}
