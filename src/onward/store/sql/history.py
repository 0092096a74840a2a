"""The history as it is read: one record's whole, in one short reading; an instance's, page by page; and whether its
chains hold."""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Sequence
from dataclasses import replace
from typing import Any

import orjson

from onward.codec import loads
from onward.model import EntryState, Misfit, Spent, State
from onward.policy.chain import Chain, Checker, Link, RunRow, Tip
from onward.ports.facts import (
    CheckpointFacts,
    EntryFacts,
    FailureFacts,
    GenerationFacts,
    HistoryEntry,
    Holder,
    LogEntry,
    RecordFacts,
    UsageFacts,
    Verified,
    Waiting,
)
from onward.store.sql.asking import PAGE, Lineage, Questions, waiting

Text = bytes | str
"""Bytes where the database lets anything stand for text."""


def record_facts(questions: Questions, record: int) -> RecordFacts:
    with questions.one_reading():
        key, state, vanished, hold, not_before, generation, changed, step, _, attempts, deaths, *rest = questions.rows(
            "record", record=record
        )[0]
        failed_runs, run, succeeded_generation, lineage = rest
        finished = {
            number: _lineage(questions, made) for number, made in questions.rows("record_generations", record=record)
        }
        if succeeded_generation is not None and lineage is not None:
            finished.setdefault(succeeded_generation, _lineage(questions, lineage))
        return RecordFacts(
            key=key,
            state=State(state),
            vanished=bool(vanished),
            waiting=waiting(state, hold, not_before, *_waits_for(questions, record))
            or _at_gate(questions, record, state),
            generation=generation,
            input_changed=bool(changed),
            step=step,
            attempts=attempts,
            deaths=deaths,
            failed_runs=failed_runs,
            run=run,
            generations=_generations(questions, record, generation, finished),
            failure=_failure(questions.rows("record_failure", record=record)),
            history=[HistoryEntry(*row) for row in questions.rows("record_history", record=record)],
            entries=[_entry(*row) for row in questions.rows("record_entries", record=record)],
            held_by=next((Holder(*row) for row in questions.rows("holder", record=record)), None),
        )


def _waits_for(questions: Questions, record: int) -> tuple[str | None, float | None]:
    found = questions.rows("waits_for", record=record)
    return (found[0][0], found[0][1]) if found else (None, None)


def _entry(name: str, key: str, state: str, *rest: Any) -> EntryFacts:
    generation, payload, payload_hash, receipt, first_at, intended_at, sent_at, ask_at, asks, run = rest
    known = EntryState(state)
    again = (ask_at or None) if known in (EntryState.UNKNOWN, EntryState.SENT) else None
    times = {"first_at": first_at, "intended_at": intended_at, "sent_at": sent_at, "ask_at": again}
    return EntryFacts(name, key, known, generation, payload, payload_hash, receipt, **times, asks=asks, run=run)


def _at_gate(questions: Questions, record: int, state: str) -> Waiting | None:
    if state != State.PENDING:
        return None
    instance, gate = questions.rows("record_gate", record=record)[0]
    found = questions.at_gates(instance, {gate: 1}, questions.runs(instance))
    return next((one for one in found if one.count), None)


def _lineage(questions: Questions, number: int) -> Lineage:
    versions, skipped = questions.rows("lineage", lineage=number)[0]
    return dict(orjson.loads(versions)), skipped


def _generations(
    questions: Questions, record: int, current: int, finished: dict[int, Lineage]
) -> list[GenerationFacts]:
    """The current generation and all that left something: an input only counts where it does not hold for another of
    them. An input of a later one waits for `rerun`."""
    inputs = questions.rows("record_inputs", record=record)
    checkpoints: dict[int, list[CheckpointFacts]] = {}
    usage: dict[int, list[UsageFacts]] = {}
    for generation, *rest in questions.rows("record_checkpoints", record=record):
        checkpoints.setdefault(generation, []).append(CheckpointFacts(*rest))
    for generation, step, version, *spent in questions.rows("record_usage", record=record):
        usage.setdefault(generation, []).append(UsageFacts(step, version, Spent(*spent)))
    numbers = {current, *finished, *checkpoints, *usage}
    begun = [row[0] for row in inputs]
    shown = {max((one for one in begun if one <= number), default=current) for number in numbers}
    found = []
    for number in sorted({*numbers, *begun} - (shown - numbers)):
        input_hash, value = _holding(inputs, number)
        made_by, skipped = finished.get(number, (None, None))
        found.append(
            GenerationFacts(
                number,
                _succeeded(number, current, finished, checkpoints),
                value,
                input_hash,
                made_by,
                skipped,
                checkpoints.get(number, []),
                usage.get(number, []),
            )
        )
    return found


def _succeeded(number: int, current: int, finished: Container[int], checkpoints: Container[int]) -> bool | None:
    """None: of an older one nothing is left by which that could be told."""
    return True if number in finished else None if number < current and number not in checkpoints else False


def _holding(inputs: Iterable[tuple[Any, ...]], generation: int) -> tuple[str | None, str | None]:
    """Hash and value of the input that holds in a generation: the newest that began with it or before."""
    holding: tuple[str | None, str | None] = (None, None)
    for begun, input_hash, value in inputs:
        if begun <= generation:
            holding = (input_hash, value)
    return holding


def _failure(rows: list[tuple[Any, ...]]) -> FailureFacts | None:
    if not rows:
        return None
    step, version, kind, error_type, message, attempts, at, run, received = rows[0]
    answer = None if received is None else loads(received)
    return FailureFacts(step, version, kind, error_type, loads(message), attempts, at, run, answer)


def log(questions: Questions, instance: int, since: float | None, payloads: bool) -> Iterator[LogEntry]:
    last = questions.rows("last_entry")[0][0]
    for page in _pages(questions, "log_page", last, instance=instance, since=since):
        sent = _payloads(questions, [row[9] for row in page]) if payloads else {}
        for row in page:
            entry = _log_entry(*row[1:])
            yield replace(entry, payload=sent.get(_intent(entry.detail))) if sent else entry


def _log_entry(run: int | None, seq: int, at: float, event: Text, key: str | None, *texts: Text | None) -> LogEntry:
    step, reason, actor, detail, said = map(_shown, texts)
    return LogEntry(run, seq, at, _shown(event) or "", key, step, reason, actor, detail, said or "")


def _pages(questions: Questions, block: str, last: int, **bindings: Any) -> Iterator[list[tuple[Any, ...]]]:
    """Rows up to the entry `last`, which begin with their id; each page is a reading of its own."""
    after = 0
    while page := questions.rows(block, after=after, last=last, limit=PAGE, **bindings):
        yield page
        after = page[-1][0]


def _shown(text: Text | None) -> str | None:
    """Text that may have been edited to be none."""
    return text.decode("utf-8", "backslashreplace") if isinstance(text, bytes) else text


def _payloads(questions: Questions, details: Iterable[Text | None]) -> dict[Any, str]:
    wanted = {_intent(_shown(detail)) for detail in details} - {None}
    listed = orjson.dumps(list(wanted)).decode()
    return {tuple(row[:3]): row[3] for row in questions.rows("payloads", rows=listed)}


def _intent(detail: str | None) -> tuple[str, str, str] | None:
    """Which payload an entry tells of: the effect's name, the key, the hash. A later one may have superseded it."""
    try:
        said = loads(detail or "null")
        return said["effect"], said["idempotency_key"], said["payload_hash"]
    except (KeyError, TypeError, ValueError):
        return None


def verify(questions: Questions, instances: Sequence[int] | None, expected: str | None) -> Verified:
    among = None if instances is None else orjson.dumps(list(instances)).decode()
    with questions.one_reading():
        last = questions.rows("last_entry")[0][0]
        rows = questions.rows("chain_heads", instances=among)
        removed = _removed(*questions.rows("removed")[0])
    heads = {(instance, run): (Tip(seq, head), bool(closed)) for instance, run, seq, head, closed, *_ in rows}
    own = {(row[0], row[1]): RunRow(bool(row[5]), *row[6:]) for row in rows if row[1] is not None}
    checker = Checker(heads, expected, frozenset((row[0], row[1]) for row in rows if row[5]), own)
    misfit = _first_misfit(checker, _pages(questions, "chain_page", last, instances=among)) or removed
    return Verified(len(heads), checker.entries, _to_note(heads), misfit)


def _removed(run: int | None, written: int, there: int) -> Misfit | None:
    """What chains cannot tell that are not there: whose they were, nobody knows any more."""
    if run is not None:
        return Misfit(None, None, 0, None, None, f"run {run} of this store is missing: its row was removed")
    if there < written:
        why = f"entries are missing: {written:,} were written in this store, and {there:,} are there"
        return Misfit(None, None, 0, None, None, why)
    return None


def _first_misfit(checker: Checker, pages: Iterable[list[tuple[Any, ...]]]) -> Misfit | None:
    for page in pages:
        for _, said, sound, instance, run, seq, record, at, key, *rest in page:
            texts, (as_instance, as_record, as_run) = rest[:-3], rest[-3:]
            place = link = Link(instance, run, seq, record, _shown(key), at, *map(_shown, texts))  # type: ignore[arg-type]
            if as_instance is not None:  # it was written in another store
                link = place._replace(instance=as_instance, record=as_record, run=as_run)
            whole = sound and all(text is None or _is_text(text) for text in (said, key, *texts))
            misfit = checker.entry(link if whole else None, place, _shown(said) or "", as_instance is not None)
            if misfit is not None:
                return misfit
    return checker.ended()


def _is_text(given: Text) -> bool:
    if isinstance(given, str):
        return True
    try:
        given.decode()
    except UnicodeDecodeError:
        return False
    return True


def _to_note(heads: dict[Chain, tuple[Tip, bool]]) -> list[tuple[int | None, str]]:
    runs: list[tuple[int | None, str]] = [(run, tip.hash) for (_, run), (tip, _) in heads.items() if run is not None]
    acts = [(run, tip.hash) for (_, run), (tip, _) in heads.items() if run is None]
    newest = [max(runs)] if runs else []
    return newest + (acts if len(acts) == 1 and acts[0][1] else [])
