"""The one table of record state changes."""

from __future__ import annotations

from onward.errors import IllegalTransition
from onward.model import State

P, I, S, F, U, Q = (  # noqa: E741 — the table reads better in initials
    State.PENDING,
    State.IN_PROGRESS,
    State.SUCCEEDED,
    State.FAILED,
    State.UNCONFIRMED,
    State.QUARANTINED,
)

LEGAL: dict[tuple[State, State], str] = {
    (P, I): "claimed and started",
    (I, I): "a step's checkpoint, the next step follows",
    (I, S): "its last checkpoint is durable",
    (I, P): "retry later, graceful stop, dead run, fatal, pause, budget",
    (I, F): "by its failure",
    (I, Q): "by its failure",
    (I, U): "an effect was not confirmed",
    (U, I): "reconciliation takes it up",
    (U, P): "a person says: not sent, or sent with steps left",
    (U, S): "a person says: sent, and it was the last",
    (U, Q): "conflict",
    (P, Q): "a misfit record, a conflict",
    (F, P): "next run, retry, changed input, first-50 rule",
    (F, Q): "third run in a row",
    (Q, P): "release, changed input, first-50 rule",
    (S, P): "rerun: a new generation",
}


def require(before: State, after: State) -> None:
    """Raise IllegalTransition unless the table has the change."""
    if (before, after) not in LEGAL:
        raise IllegalTransition(f"a record cannot go from {before} to {after}")
