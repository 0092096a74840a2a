"""Moving instances between stores: `ports.moving.Moving`, on both sides, as changes of one store at a time."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Protocol, TypeVar

import orjson

from onward.errors import UsageError
from onward.ports.moving import Closed, Movable, Moved, Parcel, Taken
from onward.store.sql import arriving, chain, moves
from onward.store.sql.burying import bury
from onward.store.sql.change import Change
from onward.store.sql.parcels import SqlParcel
from onward.store.sql.transaction import Life, Readable, Transaction

T = TypeVar("T")


class Store(Readable, Protocol):
    """What a move asks of a desk."""

    def transact(self, make: Callable[[Transaction], T], instance: int) -> T: ...

    def explained(self) -> AbstractContextManager[None]: ...


def movable(transaction: Transaction, job: str) -> list[Movable]:
    rows = transaction.rows("moves", {"job": job})
    return [Movable(number, name, Closed(closed), moves.moved_of(moved)) for number, name, closed, moved in rows]


def sharing(transaction: Transaction, job: str, instances: Sequence[int]) -> list[str]:
    names = _names(transaction, job, instances)
    return sorted({_named(job, name) for _, job, name in _others(transaction, names, instances)})


def lay_to_rest(store: Store, job: str, instances: Sequence[int]) -> None:
    def make(change: Change) -> None:
        names = _names(change.transaction, job, instances)
        _refuse_alive(change.transaction, store.life, instances, names)
        for instance in instances:
            change.is_about(instance, None)
            bury(change, store.life, None, "[]")
            change.flush()
        _refuse_shared(change.transaction, instances, names)

    _alone(store, instances, make)


@contextlib.contextmanager
def parcel(store: Store, job: str, instances: Sequence[int]) -> Iterator[SqlParcel]:
    with store.reading() as transaction:
        names = _names(transaction, job, instances)
        moment = transaction.now, time.monotonic()
        stamp = _stamp(transaction, instances, names)
        ranges = {instance: _range(transaction, instance) for instance in instances}
        yield SqlParcel(transaction, job, tuple(instances), names, stamp, moment, store.explained, ranges)


def take_in(store: Store, given: Parcel, token: str, place: str) -> Taken:
    """Nobody else begins a run in the store meanwhile: the change holds the ledger."""
    assert isinstance(given, SqlParcel)

    def make(transaction: Transaction) -> Taken:
        later = transaction.now - given.moment[0] - (time.monotonic() - given.moment[1])
        return arriving.take_in(Change(transaction, 0, None), store.life, given, token, place, later)

    return store.transact(make, 0)


def close(store: Store, instances: Sequence[int], stamp: str, token: str, place: str, actor: str) -> None:
    def make(change: Change) -> None:
        transaction = change.transaction
        job = str(change.rows("move_of", instance=instances[0])[0][2])
        names = _names(transaction, job, instances)
        _refuse_alive(transaction, store.life, instances, names)
        for instance in instances:
            moves.refuse(change, instance)
        if _stamp(transaction, instances, names) != stamp:
            raise UsageError(
                "the job was worked on in the old store while it was being copied; nothing was moved: say the same "
                "command again"
            )
        for instance in instances:
            change.is_about(instance, None)
            change.execute("note_move", closed=int(Closed.MOVED), moved=moves.text_of(Moved(place, token, change.now)))
            chain.tell(change, [(None, "job_moved", None, f"moved to {place}")], actor=actor)

    _alone(store, instances, make)


def opened(store: Store, instances: Sequence[int], token: str, actor: str) -> None:
    def make(change: Change) -> None:
        for instance in instances:
            change.is_about(instance, None)
            closed, text, _, _ = change.rows("move_of")[0]
            moved = moves.moved_of(text)
            if moved is None or moved.token != token:
                raise UsageError("what was being copied is not there any more: another copy was begun meanwhile")
            if closed == Closed.ARRIVING:
                change.execute("note_move", closed=int(Closed.NO), moved=text)
                chain.tell(change, [(None, "job_copied", None, f"copied from {moved.place}")], actor=actor)

    _alone(store, instances, make)


def came_too_late(store: Store, instance: int, token: str, place: str) -> None:
    def make(change: Change) -> None:
        closed, text, _, _ = change.rows("move_of")[0]
        moved = moves.moved_of(text)
        if moved is not None and moved.token == token and closed == Closed.ARRIVING:
            elsewhere = moves.text_of(replace(moved, place=place))
            change.execute("note_move", closed=int(Closed.ARRIVING), moved=elsewhere)

    _alone(store, [instance], make)


def _alone(store: Store, instances: Sequence[int], make: Callable[[Change], None]) -> None:
    """A change of several instances of which nobody else changes anything meanwhile."""

    def whole(transaction: Transaction) -> None:
        for instance in sorted(instances)[1:]:
            transaction.be_alone_in(instance)
        change = Change(transaction, min(instances), None)
        make(change)
        change.flush()

    store.transact(whole, min(instances))


def _names(transaction: Transaction, job: str, instances: Sequence[int]) -> tuple[str, ...]:
    """Under which ledger names the job has obligations, or may come upon those of others."""
    found = {name for (name,) in transaction.rows("names_of_job", {"job": job})}
    for (effects,) in transaction.rows("declared_by_job", {"job": job}):
        found |= _declared(effects)
    for instance in instances:
        lowest, highest = _range(transaction, instance)
        bindings = {"instance": instance, "lowest": lowest, "highest": highest}
        found |= {name for (name,) in transaction.rows("names_of_instance", bindings)}
    return tuple(sorted(found))


def _range(transaction: Transaction, instance: int) -> tuple[int, int]:
    lowest, highest = transaction.rows("out_range", {"instance": instance})[0]
    return int(lowest), int(highest)


def _declared(effects: str) -> set[str]:
    return {one for name, former in orjson.loads(effects).items() for one in (name, *former)}


def _others(transaction: Transaction, names: Sequence[str], instances: Sequence[int]) -> list[tuple[int, str, str]]:
    """Instances that stay, and whose effects have one of these names: number, job and name."""
    rows = transaction.rows("declared_in_store", {})
    return [
        (instance, job, name)
        for instance, effects, job, name, closed in rows
        if instance not in instances and closed != Closed.MOVED and not _declared(effects).isdisjoint(names)
    ]


def _named(job: str, instance: str) -> str:
    return f"{job} ({instance})" if instance else job


def _stamp(transaction: Transaction, instances: Sequence[int], names: Sequence[str]) -> str:
    """What is another when a run has begun, or a person has decided, where it concerns what is moved."""
    others = {instance for instance, _, _ in _others(transaction, names, instances)}
    rows = [transaction.rows("stamp_of_instance", {"instance": one})[0] for one in (*instances, *sorted(others))]
    return orjson.dumps([[str(value) for value in row] for row in rows]).decode()


def _refuse_alive(transaction: Transaction, life: Life, instances: Sequence[int], names: Sequence[str]) -> None:
    """Raises UsageError where a run, or a call of one, may change what is moved."""
    for run, boot, lease_until, effects, instance, job in transaction.rows("open_runs_of_store", {}):
        concerned = instance in instances or not _declared(effects).isdisjoint(names)
        alive = life.is_alive(transaction, run, boot, lease_until) or life.is_held(transaction, run)
        if concerned and alive:
            raise UsageError(
                f"run {run} of job {job} is alive in the store that the job is to leave; stop it first (Ctrl-C or "
                "SIGTERM), or, where it has died, wait until its lease is over"
            )
    for instance in instances:
        for (run,) in transaction.rows("runs_that_may_send", {"instance": instance}):
            if life.is_held(transaction, run):
                raise UsageError(
                    f"a call of run {run} may still be sending, in a process that is alive; wait for its end"
                )


def _refuse_shared(transaction: Transaction, instances: Sequence[int], names: Sequence[str]) -> None:
    """Raises UsageError where an open obligation would be in two stores."""
    gone = {instance for (instance,) in transaction.rows("moved_away", {})}
    for name in names:
        for effect, key, state, owner, waits in transaction.rows("open_under_ledger_name", {"name": name}):
            ours = owner in instances
            sends = state in arriving.OPEN and owner is not None and owner not in gone
            if (sends and not ours) or (waits is not None and (waits in instances) != ours):
                raise UsageError(
                    f"the outcome of effect {effect!r} with the key {key} is open, and it concerns what stays in this "
                    "store, too: settle it first (onward run or onward reconcile of its job), or move all instances "
                    "that it concerns"
                )
