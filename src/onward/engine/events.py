"""What a run tells of itself while it works: the contract's log events, to whoever listens."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

Listener = Callable[[str, Mapping[str, Any]], None]

FREQUENT = frozenset({"checkpoint_committed", "record_resumed", "record_skipped"})


class Events:
    """Adds what every event carries and passes it on. `is_heard`: somebody wants events; `frequent`: those of every
    record, too."""

    def __init__(self, common: Mapping[str, Any], listeners: list[tuple[Listener, bool]]):
        self._common = dict(common)
        self._all = [listener for listener, _ in listeners]
        self._some = [listener for listener, every in listeners if every]
        self.frequent = bool(self._some)
        self.is_heard = bool(self._all)

    def emit(self, event: str, **fields: Any) -> None:
        listeners = self._some if event in FREQUENT else self._all
        if listeners:
            told = {**self._common, **fields}
            for listener in listeners:
                listener(event, told)
