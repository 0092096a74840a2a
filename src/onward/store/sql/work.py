"""The writing side of a SQL store: the verbs of `ports.work.WorkStore`, called by one thread."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from functools import partial
from typing import Any, TypeVar

import orjson

from onward.codec import dumps
from onward.errors import LeaseLost, SourceMoved
from onward.model import Counts, ResultGroup, State
from onward.policy import transitions
from onward.policy.suspects import DEATHS_TO_SUSPECT
from onward.ports.bill import Bill
from onward.ports.work import (
    Batch,
    DeadRun,
    FeedState,
    GateStanding,
    Offer,
    OlderOutputs,
    Orders,
    Outcome,
    RunBegun,
    RunStart,
    Shared,
    Work,
)
from onward.store.sql import (
    batching,
    billing,
    chain,
    claims,
    facts,
    feeding,
    gates,
    moves,
    names,
    operating,
    sharing,
    spending,
    waits,
)
from onward.store.sql.burying import bury, put_back
from onward.store.sql.change import Change, storable
from onward.store.sql.reading import read_counts, read_older_outputs, read_result_versions
from onward.store.sql.transaction import Life, Reach, Transaction

LEASE_SECONDS = 30.0
T = TypeVar("T")


class SqlWorkStore(ABC):
    """One process's writing connection. `lease` in seconds. A dialect makes changes durable, reads, knows who lives.

    What makes a change may be called again where the database undid it: it keeps nothing of an attempt that failed.
    """

    def __init__(self, lease: float, store_inputs: bool):
        self.lease = lease
        self._store_inputs = store_inputs
        self._instances: dict[int, int] = {}
        self._deduped: dict[int, str] = {}
        self._lineages: dict[object, int] = {}
        self._lineages_are_sure = True
        self.batches = batching.SqlBatches(self._change_by, self._reading_of)
        self._sends_on: set[int] = set()  # runs that end, or have ended, whose calls may go on in this process

    @property
    @abstractmethod
    def life(self) -> Life:
        """Which runs live."""

    @abstractmethod
    def reading(self) -> AbstractContextManager[Transaction]:
        """One consistent reading, in words for people where it fails."""

    @abstractmethod
    def transact(
        self, make: Callable[[Transaction], T], instance: int | None, reach: Reach = Reach.ALL, run: int | None = None
    ) -> T:
        """What `make` brings, once its change is durable; StoreWriteError where it cannot be. `instance` None: one
        that is not known yet. `run`: whose change it is."""

    @abstractmethod
    def _note_alive(self, run: int) -> None:
        """A run begins in this process."""

    @abstractmethod
    def _note_over(self, run: int) -> None:
        """Nothing of a run goes on in this process any more."""

    def _check_place(self) -> None:  # noqa: B027 - not every dialect has a place that can be lost
        """Raises StoreWriteError where what is written is not found any more."""

    def _change(
        self, instance: int | None, run: int | None, make: Callable[[Change], T], reach: Reach = Reach.ALL
    ) -> T:
        """A transaction whose counters are written with it."""

        def whole(transaction: Transaction) -> T:
            if not self._lineages_are_sure:
                self._lineages.clear()  # those interned in a transaction that failed are gone with it
            self._lineages_are_sure = False
            change = Change(transaction, instance or 0, run)
            made = make(change)
            change.flush()
            return made

        made = self.transact(whole, instance, reach, run)
        self._lineages_are_sure = True
        return made

    def _change_by(self, run: int, make: Callable[[Change], T], reach: Reach = Reach.ALL) -> T:
        """A change that only a run may make that was not taken over."""

        def whole(change: Change) -> T:
            if not change.one("run_is_open"):
                raise LeaseLost(
                    f"run {run} lost its lease to another run; what it had not committed is done again there"
                )
            return make(change)

        return self._change(self._instances[run], run, whole, reach)

    def begin_run(self, start: RunStart) -> RunBegun:
        start = _storable(start)
        tried: list[int] = []
        try:
            begun = self._change(None, None, lambda change: self._begin(change, start, tried))
        except BaseException:
            for run in tried:
                self._note_over(run)
            raise
        for run in tried:
            if run != begun.run:
                self._note_over(run)
        self._instances[begun.run] = begun.instance
        return begun

    def _begin(self, change: Change, start: RunStart, tried: list[int]) -> RunBegun:
        """`tried`: numbers that the run has had, of which only that of the change that is made durable is its own."""
        is_new = change.execute("insert_instance", job=start.job, name=start.instance, location=start.location) > 0
        moves.refuse(change, int(change.rows("find_instance", job=start.job, name=start.instance)[0][0]))
        names.check(change, start, partial(self.life.is_alive, change.transaction))
        instance = self._instance(change, start)
        change.transaction.be_alone_in(instance)
        change.is_about(instance, None)
        run = self._insert_run(change, start)
        change.is_about(instance, run)
        chain.begin(change, start.host, start.steps)
        change.execute("insert_versions", [[one.name, one.version, dumps(dict(one.parts))] for one in start.steps])
        tried.append(run)
        self._note_alive(run)
        self._deduped[run] = dumps(start.deduped)
        begun = RunBegun(run, instance, is_new, 0)
        begun.other_keys = names.other_keys(change, start)
        begun.dead_runs, begun.others = bury(change, self.life, run, self._deduped[run])
        if start.ceilings:
            begun.alone = sharing.begin(change)
        if start.effects:
            change.execute("begin_times_anew")
        self._ask_about_ended_calls(change)
        if not start.asks_only:
            if not begun.others:
                begun.reset_failed = self._reset_failed(change, start)
            change.execute("release_stale")
            change.execute("release_undecodable")
            batching.release(change, start)
            gates.forget_others(change, start.gates)
        return begun

    def write(self, run: int, batch: Batch) -> Outcome:
        alone = batch.blocks or batch.reservations or any(fact.deferral is not None for fact in batch.facts)
        return self._change_by(run, lambda change: self._write(change, batch), Reach.ALL if alone else Reach.HELD)

    def _write(self, change: Change, batch: Batch) -> Outcome:
        outcome = Outcome()
        if batch.facts:
            applied = facts.apply(change, batch.facts, self._lineages, self.life)
            outcome.lost, outcome.met, outcome.renewed = applied.lost, applied.met, applied.renewed
        spending.settle(change, batch.facts, batch.spending)
        for reservation in batch.reservations:
            outcome.reserved.append(spending.reserve(change, reservation))
        for block in batch.blocks:
            outcome.fed.append(feeding.apply(change, block, self._store_inputs))
        if batch.wishes:
            waits.mend(change)
        for wish in batch.wishes:
            outcome.claimed.append(claims.claim(change, wish))
        if batch.wishes:
            outcome.next_due = claims.next_due(change, batch.wishes[-1])
        return outcome

    def renew(self, run: int) -> bool:
        self._check_place()
        return self._of_its_row(run, lambda change: change.execute("renew_run", lease=self.lease) == 1)

    def take_over(self, run: int) -> list[DeadRun]:
        def make(change: Change) -> list[DeadRun]:
            self._ask_about_ended_calls(change)
            return bury(change, self.life, run, self._deduped[run])[0]

        return self._change_by(run, make)

    def note_stop(self, run: int, reason: str) -> None:
        self._of_its_row(run, lambda change: change.execute("note_stop", reason=storable(reason)))

    def _of_its_row(self, run: int, make: Callable[[Change], T]) -> T:
        """A change of nothing but a run's own row, also where it was taken over."""
        return self._change(self._instances[run], run, make, Reach.OWN_ROW)

    def take_feed(self, run: int) -> FeedState | None:
        def make(change: Change) -> FeedState | None:
            if change.execute("take_feed") != 1:
                return None
            cursor, complete, pass_number, partly_fed, fed_position = change.rows("feed_state")[0]
            if partly_fed == 1:
                change.execute("forget_partial", fed_position=fed_position, pass_number=pass_number)
                change.execute("partial_forgotten")
            return FeedState(cursor, bool(complete), pass_number)

        return self._change_by(run, make)

    def begin_pass(self, run: int, again: bool, why: str) -> None:
        def make(change: Change) -> None:
            change.execute("new_pass" if again else "continue_pass")
            if why:
                chain.tell(change, [(None, "source_changed", None, why)])

        self._change_by(run, make)

    def end_run(self, run: int, exit_code: int, reason: str, detail: str = "") -> str | None:
        self._sends_on.add(run)  # where its end cannot be written, only `sends_ended` tells
        self._check_place()
        told = storable(f"{reason}: {detail}" if detail else reason)

        def make(change: Change) -> tuple[str | None, bool]:
            head = None
            if change.execute("end_run", exit_code=exit_code, reason=told) == 1:
                put_back(change, run, death=0)
                spending.bury(change, run)
                change.send("drop_shares")
                change.execute("give_back", to_suspect=DEATHS_TO_SUSPECT)
                head = chain.end(change, run, reason, {"exit_code": exit_code})
            goes_on = run in change.array("given_up_calls")
            if goes_on:
                self._note_sending(change, run)
            return head, goes_on

        head, goes_on = self._change(self._instances[run], run, make)
        if not goes_on:
            self.sends_ended(run)
        return head

    def _note_sending(self, change: Change, run: int) -> None:  # noqa: B027 - where its process tells it, that will do
        """A run ends whose calls go on."""

    def sends_ended(self, run: int) -> None:
        self._sends_on.discard(run)
        self._note_over(run)

    def _ask_about_ended_calls(self, change: Change) -> None:
        """What was given up on may be asked about once its call has returned, or its process has died."""
        given_up = change.array("given_up_calls")
        ended = [run for run in given_up if not self.life.is_held(change.transaction, run)]
        if ended:
            change.execute("given_up_calls_ended", ended)
            change.execute("ask_about_given_up", ended, to_suspect=DEATHS_TO_SUSPECT)

    def instance_of(self, run: int) -> int:
        return self._instances[run]

    def counts(self, instance: int) -> Counts:
        return self._read(lambda transaction: read_counts(transaction, instance))

    def results_by_version(self, instance: int) -> list[ResultGroup]:
        return self._read(lambda transaction: read_result_versions(transaction, instance).groups)

    def orders(self, run: int) -> Orders:
        return self._read(lambda transaction: operating.orders(transaction, self._instances[run], run))

    def waiting_by_gate(self, run: int, only: Sequence[int] | None = None) -> dict[str | None, int]:
        return self._by_gate("waiting_by_gate", run, only)

    def answers_by_gate(self, run: int, only: Sequence[int] | None = None) -> dict[str | None, float]:
        return self._by_gate("answers_by_gate", run, only)

    def _by_gate(self, block: str, run: int, only: Sequence[int] | None) -> dict[str | None, Any]:
        listed = None if only is None else orjson.dumps(list(only)).decode()
        return self._reading_of(run, lambda reading: dict(reading.rows(block, only=listed)))

    def _reading_of(self, run: int, ask: Callable[[Change], T]) -> T:
        return self._read(lambda transaction: ask(Change(transaction, self._instances[run], run)))

    def _read(self, ask: Callable[[Transaction], T]) -> T:
        """What `ask` finds in one consistent reading; it may be asked again where the database was gone."""
        with self.reading() as transaction:
            return ask(transaction)

    def note_gates(self, run: int, standings: Sequence[GateStanding], told: Sequence[tuple[str, str]]) -> None:
        self._change_by(run, lambda change: gates.note(change, standings, told))

    def share(self, run: int, offers: Sequence[Offer]) -> Shared:
        return self._change_by(run, lambda change: sharing.share(change, offers))

    def shared_answer(self, run: int, fingerprint: str) -> str | None:
        def make(change: Change) -> str | None:
            found = change.one("find_answer", fingerprint=fingerprint)
            return None if found is None else str(found)

        return self._change_by(run, make, Reach.HELD)

    def bill(self, instance: int, steps: Sequence[str]) -> Bill:
        return self._read(lambda transaction: billing.read_bill(transaction, instance, steps, again=False))

    def version_parts(self, instance: int) -> dict[tuple[str, str], dict[str, str]]:
        return self._read(lambda transaction: billing.read_version_parts(transaction, instance))

    def note_work(self, run: int, work: Work) -> None:
        pace = None if work.pace is None else billing.as_text(work.pace)

        def make(change: Change) -> int:
            return change.execute("note_work", done=work.done, rate=work.rate, concurrency=work.concurrency, pace=pace)

        self._of_its_row(run, make)

    def older_outputs(self, instance: int, today: Mapping[str, str]) -> OlderOutputs:
        return self._read(lambda transaction: read_older_outputs(transaction, instance, today))

    def reset_first_ended(self, run: int) -> int:
        def make(change: Change) -> int:
            chain.tell(change, change.stream("first_failed"))
            total = 0
            for state in (State.FAILED, State.QUARANTINED):
                transitions.require(state, State.PENDING)
                moved = change.execute("reset_first", state=state, to_suspect=DEATHS_TO_SUSPECT)
                change.move(state, State.PENDING, moved)
                total += moved
            change.recount_failures()
            return total

        return self._change_by(run, make)

    def _instance(self, change: Change, start: RunStart) -> int:
        row = change.rows("find_instance", job=start.job, name=start.instance)[0]
        instance, location = int(row[0]), row[1]
        if start.location is not None and location != start.location:
            if location is not None and not start.source_changed:
                raise SourceMoved(
                    f"this instance of {start.job} was fed from {location}, now it is {start.location}; "
                    "if that is meant, say --source-changed, else give the other input an instance of its own"
                )
            change.execute("move_instance", location=start.location, instance=instance)
        return instance

    def _insert_run(self, change: Change, start: RunStart) -> int:
        return int(
            change.one(
                "insert_run",
                host=start.host,
                pid=start.pid,
                params=start.params,
                versions=orjson.dumps([[step.name, step.version] for step in start.steps]).decode(),
                effects=orjson.dumps(dict(start.effects)).decode(),
                lease=self.lease,
            )
        )

    def _reset_failed(self, change: Change, start: RunStart) -> int:
        transitions.require(State.FAILED, State.PENDING)
        versions = orjson.dumps([[step.name, step.version] for step in start.steps]).decode()
        change.execute("failed_again", versions=versions)
        chain.tell(change, change.stream("failed_before"))
        moved = change.execute("reset_failed", to_suspect=DEATHS_TO_SUSPECT)
        if moved:
            change.move(State.FAILED, State.PENDING, moved)
            change.recount_failures()
        return moved


def _storable(start: RunStart) -> RunStart:
    location = None if start.location is None else storable(start.location)
    job, instance, host, params = map(storable, (start.job, start.instance, start.host, start.params))
    return replace(start, location=location, job=job, instance=instance, host=host, params=params)
