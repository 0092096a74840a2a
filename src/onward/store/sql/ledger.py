"""The ledger of effects: intents and what became of them, in the same transaction as the facts of their records.

One row an obligation, whatever job or record it comes from. An intent never overwrites what may have been sent: it
makes the entry, supersedes one that is known as not applied, or is told what it came upon.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import orjson

from onward.codec import plain_key
from onward.model import Entry, EntryState, Fact, Met, State
from onward.policy.effects import meeting
from onward.store.sql.change import Change
from onward.store.sql.transaction import Life

OPEN = (State.PENDING, State.IN_PROGRESS, State.UNCONFIRMED)
COPIED = "another job, in the store that this ledger was copied from"
GOES_ON_GONE = (State.IN_PROGRESS, State.UNCONFIRMED)  # though its record has vanished from the source
Holds = dict[tuple[int, int], Met]
Place = tuple[str, str]


def apply(change: Change, facts: Sequence[Fact], life: Life) -> Holds | None:
    """Write what the facts say of their entries; what intents came upon, or None where an entry is no longer theirs."""
    intents: list[Fact] = []
    said: dict[str, list[list[Any]]] = {"confirm_entries": [], "intend_again": [], "settle_entries": []}
    for fact in facts:
        effect = fact.effect
        if effect is None:
            continue
        if effect.payload is not None:
            intents.append(fact)
        elif effect.state is EntryState.CONFIRMED:
            said["confirm_entries"].append([effect.name, effect.key, fact.record, effect.receipt])
        else:
            again = effect.state is EntryState.INTENDED
            said["intend_again" if again else "settle_entries"].append(_settled_row(fact))
    for block, rows in said.items():
        if rows and change.execute(block, rows) != len(rows):
            return None
    absent = [row for row in said["settle_entries"] if row[4] == EntryState.ABSENT]
    wake(change, said["confirm_entries"] + absent)
    return _Intents(change, life).meet(intents) if intents else {}


def wake(change: Change, places: Sequence[Sequence[Any]]) -> None:
    """The obligations are settled: records go on that they were adopted from. Rows begin with name and key."""
    if places and change.rows("some_await"):
        rows = [list(place) for place in places]
        change.execute("wake", rows)
        change.execute("awaited", rows)


def not_theirs(change: Change, facts: Sequence[Fact]) -> set[tuple[int, int]]:
    """(record, fence) of the facts about entries that another record answers for by now."""
    settled = [_settled_row(fact) for fact in facts if fact.effect is not None and fact.effect.payload is None]
    return {(record, fence) for record, fence in change.array("not_theirs", settled)} if settled else set()


def entries_of(change: Change, records: Sequence[int]) -> dict[int, list[Entry]]:
    """What the ledger knows of the records' obligations."""
    found: dict[int, list[Entry]] = {}
    for row in change.array("entries_of", list(records)):
        entry = _entry(row, change.now)
        found.setdefault(entry.record, []).append(entry)
    return found


def may_be_sending(state: str, entry: str | None) -> bool:
    """Whether the call of a record's entry was not heard to end, and goes on if the process of its run lives."""
    return state in (State.IN_PROGRESS, State.UNCONFIRMED) and entry == EntryState.INTENDED


class _Intents:
    """The intents of one commit, in turn: each sees what those before it have changed."""

    def __init__(self, change: Change, life: Life):
        self._change = change
        self._life = life
        self._alive: dict[int, bool] = {}

    def meet(self, intents: Sequence[Fact]) -> Holds:
        under_another = self._under_another_key([fact for fact in intents if _may_be_owed(fact)])
        met = {
            (fact.record, fact.fence): Met("other key", under_another[fact.record])
            for fact in intents
            if fact.record in under_another
        }
        rest = [fact for fact in intents if fact.record not in under_another]
        return {**met, **self._meet_all(rest)} if rest else met

    def _under_another_key(self, intents: Sequence[Fact]) -> dict[int, Entry]:
        """Records that have done, or may have done, for their present input what they are about to do, though the key
        of it is another now: the effect's key= has changed, and no input has."""
        rows = [[fact.record, fact.generation, _names(fact)] for fact in intents]
        owed: dict[int, list[Entry]] = {}
        for block in ("owed_for_the_same_input", "owed_through_others") if rows else ():
            for record, *row in self._change.array(block, rows):
                owed.setdefault(record, []).append(_entry(row, self._change.now))
        intents = [fact for fact in intents if fact.record in owed]
        places = [[*place] for fact in intents for place in _places(fact)]
        known = {(row[0], row[1]) for row in self._change.array("entries", places) if row[2] != EntryState.ABSENT}
        return {fact.record: owed[fact.record][0] for fact in intents if not known.intersection(_places(fact))}

    def _meet_all(self, intents: Sequence[Fact]) -> Holds:
        places = {fact.record: self._place(fact) for fact in intents}
        first = {places[fact.record]: fact for fact in reversed(intents)}
        made = [_intent_row(fact, place) for place, fact in first.items()]
        if self._change.execute("intend", made) == len(intents):  # nobody had any of these obligations
            return {(fact.record, fact.fence): Met("go", self._new(fact, places[fact.record])) for fact in intents}
        self._known = self._read(list(first))
        self._superseding: list[list[Any]] = []
        self._taking: list[list[Any]] = []
        self._bereaved: list[list[Any]] = []
        self._owed: list[list[Any]] = []
        met = {(fact.record, fact.fence): self._meet(fact, places[fact.record]) for fact in intents}
        for block, rows in (("supersede", self._superseding), ("take", self._taking), ("note_owed", self._owed)):
            if rows:
                self._change.execute(block, rows)
        if self._taking and (self._bereaved or self._change.rows("some_await")):
            self._hand_over()
        return met

    def _hand_over(self) -> None:
        """Who has an obligation no longer waits for what comes of it, and who had it does."""
        for block, rows in (
            ("await_outcome", self._bereaved),
            ("wait_elsewhere", self._bereaved),
            ("await_no_longer", self._taking),
        ):
            if rows:
                self._change.execute(block, rows)

    def _meet(self, fact: Fact, place: Place) -> Met:
        entry, in_good_hands, sending, origin, origin_job = self._known[place]
        assert fact.effect is not None and fact.effect.payload is not None
        if entry.state is EntryState.INTENDED and (entry.record, entry.fence) == (fact.record, fact.fence):
            return Met("go", entry)
        what = meeting(entry, fact.record, fact.effect.payload_hash, in_good_hands, sending)
        if what == "go":
            self._superseding.append(_intent_row(fact, place))
            entry = self._new(fact, place)
        elif what in ("go on", "adopt"):
            self._taking.append(_intent_row(fact, place))
            adopted = what == "adopt"
            if adopted and entry.record:
                self._owed.append([*place, entry.record, entry.generation])
            if adopted and entry.record and entry.state is not EntryState.CONFIRMED:
                self._bereaved.append([*place, entry.record])
            lost_sight = adopted and entry.state is EntryState.INTENDED
            entry = replace(
                entry,
                record=fact.record,
                generation=fact.generation,
                origin=origin if adopted else None,
                origin_job=origin_job if adopted else None,
                state=EntryState.UNKNOWN if lost_sight else entry.state,
                ended_at=entry.ended_at or (self._change.now if entry.state is EntryState.INTENDED else None),
            )
        if what in ("go", "go on", "adopt"):
            self._known[place] = entry, True, False, origin, origin_job
        return Met(what, entry if what != "wait" else replace(entry, origin=origin), sending)

    def _new(self, fact: Fact, place: Place) -> Entry:
        effect, now = fact.effect, self._change.now
        assert effect is not None and effect.payload is not None
        payload, whose = (effect.payload, effect.payload_hash), (fact.record, fact.generation, fact.fence)
        entry = Entry(*place, EntryState.INTENDED, *payload, None, *whose, now, now)
        entry.deadline, entry.settle = effect.deadline, effect.settle
        return entry

    def _place(self, fact: Fact) -> Place:
        """Where the obligation stands in the ledger: today or by a former name; where it was not applied only if it
        stands nowhere else."""
        assert fact.effect is not None
        today = fact.effect.name, fact.effect.key
        if not fact.effect.former:
            return today
        rows = self._change.array("entries", [list(place) for place in _places(fact)])
        absent = {(row[0], row[1]): row[2] == EntryState.ABSENT for row in rows}
        known = sorted((place for place in _places(fact) if place in absent), key=lambda place: absent[place])
        return known[0] if known else today

    def _read(self, places: list[Place]) -> dict[Place, tuple[Entry, bool, bool, str, str]]:
        known = {}
        for row in self._change.array("entries", [list(place) for place in places]):
            entry = _entry(row[:18], self._change.now)
            state, vanished, hold, instance, record_key, job, name, sent_by, closed = row[18:]
            goes_on = state in GOES_ON_GONE if vanished else state in OPEN
            # One that is moved is in the hands of another store: nobody here may send for it.
            in_good_hands = goes_on and (closed > 0 or (hold is None and self._is_alive(instance)))
            origin_job = (f"{job} ({name})" if name else job) if job is not None else COPIED
            origin = f"record {plain_key(record_key)} of {origin_job}" if record_key is not None else origin_job
            may_be = may_be_sending(state, entry.state) and not in_good_hands
            sending = may_be and self._life.is_held(self._change.transaction, sent_by)
            known[entry.name, entry.key] = entry, in_good_hands, sending, origin, origin_job
        return known

    def _is_alive(self, instance: int) -> bool:
        if instance not in self._alive:
            runs = self._change.rows("open_runs_of", other=instance)
            transaction = self._change.transaction
            self._alive[instance] = any(self._life.is_alive(transaction, *run) for run in runs)
        return self._alive[instance]


def _entry(row: list[Any], now: float) -> Entry:
    """An entry with its times by the wall clock of now.

    `row` ends with the seconds since the newest intent, None where they were counted in an earlier boot: a clock that
    was set back since makes nothing younger; with the moment when the end of its call was seen, and with what was
    declared of its time.
    """
    *row, elapsed, ended_at, deadline, settle = row
    entry = Entry(*row)
    entry.deadline, entry.settle = deadline, settle
    entry.state, entry.ended_at = EntryState(entry.state), ended_at
    intended_at = min(entry.intended_at, now) if elapsed is None else now - elapsed
    entry.first_at -= max(entry.intended_at - intended_at, 0.0)
    entry.intended_at = intended_at
    if entry.sent_at is not None and entry.sent_at > now:
        entry.sent_at = intended_at
    return entry


def _intent_row(fact: Fact, place: Place) -> list[Any]:
    effect = fact.effect
    assert effect is not None
    fields = fields_text(effect.fields)
    whose = fact.record, fact.generation, fact.fence
    return [*place, effect.payload, effect.payload_hash, *whose, fields, effect.deadline, effect.settle]


@functools.cache
def fields_text(fields: tuple[str, ...]) -> str:
    """The names of a key's fields as they are stored."""
    return orjson.dumps(fields).decode()


def _may_be_owed(fact: Fact) -> bool:
    """Whether its record may have an entry that no claim has brought: of an older generation, by a former name, or one
    that another record has taken over since it was first claimed."""
    return fact.generation > 0 or fact.fence > 1 or (fact.effect is not None and bool(fact.effect.former))


def _places(fact: Fact) -> list[Place]:
    assert fact.effect is not None
    return [(fact.effect.name, fact.effect.key), *fact.effect.former]


def _names(fact: Fact) -> list[str]:
    return [name for name, _ in _places(fact)]


def _settled_row(fact: Fact) -> list[Any]:
    effect = fact.effect
    assert effect is not None
    what = effect.state, effect.receipt, effect.asks, effect.ask_at
    return [effect.name, effect.key, fact.record, fact.fence, *what, effect.deadline, effect.settle]
