"""What parent and child tell each other: JSON messages with their length in front."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Iterator
from dataclasses import asdict
from typing import Any, BinaryIO

import orjson

from onward.engine.outcomes import Answered, CallOutcome, Died, EndedEarly, Prepared, PutOff, Raised, Returned, Stale
from onward.model import BatchRequest, Entry, EntryState, Kind, Spending, Spent
from onward.policy.failures import Classified

MARK = struct.Struct(">I")
"""The number of a call that has begun, as it stands in the pipe for marks."""
_LENGTH = struct.Struct(">I")


def send(stream: BinaryIO, message: dict[str, Any]) -> None:
    try:
        text = orjson.dumps(message)
    except TypeError:  # half of a surrogate pair in a reason or a path
        text = json.dumps(message).encode()
    stream.write(_LENGTH.pack(len(text)) + text)
    stream.flush()


def receive(stream: BinaryIO) -> dict[str, Any] | None:
    """The next message; None at the end of the stream, also inside a message."""
    head = stream.read(_LENGTH.size)
    if len(head) < _LENGTH.size:
        return None
    (length,) = _LENGTH.unpack(head)
    text = stream.read(length)
    return _read(text) if len(text) == length else None


def arriving(chunks: Iterable[bytes]) -> Iterator[dict[str, Any]]:
    """The messages in what arrives piece by piece, each as soon as it is whole."""
    waiting = bytearray()
    for chunk in chunks:
        waiting += chunk
        while len(waiting) >= _LENGTH.size:
            end = _LENGTH.size + _LENGTH.unpack_from(waiting)[0]
            if len(waiting) < end:
                break
            yield _read(bytes(waiting[_LENGTH.size : end]))
            del waiting[:end]


def _read(text: bytes) -> dict[str, Any]:
    message: dict[str, Any]
    try:
        message = orjson.loads(text)
    except orjson.JSONDecodeError:
        message = json.loads(text)
    return message


def entry_to_message(entry: Entry | None) -> dict[str, Any] | None:
    """What a call in a child needs to know of its obligation."""
    return None if entry is None else asdict(entry)


def entry_from_message(message: dict[str, Any] | None) -> Entry | None:
    if message is None:
        return None
    entry = Entry(**message)
    entry.state = EntryState(entry.state)
    return entry


def outcome_to_message(outcome: CallOutcome) -> dict[str, Any]:
    if isinstance(outcome, Returned):
        return {"returned": outcome.text}
    if isinstance(outcome, EndedEarly):
        return {"done": outcome.reason}
    if isinstance(outcome, Stale):
        return {"stale": outcome.step, "reason": outcome.reason}
    if isinstance(outcome, Died):
        return {"out of memory": outcome.how, "record": outcome.beside[0]}
    if isinstance(outcome, PutOff):
        return {"put off": [asdict(one) for one in outcome.requests], "known": outcome.known}
    if isinstance(outcome, Prepared):
        return {"prepared": outcome.key, "payload": outcome.payload, "former": outcome.former}
    if isinstance(outcome, Answered):
        told = {"answered": outcome.answer, "receipt": outcome.receipt, "reason": outcome.reason}
        return told if outcome.failure is None else {**told, **_failure_to_message(outcome.failure)}
    assert isinstance(outcome, Raised)  # whether a call comes too late is seen where it is handed out
    return _failure_to_message(outcome.failure)


def _failure_to_message(failure: Classified) -> dict[str, Any]:
    return {
        "raised": failure.kind,
        "error_type": failure.error_type,
        "message": failure.message,
        "retry_after": failure.retry_after,
        "throttled": failure.throttled,
        "status": failure.status,
        "not_applied": failure.not_applied,
        "received": failure.received,
        "cause": failure.cause,
    }


def outcome_from_message(message: dict[str, Any]) -> CallOutcome:
    if "returned" in message:
        return Returned(message["returned"])
    if "done" in message:
        return EndedEarly(message["done"])
    if "stale" in message:
        return Stale(message["stale"], message["reason"])
    if "out of memory" in message:
        return Died(message["out of memory"], (message["record"],), survived=True)
    if "put off" in message:
        return PutOff(tuple(BatchRequest(**one) for one in message["put off"]), tuple(message["known"]))
    if "prepared" in message:
        former = tuple((name, key) for name, key in message["former"])
        return Prepared(message["prepared"], message["payload"], former)
    if "answered" in message:
        failure = _failure_from_message(message) if "raised" in message else None
        return Answered(message["answered"], message["receipt"], message["reason"], failure)
    return Raised(_failure_from_message(message))


def _failure_from_message(message: dict[str, Any]) -> Classified:
    return Classified(
        Kind(message["raised"]),
        message["error_type"],
        message["message"],
        message["retry_after"],
        message["throttled"],
        message["status"],
        message["not_applied"],
        message["received"],
        message["cause"],
    )


def spending_to_message(spending: Iterable[Spending]) -> list[dict[str, Any]]:
    return [asdict(one) for one in spending]


def spending_from_message(message: list[dict[str, Any]]) -> list[Spending]:
    return [Spending(Spent(**one.pop("spent")), **one) for one in message]
