"""The asking and deciding side of the SQLite store: `ports.desk.Desk`."""

from __future__ import annotations

import contextlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path

import apsw

from onward.errors import UsageError
from onward.model import State
from onward.ports.bill import Bill, Pace
from onward.ports.clock import Clock
from onward.ports.desk import Asked, Asking, Became, Choice, Decided, ExportWish, Word
from onward.ports.facts import Cause, FailedRecord, InstanceFacts, LogEntry, RecordFacts, Standing, Verified
from onward.ports.sink import ExportRow
from onward.ports.work import Pause
from onward.store.sqlite import billing, connection, history, pausing, reconciling
from onward.store.sqlite.asking import Questions
from onward.store.sqlite.deciding import Act
from onward.store.sqlite.liveness import RunLocks


class SqliteDesk:
    """Asks through a connection that can change nothing; one that can is opened for the first act.

    A store in memory has one connection, its writer's, and is asked through that (`shared`).
    """

    def __init__(self, path: Path | None, clock: Clock, shared: apsw.Connection | None = None):
        self.path = path
        self._clock = clock
        self._writer = shared
        if shared is None:
            assert path is not None, "a store in memory has no other connection"
            self._reader = connection.open_reader(path)
        else:
            self._reader = shared
        self._questions = Questions(self._reader, RunLocks(path), clock)

    @property
    def store(self) -> str:
        return str(self.path.absolute()) if self.path else "sqlite://"

    def jobs(self) -> list[str]:
        with connection._plain_errors(self.path):
            return [name for (name,) in self._questions.rows("jobs")]

    def instances(self, job: str) -> list[InstanceFacts]:
        with connection._plain_errors(self.path):
            return self._questions.instances(job)

    def standing(self, instance: int, today: Mapping[str, str]) -> Standing:
        with connection._plain_errors(self.path):
            return self._questions.standing(instance, today)

    def bill(self, instance: int, steps: Sequence[str], again: bool) -> Bill:
        with connection._plain_errors(self.path):
            return billing.read_bill(self._reader, instance, steps, again)

    def pace(self, instance: int) -> Pace | None:
        with connection._plain_errors(self.path):
            return billing.read_pace(self._reader, instance)

    def failures(self, instance: int, states: Sequence[State], kind: str | None) -> Iterator[FailedRecord]:
        with connection._plain_errors(self.path):
            yield from self._questions.failures(instance, states, kind)

    def causes(self, instance: int, states: Sequence[State], kind: str | None) -> list[Cause]:
        with connection._plain_errors(self.path):
            return self._questions.causes(instance, states, kind)

    def find(self, instance: int, keys: Iterable[str]) -> dict[str, int]:
        with connection._plain_errors(self.path):
            return self._questions.find(instance, keys)

    def record(self, record: int) -> RecordFacts:
        with connection._plain_errors(self.path):
            return history.record_facts(self._questions, record)

    def log(self, instance: int, since: float | None, payloads: bool = False) -> Iterator[LogEntry]:
        with connection._plain_errors(self.path):
            yield from history.log(self._questions, instance, since, payloads)

    def verify(self, instances: Sequence[int] | None, expected: str | None) -> Verified:
        with connection._plain_errors(self.path):
            return history.verify(self._questions, instances, expected)

    def export(self, instance: int, wish: ExportWish) -> Iterator[ExportRow]:
        with connection._plain_errors(self.path):
            yield from self._questions.export(instance, wish)

    def sample(self, instance: int, choice: Choice, number: int) -> tuple[list[int], int]:
        with connection._plain_errors(self.path):
            chosen_by = Act(self._reader, self._clock, instance, choice, self._questions.lineages(instance))
            return chosen_by.sample(number)

    def decide(self, instance: int, choice: Choice) -> Decided:
        with self._acting():
            return self._act(instance, choice).decide()

    def correct(self, instance: int, values: Iterable[tuple[int, str]], choice: Choice) -> Decided:
        with self._acting():
            return self._act(instance, choice).correct(values)

    def pauses(self, instance: int) -> list[Pause]:
        with connection._plain_errors(self.path):
            return self._questions.pauses(instance)

    def pause(self, instance: int, group: str | None, actor: str, reason: str | None) -> bool:
        with self._acting():
            return pausing.pause(self._writing(), self._clock, instance, group, actor, reason)

    def resume(self, instance: int, group: str | None, actor: str, reason: str | None) -> bool:
        with self._acting():
            return pausing.resume(self._writing(), self._clock, instance, group, actor, reason)

    def settle(self, instance: int, word: Word) -> State | None:
        (after,) = self.settle_all(instance, [word])
        if isinstance(after, UsageError):
            raise after
        return after

    def settle_all(self, instance: int, words: Sequence[Word]) -> list[State | UsageError | None]:
        with self._acting():
            return reconciling.settle(self._writing(), self._clock, instance, words, self._questions.is_held)

    def ask_again(self, instance: int, asking: Asking) -> Asked:
        with self._acting():
            return reconciling.ask_again(
                self._writing(), self._clock, instance, asking, self._questions.lives, self._questions.is_held
            )

    def became(self, records: Sequence[int]) -> Iterator[Became]:
        with connection._plain_errors(self.path):
            yield from self._questions.became(records)

    def _writing(self) -> apsw.Connection:
        if self._writer is None:
            self._writer, _ = connection.open_writer(self.path, create=False)
        return self._writer

    def _act(self, instance: int, choice: Choice) -> Act:
        chosen_by = self._reader if choice.dry_run else self._writing()
        return Act(chosen_by, self._clock, instance, choice, self._questions.lineages(instance))

    @contextlib.contextmanager
    def _acting(self) -> Iterator[None]:
        try:
            yield
        except apsw.Error as error:
            raise connection.explain(error, self.path) from error

    def close(self) -> None:
        self._reader.close()
        if self._writer is not None:
            self._writer.close()
