"""What a run tells of itself while it works: the contract's log events, to whoever listens."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from onward.codec import loads
from onward.engine.attempt import Attempt
from onward.model import Fact
from onward.policy.effects import UNDECODABLE

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

    def of(self, attempt: Attempt, event: str, fact: Fact | None = None, **fields: Any) -> None:
        """An event of one record, as its fact tells it."""
        if not self.is_heard:
            return
        if fact is not None:
            # What no longer decodes is told without the words that quote it.
            quotes = event == "record_waits" or fact.hold == UNDECODABLE
            reason = "what is stored no longer decodes" if quotes else fact.reason
            fields.update(step=fact.done_step or fact.step, attempt=attempt.attempts, reason=reason)
            if fact.failure is not None:
                fields.update(kind=str(fact.failure.kind), error_type=fact.failure.error_type)
        if attempt.entry is not None:
            fields["idempotency_key"] = attempt.entry.key
        self.emit(event, key=loads(attempt.claimed.key), **fields)
