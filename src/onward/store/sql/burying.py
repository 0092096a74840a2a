"""Runs that died: whoever finds one puts back what it held and ends its row and its chain."""

from __future__ import annotations

from onward.model import State
from onward.policy import transitions
from onward.policy.suspects import DEATHS_TO_SUSPECT
from onward.ports.work import DeadRun
from onward.store.sql import chain, spending
from onward.store.sql.change import Change
from onward.store.sql.transaction import Life


def bury(change: Change, life: Life, run: int | None, deduped: str) -> tuple[list[DeadRun], int]:
    """Put back the records of dead runs of the change's instance; and how many others live. `run`: who looks, None for
    a person. `deduped`: ledger names of effects that may be sent again while a send goes on, as JSON text. Whoever ends
    a run's row first buries it."""
    dead, living = [], 0
    for other, told, boot, lease_until in change.rows("open_runs", run=run or 0):
        if life.is_alive(change.transaction, other, boot, lease_until):
            living += 1
            continue
        death = int(told is None)
        ended = "died" if death else f"stopped: {told}"
        change.execute("end_run", run=other, exit_code=None, reason=ended)
        spending.bury(change, other)
        change.send("drop_shares", run=other)
        reason = "the run that held it died" if death else "the run that held it was told to stop"
        number, started, suspects = put_back(change, other, death)
        chain.tell(change, change.stream("held_by_dead", run=other, reason=reason), run=other)
        chain.end(change, other, ended, {"exit_code": None, "found_by": run})
        lives = life.is_held(change.transaction, other)  # its lease has run out, but its calls may go on
        if not lives:
            change.execute("calls_of_dead_ended", run=other)
        calls = {"lives": int(lives), "deduped": deduped, "to_suspect": DEATHS_TO_SUSPECT}
        change.execute("put_back_dead", None, run=other, death=death, **calls)
        dead.append(DeadRun(other, told is not None, number, started, suspects))
    return dead, living


def put_back(change: Change, run: int, death: int) -> tuple[int, int, int]:
    """Count what a run holds as put back; how many, how many of them had started, and how many become suspects."""
    totals = [0, 0, 0]
    for vanished, state, *numbers in change.rows("held_by", run=run, death=death, to_suspect=DEATHS_TO_SUSPECT):
        transitions.require(State.IN_PROGRESS, State(state))
        change.move(State.IN_PROGRESS, State(state), numbers[0], gone=bool(vanished))
        totals = [total + number for total, number in zip(totals, numbers, strict=True)]
    return totals[0], totals[1], totals[2]
