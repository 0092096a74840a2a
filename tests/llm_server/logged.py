"""The log: one JSON line a request, in a file that is only appended to."""

from __future__ import annotations

import hashlib
import os
import time
from pathlib import Path
from typing import Any

import orjson

from .answers import Answer
from .asked import Asked


class Log:
    def __init__(self, path: Path):
        self.path = path
        self._file = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)

    def write(self, entry: Entry, status: int | None, delivered: bool) -> None:
        os.write(self._file, orjson.dumps(entry.line(status, delivered)) + b"\n")


class Entry:
    """What becomes known of one request while it is being answered."""

    def __init__(self, method: str, endpoint: str, body: bytes):
        self.at = time.time()
        self.method = method
        self.endpoint = endpoint
        self.body_hash = hashlib.blake2b(body, digest_size=8).hexdigest()
        self.asked: Asked | None = None
        self.answer: Answer | None = None
        self.fault: str | None = None
        self.nth: int | None = None
        self.batch: str | None = None

    def line(self, status: int | None, delivered: bool) -> dict[str, Any]:
        asked, answer = self.asked, self.answer
        return {
            "at": self.at,
            "ended": time.time(),
            "method": self.method,
            "endpoint": self.endpoint,
            "hash": self.body_hash,
            "key": asked.markers.get("key") if asked else None,
            "model": asked.model if asked else None,
            "status": status,
            "fault": self.fault,
            "nth": self.nth,
            "delivered": delivered,
            "input_tokens": answer.input_tokens if answer else 0,
            "cached_tokens": answer.cached_tokens if answer else 0,
            "output_tokens": answer.output_tokens if answer else 0,
            "batch": self.batch,
        }
