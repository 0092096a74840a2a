"""Moving instances of a job from one store to another, between whose commits everything may die.

First the target has it all, closed (`take_in`); then the source is closed, for ever (`close_moved`); then the target is
opened (`open_arrived`). Until the second commit the source alone can be worked on, from the third on the target alone.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from enum import IntEnum
from typing import Any, Protocol

Row = tuple[Any, ...]


class Closed(IntEnum):
    """Whether an instance can be worked on in a store."""

    NO = 0
    ARRIVING = 1
    MOVED = 2


@dataclass(frozen=True, slots=True)
class Moved:
    """Where an instance has come from, or has gone to. `place`: the other store's address, passwords masked; `token`:
    which move it was; `at`: UTC seconds; `runs`: the numbers of its runs there, and here."""

    place: str
    token: str
    at: float
    runs: tuple[tuple[int, int], ...] = ()


@dataclass(frozen=True, slots=True)
class Movable:
    """One instance of a job as it stands in a store."""

    number: int
    name: str
    closed: Closed
    moved: Moved | None


@dataclass(frozen=True, slots=True)
class Taken:
    """What a target has taken in."""

    records: int = 0
    runs: int = 0
    obligations: int = 0
    entries: int = 0


class Parcel(Protocol):
    """Instances of a job as they are in one reading, which stays open. Numbers are those of the source."""

    @property
    def job(self) -> str:
        """The job's name."""

    @property
    def instances(self) -> Sequence[int]:
        """Their numbers."""

    @property
    def names(self) -> Sequence[str]:
        """The ledger names whose entries come along."""

    @property
    def stamp(self) -> str:
        """Text that is another one when anything has changed since."""

    @property
    def moment(self) -> tuple[float, float]:
        """The source's time of the reading in UTC seconds, and what `time.monotonic` said then."""

    def rows(self, block: str, instance: int, name: str | None = None) -> Iterator[Row]:
        """The rows of one table, one by one."""


class Moving(Protocol):
    """What a store's desk does of a move. `actor`: who moves it; `place`: the other store, passwords masked."""

    def movable(self, job: str) -> list[Movable]:
        """The instances of a job, oldest first."""

    def sharing(self, job: str, instances: Sequence[int]) -> list[str]:
        """What else in the store owes under the same ledger names: its own ledger will know nothing of the other's."""

    def lay_to_rest(self, job: str, instances: Sequence[int]) -> None:
        """Put back what dead runs held, as the next run would. Raises UsageError, and changes nothing, where a run is
        alive, or where what is open is shared with instances that stay."""

    def parcel(self, job: str, instances: Sequence[int]) -> AbstractContextManager[Parcel]:
        """What is to be moved."""

    def take_in(self, parcel: Parcel, token: str, place: str) -> Taken:
        """Have it all, closed, in one commit, instead of what an earlier move has left unfinished. Raises UsageError,
        and changes nothing, where a run is alive in this store, an instance or an entry of the ledger there already."""

    def close_moved(self, instances: Sequence[int], stamp: str, token: str, place: str, actor: str) -> None:
        """Nothing is changed here any more. Raises UsageError where anything has changed since the reading of
        `stamp`."""

    def open_arrived(self, instances: Sequence[int], token: str, actor: str) -> None:
        """What has arrived by this move can be worked on; once more changes nothing."""

    def came_too_late(self, instance: int, token: str, place: str) -> None:
        """What has arrived by this move stays closed, for the source went to `place` instead: only a copy from there
        replaces it."""
