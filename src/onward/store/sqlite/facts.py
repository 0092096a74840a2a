"""Facts about claimed records become rows: each fact wholly, and only while its fence holds."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import orjson

from onward.model import Fact, State
from onward.policy import transitions
from onward.store.sqlite.change import Change, cause, storable


class _FenceGone(Exception):
    """Some record of the batch is no longer held."""


def apply(change: Change, facts: Sequence[Fact], lineages: dict[object, int]) -> set[tuple[int, int]]:
    """Apply all facts whose fence holds; (record, fence) of the others, which changed nothing."""
    change.connection.execute("SAVEPOINT facts")
    try:
        finished = _write(change, facts, lineages)
        lost: set[tuple[int, int]] = set()
    except _FenceGone:
        change.connection.execute("ROLLBACK TO facts")
        lineages.clear()  # those interned since the savepoint are gone with it
        asked = {(fact.record, fact.fence) for fact in facts}
        lost = asked - {(record, fence) for record, fence in change.array("holders", [list(one) for one in asked])}
        facts = [fact for fact in facts if (fact.record, fact.fence) not in lost]
        finished = _write(change, facts, lineages)
    change.connection.execute("RELEASE facts")
    _count(change, facts, finished)
    return lost


def _write(change: Change, facts: Sequence[Fact], lineages: dict[object, int]) -> Counter[int]:
    """Raises _FenceGone; how many records finished by each lineage."""
    finishing, advancing, leaving, checkpoints = [], [], [], []
    for fact in facts:
        if fact.checkpoint is not None:
            checkpoints.append([fact.record, fact.generation, fact.done_step, fact.version, fact.checkpoint])
        if fact.state is State.SUCCEEDED:
            finishing.append([fact.record, fact.fence, _lineage(change, fact, lineages)])
        elif fact.state is State.IN_PROGRESS:
            advancing.append(
                [fact.record, fact.fence, fact.step, int(fact.started), fact.attempts, fact.deaths, fact.solo_deaths]
            )
        else:
            leaving.append(_leaving_row(fact))
    for block, rows in (("finish", finishing), ("advance", advancing), ("leave", leaving)):
        if rows and change.execute(block, rows) != len(rows):
            raise _FenceGone
    if checkpoints:
        change.execute("insert_checkpoints", checkpoints)
    _write_reasons(change, facts)
    return Counter([lineage for _, _, lineage in finishing])


def _leaving_row(fact: Fact) -> list[object]:
    transitions.require(State.IN_PROGRESS, fact.state)
    return [
        fact.record,
        fact.fence,
        fact.state,
        fact.step,
        fact.attempts,
        fact.not_before,
        fact.deaths,
        fact.solo_deaths,
        fact.failed_runs,
        fact.hold,
    ]


def _write_reasons(change: Change, facts: Sequence[Fact]) -> None:
    failures, history = [], []
    for fact in facts:
        failure = fact.failure
        if failure is not None:
            message = orjson.dumps(storable(failure.message)).decode()
            failures.append(
                [
                    fact.record,
                    failure.step,
                    failure.version,
                    failure.kind,
                    failure.error_type,
                    message,
                    failure.attempts,
                ]
            )
        if fact.event is not None:
            detail = None
            if failure is not None:
                detail = orjson.dumps(
                    {"kind": failure.kind, "error_type": failure.error_type, "attempts": failure.attempts}
                ).decode()
            reason = None if fact.reason is None else storable(fact.reason)
            history.append([fact.record, fact.event, fact.step or fact.done_step, reason, detail])
    if failures:
        change.execute("insert_failures", failures)
    if history:
        change.execute("insert_history", history)


def _count(change: Change, facts: Sequence[Fact], finished: Counter[int]) -> None:
    change.count_all("step", Counter([fact.done_step for fact in facts if fact.checkpoint is not None]))
    left = Counter([fact.state for fact in facts])
    left.pop(State.IN_PROGRESS, None)
    change.count("state", State.IN_PROGRESS, -left.total())
    change.count_all("state", left)
    change.count_all("lineage", {str(lineage): n for lineage, n in finished.items()})
    change.count_all("skipped", Counter([fact.skipped for fact in facts if fact.skipped is not None]))
    if State.FAILED in left or State.QUARANTINED in left:
        for fact in facts:
            if fact.failure is not None and fact.state in (State.FAILED, State.QUARANTINED):
                change.count("failure", cause(fact.failure.step, fact.failure.kind), 1)


def _lineage(change: Change, fact: Fact, lineages: dict[object, int]) -> int:
    """The number of the interned value of the versions that made a result; `lineages` caches them."""
    known = (change.instance, fact.lineage, fact.skipped)
    if known not in lineages:
        versions = orjson.dumps(fact.lineage or ()).decode()
        change.execute("insert_lineage", versions=versions, skipped=fact.skipped)
        lineages[known] = int(change.one("find_lineage", versions=versions, skipped=fact.skipped))
    return lineages[known]
