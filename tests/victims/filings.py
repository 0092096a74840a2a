"""The effect campaign's job: filings with a registry that misbehaves. VICTIM_SPEC names the file that says how."""

from __future__ import annotations

import asyncio
import json
import os
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx

import onward.http
from victims import crashes

PACE = 0.0
PULSE: crashes.Pulse | None = None
IDENTITY = ("entity", "jurisdiction", "filing_type", "filing_year")


@dataclass(frozen=True)
class Spec:
    """`flavour`: what the effect declares, of the words keyed, probe, confirm. `client`: onward's or httpx's own.
    Times in seconds; `pace`: what a send does before its request leaves."""

    registry: str
    client: str
    input: str
    flavour: str
    concurrency: int
    deadline: float
    settle: float
    expires: float | None
    confirm_within: float
    pace: float = 0.0


@dataclass
class Filing:
    entity: str
    jurisdiction: str
    filing_type: str
    filing_year: int
    fee: int


@dataclass
class Receipt:
    number: str
    fee: int


async def validate(filing: Filing) -> int:
    return filing.fee


async def submit(payload: dict[str, Any], idempotency_key: str, registry: httpx.AsyncClient) -> Receipt:
    # The registry's log goes by the right time.
    sent_at = time.time() - float(os.environ.get("VICTIM_CLOCK_AHEAD", "0")) - (PULSE.age() if PULSE else 0.0)
    await asyncio.sleep(PACE)
    crashes.pass_by("sending")
    headers = {"Idempotency-Key": idempotency_key, "X-Sent-At": repr(sent_at)}
    response = await registry.post("/filings", json=payload, headers=headers)
    crashes.pass_by("answered")
    response.raise_for_status()
    return Receipt(**response.json())


def body(filing: Filing, validate: int) -> dict[str, Any]:
    return {**{name: getattr(filing, name) for name in IDENTITY}, "fee": validate}


async def filed_already(idempotency_key: str, registry: httpx.AsyncClient) -> Any:
    response = await registry.get("/filings", params={"key": idempotency_key})
    if response.status_code == 404:
        return onward.ABSENT
    response.raise_for_status()
    return Receipt(**response.json())


async def acknowledged(filing: Filing, submit: Receipt, registry: httpx.AsyncClient) -> Any:
    response = await registry.get(f"/acknowledgements/{submit.number}")
    if response.status_code == 404:
        return False
    response.raise_for_status()
    fee = response.json()["fee"]
    return True if fee == filing.fee else onward.Mismatch(f"fee {fee}, {filing.fee} due")


async def record(filing: Filing, submit: Receipt) -> str:
    return f"{filing.entity}: {submit.number}, {submit.fee} USD"


def declare(spec: Spec) -> onward.Job:
    job = onward.Job(
        "filings",
        source=onward.jsonl(spec.input, key=IDENTITY),
        record=Filing,
        concurrency=spec.concurrency,
        outage_limit=20.0,  # where a registry resets every connection, the next run is to try several again
    )

    @job.resource
    async def registry() -> AsyncIterator[httpx.AsyncClient]:
        make = onward.http.client if spec.client == "onward" else httpx.AsyncClient
        async with make(base_url=spec.registry, timeout=20, verify=False) as client:  # no certificates to load
            yield client

    job.step(version="1")(validate)
    effect = job.effect(
        "campaign-report",
        key=IDENTITY,
        version="1",
        keyed="keyed" in spec.flavour,
        deadline=spec.deadline,
        settle=spec.settle,
        expires=spec.expires,
        confirm_within=spec.confirm_within,
        retry=onward.Retry(attempts=4, base=0.05, cap=0.2),
    )(submit)
    effect.payload(body)
    if "probe" in spec.flavour:
        effect.probe(filed_already)
    if "confirm" in spec.flavour:
        effect.confirm(acknowledged)
    job.step(version="1")(record)
    return job


if "VICTIM_SPEC" in os.environ:
    _spec = Spec(**json.loads(Path(os.environ["VICTIM_SPEC"]).read_text()))
    PACE, PULSE = _spec.pace, crashes.Pulse()
    job = declare(_spec)
