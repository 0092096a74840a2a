"""Feeding: records and the cursor that covers them in one commit; feeding the same again changes nothing."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass, field
from typing import Any

import orjson

from onward.model import FeedBlock, FeedOutcome, Kind, SourceRecord, State
from onward.policy import transitions
from onward.policy.suspects import DEATHS_TO_SUSPECT
from onward.store.sql import chain, changed_inputs
from onward.store.sql.change import Change, cause, storable

BAD_LINE = "BadLine"
HASH_LENGTH = 32


def digest(value: str) -> str:
    """The hash that tells whether an input changed: BLAKE2b with 128 bits over its JSON text."""
    return hashlib.blake2b(value.encode("utf-8", "surrogatepass"), digest_size=HASH_LENGTH // 2).hexdigest()


@dataclass(slots=True)
class _Presented:
    """Rows of one block sorted by what they mean for the store."""

    new: list[int] = field(default_factory=list)
    unchanged: list[list[Any]] = field(default_factory=list)
    unfinished: list[list[Any]] = field(default_factory=list)
    finished: list[list[Any]] = field(default_factory=list)
    reverted: list[list[Any]] = field(default_factory=list)
    returned: list[list[Any]] = field(default_factory=list)
    kept: list[list[Any]] = field(default_factory=list)
    kept_again: list[list[Any]] = field(default_factory=list)


def apply(change: Change, block: FeedBlock, store_inputs: bool) -> FeedOutcome:
    """Apply one block, or nothing of it where it has duplicate keys."""
    cursor, _, pass_number, partly_fed, _ = change.rows("feed_state")[0]
    outcome = FeedOutcome(out_of_turn=cursor != block.after)
    if outcome.out_of_turn:
        return outcome
    rows = [
        [one.key, one.position, digest(one.value), one.value if store_inputs else None, one.rank, one.gate]
        for one in block.records
    ]
    if rows and not _insert_all(change, rows, pass_number):
        presented = _sort(change, rows, pass_number, outcome)
        if outcome.duplicates:
            return FeedOutcome(duplicates=outcome.duplicates)
        _apply_presented(change, rows, pass_number, presented, outcome)
    else:
        outcome.added = len(rows)
    _set_misfits_aside(change, block.records, outcome)
    if block.partial:
        change.execute("partly_fed")
    else:
        last = block.records[-1].position if block.records else -1
        change.execute("fed", cursor=block.cursor, fed_position=last, complete=int(block.complete))
        if block.complete and (pass_number > 1 or partly_fed):
            outcome.vanished = _vanish(change, pass_number)
    return outcome


def _insert_all(change: Change, rows: list[list[Any]], pass_number: int) -> bool:
    """The common case, all keys new: two statements. False, and nothing changed, where some key is known."""
    base = int(change.one("last_record")) + 1
    change.transaction.begin_part()
    if _insert_records(change, rows, pass_number, base) != len(rows):
        change.transaction.undo_part()
        change.transaction.end_part()
        return False
    stored = rows[0][3] is not None
    inputs = [row[2] + row[3] for row in rows] if stored else [row[2] for row in rows]
    change.execute("insert_first_inputs", inputs, base=base, stored=int(stored), hash_length=HASH_LENGTH)
    change.transaction.end_part()
    change.count("state", State.PENDING, len(rows))
    return True


def _insert_records(change: Change, rows: list[list[Any]], pass_number: int, base: int) -> int:
    """How many of them are new."""
    if any(row[4] or row[5] is not None for row in rows):
        given = [[row[0], row[1], row[4], row[5]] for row in rows]
        return change.execute("insert_ranked_records", given, pass_number=pass_number, base=base)
    return change.execute("insert_records", {row[0]: row[1] for row in rows}, pass_number=pass_number, base=base)


def _sort(change: Change, rows: list[list[Any]], pass_number: int, outcome: FeedOutcome) -> _Presented:
    presented = _Presented()
    known = {row[0]: row[1:] for row in change.array("presented", [row[:1] for row in rows])}
    seen: dict[str, int] = {}
    for index, (key, position, new_hash, value, rank, gate) in enumerate(rows):
        first = seen.setdefault(key, position)
        if first != position:
            outcome.duplicates.append((key, first, position))
        elif index not in known:
            presented.new.append(index)
        else:
            record, last_pass, old_position, state, generation, vanished, changed, lineage, is_open, newest, current = (
                known[index]
            )
            if last_pass == pass_number and old_position != position:
                outcome.duplicates.append((key, old_position, position))
                continue
            presented.unchanged.append([record, position])
            if vanished:
                presented.returned.append([record, state, lineage, changed])
            if state == State.SUCCEEDED:
                outcome.done_again.append(key)
            if new_hash in newest:
                continue
            if state != State.SUCCEEDED and (is_open or changed):
                if new_hash in current:
                    presented.kept_again.append([record, generation + 1, rank])
                else:
                    presented.kept.append([record, generation + 1, new_hash, value, state, rank])
            elif state != State.SUCCEEDED:
                presented.unfinished.append([record, generation + 1, new_hash, value, state, rank, gate])
            elif new_hash in current:
                presented.reverted.append([record, generation + 1, lineage, None, 0])
            else:
                presented.finished.append([record, generation + 1, new_hash, value, 1, lineage, changed])
    return presented


def _apply_presented(
    change: Change, rows: list[list[Any]], pass_number: int, presented: _Presented, outcome: FeedOutcome
) -> None:
    if presented.new and not _insert_all(change, [rows[index] for index in presented.new], pass_number):
        raise AssertionError("a key that was new a moment ago is known")
    change.execute("seen_again", presented.unchanged, pass_number=pass_number)
    if presented.returned:
        change.count_all("step", dict(change.rows("superseded_steps", presented.returned)))
    _count_returned(change, presented.returned)
    _replace_unfinished(change, presented.unfinished)
    changed_inputs.keep(change, presented.kept)
    changed_inputs.drop(change, presented.kept_again)
    _mark_finished(change, presented)
    outcome.added = len(presented.new)
    outcome.changed_unfinished = len(presented.unfinished)
    outcome.changed_finished = len(presented.finished)
    outcome.changed_kept = len(presented.kept)
    outcome.returned = len(presented.returned)
    changed = outcome.changed_unfinished + outcome.changed_finished + outcome.changed_kept
    outcome.unchanged = len(presented.unchanged) - changed


def _count_returned(change: Change, rows: list[list[Any]]) -> None:
    early_ends: dict[int, str] = dict(change.rows("early_ends")) if rows else {}
    for _, state, lineage, changed in rows:
        change.count("vanished", state, -1)
        change.count("state", state, 1)
        if state == State.SUCCEEDED:
            change.count("lineage_changed" if changed else "lineage", str(lineage), 1)
            if lineage in early_ends:
                change.count("skipped", early_ends[lineage], 1)
    if any(row[1] in (State.FAILED, State.QUARANTINED) for row in rows):
        change.recount_failures()


def _replace_unfinished(change: Change, rows: list[list[Any]]) -> None:
    """An unfinished record takes its new value as a new generation; checkpoints of the old value stay in history."""
    if not rows:
        return
    changed_inputs.supersede(change, [[row[0], row[4], 0] for row in rows], "its input changed in the source")
    change.execute("rank_again", [[row[0], row[5], row[6]] for row in rows])
    change.execute("next_inputs", rows)


def _mark_finished(change: Change, presented: _Presented) -> None:
    """A finished record keeps its result; the new value waits as the input of a next generation."""
    if presented.finished:
        change.execute("next_inputs", presented.finished)
        change.execute("mark_input_changed", presented.finished)
        for row in presented.finished:
            if not row[6]:
                change.count("lineage", str(row[5]), -1)
                change.count("lineage_changed", str(row[5]), 1)
    if presented.reverted:
        change.execute("drop_next_inputs", presented.reverted)
        change.execute("mark_input_changed", presented.reverted)
        for row in presented.reverted:
            change.count("lineage_changed", str(row[2]), -1)
            change.count("lineage", str(row[2]), 1)


def _set_misfits_aside(change: Change, records: list[SourceRecord], outcome: FeedOutcome) -> None:
    misfits = {record.key: record for record in records if record.invalid is not None}
    if not misfits:
        return
    found = change.array("presented", [[key] for key in misfits])
    keys = list(misfits)
    pending = [(row[1], keys[row[0]]) for row in found if row[4] == State.PENDING and not row[7] and row[11][1] is None]
    transitions.require(State.PENDING, State.QUARANTINED)
    failures = []
    for record, key in pending:
        message = orjson.dumps(storable(str(misfits[key].invalid))).decode()
        error_type = BAD_LINE if misfits[key].bad else "MisfitRecord"
        failures.append([record, None, None, Kind.INVALID, error_type, message, 0])
    set_aside = change.execute("set_aside", [[record] for record, _ in pending])
    change.execute("insert_failures", failures)
    reason = "does not fit, set aside when it was read"
    chain.tell(change, ((record, "record_quarantined", None, reason) for record, _ in pending))
    change.move(State.PENDING, State.QUARANTINED, set_aside)
    change.count("failure", cause(None, Kind.INVALID), set_aside)
    outcome.misfits = set_aside - sum(misfits[key].bad for _, key in pending)


def _vanish(change: Change, pass_number: int) -> int:
    """At the end of a pass, records that it did not present are no longer part of the instance."""
    moved = change.rows("vanishing", pass_number=pass_number)
    if not moved:
        return 0
    early_ends: dict[int, str] = dict(change.rows("early_ends"))
    for lineage, changed, n in change.rows("vanishing_lineages", pass_number=pass_number):
        change.count("lineage_changed" if changed else "lineage", str(lineage), -n)
        if lineage in early_ends:
            change.count("skipped", early_ends[lineage], -n)
    for step, n in change.rows("vanishing_steps", pass_number=pass_number):
        change.count("step", step, -n)
    chain.tell(change, change.stream("vanishing_records", pass_number=pass_number))
    in_mid_send = change.execute("vanish_in_mid_send", pass_number=pass_number)  # they go on, with their run
    for state, n in moved:
        change.count("state", state, -n)
        if state == State.IN_PROGRESS:
            change.count("vanished", state, in_mid_send)
            change.count("vanished", State.PENDING, n - in_mid_send)
        else:
            change.count("vanished", state, n)
    change.execute("vanish", pass_number=pass_number, to_suspect=DEATHS_TO_SUSPECT)
    change.recount_failures()
    return sum(n for _, n in moved)
