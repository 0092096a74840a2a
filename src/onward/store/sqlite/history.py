"""One record's whole history, in one short reading."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import orjson

from onward.codec import loads
from onward.model import State
from onward.ports import CheckpointFacts, FailureFacts, GenerationFacts, HistoryEntry, RecordFacts, Waiting
from onward.store.sqlite.asking import WAITS, Lineage, Questions


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
            waiting=_waiting(state, hold, not_before),
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
        )


def _waiting(state: str, hold: str | None, not_before: float) -> Waiting | None:
    if state != State.PENDING or (hold is None and not not_before):
        return None
    return Waiting(WAITS.get(hold, str(hold)), 1, not_before or None)


def _lineage(questions: Questions, number: int) -> Lineage:
    versions, skipped = questions.rows("lineage", lineage=number)[0]
    return dict(orjson.loads(versions)), skipped


def _generations(
    questions: Questions, record: int, current: int, finished: dict[int, Lineage]
) -> list[GenerationFacts]:
    """All generations that left something, and the current one. An input of a later one waits for `rerun`."""
    inputs = questions.rows("record_inputs", record=record)
    checkpoints: dict[int, list[CheckpointFacts]] = {}
    for generation, *rest in questions.rows("record_checkpoints", record=record):
        checkpoints.setdefault(generation, []).append(CheckpointFacts(*rest))
    numbers = {current, *finished, *checkpoints, *(row[0] for row in inputs)}
    found = []
    for number in sorted(numbers):
        input_hash, value = _holding(inputs, number)
        made_by, skipped = finished.get(number, (None, None))
        found.append(
            GenerationFacts(
                number, number in finished, value, input_hash, made_by, skipped, checkpoints.get(number, [])
            )
        )
    return found


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
    step, version, kind, error_type, message, attempts, at, run = rows[0]
    return FailureFacts(step, version, kind, error_type, loads(message), attempts, at, run)
