"""What may come of a call: frozen values that travel from where it was made to who states facts of it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from onward.model import BatchRequest, Kind
from onward.policy.failures import Classified


@dataclass(frozen=True, slots=True)
class Returned:
    """The step's output as JSON text."""

    text: str


@dataclass(frozen=True, slots=True)
class Raised:
    failure: Classified


@dataclass(frozen=True, slots=True)
class EndedEarly:
    """The step raised Done."""

    reason: str


@dataclass(frozen=True, slots=True)
class Stale:
    """An earlier output can no longer be decoded."""

    step: str
    reason: str


@dataclass(frozen=True, slots=True)
class Died:
    """The process that made the call died. `beside` are the records whose calls had begun, this one included; empty
    where this one's had not. `survived`: it lives on, the call alone ended, for want of memory."""

    how: str
    beside: tuple[int, ...]
    survived: bool = False

    def failure(self) -> Classified:
        if self.survived:
            return Classified(Kind.SYSTEM, "MemoryError", self.how)
        return Classified(Kind.SYSTEM, "ProcessDied", f"the process died while it ran: {self.how}")


def cancelled_itself() -> Raised:
    """A step raised CancelledError though nobody cut it."""
    return Raised(Classified(Kind.BUG, "CancelledError", "the step cancelled itself"))


@dataclass(frozen=True, slots=True)
class PutOff:
    """The step asked for answers that come later: it is called again when they are there."""

    requests: tuple[BatchRequest, ...]
    known: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Prepared:
    """What an effect is about to send, and the key of its obligation. `former`: (name, key) it may be known by."""

    key: str
    payload: str
    former: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Answered:
    """What a probe or confirm said. `receipt` (JSON text) belongs to "found"; `failure` to "unknown", if it raised."""

    answer: Literal["found", "absent", "unknown", "confirmed", "mismatch"]
    receipt: str | None = None
    reason: str = ""
    failure: Classified | None = None


@dataclass(frozen=True, slots=True)
class TooLate:
    """A send was not begun: so much of its time had gone by before its function could be called."""


CallOutcome = Returned | Raised | EndedEarly | Stale | Died | PutOff | Prepared | Answered | TooLate
