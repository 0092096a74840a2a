"""Facts about claimed records become rows: each fact wholly, and only while its fence holds."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import orjson

from onward.model import EntryState, Fact, State
from onward.policy import transitions
from onward.policy.suspects import DEATHS_TO_SUSPECT
from onward.store.sql import batching, chain, changed_inputs, ledger
from onward.store.sql.change import Change, cause, storable
from onward.store.sql.ledger import Holds
from onward.store.sql.transaction import Life

# Facts that differ in nothing but their record are written by one statement.
Groups = dict[tuple[Any, ...], list[int]]


class _FenceGone(Exception):
    """Some record of the batch is no longer held."""


@dataclass(slots=True)
class Applied:
    """(record, fence) of the facts that changed nothing, for their fence is gone (`lost`), and of those whose records
    took the input that waited (`renewed`); what intents `met`."""

    lost: set[tuple[int, int]]
    met: Holds
    renewed: set[tuple[int, int]] = field(default_factory=set)


def apply(change: Change, facts: Sequence[Fact], lineages: dict[object, int], life: Life) -> Applied:
    """Apply all facts whose fence holds."""
    some_wait = changed_inputs.some_wait(change)
    withdrawn: set[tuple[int, int]] = set()
    if some_wait:
        facts, withdrawn = changed_inputs.withdrawn(change, facts)
    change.transaction.begin_part()
    try:
        finished, met = _write(change, facts, lineages, life)
        lost: set[tuple[int, int]] = set()
    except _FenceGone:
        change.transaction.undo_part()
        lineages.clear()  # those interned since the savepoint are gone with it
        asked = {(fact.record, fact.fence) for fact in facts}
        lost = asked - {(record, fence) for record, fence in change.array("holders", [list(one) for one in asked])}
        bereaved = ledger.not_theirs(change, facts) - lost
        _let_go(change, [fact for fact in facts if (fact.record, fact.fence) in bereaved])
        lost |= bereaved
        facts = [fact for fact in facts if (fact.record, fact.fence) not in lost]
        finished, met = _write(change, facts, lineages, life)
    change.transaction.end_part()
    batching.apply(change, facts)
    applied = Applied(lost, met)
    _count(change, facts, finished, changed_inputs.finished(change, facts) if some_wait else {})
    if some_wait:
        left = [fact for fact in facts if fact.state not in (State.IN_PROGRESS, State.SUCCEEDED, State.UNCONFIRMED)]
        taken = changed_inputs.take(change, [fact.record for fact in left])
        applied.renewed = {(fact.record, fact.fence) for fact in left if fact.record in taken} | (withdrawn - lost)
    own = [one.entry.name for one in met.values() if one.meeting in ("go", "go on", "adopt")]
    change.count_all("intents", Counter(own))  # by which a job's ledger names are known later on
    change.count_all("key", Counter(_key_fields(fact) for fact in facts if _is_new(fact, met)))
    return applied


def _let_go(change: Change, facts: Sequence[Fact]) -> None:
    """Records whose obligation another one has taken over meanwhile leave their run: they wait for what becomes of it,
    or, where that is known by now, go on."""
    if not facts:
        return
    records = [fact.record for fact in facts]
    for state, vanished in change.rows("let_go", records, to_suspect=DEATHS_TO_SUSPECT):
        transitions.require(State.IN_PROGRESS, State(state))
        change.move(State.IN_PROGRESS, State(state), 1, gone=bool(vanished))
    why = "another record has taken its obligation over"
    chain.tell(change, [(fact.record, "record_reset", fact.done_step or fact.step, why) for fact in facts])


def _is_new(fact: Fact, met: Holds) -> bool:
    return (fact.record, fact.fence) in met and met[fact.record, fact.fence].meeting in ("go", "adopt")


def _key_fields(fact: Fact) -> str:
    """The counter's name for the fields that the keys of an effect are made of."""
    assert fact.effect is not None
    return orjson.dumps([fact.effect.name, fact.effect.fields]).decode()


def _write(
    change: Change, facts: Sequence[Fact], lineages: dict[object, int], life: Life
) -> tuple[Counter[int], Holds]:
    """Raises _FenceGone; how many records finished by each lineage, and what intents met."""
    met = ledger.apply(change, facts, life)  # the entry first: whoever takes a record over reads it first
    if met is None:
        raise _FenceGone
    finishing: Groups = defaultdict(list)
    advancing: Groups = defaultdict(list)
    checkpoints: dict[tuple[Any, ...], dict[int, str]] = defaultdict(dict)
    staying: dict[tuple[Any, ...], dict[int, str]] = defaultdict(dict)
    leaving = []
    for fact in facts:
        if fact.checkpoint is not None and not fact.moves:
            staying[fact.fence, fact.generation, fact.done_step, fact.version][fact.record] = fact.checkpoint
            continue
        if fact.checkpoint is not None:
            checkpoints[fact.generation, fact.done_step, fact.version][fact.record] = fact.checkpoint
        if fact.state is State.SUCCEEDED:
            finishing[fact.fence, _lineage(change, fact, lineages)].append(fact.record)
        elif fact.state is State.IN_PROGRESS:
            alike = fact.fence, fact.step, fact.started, fact.attempts, fact.deaths, fact.solo_deaths
            advancing[alike].append(fact.record)
        else:
            leaving.append(_leaving_row(fact))
    moves: list[tuple[str, list[Any] | dict[int, str], Mapping[str, Any]]] = []
    for (fence, generation, step, version), outputs in staying.items():
        made_by = {"fence": fence, "generation": generation, "step": step, "version": version}
        moves.append(("checkpoint_of_held", outputs, made_by))
    for (fence, lineage), records in finishing.items():
        moves.append(("finish", records, {"fence": fence, "lineage": lineage}))
    for (fence, step, started, attempts, deaths, solo_deaths), records in advancing.items():
        harm = {"attempts": attempts, "deaths": deaths, "solo_deaths": solo_deaths}
        moves.append(("advance", records, {"fence": fence, "step": step, "started": int(started), **harm}))
    if leaving:
        moves.append(("leave", leaving, {}))
    if change.execute_all(moves) != [len(rows) for _, rows, _ in moves]:
        raise _FenceGone
    for (generation, step, version), outputs in checkpoints.items():
        change.send("insert_checkpoints", outputs, generation=generation, step=step, version=version)
    _write_reasons(change, facts, met)
    finished: Counter[int] = Counter()
    for (_, lineage), records in finishing.items():
        finished[lineage] += len(records)
    return finished, met


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
        fact.gate,
    ]


def _write_reasons(change: Change, facts: Sequence[Fact], met: Holds) -> None:
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
                    None if failure.received is None else orjson.dumps(storable(failure.received)).decode(),
                ]
            )
        event, reason = _told(fact, met)
        if event is not None:
            history.append((fact.record, event, fact.done_step or fact.step, reason, _detail(fact)))
    if failures:
        change.send("insert_failures", failures)
    chain.tell(change, history)


def _told(fact: Fact, met: Holds) -> tuple[str | None, str | None]:
    """Event and reason: those that the fact has, or what becomes of its obligation."""
    effect = fact.effect
    if fact.event is not None or effect is None or effect.state is not EntryState.INTENDED:
        return fact.event, fact.reason
    if effect.payload is None:
        return "effect_intended", "asked about and not there: to be sent with the payload of the first intent"
    came_upon = met[fact.record, fact.fence]
    if came_upon.meeting == "adopt":
        return "effect_adopted", came_upon.entry.origin
    return (None if came_upon.meeting in ("wait", "conflict", "other key") else "effect_intended"), None


def _detail(fact: Fact) -> str | None:
    """What the entry says besides its reason: of which kind, by which key; never payloads, receipts or messages."""
    failure, effect = fact.failure, fact.effect
    if failure is None and effect is None:
        return None
    said: dict[str, object] = {}
    if failure is not None:
        said.update(kind=failure.kind, error_type=storable(failure.error_type), attempts=failure.attempts)
    if effect is not None:
        said.update(effect=effect.name, idempotency_key=effect.key, entry=effect.state)
        if effect.payload is not None:
            said["payload_hash"] = effect.payload_hash
    return orjson.dumps(said).decode()


def _count(change: Change, facts: Sequence[Fact], finished: Counter[int], changed: Mapping[int, bool]) -> None:
    """`changed`: finished records that have another input by now, and whether they vanished."""
    for fact in facts:
        if not changed.get(fact.record, True):
            lineage = _lineage(change, fact, {})
            change.count("lineage", str(lineage), -1)
            change.count("lineage_changed", str(lineage), 1)
    if change.rows("has_gone"):
        facts, finished = _count_gone(change, facts, finished)
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


def _count_gone(change: Change, facts: Sequence[Fact], finished: Counter[int]) -> tuple[Sequence[Fact], Counter[int]]:
    """Count those that have vanished, in mid-send, among their own; what is left to count."""
    gone = set(change.array("gone_among", [fact.record for fact in facts]))
    if not gone:
        return facts, finished
    for fact in facts:
        if fact.record in gone:
            if fact.state is not State.IN_PROGRESS:
                change.move(State.IN_PROGRESS, fact.state, 1, gone=True)
            if fact.state is State.SUCCEEDED:
                finished = finished - Counter([_lineage(change, fact, {})])
    return [fact for fact in facts if fact.record not in gone], finished


def _lineage(change: Change, fact: Fact, lineages: dict[object, int]) -> int:
    """The number of the interned value of the versions that made a result; `lineages` caches them."""
    known = (change.instance, fact.lineage, fact.skipped)
    if known not in lineages:
        lineages[known] = interned(change, fact.lineage or (), fact.skipped)
    return lineages[known]


def interned(change: Change, lineage: Sequence[tuple[str, str]], skipped: str | None) -> int:
    """The number of versions, in step order, that make results."""
    versions = orjson.dumps(lineage).decode()
    change.execute("insert_lineage", versions=versions, skipped=skipped)
    return int(change.one("find_lineage", versions=versions, skipped=skipped))
