"""Deaths at chosen moments of an effect's course: before or after a commit that tells of it, or around its call.

`install` is called in the process that is to die, before it runs; the job passes by `sending` and `answered`.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from onward.model import EntryState, Fact

COMMITS = ("intent", "receipt", "confirmation", "unknown", "absent", "intent again")
CALLS = ("sending", "answered")
_SAID = {
    EntryState.SENT: "receipt",
    EntryState.CONFIRMED: "confirmation",
    EntryState.UNKNOWN: "unknown",
    EntryState.ABSENT: "absent",
    EntryState.INTENDED: "intent again",
}


@dataclass(frozen=True)
class Blow:
    """One death: at the `nth` time that `point` is passed ("before intent", "after receipt", "sending", …).

    `how`: kill (SIGKILL), exit (os._exit) or term (SIGTERM, which lets the run stop in order). A process that died
    of it has left the file `mark`.
    """

    point: str
    nth: int
    how: str
    mark: str


class _Plan:
    """The blow that this process is to suffer."""

    blow: Blow | None = None
    passed = 0


_SIGNALS = {"kill": signal.SIGKILL, "term": signal.SIGTERM, "stop": signal.SIGSTOP}


def install(blow: Blow | None) -> None:
    """Have this process suffer the blow."""
    from onward.store.sql.work import SqlWorkStore

    _Plan.blow, _Plan.passed = blow, 0
    write = SqlWorkStore.write

    def wrapped(self: SqlWorkStore, run: int, batch: Any) -> Any:
        said = set(_said(batch.facts))
        for what in said:
            pass_by(f"before {what}")
        outcome = write(self, run, batch)
        for what in said:
            pass_by(f"after {what}")
        return outcome

    SqlWorkStore.write = wrapped  # type: ignore[method-assign]


class Pulse:
    """Notices when this process was asleep. A send that it had decided upon before, and makes as it wakes, began then:
    nobody but the receiver could stop it."""

    BEAT, ASLEEP, JUST = 0.02, 1.0, 0.5

    def __init__(self) -> None:
        self._last = time.monotonic()
        self._fell, self._woke = 0.0, float("-inf")
        threading.Thread(target=self._beat, daemon=True).start()

    def _beat(self) -> None:
        while True:
            time.sleep(self.BEAT)
            now = time.monotonic()
            if now - self._last > self.ASLEEP:
                self._fell, self._woke = self._last, now
            self._last = now

    def age(self) -> float:
        """For how many seconds what is about to be sent has been under way."""
        now, last = time.monotonic(), self._last
        if now - last > self.ASLEEP:
            return now - last
        return now - self._fell if now - self._woke < self.JUST else 0.0


def pass_by(point: str) -> None:
    """The process has come to this point."""
    blow = _Plan.blow
    if blow is None or blow.point != point:
        return
    _Plan.passed += 1
    if _Plan.passed != blow.nth:
        return
    Path(blow.mark).touch()
    if blow.how == "exit":
        os._exit(86)
    # To this very thread, which then does not get any further; another would let it go on for a moment.
    signal.pthread_kill(threading.get_ident(), _SIGNALS[blow.how])


def _said(facts: list[Fact]) -> Iterator[str]:
    """What a batch says of effects; a receipt without a confirmation to come is both."""
    for fact in facts:
        effect = fact.effect
        if effect is not None:
            yield "intent" if effect.payload is not None else _SAID[effect.state]
            if effect.state is EntryState.CONFIRMED and effect.receipt is not None:
                yield "receipt"
