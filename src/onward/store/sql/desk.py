"""The asking and deciding side of a SQL store: `ports.desk.Desk`."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import TypeVar

from onward.errors import UsageError
from onward.model import State
from onward.ports.bill import Bill, Pace
from onward.ports.desk import (
    Asked,
    Asking,
    Became,
    Choice,
    Decided,
    Drained,
    ExportWish,
    Shrunk,
    Vacuumed,
    Word,
)
from onward.ports.facts import Cause, FailedRecord, InstanceFacts, LogEntry, RecordFacts, Standing, Verified
from onward.ports.moving import Movable, Parcel, Taken
from onward.ports.sink import ExportRow
from onward.ports.work import Pause
from onward.store.sql import billing, history, moves, moving, operating, pausing, reconciling
from onward.store.sql.asking import Questions
from onward.store.sql.change import Change
from onward.store.sql.deciding import Act
from onward.store.sql.transaction import Life, Transaction
from onward.store.sql.vacuuming import Vacuum

T = TypeVar("T")


class SqlDesk(ABC):
    """Asks through a connection that can change nothing; one that can is opened for the first act. A dialect reads,
    makes changes durable, and knows who lives."""

    def __init__(self) -> None:
        self._questions = Questions(self)

    @property
    @abstractmethod
    def store(self) -> str:
        """The store's absolute address, passwords masked."""

    @property
    @abstractmethod
    def life(self) -> Life:
        """Which runs live."""

    @abstractmethod
    def reading(self) -> AbstractContextManager[Transaction]:
        """One consistent reading."""

    @abstractmethod
    def explained(self) -> AbstractContextManager[None]:
        """The driver's errors come out in words for people."""

    @abstractmethod
    def transact(self, make: Callable[[Transaction], T], instance: int) -> T:
        """What `make` brings, once its change is durable; it may be called again where the database undid it."""

    @abstractmethod
    def shrink(self) -> Shrunk:
        """Give disk space back, as far as that does not hold up runs at work."""

    @abstractmethod
    def close(self) -> None: ...

    def jobs(self) -> list[str]:
        with self.explained():
            return [name for (name,) in self._questions.rows("jobs")]

    def instances(self, job: str) -> list[InstanceFacts]:
        with self.explained():
            return self._questions.instances(job)

    def standing(self, instance: int, today: Mapping[str, str]) -> Standing:
        with self.explained():
            return self._questions.standing(instance, today)

    def bill(self, instance: int, steps: Sequence[str], again: bool) -> Bill:
        with self.explained(), self.reading() as transaction:
            return billing.read_bill(transaction, instance, steps, again)

    def version_parts(self, instance: int) -> dict[tuple[str, str], dict[str, str]]:
        with self.explained(), self.reading() as transaction:
            return billing.read_version_parts(transaction, instance)

    def pace(self, instance: int) -> Pace | None:
        with self.explained(), self.reading() as transaction:
            return billing.read_pace(transaction, instance)

    def failures(self, instance: int, states: Sequence[State], kind: str | None) -> Iterator[FailedRecord]:
        with self.explained():
            yield from self._questions.failures(instance, states, kind)

    def causes(self, instance: int, states: Sequence[State], kind: str | None) -> list[Cause]:
        with self.explained():
            return self._questions.causes(instance, states, kind)

    def find(self, instance: int, keys: Iterable[str]) -> dict[str, int]:
        with self.explained():
            return self._questions.find(instance, keys)

    def record(self, record: int) -> RecordFacts:
        with self.explained():
            return history.record_facts(self._questions, record)

    def log(self, instance: int, since: float | None, payloads: bool = False) -> Iterator[LogEntry]:
        with self.explained():
            yield from history.log(self._questions, instance, since, payloads)

    def verify(self, instances: Sequence[int] | None, expected: str | None) -> Verified:
        with self.explained():
            return history.verify(self._questions, instances, expected)

    def export(self, instance: int, wish: ExportWish) -> Iterator[ExportRow]:
        with self.explained():
            yield from self._questions.export(instance, wish)

    def sample(self, instance: int, choice: Choice, number: int) -> tuple[list[int], int]:
        with self.explained():
            return self._act(instance, choice).sample(number)

    def decide(self, instance: int, choice: Choice) -> Decided:
        return self._act(instance, choice).decide()

    def correct(self, instance: int, values: Iterable[tuple[int, str]], choice: Choice) -> Decided:
        return self._act(instance, choice).correct(values)

    def pauses(self, instance: int) -> list[Pause]:
        with self.explained():
            return self._questions.pauses(instance)

    def pause(self, instance: int, group: str | None, actor: str, reason: str | None) -> bool:
        return self._change(instance, lambda change: pausing.pause(change, group, actor, reason))

    def resume(self, instance: int, group: str | None, actor: str, reason: str | None) -> bool:
        return self._change(instance, lambda change: pausing.resume(change, group, actor, reason))

    def drain(self, instance: int, run: int | None, actor: str, reason: str | None) -> list[Drained]:
        return self._change(instance, lambda change: operating.drain(change, run, actor, reason, self.life))

    def concurrency(self, instance: int) -> int | None:
        with self.explained(), self.reading() as transaction:
            return operating.concurrency(transaction, instance)

    def set_concurrency(self, instance: int, number: int | None, actor: str, reason: str | None) -> None:
        self._change(instance, lambda change: operating.set_concurrency(change, number, actor, reason))

    def vacuum(self, instance: int, older_than: float, actor: str, dry_run: bool) -> Vacuumed:
        with self.explained():
            return Vacuum(self._reading_only, self._change, instance, older_than, actor, dry_run).work()

    def settle(self, instance: int, word: Word) -> State | None:
        (after,) = self.settle_all(instance, [word])
        if isinstance(after, UsageError):
            raise after
        return after

    def settle_all(self, instance: int, words: Sequence[Word]) -> list[State | UsageError | None]:
        return self._change(instance, lambda change: reconciling.settle(change, words, self.life))

    def ask_again(self, instance: int, asking: Asking) -> Asked:
        return self._change(instance, lambda change: reconciling.ask_again(change, asking, self.life))

    def became(self, records: Sequence[int]) -> Iterator[Became]:
        with self.explained():
            yield from self._questions.became(records)

    def movable(self, job: str) -> list[Movable]:
        with self.explained(), self.reading() as transaction:
            return moving.movable(transaction, job)

    def sharing(self, job: str, instances: Sequence[int]) -> list[str]:
        with self.explained(), self.reading() as transaction:
            return moving.sharing(transaction, job, instances)

    def lay_to_rest(self, job: str, instances: Sequence[int]) -> None:
        moving.lay_to_rest(self, job, instances)

    @contextmanager
    def parcel(self, job: str, instances: Sequence[int]) -> Iterator[Parcel]:
        with self.explained(), moving.parcel(self, job, instances) as parcel:
            yield parcel

    def take_in(self, parcel: Parcel, token: str, place: str) -> Taken:
        return moving.take_in(self, parcel, token, place)

    def close_moved(self, instances: Sequence[int], stamp: str, token: str, place: str, actor: str) -> None:
        moving.close(self, instances, stamp, token, place, actor)

    def came_too_late(self, instance: int, token: str, place: str) -> None:
        moving.came_too_late(self, instance, token, place)

    def open_arrived(self, instances: Sequence[int], token: str, actor: str) -> None:
        moving.opened(self, instances, token, actor)

    def _act(self, instance: int, choice: Choice) -> Act:
        lineages = self._questions.lineages(instance)
        return Act(self, self._reading_only if choice.dry_run else self._change, instance, choice, lineages)

    def _change(self, instance: int, make: Callable[[Change], T]) -> T:
        def whole(transaction: Transaction) -> T:
            change = Change(transaction, instance, None)
            moves.refuse(change, instance)
            made = make(change)
            change.flush()
            return made

        return self.transact(whole, instance)

    def _reading_only(self, instance: int, make: Callable[[Change], T]) -> T:
        with self.reading() as transaction:
            return make(Change(transaction, instance, None))
