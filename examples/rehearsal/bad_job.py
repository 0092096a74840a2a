"""A job with three planted faults, for `onward rehearse bad_job.py -p office=URL`: it names all three, and no other.

`office` is a test endpoint that takes whatever is posted to it.
"""

from __future__ import annotations

import json
import urllib.request
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from pydantic import BaseModel, Field

from onward import Job, iterable


class Invoice(BaseModel):
    number: str
    amount: int
    due: str = Field(default_factory=lambda: datetime.now(UTC).isoformat())


class Params(BaseModel):
    office: str = "http://127.0.0.1:8701"


def invoices() -> Iterator[dict[str, Any]]:
    for number in range(1, 101):
        yield {"number": f"INV-{number:03}", "amount": 10 * number}


def post(url: str, body: Any, key: str = "") -> dict[str, Any]:
    headers = {"Content-Type": "application/json", "Idempotency-Key": key}
    request = urllib.request.Request(url, json.dumps(body).encode(), headers)
    with urllib.request.urlopen(request, timeout=10) as response:
        answer: dict[str, Any] = json.load(response)
    return answer


job = Job("invoices", source=iterable(invoices, key="number", version=1), record=Invoice, params=Params)


@job.step
def announce(invoice: Invoice, params: Params) -> str:
    """First fault: a message is sent from a plain step, and again whenever that runs again."""
    post(f"{params.office}/messages", {"about": invoice.number})
    return f"announced {invoice.number}"


@job.effect("charge", key="number")
def charge(payload: dict[str, Any], idempotency_key: str, params: Params) -> dict[str, Any]:
    """Second fault: the office keeps no keys, and there is no probe that could tell whether a charge was made."""
    return post(f"{params.office}/charges", payload, idempotency_key)


@charge.payload
def what_is_charged(invoice: Invoice) -> dict[str, Any]:
    return {"number": invoice.number, "amount": invoice.amount}


@job.effect("reminder", key=("number", "due"), keyed=True)
def remind(payload: dict[str, Any], idempotency_key: str, params: Params) -> dict[str, Any]:
    """Third fault: the key has a time in it that is made anew whenever the record is read."""
    return post(f"{params.office}/reminders", payload, idempotency_key)


@remind.payload
def what_is_said(invoice: Invoice, charge: dict[str, Any]) -> dict[str, Any]:
    return {"number": invoice.number, "receipt": charge["receipt"]}
