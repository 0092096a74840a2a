"""The writing side of the SQLite store: the verbs of `ports.work.WorkStore`, called by one thread."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import apsw
import orjson

from onward.codec import dumps
from onward.errors import LeaseLost, OnwardError, SourceMoved, StoreWriteError
from onward.model import Counts, ResultGroup, State
from onward.policy import transitions
from onward.policy.suspects import DEATHS_TO_SUSPECT
from onward.ports.bill import Bill, Pace
from onward.ports.clock import Clock
from onward.ports.work import Batch, DeadRun, FeedState, GateStanding, OlderOutputs, Outcome, Pause, RunBegun, RunStart
from onward.store.sqlite import (
    batching,
    billing,
    chain,
    claims,
    connection,
    facts,
    feeding,
    gates,
    ledger,
    names,
    spending,
    waits,
)
from onward.store.sqlite.change import Change, storable
from onward.store.sqlite.liveness import RunLocks
from onward.store.sqlite.reading import read_counts, read_older_outputs, read_result_versions

LEASE_SECONDS = 30.0
TIDY_MILLISECONDS = 200


class SqliteWorkStore:
    """One process's writing connection. `lease` in seconds; `path` None keeps everything in memory. `waits` hears, in
    words for people, that another program holds the store.

    After a fault of the disk nothing says what of the log is on it: the connection is not used again, and the log is
    left as it is for who opens the store next.
    """

    def __init__(
        self,
        path: Path | None,
        clock: Clock,
        lease: float = LEASE_SECONDS,
        create: bool = True,
        store_inputs: bool = True,
        waits: Callable[[str], None] | None = None,
    ):
        self.path = path
        self._clock = clock
        self.lease = lease
        self._store_inputs = store_inputs
        self._connection, self.new = connection.open_writer(path, create, waits=waits)
        self._schema = connection.schema_of(self._connection)
        self._identity = connection.identity_of(path)
        self._locks = RunLocks(path)
        self._instances: dict[int, int] = {}
        self._deduped: dict[int, str] = {}
        self._lineages: dict[object, int] = {}
        self._living = ledger.Living(self._is_alive, self._locks.is_held)
        self.batches = batching.SqliteBatches(self._change_by, self._reading)
        self._sends_on: set[int] = set()  # runs that end, or have ended, whose calls may go on in this process
        self._fault: OnwardError | None = None
        self._disk_failed = False

    def begin_run(self, start: RunStart) -> RunBegun:
        run: int | None = None
        start = _storable(start)
        try:
            with self._change(0, None) as change:
                change.execute("insert_instance", job=start.job, name=start.instance, location=start.location)
                new_instance = bool(self._connection.changes())
                names.check(change, start, self._is_alive)
                instance = self._instance(change, start)
                change.instance, change._common["instance"] = instance, instance
                run = self._insert_run(change, start)
                self._locks.hold(run)
                self._deduped[run] = dumps(start.deduped)
                begun = RunBegun(run, instance, new_instance, 0)
                begun.other_keys = names.other_keys(change, start)
                begun.dead_runs, begun.others = self._bury(change, run)
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
        except BaseException:
            if run is not None:
                self._locks.drop(run)
            raise
        self._instances[run] = instance
        return begun

    def write(self, run: int, batch: Batch) -> Outcome:
        outcome = Outcome()
        with self._change_by(run) as change:
            if batch.facts:
                applied = facts.apply(change, batch.facts, self._lineages, self._living)
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
        self._locks.look()
        with self._change(self._instances[run], run) as change:
            return change.execute("renew_run", lease_until=self._clock.steady() + self.lease) == 1

    def take_over(self, run: int) -> list[DeadRun]:
        with self._change_by(run) as change:
            self._ask_about_ended_calls(change)
            return self._bury(change, run)[0]

    def note_stop(self, run: int, reason: str) -> None:
        with self._change(self._instances[run], run) as change:
            change.execute("note_stop", reason=storable(reason))

    def take_feed(self, run: int) -> FeedState | None:
        with self._change_by(run) as change:
            if change.execute("take_feed") != 1:
                return None
            cursor, complete, pass_number, partly_fed, fed_position = change.rows("feed_state")[0]
            if partly_fed == 1:
                change.execute("forget_partial", fed_position=fed_position, pass_number=pass_number)
                change.execute("partial_forgotten")
            return FeedState(cursor, bool(complete), pass_number)

    def begin_pass(self, run: int, again: bool, why: str) -> None:
        with self._change_by(run) as change:
            change.execute("new_pass" if again else "continue_pass")
            if why:
                chain.tell(change, [(None, "source_changed", None, why)])

    def end_run(self, run: int, exit_code: int, reason: str, detail: str = "") -> str | None:
        self._sends_on.add(run)  # where its end cannot be written, only `sends_ended` tells
        self._check_place()
        head = None
        with self._change(self._instances[run], run) as change:
            told = storable(f"{reason}: {detail}" if detail else reason)
            if change.execute("end_run", exit_code=exit_code, reason=told) == 1:
                self._held_by(change, run, death=0)
                spending.bury(change, run)
                change.execute("give_back", to_suspect=DEATHS_TO_SUSPECT)
                head = chain.end(change, run, reason, {"exit_code": exit_code})
            goes_on = run in change.array("given_up_calls")
        if not goes_on:
            self.sends_ended(run)
        return head

    def sends_ended(self, run: int) -> None:
        self._sends_on.discard(run)
        self._locks.drop(run)

    def _ask_about_ended_calls(self, change: Change) -> None:
        """What was given up on may be asked about once its call has returned, or its process has died."""
        ended = [run for run in change.array("given_up_calls") if not self._locks.is_held(run)]
        if ended:
            change.execute("given_up_calls_ended", ended)
            change.execute("ask_about_given_up", ended, to_suspect=DEATHS_TO_SUSPECT)

    def instance_of(self, run: int) -> int:
        return self._instances[run]

    def counts(self, instance: int) -> Counts:
        self._check_fault()
        with connection._plain_errors(self.path):
            return read_counts(self._connection, instance)

    def results_by_version(self, instance: int) -> list[ResultGroup]:
        return read_result_versions(self._connection, instance).groups

    def pauses(self, instance: int) -> list[Pause]:
        self._check_fault()
        with connection._plain_errors(self.path):
            return gates.pauses(Change(self._connection, instance, None, self._clock))

    def waiting_by_gate(self, run: int, only: Sequence[int] | None = None) -> dict[str | None, int]:
        return self._by_gate("waiting_by_gate", run, only)

    def answers_by_gate(self, run: int, only: Sequence[int] | None = None) -> dict[str | None, float]:
        return self._by_gate("answers_by_gate", run, only)

    def _by_gate(self, block: str, run: int, only: Sequence[int] | None) -> dict[str | None, Any]:
        self._check_fault()
        listed = None if only is None else orjson.dumps(list(only)).decode()
        with connection._plain_errors(self.path):
            return dict(self._reading(run).rows(block, only=listed))

    def _reading(self, run: int) -> Change:
        self._check_fault()
        return Change(self._connection, self._instances[run], run, self._clock)

    def note_gates(self, run: int, standings: Sequence[GateStanding], told: Sequence[tuple[str, str]]) -> None:
        with self._change_by(run) as change:
            gates.note(change, standings, told)

    def shared_answer(self, run: int, fingerprint: str) -> str | None:
        with self._change_by(run) as change:
            found = change.one("find_answer", fingerprint=fingerprint)
            return None if found is None else str(found)

    def bill(self, instance: int, steps: Sequence[str]) -> Bill:
        self._check_fault()
        with connection._plain_errors(self.path):
            return billing.read_bill(self._connection, instance, steps, again=False)

    def version_parts(self, instance: int) -> dict[tuple[str, str], dict[str, str]]:
        return billing.read_version_parts(self._connection, instance)

    def note_pace(self, run: int, pace: Pace) -> None:
        with self._change(self._instances[run], run) as change:
            change.execute("note_pace", pace=billing.as_text(pace))

    def older_outputs(self, instance: int, today: Mapping[str, str]) -> OlderOutputs:
        return read_older_outputs(self._connection, instance, today)

    def reset_first_ended(self, run: int) -> int:
        with self._change_by(run) as change:
            chain.tell(change, change.stream("first_failed"))
            total = 0
            for state in (State.FAILED, State.QUARANTINED):
                transitions.require(state, State.PENDING)
                moved = change.execute("reset_first", state=state, to_suspect=DEATHS_TO_SUSPECT)
                change.move(state, State.PENDING, moved)
                total += moved
            change.recount_failures()
            return total

    def tidy(self) -> int:
        if self.path is None or self._disk_failed:
            return 0
        self._connection.set_busy_timeout(TIDY_MILLISECONDS)
        with contextlib.suppress(apsw.Error):  # busy, full or failing: what is not folded in now stays in the log
            self._connection.wal_checkpoint(mode=apsw.SQLITE_CHECKPOINT_TRUNCATE)
        self._connection.set_busy_timeout(connection.BUSY_MILLISECONDS)
        return self.log_bytes()

    def _check_place(self) -> None:
        """SQLite goes on writing to a file that has lost its name; whoever asks for it later finds nothing."""
        if connection.identity_of(self.path) != self._identity:
            raise StoreWriteError(f"{self.path} was deleted, moved or replaced while the run was at work")

    def log_bytes(self) -> int:
        """Size of the write-ahead log."""
        if self.path is None:
            return 0
        log = self.path.with_name(self.path.name + "-wal")
        return log.stat().st_size if log.exists() else 0

    def reopen(self) -> None:
        if self._fault is not None and self.path is not None:
            distrusted, self._connection = self._connection, connection.reopen_writer(self.path)
            # Only now: the first to open a log reads in what was never committed, and needs room for shared memory.
            connection.close_untouched(distrusted)
            self._fault = None

    def close(self) -> None:
        for run in self._instances.keys() - self._sends_on:
            self._locks.drop(run)
        if self._disk_failed:
            connection.close_untouched(self._connection)
        else:
            self._connection.close()

    def _check_fault(self) -> None:
        if self._fault is not None:
            raise self._fault

    @contextlib.contextmanager
    def _change(self, instance: int, run: int | None) -> Iterator[Change]:
        """A transaction whose counters are written with it; driver errors come out in words for people."""
        self._check_fault()
        try:
            with connection.transaction(self._connection):
                # Its moment is that of the lock: others' commits while this one waited for it came before.
                change = Change(self._connection, instance, run, self._clock)
                if connection.schema_of(self._connection) != self._schema:
                    raise StoreWriteError(
                        "a newer onward has brought the store up to date meanwhile; start again with that one"
                    )
                yield change
                change.flush()
        except BaseException as error:
            self._lineages.clear()  # those interned in this transaction are gone with it
            if isinstance(error, apsw.Error):
                told = connection.explain(error, self.path)
                if isinstance(error, apsw.IOError):  # a full disk refuses before anything is written
                    self._fault, self._disk_failed = told, True
                raise told from error
            raise

    @contextlib.contextmanager
    def _change_by(self, run: int) -> Iterator[Change]:
        """A change that only a run may make that was not taken over."""
        with self._change(self._instances[run], run) as change:
            if not change.one("run_is_open"):
                raise LeaseLost(
                    f"run {run} lost its lease to another run; what it had not committed is done again there"
                )
            yield change

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
        change.execute(
            "insert_run",
            host=start.host,
            params=start.params,
            versions=orjson.dumps([[step.name, step.version] for step in start.steps]).decode(),
            effects=orjson.dumps(dict(start.effects)).decode(),
            boot=self._clock.boot,
            lease_until=self._clock.steady() + self.lease,
        )
        run = int(self._connection.last_insert_rowid())
        change.run_number, change._common["run"] = run, run
        chain.begin(change, start.host, start.steps)
        change.execute("insert_versions", [[one.name, one.version, dumps(dict(one.parts))] for one in start.steps])
        return run

    def _bury(self, change: Change, run: int) -> tuple[list[DeadRun], int]:
        """Put back the records of dead runs; and how many others live. Whoever ends a run's row first buries it."""
        dead, living = [], 0
        for other, told, boot, lease_until in change.rows("open_runs", run=run):
            if self._is_alive(other, boot, lease_until):
                living += 1
                continue
            death = int(told is None)
            ended = "died" if death else f"stopped: {told}"
            change.execute("end_run", run=other, exit_code=None, reason=ended)
            spending.bury(change, other)
            reason = "the run that held it died" if death else "the run that held it was told to stop"
            number, started, suspects = self._held_by(change, other, death)
            chain.tell(change, change.stream("held_by_dead", run=other, reason=reason), run=other)
            chain.end(change, other, ended, {"exit_code": None, "found_by": run})
            lives = self._locks.is_held(other)  # its lease has run out, but its calls may go on
            if not lives:
                change.execute("calls_of_dead_ended", run=other)
            calls = {"lives": int(lives), "deduped": self._deduped[run], "to_suspect": DEATHS_TO_SUSPECT}
            change.execute("put_back_dead", None, run=other, death=death, **calls)
            dead.append(DeadRun(other, told is not None, number, started, suspects))
        return dead, living

    def _held_by(self, change: Change, run: int, death: int) -> tuple[int, int, int]:
        """Count what a run holds as put back; how many, how many of them had started, and how many become suspects."""
        totals = [0, 0, 0]
        for vanished, state, *numbers in change.rows("held_by", run=run, death=death, to_suspect=DEATHS_TO_SUSPECT):
            transitions.require(State.IN_PROGRESS, State(state))
            change.move(State.IN_PROGRESS, State(state), numbers[0], gone=bool(vanished))
            totals = [total + number for total, number in zip(totals, numbers, strict=True)]
        return totals[0], totals[1], totals[2]

    def _is_alive(self, run: int, boot: str, lease_until: float) -> bool:
        return boot == self._clock.boot and lease_until > self._clock.steady() and self._locks.is_held(run)

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
