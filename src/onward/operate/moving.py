"""Moving a job, or some of its instances, from one store to another, where it goes on."""

from __future__ import annotations

import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from onward.errors import UsageError
from onward.operate.acts import actor
from onward.ports.desk import Desk
from onward.ports.moving import Closed, Movable, Taken


@dataclass(frozen=True, slots=True)
class Copied:
    """What was moved. `instances`: their names; `before`: those that an earlier call had moved; `finished`: those whose
    move an earlier call had begun, and this one has ended. `sharing`: what else in the old store has effects of the
    same names: from now on the two ledgers know nothing of one another."""

    job: str
    source: str
    target: str
    instances: tuple[str, ...]
    finished: tuple[str, ...]
    before: tuple[str, ...]
    taken: Taken
    sharing: tuple[str, ...]

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        if self.before:
            yield f"{self._what(self.before)} had been moved before"
        if self.finished:
            yield f"{self._what(self.finished)}: the move that was begun is finished"
        if self.instances:
            taken = self.taken
            runs = f"{taken.runs:,} run{'' if taken.runs == 1 else 's'}"
            numbers = (
                f"{taken.records:,} records, {runs}, {taken.entries:,} entries of the history and "
                f"{taken.obligations:,} of the ledger"
            )
            yield f"{self._what(self.instances)}: {numbers} moved to {self.target}"
        yield f"{self.source} keeps its copy, which can be looked at and no longer be worked on"
        if self.sharing:
            yield (
                f"careful: {', '.join(self.sharing)} in {self.source} has effects of the same names; what it owes from "
                "now on the moved job does not see, and the other way round"
            )

    def _what(self, names: Sequence[str]) -> str:
        named = ", ".join(name for name in names if name)
        return f"job {self.job}" + (f" ({named})" if named else "")


def only_job(desk: Desk) -> str:
    """The store's only job. Raises UsageError that lists them."""
    jobs = desk.jobs()
    if len(jobs) == 1:
        return jobs[0]
    listed = ", ".join(jobs) or "none"
    raise UsageError(f"which job? Give JOB or --job NAME; jobs in {desk.store}: {listed}")


def move(source: Desk, target: Desk, job: str, instance: str | None) -> Copied:
    """Raises UsageError where it cannot be; wherever it was interrupted, the same call finishes it."""
    if source.store == target.store:
        raise UsageError(f"--from and --to are the same store, {source.store}")
    there = {one.name: one for one in target.movable(job)}
    todo: list[Movable] = []
    finished: list[str] = []
    before: list[str] = []
    for one in chosen(source, job, instance):
        if one.closed is Closed.NO:
            _refuse_there(there.get(one.name), job, target.store)
            todo.append(one)
        elif _finish(source, target, job, one, there.get(one.name)):
            finished.append(one.name)
        else:
            before.append(one.name)
    numbers = [one.number for one in todo]
    taken = _move(source, target, job, [one.name for one in todo], numbers) if todo else Taken()
    moved = tuple(one.name for one in todo)
    sharing = tuple(source.sharing(job, numbers)) if todo else ()
    return Copied(job, source.store, target.store, moved, tuple(finished), tuple(before), taken, sharing)


def _move(source: Desk, target: Desk, job: str, names: Sequence[str], numbers: Sequence[int]) -> Taken:
    token = str(uuid.uuid4())
    source.lay_to_rest(job, numbers)
    with source.parcel(job, numbers) as parcel:
        taken = target.take_in(parcel, token, source.store)
        stamp = parcel.stamp
    source.close_moved(numbers, stamp, token, target.store, actor())
    arrived = [one.number for one in target.movable(job) if one.name in names]
    target.open_arrived(arrived, token, actor())
    return taken


def chosen(source: Desk, job: str, instance: str | None) -> list[Movable]:
    """The instances that are meant. Raises UsageError."""
    found = source.movable(job)
    if not found:
        jobs = ", ".join(source.jobs()) or "none"
        raise UsageError(f"{source.store} knows no job '{job}' (jobs there: {jobs})")
    chosen = [one for one in found if instance is None or one.name == instance]
    if not chosen:
        listed = ", ".join(repr(one.name) for one in found)
        raise UsageError(f"job '{job}' has no instance {instance!r} (there are: {listed})")
    return chosen


def _refuse_there(there: Movable | None, job: str, place: str) -> None:
    if there is None or there.closed is Closed.ARRIVING:
        return
    what = f"job {job}" + (f", instance {there.name}," if there.name else "")
    gone = f", from where it was moved to {there.moved.place}" if there.moved and there.closed is Closed.MOVED else ""
    raise UsageError(
        f"{what} is in {place} already{gone}; nothing was copied: give another store with --to, or another schema "
        "(?schema=…)"
    )


def _finish(source: Desk, target: Desk, job: str, one: Movable, there: Movable | None) -> bool:
    """Finish a move that was begun; False where it was finished. Raises UsageError where it is not this one."""
    moved, place = one.moved, source.store
    assert moved is not None
    if one.closed is Closed.ARRIVING:
        raise UsageError(f"in {place} it is not whole itself: finish its move from {moved.place} first")
    known = None if there is None else there.moved
    # What has arrived under another token is of a call that came too late to close the source, unless the source went
    # to another store: then both would be open.
    is_late = there is not None and there.closed is Closed.ARRIVING and moved.place == target.store
    if there is None or known is None or (known.token != moved.token and not is_late):
        if there is not None and known is not None and there.closed is Closed.ARRIVING and known.place == place:
            target.came_too_late(there.number, known.token, moved.place)
        raise UsageError(f"it was moved from {place} to {moved.place}; work on it there, or copy it from there")
    if there.closed is not Closed.ARRIVING:
        return False
    if known.token != moved.token:
        with source.parcel(job, [one.number]) as parcel:
            target.take_in(parcel, moved.token, place)
    target.open_arrived([there.number], moved.token, actor())
    return True
