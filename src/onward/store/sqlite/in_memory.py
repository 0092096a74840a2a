"""A store in memory for tests of a job: back-offs are over at once, and it can fail as if its process had died."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator

from onward.errors import OnwardError
from onward.model import Fact, State
from onward.ports.clock import Clock
from onward.ports.desk import ExportWish
from onward.ports.sink import ExportRow
from onward.ports.work import Batch, Outcome
from onward.store.sql.asking import PERSON, Questions
from onward.store.sqlite.work import SqliteWorkStore

LONG_AGO = 1.0
MOST_TRIES = 1000
MOST_ASKED = 5


class Crash(Exception):
    """The process "died": what is committed is all that is left of the run."""


class EndlessRetry(OnwardError):
    """A record is put off without end: what a real run waits for never comes here."""

    exit_code = 3


class InMemoryStore(SqliteWorkStore):
    """`dies_after` is asked after each commit, numbered from 1, until it has said yes once. Closing keeps it open."""

    def __init__(self, clock: Clock, store_inputs: bool, dies_after: Callable[[int, Batch], bool]):
        super().__init__(None, clock, store_inputs=store_inputs)
        self._dies_after: Callable[[int, Batch], bool] | None = dies_after
        self._commits = 0
        self._put_off: Counter[int] = Counter()
        self.dead = False

    def write(self, run: int, batch: Batch) -> Outcome:
        if self.dead:
            raise Crash
        for fact in batch.facts:
            fact.not_before = min(fact.not_before, LONG_AGO)
            _do_not_wait_for_an_answer(fact)
        outcome = super().write(run, batch)
        self._commits += 1
        if self._dies_after is not None and self._dies_after(self._commits, batch):
            self._dies_after, self.dead = None, True
            raise Crash
        self._check_patience(batch.facts)
        return outcome

    def _check_patience(self, facts: list[Fact]) -> None:
        """A refusal that costs no attempt (429) is waited out by a real run; without waiting that is a loop."""
        for fact in facts:
            if fact.state is not State.PENDING or fact.failure is None:
                self._put_off.pop(fact.record, None)
                continue
            self._put_off[fact.record] += 1
            if self._put_off[fact.record] >= MOST_TRIES:
                told = f"{fact.failure.error_type}: {fact.failure.message}"
                raise EndlessRetry(
                    f"step {fact.failure.step} put the same record off {MOST_TRIES:,} times in a row ({told}); "
                    "a real run would go on waiting"
                )

    def end_run(self, run: int, exit_code: int, reason: str, detail: str = "") -> str | None:
        return None if self.dead else super().end_run(run, exit_code, reason, detail)

    def revive(self) -> None:
        """Another process begins: the locks of the dead one are gone with it."""
        for run in self._instances:
            self._locks.drop(run)
        self.dead = False

    def close(self) -> None:
        """It is kept: another run may follow."""

    def rows(self, wish: ExportWish) -> Iterator[ExportRow]:
        """An export of its one instance."""
        instance = next(iter(self._instances.values()))
        return Questions(self).export(instance, wish)


def _do_not_wait_for_an_answer(fact: Fact) -> None:
    """What became of a send is asked at once; after a few times in vain no more, and the record stays unconfirmed."""
    if fact.state is not State.UNCONFIRMED or fact.effect is None:
        return
    fact.effect.ask_at = 0.0
    if fact.hold is None and fact.effect.asks >= MOST_ASKED:
        fact.hold, fact.not_before = PERSON, 0.0
        fact.reason = f"it is not known whether it was sent, {fact.effect.asks} sends later"
