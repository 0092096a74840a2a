"""File the annual reports of US entities with a registry: validate, submit, reconcile. Each is filed once.

QUEUED → VALIDATED → SUBMITTED → RECONCILED: a record in the source, with the checkpoint of `validate`, with the receipt
of `submit`, with its acknowledgement compared.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator
from typing import Any

import httpx
from prepare import prepared
from pydantic import BaseModel

import onward.http
from onward import Group, Job, jsonl

IDENTITY = ("entity", "jurisdiction", "filing_type", "filing_year")


class Filing(BaseModel):
    entity: str
    name: str
    jurisdiction: str
    filing_type: str
    filing_year: int
    fee: int


class Params(BaseModel):
    """`due`: a file of filings; where it is not given, those that `prepare.py` makes."""

    registry: str = "http://127.0.0.1:8700"
    due: str | None = None


class Checked(BaseModel):
    title: str
    fee: int


class Receipt(BaseModel):
    number: str
    fee: int


job = Job(
    "annual-reports",
    source=lambda p: jsonl(p.due or str(prepared()), key=IDENTITY),
    record=Filing,
    params=Params,
    concurrency=16,
)


@job.resource
async def registry(params: Params) -> AsyncIterator[httpx.AsyncClient]:
    """One client for all. It sends nothing twice by itself: to send again is onward's decision."""
    async with onward.http.client(base_url=params.registry, timeout=8.0) as client:
        yield client


@job.step
async def validate(filing: Filing) -> Checked:
    if filing.fee <= 0:
        raise onward.Invalid(f"the fee is {filing.fee}")
    if not filing.name.strip():
        raise onward.Invalid("the entity has no name")
    return Checked(title=f"{filing.filing_type} {filing.filing_year} of {filing.name.strip()}", fee=filing.fee)


@job.effect("annual-report", key=IDENTITY, deadline=10.0, settle=5.0, group=Group("jurisdiction", concurrency=4))
async def submit(payload: dict[str, Any], idempotency_key: str, registry: httpx.AsyncClient) -> Receipt:
    headers = {"Idempotency-Key": idempotency_key, "X-Sent-At": repr(time.time())}
    response = await registry.post("/filings", json=payload, headers=headers)
    response.raise_for_status()
    return Receipt.model_validate(response.json())


@submit.payload
def report(filing: Filing, validate: Checked) -> dict[str, Any]:
    return {**{name: getattr(filing, name) for name in IDENTITY}, "title": validate.title, "fee": validate.fee}


@submit.probe
async def filed_already(filing: Filing, idempotency_key: str, registry: httpx.AsyncClient) -> Any:
    """404 is believed: the lookup knows at once what the registry has applied. What raises here means "ask again"."""
    where = {"key": idempotency_key, "jurisdiction": filing.jurisdiction}
    response = await registry.get("/filings", params=where)
    if response.status_code == 404:
        return onward.ABSENT
    response.raise_for_status()
    return Receipt.model_validate(response.json())


@submit.confirm
async def acknowledged(filing: Filing, submit: Receipt, registry: httpx.AsyncClient) -> bool | onward.Mismatch:
    response = await registry.get(f"/acknowledgements/{submit.number}")
    if response.status_code == 404:
        return False
    response.raise_for_status()
    fee = response.json()["fee"]
    return True if fee == filing.fee else onward.Mismatch(f"fee {fee}, {filing.fee} due")


@job.step
async def reconciled(filing: Filing, submit: Receipt) -> str:
    """What goes into the books: by now the acknowledgement has the same number and fee."""
    return f"{filing.entity} {filing.filing_year}: {submit.number}, {submit.fee} USD"
