"""The questions of `ports.desk.Desk`: each one short reading, or a list spooled in one and then read page by page."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, closing
from typing import Any

import orjson

from onward.codec import loads
from onward.errors import StoreError
from onward.model import Counts, State, StepVersion
from onward.policy.effects import SENDING, UNDECODABLE
from onward.policy.suspects import SUSPECT
from onward.ports.desk import Became, ExportWish
from onward.ports.facts import Cause, FailedRecord, InFlight, InstanceFacts, RunFacts, Standing, Waiting
from onward.ports.sink import ExportRow
from onward.ports.work import Pause
from onward.store.sql import operating
from onward.store.sql.batching import BATCH
from onward.store.sql.reading import read_counts, read_older_outputs, read_result_versions
from onward.store.sql.spool import NOTHING, Spool
from onward.store.sql.transaction import Readable, Row, Transaction

PAGE = 500
PAGE_BYTES = 8 << 20
IN_FLIGHT = 10
STATES = list(State)

ELSEWHERE = "elsewhere"
Lineage = tuple[dict[str, str], str | None]
WAITS = {
    None: "back-off after a failure",
    "stale": "a stored output no longer decodes; rerun makes it anew",
    UNDECODABLE: "a person: an effect is open, and what is stored of it no longer decodes",
    SENDING: "the end of a call that may still be sending, or of its process (if that is stopped for good, end it)",
    ELSEWHERE: "the outcome of another record, which has taken the obligation over",
    BATCH: "the answer to a request that is sent together with others",
    SUSPECT: "suspected of killing its process; the next run tries it in a child process",
}
PERSON = "person"
A_PERSON = "a person's word"
AN_ANSWER = "an answer about what was, or may have been, sent"
VANISHED_OPEN = "an effect still open of a record that is no longer in the source"
INPUT_WAITS = "an effect, open or sent: their input has changed, and the new one waits"
VACUUMED = "results that were being read have been removed meanwhile by onward vacuum; read them again"
DEAD_HOLDER = "held by a run that died; the next run takes it up"


class Questions:
    """Asks one store."""

    def __init__(self, store: Readable):
        self._store = store

    def rows(self, block: str, **bindings: Any) -> list[tuple[Any, ...]]:
        with self.one_reading() as transaction:
            return transaction.rows(block, bindings)

    def one_reading(self) -> AbstractContextManager[Transaction]:
        """What is asked inside sees one state of the store."""
        return self._store.reading()

    def instances(self, job: str) -> list[InstanceFacts]:
        with self.one_reading() as transaction:
            return [self._instance(transaction, number, name) for number, name in self.rows("instances", job=job)]

    def _instance(self, transaction: Transaction, number: int, name: str) -> InstanceFacts:
        newest = self.rows("newest_run", instance=number)
        params, versions = newest[0] if newest else ("{}", "[]")
        runs = self.runs(number)
        return InstanceFacts(
            number,
            name,
            read_counts(transaction, number),
            params,
            tuple(StepVersion(step, version) for step, version in orjson.loads(versions)),
            runs[-1] if runs else None,
        )

    def runs(self, instance: int) -> list[RunFacts]:
        with self.one_reading() as transaction:
            return [self._run(transaction, *row) for row in transaction.rows("runs", {"instance": instance})]

    def _run(
        self,
        transaction: Transaction,
        run: int,
        started: float,
        ended: float | None,
        exit_code: int | None,
        host: str,
        reason: str | None,
        told: str | None,
        boot: str,
        lease_until: float,
        head: str,
        *work: Any,
    ) -> RunFacts:
        alive = ended is None and self._store.life.is_alive(transaction, run, boot, lease_until)
        lease = lease_until - transaction.steady if ended is None and boot == transaction.boot else None
        return RunFacts(run, started, ended, exit_code, host, reason, told, alive, head, lease, *work)

    def _now(self) -> float:
        with self.one_reading() as transaction:
            return transaction.now

    def standing(self, instance: int, today: Mapping[str, str]) -> Standing:
        with self.one_reading() as transaction:
            counts = read_counts(transaction, instance)
            runs = self.runs(instance)
            alive = orjson.dumps([run.run for run in runs if run.alive]).decode()
            return Standing(
                counts,
                read_result_versions(transaction, instance).groups,
                self._waiting(instance, counts, runs, alive),
                runs,
                [
                    self._in_flight(*row)
                    for row in self.rows("in_flight", instance=instance, alive=alive, limit=IN_FLIGHT)
                ],
                read_older_outputs(transaction, instance, today),
                transaction.now,
                operating.concurrency(transaction, instance),
            )

    def _waiting(self, instance: int, counts: Counts, runs: list[RunFacts], alive: str) -> list[Waiting]:
        found = []
        number, until = self.rows("back_off", instance=instance, now=self._now())[0]
        if number:
            found.append(Waiting(WAITS[None], number, until))
        found += self.at_gates(instance, dict(self.rows("count_by_gate", instance=instance)), runs)
        others = {hold: number for hold, number in counts.held.items() if hold not in (PERSON, BATCH)}
        found += [Waiting(WAITS.get(hold, hold), number) for hold, number in others.items()]
        if counts.held.get(BATCH):
            found += [_batch(*row) for row in self.rows("batches_waited_for", instance=instance)]
        found += self._unconfirmed(instance)
        found += [Waiting(INPUT_WAITS, counts.inputs_waiting)] if counts.inputs_waiting else []
        orphans = self.rows("held_by_the_dead", instance=instance, alive=alive)[0][0]
        if orphans:
            found.append(Waiting(DEAD_HOLDER, orphans))
        return found

    def pauses(self, instance: int) -> list[Pause]:
        return [Pause(name or None, *rest) for name, *rest in self.rows("pauses", instance=instance)]

    def at_gates(self, instance: int, counts: Mapping[str | None, int], runs: list[RunFacts]) -> list[Waiting]:
        """What people have paused, and what keeps records of a group, or of all, from being taken up. `counts`: how
        many wait where."""
        found = []
        for pause in self.pauses(instance):
            number = sum(n for gate, n in counts.items() if pause.group in (None, _group_of(gate)))
            found.append(Waiting(str(pause), number, None, pause.at))
        alive = {run.run for run in runs if run.alive}
        told: set[str] = set()
        for gate, whole, reason, until, run in self.rows("standings", instance=instance):
            number = counts.get(gate, 0) + (counts.get(None, 0) if whole else 0)
            holds = run in alive or (until is not None and until > self._now())
            if number and holds and gate not in told:
                told.add(gate)
                found.append(Waiting(reason, number, until))
        return found

    def _unconfirmed(self, instance: int) -> Iterator[Waiting]:
        """Those that are asked about again, and those that wait for a person, by what they wait for in general."""
        number, until = self.rows("unconfirmed_due", instance=instance)[0]
        if number:
            yield Waiting(AN_ANSWER, number, until or None)
        general: dict[str, tuple[int, float]] = {}
        for said, number, since in self.rows("unconfirmed_held", instance=instance):
            reason = (said or "").partition(": ")[0]
            known, first = general.get(reason, (0, since))
            general[reason] = known + number, min(first, since)
        for reason, (number, since) in general.items():
            yield Waiting(f"{A_PERSON}: {reason}" if reason else A_PERSON, number, None, since)
        number, until, first_since = self.rows("unconfirmed_vanished", instance=instance)[0]
        if number:
            yield Waiting(VANISHED_OPEN, number, until, first_since)

    def became(self, records: Sequence[int]) -> Iterator[Became]:
        for start in range(0, len(records), PAGE):
            listed = orjson.dumps(list(records[start : start + PAGE])).decode()
            for key, state, step, *waits in self.rows("became", rows=listed):
                yield Became(key, State(state), step, waiting(state, *waits))

    def _in_flight(self, key: str, step: str | None, since: float, run: int, record: int, generation: int) -> InFlight:
        done = dict(self.rows("steps_done", record=record, generation=generation))
        return InFlight(key, step, frozenset(done), max(since, *done.values(), 0.0), run)

    def failures(self, instance: int, states: Sequence[State], kind: str | None) -> Iterator[FailedRecord]:
        among = orjson.dumps(states).decode()
        with Spool(1) as spool:
            with self.one_reading() as transaction:
                bindings = {"instance": instance, "states": among, "kind": kind}
                spool.fill(transaction.stream("failed_records", bindings))
            for page in spool.pages(PAGE):
                ids = orjson.dumps([record for (record,) in page]).decode()
                for row in self.rows("failed_page", rows=ids, states=among):
                    yield _failed_record(*row)

    def causes(self, instance: int, states: Sequence[State], kind: str | None) -> list[Cause]:
        among = orjson.dumps(states).decode()
        found = []
        for row in self.rows("causes", instance=instance, states=among, kind=kind):
            step, named_kind, error_type, failed, quarantined, unconfirmed, key, message, said, _ = row
            numbers = {State.FAILED: failed, State.QUARANTINED: quarantined, State.UNCONFIRMED: unconfirmed}
            found.append(Cause(step, named_kind, error_type, numbers, key, _error(message, said)))
        return sorted(found, key=lambda cause: -sum(cause.states.values()))

    def find(self, instance: int, keys: Iterable[str]) -> dict[str, int]:
        return dict(self.rows("find", instance=instance, keys=orjson.dumps(list(keys)).decode()))

    def lineages(self, instance: int) -> dict[int, Lineage]:
        return {
            number: (dict(orjson.loads(versions)), skipped)
            for number, versions, skipped in self.rows("lineages", instance=instance)
        }

    def export(self, instance: int, wish: ExportWish) -> Iterator[ExportRow]:
        with Spool(5) as spool:
            with self.one_reading() as transaction:
                lineages = self.lineages(instance)
                spool.fill(self._exported(transaction, instance, wish))
            for page in spool.pages(PAGE):
                while page:
                    rows = self._export_page(page, lineages, wish)
                    yield from rows
                    page = page[len(rows) :]

    def _exported(self, transaction: Transaction, instance: int, wish: ExportWish) -> Generator[Row]:
        bindings: dict[str, Any] = {"instance": instance, "place": STATES.index(wish.state or State.SUCCEEDED)}
        if wish.vanished or wish.state is None:
            bindings |= {"vanished": int(wish.vanished), "states": orjson.dumps(STATES).decode()}
            return transaction.stream("export_whole", bindings)
        if wish.state is State.SUCCEEDED:
            block = "export_last" if wish.generations == "last" else "export_all_generations"
            return transaction.stream(block, bindings)
        return transaction.stream("export_state", {**bindings, "state": wish.state})

    def _export_page(
        self, page: Sequence[tuple[int, ...]], lineages: dict[int, Lineage], wish: ExportWish
    ) -> list[ExportRow]:
        """The first rows of the page, as many as fit, in one reading: outputs may be large."""
        listed = {"rows": orjson.dumps(page).decode()}
        rows: list[ExportRow] = []
        size = 0
        with (
            self.one_reading() as transaction,
            closing(transaction.stream("export_records", listed)) as records,
            closing(transaction.stream("export_outputs", listed)) as outputs,
        ):
            made = _Outputs(outputs)
            for number, (key, value) in enumerate(records):
                _, generation, lineage, seen, place = page[number]
                stored = made.of(number)
                if lineage != NOTHING:
                    made_by, skipped = lineages[lineage]
                    versions, texts = _finished(stored, made_by)
                    if not texts and any(step != skipped for step in made_by):
                        raise StoreError(VACUUMED)
                else:
                    versions, texts = _so_far(stored, seen, wish.steps)
                rows.append(ExportRow(key, value, texts, STATES[place], versions, generation))
                size += len(value or "") + sum(map(len, texts.values()))
                if size >= PAGE_BYTES:
                    break
        return rows


def _batch(
    batch: str | None, model: str, status: str | None, done: int, total: int, at: float | None, number: int
) -> Waiting:
    """What records wait for whose requests are sent together with others."""
    if batch is None:
        what = "to be sent together with others" if at is None else "which are being submitted"
        return Waiting(f"answers to requests to model {model}, {what}", number, None, at)
    how = f", {done:,} of {total:,} done" if total else ""
    return Waiting(f"batch {batch} (model {model}): {status}{how}", number, None, at)


def _group_of(gate: str | None) -> str | None:
    """The group's value that a gate is for; None where it is not one of a group."""
    name, value = loads(gate) if gate is not None else ("", None)
    return value if name else None


class _Outputs:
    """Checkpoints of a page's rows, in the order of the rows."""

    def __init__(self, rows: Iterator[Any]):
        self._rows = rows
        self._next = next(rows, None)

    def of(self, number: int) -> list[tuple[float, str, str, str]]:
        found = []
        while self._next is not None and self._next[0] == number:
            found.append(self._next[1:])
            self._next = next(self._rows, None)
        return found


def _finished(
    stored: list[tuple[float, str, str, str]], made_by: dict[str, str]
) -> tuple[dict[str, str], dict[str, str]]:
    """Versions and outputs of the steps that made a result, in step order."""
    texts = {step: output for _, step, _, output in stored}
    return made_by, {step: texts[step] for step in made_by if step in texts}


def _so_far(
    stored: list[tuple[float, str, str, str]], seen: int, steps: Sequence[str]
) -> tuple[dict[str, str], dict[str, str]]:
    """The same of a record under way: the first `seen` checkpoints are those of the snapshot."""
    texts = {step: (version, output) for _, step, version, output in sorted(stored)[:seen]}
    there = [step for step in steps if step in texts]
    return {step: texts[step][0] for step in there}, {step: texts[step][1] for step in there}


def _failed_record(
    key: str,
    state: str,
    step: str | None,
    kind: str | None,
    error_type: str,
    message: str | None,
    attempts: int,
    deaths: int,
    failed_runs: int,
    at: float,
    vanished: int,
    received: str | None,
    *waits: Any,
) -> FailedRecord:
    text = _error(message, waits[2])
    waits_for = waiting(state, *waits) if state == State.UNCONFIRMED else None
    counters = attempts, deaths, failed_runs
    answer = None if received is None else str(loads(received))
    return FailedRecord(
        key, State(state), step, kind, error_type, text, *counters, at, waits_for, bool(vanished), answer
    )


def _error(message: str | None, waits_for: str | None) -> str:
    """A failure's message, or what an unconfirmed record without one waits for."""
    if message is not None:
        return str(loads(message))
    return waits_for or AN_ANSWER


def waiting(
    state: str, hold: str | None, not_before: float, said: str | None = None, since: float | None = None
) -> Waiting | None:
    """What one record waits for. `said`: why it is unconfirmed."""
    if state == State.UNCONFIRMED and hold == ELSEWHERE:
        return Waiting(WAITS[ELSEWHERE], 1)
    if state == State.UNCONFIRMED:
        by_a_person = hold in (PERSON, UNDECODABLE)
        what = A_PERSON if by_a_person else "an answer"
        reason = f"{what}: {said}" if said else what
        return Waiting(reason, 1, not_before or None, since if by_a_person else None)
    if state != State.PENDING or (hold is None and not not_before):
        return None
    return Waiting(WAITS.get(hold, str(hold)), 1, not_before or None)
