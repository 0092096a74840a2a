"""The writing side of the PostgreSQL store."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import TypeVar

from onward.errors import HistoryLost, LeaseLost, OnwardError
from onward.model import Entry, Fact
from onward.ports.clock import Clock
from onward.ports.work import Batch, DeadRun, GateStanding, Outcome, RunBegun, RunStart
from onward.store.postgres import lost
from onward.store.postgres.address import Address
from onward.store.postgres.line import LEDGER, Entangled, Line, Lock
from onward.store.postgres.sending import Sending
from onward.store.postgres.transaction import LeaseLife, PostgresTransaction
from onward.store.sql.change import Change
from onward.store.sql.transaction import Life, Reach, Transaction
from onward.store.sql.work import LEASE_SECONDS, SqlWorkStore

T = TypeVar("T")
SAME_TIME = 0.05
"""Seconds by which clocks may differ before times are told by the other's."""
_ALL = (LEDGER, Lock.ALONE)


class PostgresWorkStore(SqlWorkStore):
    """One process's writing connection. `lease` in seconds. `waits` hears, in words for people, that the database is
    gone and waited for.

    Times are those of the server's clock. Those that cross the port are told by the clock of this process.
    """

    def __init__(
        self,
        address: Address,
        clock: Clock,
        lease: float = LEASE_SECONDS,
        create: bool = True,
        store_inputs: bool = True,
        waits: Callable[[str], None] | None = None,
    ):
        super().__init__(lease, store_inputs)
        self.address = address
        self._clock = clock
        self._life = LeaseLife()
        self._owing: set[int] = set()  # instances whose jobs have effects
        self._begun_by: dict[int, int] = {}  # the change by which each run began
        self._forgotten: set[int] = set()  # runs that the server has lost
        self._tail = lost.Tail()
        self._lost: HistoryLost | None = None
        self._replaced = False
        self._tell = waits
        self._line = Line(address, clock, waits, create)
        self.new = self._line.new
        self._sending = Sending(address, lease)

    @property
    def life(self) -> Life:
        return self._life

    def reading(self) -> AbstractContextManager[Transaction]:
        return self._plain_reading()

    @contextlib.contextmanager
    def _plain_reading(self) -> Iterator[Transaction]:
        with self._minding_losses(), self._line.explained(), self._line.reading() as transaction:
            yield transaction

    def _read(self, ask: Callable[[Transaction], T]) -> T:
        with self._minding_losses(), self._line.explained():
            return self._line.read(ask)

    def transact(
        self, make: Callable[[Transaction], T], instance: int | None, reach: Reach = Reach.ALL, run: int | None = None
    ) -> T:
        """See "What is locked" in ARCHITECTURE.md."""
        about = None if instance is None or run is None else {"instance": instance, "run": run}
        with self._minding_losses(), self._line.explained():
            if reach is Reach.OWN_ROW:
                return self._line.change(make, [])
            if reach is Reach.HELD and instance is not None:
                with contextlib.suppress(Entangled):
                    return self._beside(make, instance, about)
            mine = [] if instance is None else [(instance, Lock.ALONE)]
            return self._line.change(make, [_ALL, *mine], about)

    def _beside(self, make: Callable[[Transaction], T], instance: int, about: Mapping[str, int] | None) -> T:
        def whole(transaction: PostgresTransaction) -> T:
            if transaction.own_rows("is_entangled", {"instance": instance})[0][0]:
                raise Entangled
            return make(transaction)

        ledger = [_ALL] if instance in self._owing else []
        return self._line.change(whole, [*ledger, (instance, Lock.SHARED)], about)

    def begin_run(self, start: RunStart) -> RunBegun:
        begun = super().begin_run(start)
        self._begun_by[begun.run] = self._line.made
        if start.effects:
            self._owing.add(begun.instance)
        if self._replaced and self._tell is not None:
            self._tell(lost.REPLACED.format(self.address.shown))
        return begun

    def _begin(self, change: Change, start: RunStart, tried: list[int]) -> RunBegun:
        transaction = change.transaction
        assert isinstance(transaction, PostgresTransaction)
        self._replaced = lost.is_replaced(transaction)
        begun = super()._begin(change, start, tried)
        transaction.own_execute("fold_counts", {"instance": begun.instance})
        return begun

    def write(self, run: int, batch: Batch) -> Outcome:
        outcome = super().write(run, batch)
        self._tail.note(self._line.made, run, batch.facts, outcome, self._offset())
        return outcome

    def take_over(self, run: int) -> list[DeadRun]:
        """Runs look for the dead once a second: what finds none only reads."""
        instance = self._instances[run]

        def look(transaction: Transaction) -> tuple[bool, bool]:
            assert isinstance(transaction, PostgresTransaction)
            bindings = {"instance": instance, "run": run, "now": transaction.now}
            is_open = bool(transaction.rows("run_is_open", bindings)[0][0])
            return is_open, bool(transaction.own_rows("some_died", bindings)[0][0])

        is_open, some_died = self._read(look)
        if not is_open:
            raise LeaseLost(f"run {run} lost its lease to another run; what it had not committed is done again there")
        # After an outage leases have run out that could not be renewed: who lives gets time to come back.
        return super().take_over(run) if some_died and not self._line.is_just_back(self.lease) else []

    def _write(self, change: Change, batch: Batch) -> Outcome:
        transaction = change.transaction
        assert isinstance(transaction, PostgresTransaction)
        offset = transaction.offset
        if abs(offset) < SAME_TIME:
            return super()._write(change, batch)
        outcome = super()._write(change, replace(batch, facts=[_by_the_server(fact, offset) for fact in batch.facts]))
        if outcome.next_due is not None:
            outcome.next_due -= offset
        for met in outcome.met.values():
            _by_this_clock(met.entry, offset)
        for claimed in outcome.claimed:
            for one in claimed:
                for entry in one.entries.values():
                    _by_this_clock(entry, offset)
        return outcome

    def answers_by_gate(self, run: int, only: Sequence[int] | None = None) -> dict[str | None, float]:
        found = super().answers_by_gate(run, only)
        offset = self._offset()
        return {gate: at - offset if at else at for gate, at in found.items()} if offset else found

    def note_gates(self, run: int, standings: Sequence[GateStanding], told: Sequence[tuple[str, str]]) -> None:
        offset = self._offset()
        if offset:
            standings = [one if one.until is None else replace(one, until=one.until + offset) for one in standings]
        super().note_gates(run, standings, told)

    def _offset(self) -> float:
        offset = self._line.offset
        return offset if abs(offset) >= SAME_TIME else 0.0

    def _note_alive(self, run: int) -> None:
        """Its row tells."""

    def _note_sending(self, change: Change, run: int) -> None:
        transaction = change.transaction
        assert isinstance(transaction, PostgresTransaction)
        transaction.own_execute("note_sending", {"run": run, "now": transaction.now, "lease": self.lease})
        self._sending.begin(run)

    def _note_over(self, run: int) -> None:
        self._sending.end(run)

    def log_bytes(self) -> int:
        """Its log is the server's business."""
        return 0

    def tidy(self) -> int:
        return 0

    def end_run(self, run: int, exit_code: int, reason: str, detail: str = "") -> str | None:
        if run in self._forgotten:  # another run may have its number by now
            self.sends_ended(run)
            return None
        return super().end_run(run, exit_code, reason, detail)

    def _of_its_row(self, run: int, make: Callable[[Change], T]) -> T:
        if run in self._forgotten:
            raise HistoryLost(f"{self.address.shown} knows nothing of run {run} any more")
        return super()._of_its_row(run, make)

    @contextlib.contextmanager
    def _minding_losses(self) -> Iterator[None]:
        """Once the server is known to have lost something, a run changes nothing any more but to end."""
        if self._lost is not None:
            raise self._lost
        try:
            yield
        except HistoryLost as error:
            self._lost = self._taken_stock(error)
            raise self._lost from None

    def _taken_stock(self, found: HistoryLost) -> HistoryLost:
        """The loss in words for people, once what can be put back is."""
        kept = found.kept
        self._forgotten |= {run for run, change in self._begun_by.items() if kept is None or change > kept}
        intents = self._tail.after(kept)
        try:
            number, strangers = self._put_back(intents)
            told = lost.told(number, strangers, self._tail.is_whole_after(kept))
        except OnwardError as error:
            keys = [one.key for ones in intents.values() for one in ones]
            told = lost.told(0, keys, self._tail.is_whole_after(kept)) + f"; they could not be put back ({error})"
        whole = HistoryLost(f"{found}. {told}", kept)
        whole.exit_code = 4 if self._owing else 3
        return whole

    def _put_back(self, intents: dict[int, list[lost.Intent]]) -> tuple[int, list[str]]:
        self._line.sign_in_anew()
        total, strangers = 0, list[str]()
        for run, ones in intents.items():

            def make(transaction: Transaction, run: int = run, ones: list[lost.Intent] = ones) -> tuple[int, list[str]]:
                change = Change(transaction, self._instances[run], None if run in self._forgotten else run)
                made = lost.put_back(change, run, ones)
                change.flush()
                return made

            with self._line.explained():
                number, unknown = self._line.change(make, [_ALL, (self._instances[run], Lock.ALONE)])
            total += number
            strangers += unknown
        return total, strangers

    def reopen(self) -> None:
        """A connection that was lost is opened anew by whatever needs it; after a loss runs may end that are known."""
        if self._begun_by.keys() - self._forgotten:
            self._lost = None

    def close(self) -> None:
        self._line.close()


def _by_the_server(fact: Fact, offset: float) -> Fact:
    effect = fact.effect
    if effect is not None and effect.ask_at:
        effect = replace(effect, ask_at=effect.ask_at + offset)
    return replace(fact, not_before=fact.not_before + offset if fact.not_before else 0.0, effect=effect)


def _by_this_clock(entry: Entry, offset: float) -> None:
    entry.first_at -= offset
    entry.intended_at -= offset
    if entry.ask_at:
        entry.ask_at -= offset
    if entry.sent_at is not None:
        entry.sent_at -= offset
    if entry.ended_at is not None:
        entry.ended_at -= offset
