"""Log events for programs: one JSON object a line on the error output."""

from __future__ import annotations

import threading
from collections.abc import Mapping, MutableMapping
from typing import TYPE_CHECKING, Any, TextIO

import structlog

from onward.cli import streams
from onward.codec import dumps

if TYPE_CHECKING:
    from onward.engine.tally import Progress

NEVER_LOGGED = frozenset({"detail"})


class JsonLog:
    """`event` is what a run calls, from several threads; there is nothing to see between events."""

    def __init__(self, stream: TextIO):
        self._log: Any = structlog.wrap_logger(
            _Out(stream),
            processors=[structlog.processors.TimeStamper(fmt="iso", utc=True, key="time"), _in_order, _as_json],
            wrapper_class=structlog.make_filtering_bound_logger(0),
        ).bind()  # once and for all: unbound, it would be bound anew at every event

    def start(self) -> None:
        """The run has begun."""

    def stop(self) -> None:
        """The run has ended."""

    def event(self, event: str, fields: Mapping[str, Any]) -> None:
        self._log.info(event, **fields)

    def progress(self, progress: Progress) -> None:
        """Nothing: events tell it all."""


def _in_order(logger: Any, method: str, fields: MutableMapping[str, Any]) -> dict[str, Any]:
    """Event and time first; what does not apply is left out."""
    first = {"event": fields.pop("event"), "time": fields.pop("time")}
    return first | {name: value for name, value in fields.items() if value is not None and name not in NEVER_LOGGED}


def _as_json(logger: Any, method: str, fields: MutableMapping[str, Any]) -> str:
    return dumps(fields)


class _Out:
    """What structlog hands finished lines to."""

    def __init__(self, stream: TextIO):
        self._stream = stream
        self._lock = threading.Lock()

    def info(self, line: str) -> None:
        with self._lock:
            streams.write(self._stream, line)
