"""What people say to runs at work: to finish and end, and how many calls they may have in progress."""

from __future__ import annotations

from onward.ports.desk import Drained
from onward.ports.work import Orders
from onward.store.sql import chain, gates
from onward.store.sql.change import Change, storable
from onward.store.sql.transaction import Life, Transaction


def orders(transaction: Transaction, instance: int, run: int) -> Orders:
    drain, concurrency, said, others = transaction.rows("orders", {"run": run})[0]
    return Orders(gates.pauses(transaction, instance), drain, concurrency, said, bool(others))


def drain(change: Change, run: int | None, actor: str, reason: str | None, life: Life) -> list[Drained]:
    """Runs that have not ended are told; of those that are alive their death from now on makes nobody a suspect."""
    found, fresh = [], []
    why = storable(f"drained by {actor}" + (f": {reason}" if reason else ""))
    for number, host, boot, lease_until, before in change.rows("to_drain", run=run):
        alive = life.is_alive(change.transaction, number, boot, lease_until)
        if before is None:
            change.execute("drain", run=number, reason=why, lives=int(alive))
            fresh.append(number)
        found.append(Drained(number, host, alive, before is not None))
    if fresh:
        _tell(change, "run_drained", _runs(fresh), actor, reason)
    return found


def set_concurrency(change: Change, number: int | None, actor: str, reason: str | None) -> None:
    change.execute("set_concurrency", concurrency=number)
    what = "what the job declares" if number is None else f"{number} for each run"
    _tell(change, "concurrency_changed", what, actor, reason)


def concurrency(transaction: Transaction, instance: int) -> int | None:
    found: int | None = transaction.rows("concurrency", {"instance": instance})[0][0]
    return found


def _runs(numbers: list[int]) -> str:
    return f"run{'s' if len(numbers) > 1 else ''} {', '.join(map(str, numbers))}"


def _tell(change: Change, event: str, what: str, actor: str, reason: str | None) -> None:
    chain.tell(change, [(None, event, None, f"{what}: {reason}" if reason else what)], actor=actor)
