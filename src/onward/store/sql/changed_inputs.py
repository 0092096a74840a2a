"""Changed inputs: taken at once, or kept until the effect that the record has open is settled.

Whether an input may be changed for another depends on what was, or may have been, sent of the one before. A record
keeps the input that its open effect belongs to. Was nothing sent, it takes the new one then; was it sent, the record
goes on with what it had, and is stale once it has succeeded.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from onward.model import EffectFact, EntryState, Fact, State
from onward.policy import transitions
from onward.policy.suspects import DEATHS_TO_SUSPECT
from onward.store.sql import chain
from onward.store.sql.change import Change

WAITS = "waits", "input"  # the counter of unfinished records whose changed input waits
NOT_THERE = "asked about and not there: nothing is sent, for its input has changed"
NOT_BEGUN = "what it owed was not sent: nothing is, for its input has changed"
SETTLED = "nothing of its old input was sent, or it cannot go on with it: it takes the input that waited"
KEPT = "its input changed while an effect is open: it keeps the old one until that is settled"


def supersede(change: Change, rows: Sequence[Sequence[Any]], why: str) -> None:
    """Records take another input as a new generation; checkpoints of the old one stay in history. Rows begin with
    record, state and whether it vanished."""
    present = [[record] for record, _, vanished, *_ in rows if not vanished]
    for step, n in change.rows("superseded_steps", present):
        change.count("step", step, -n)
    for _, state, vanished, *_ in rows:
        if state != State.PENDING:
            transitions.require(State(state), State.PENDING)
        change.move(State(state), State.PENDING, 1, gone=bool(vanished))
    change.execute("replace_unfinished", [[record] for record, *_ in rows])
    chain.tell(change, ((record, "record_reset", None, why) for record, *_ in rows))
    if any(state in (State.FAILED, State.QUARANTINED) for _, state, *_ in rows):
        change.recount_failures()


def keep(change: Change, rows: list[list[Any]]) -> None:
    """New inputs wait: rows of record, next generation, hash, text (or None), state, rank."""
    if not rows:
        return
    change.execute("next_inputs", rows)
    let_wait(change, [row[0] for row in rows])
    change.execute("rank_alone", [[row[0], row[5]] for row in rows])
    _go_on(change, [row for row in rows if row[4] in (State.FAILED, State.QUARANTINED)])


def let_wait(change: Change, records: Sequence[int]) -> None:
    """Another input is stored for the next generation of these records: it waits."""
    fresh = change.array("without_another", [[record] for record in records]) if records else []
    if fresh:
        change.execute("mark_input_changed", [[record, None, None, None, 1] for record in fresh])
        change.count(*WAITS, len(fresh))
        chain.tell(change, ((record, "input_waits", None, KEPT) for record in fresh))


def _go_on(change: Change, rows: Sequence[Sequence[Any]]) -> None:
    """A changed input is a reason to try again; what is tried is to find out about the effect."""
    if not rows:
        return
    for row in rows:
        transitions.require(State(row[4]), State.PENDING)
        change.move(State(row[4]), State.PENDING, 1)
    change.execute("go_on_to_settle", [[row[0]] for row in rows], to_suspect=DEATHS_TO_SUSPECT)
    change.recount_failures()


def drop(change: Change, rows: list[list[Any]]) -> None:
    """The source has the input again that the record goes on with: rows of record, next generation, rank."""
    if rows:
        change.execute("drop_next_inputs", rows)
        change.execute("mark_input_changed", [[row[0], None, None, None, 0] for row in rows])
        change.execute("rank_alone", [[row[0], row[2]] for row in rows])
        change.count(*WAITS, -len(rows))


def some_wait(change: Change) -> bool:
    """Whether any unfinished record of the instance has a changed input that waits."""
    return bool(change.rows("inputs_wait"))


def withdrawn(change: Change, facts: Sequence[Fact]) -> tuple[Sequence[Fact], set[tuple[int, int]]]:
    """The facts, but for those that would send something for an input that another one waits to replace, though
    nothing of it was sent, by whoever has taken it over: these give their records back. And (record, fence) of them."""
    again = [[fact.record] for fact in facts if _sends_after_asking(fact)]
    first = [[fact.record, _places(fact.effect)] for fact in facts if fact.effect and fact.effect.payload is not None]
    found = set(change.array("not_to_be_sent", again) if again else [])
    found.update(change.array("not_to_be_begun", first) if first else [])
    those = {(fact.record, fact.fence) for fact in facts if fact.record in found}
    return [_given_back(fact) if (fact.record, fact.fence) in those else fact for fact in facts], those


def _sends_after_asking(fact: Fact) -> bool:
    effect = fact.effect
    return effect is not None and effect.state is EntryState.INTENDED and effect.payload is None


def _given_back(fact: Fact) -> Fact:
    effect = fact.effect
    assert effect is not None
    begun = effect.payload is None
    return replace(
        fact,
        state=State.PENDING,
        started=False,
        effect=EffectFact(effect.name, effect.key, EntryState.ABSENT) if begun else None,
        event="record_reset",
        reason=NOT_THERE if begun else NOT_BEGUN,
        hold=None,
    )


def _places(effect: EffectFact) -> list[tuple[str, str]]:
    return [(effect.name, effect.key), *effect.former]


def take(change: Change, records: Sequence[int]) -> set[int]:
    """Those of these records take the input that waits, whose effect is settled as not applied, or which have ended
    without success."""
    rows = change.array("due_to_take", [[record] for record in records]) if records else []
    if rows:
        supersede(change, rows, SETTLED)
        change.count(*WAITS, -len(rows))
    return {row[0] for row in rows}


def finished(change: Change, facts: Sequence[Fact]) -> dict[int, bool]:
    """Which of the records that the facts finish have another input by now, and whether they vanished."""
    done = [[fact.record] for fact in facts if fact.state is State.SUCCEEDED]
    rows = change.array("finished_with_another", done) if done else []
    change.count(*WAITS, -len(rows))
    return {record: bool(vanished) for record, vanished in rows}
