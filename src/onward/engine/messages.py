"""What parent and child tell each other: JSON messages with their length in front."""

from __future__ import annotations

import json
import struct
from typing import Any, BinaryIO

import orjson

from onward.engine.calls import CallOutcome, EndedEarly, Raised, Returned, Stale
from onward.model import Kind
from onward.policy.failures import Classified

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
    if len(text) < length:
        return None
    message: dict[str, Any]
    try:
        message = orjson.loads(text)
    except orjson.JSONDecodeError:
        message = json.loads(text)
    return message


def outcome_to_message(outcome: CallOutcome) -> dict[str, Any]:
    if isinstance(outcome, Returned):
        return {"returned": outcome.text}
    if isinstance(outcome, EndedEarly):
        return {"done": outcome.reason}
    if isinstance(outcome, Stale):
        return {"stale": outcome.step, "reason": outcome.reason}
    assert isinstance(outcome, Raised)
    failure = outcome.failure
    return {
        "raised": failure.kind,
        "error_type": failure.error_type,
        "message": failure.message,
        "retry_after": failure.retry_after,
        "throttled": failure.throttled,
        "status": failure.status,
    }


def outcome_from_message(message: dict[str, Any]) -> CallOutcome:
    if "returned" in message:
        return Returned(message["returned"])
    if "done" in message:
        return EndedEarly(message["done"])
    if "stale" in message:
        return Stale(message["stale"], message["reason"])
    return Raised(
        Classified(
            Kind(message["raised"]),
            message["error_type"],
            message["message"],
            message["retry_after"],
            message["throttled"],
            message["status"],
        )
    )
