"""Taking in what comes from another store: with numbers of its own, in one change, and closed until it is opened."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Any

from onward.errors import UsageError
from onward.model import EntryState
from onward.ports.moving import Closed, Moved, Taken
from onward.store.sql import moves
from onward.store.sql.change import Change
from onward.store.sql.parcels import (
    COUNTS,
    DROPPED,
    ENTRIES,
    HISTORY,
    LINEAGE_COUNTS,
    OF_INSTANCES,
    OF_RECORDS,
    RECORDS,
    RUNS,
    SAME_TIME,
    Numbers,
    SqlParcel,
)
from onward.store.sql.transaction import Life, Row

AT_ONCE = 2000
SHOWN = 3
NOBODY = 0
"""The record that answers for an entry whose own was left behind in another store."""
_STATE, _PAYLOAD_HASH, _RECORD, _OWNER, _CLOSED = 2, 4, 6, 19, 20
OPEN = (EntryState.INTENDED, EntryState.UNKNOWN)


@dataclass(slots=True)
class _Arrival:
    """One instance: its number and rows in the source, what its numbers become, and what an unfinished copy left."""

    source: int
    row: Row
    numbers: Numbers
    freed: tuple[int | None, int]


def take_in(change: Change, life: Life, parcel: SqlParcel, token: str, place: str, later: float) -> Taken:
    """Raises UsageError. `later`: seconds by which the clock of this store is ahead of the parcel's."""
    _refuse_alive(change, life)
    later = later if abs(later) >= SAME_TIME else 0.0
    arrivals = [_arrive(change, parcel, source, token, place, later) for source in parcel.instances]
    totals = [0, 0, 0]
    for one in arrivals:
        taken = _take_instance(change, parcel, one)
        totals = [total + number for total, number in zip(totals, taken, strict=True)]
    obligations = sum(_take_entries(change, parcel, name, arrivals) for name in parcel.names)
    return Taken(totals[0], totals[1], obligations, totals[2])


def _refuse_alive(change: Change, life: Life) -> None:
    for run, boot, lease_until, _, _, job in change.rows("open_runs_of_store"):
        if life.is_alive(change.transaction, run, boot, lease_until):
            raise UsageError(
                f"run {run} of job {job} is alive in the store that the job is to go to; stop it first, or, where it "
                "has died, wait until its lease is over"
            )


def _arrive(change: Change, parcel: SqlParcel, source: int, token: str, place: str, later: float) -> _Arrival:
    """A closed instance without anything; what an unfinished copy has left goes."""
    row = next(iter(parcel.rows("out_instance", source)))
    job, name, location = row[:3]
    change.execute("insert_instance", job=job, name=name, location=location)
    instance = int(change.rows("find_instance", job=job, name=name)[0][0])
    change.is_about(instance, None)
    closed, text, _, _ = change.rows("move_of")[0]
    known: Mapping[int, int] = {}
    freed: tuple[int | None, int] = (None, 0)
    if text is not None and closed == Closed.ARRIVING:
        earlier = moves.moved_of(text)
        assert earlier is not None
        if earlier.place != place:
            raise UsageError(
                f"job {job} is being copied from {earlier.place} to this store: finish that first, or give another "
                "store with --to; nothing was copied"
            )
        known = dict(earlier.runs)
        first, number = change.rows("freed_history")[0]
        freed = first, number
        for block in DROPPED:
            change.execute(block)
    elif text is not None or change.rows("runs"):
        what = f"instance {name!r} of job {job}" if name else f"job {job}"
        raise UsageError(
            f"{what} is in the store that it is to go to already; nothing was copied: give another store, or another "
            "schema (?schema=…), with --to"
        )
    runs = _run_numbers(change, [run for run, *_ in parcel.rows("out_runs", source)], known)
    lowest, highest = parcel.ranges[source]
    shift = _reserve(change, highest - lowest + 1) - lowest if highest >= lowest else 0
    moved = Moved(place, token, change.now, tuple(runs.items()))
    change.execute("note_move", closed=int(Closed.ARRIVING), moved=moves.text_of(moved))
    return _Arrival(source, row, Numbers(instance, shift, runs, later), freed)


def _run_numbers(change: Change, runs: Sequence[int], known: Mapping[int, int]) -> dict[int, int]:
    """Numbers without gaps; those that an unfinished copy has got are used again."""
    new = [run for run in runs if run not in known]
    last = int(change.rows("reserve_runs", number=len(new))[0][0])
    return {**known, **{run: last + place for place, run in enumerate(new, 1)}}


def _reserve(change: Change, number: int) -> int:
    """The first of so many numbers for records, one behind the other."""
    while True:
        base, others = change.rows("reserve_records", number=number)[0]
        if others == 0:
            return int(base)


def _take_instance(change: Change, parcel: SqlParcel, one: _Arrival) -> tuple[int, int, int]:
    """All but its obligations; how many records, runs and entries of the history."""
    numbers, transaction, source = one.numbers, change.transaction, one.source
    change.is_about(numbers.instance, None)
    _, _, _, cursor, fed_position, partly_fed, complete, pass_number, created, entries, head, limit = one.row
    change.execute(
        "fill_instance",
        cursor=cursor,
        fed_position=fed_position,
        partly_fed=partly_fed,
        source_complete=complete,
        pass_number=pass_number,
        created=created,
        entries=entries,
        head=head,
        concurrency=limit,
    )
    for lineage, versions, skipped in parcel.rows("out_lineages", source):
        change.execute("insert_lineage", versions=versions, skipped=skipped)
        numbers.lineages[lineage] = int(change.rows("find_lineage", versions=versions, skipped=skipped)[0][0])
    runs = ((numbers.runs[row[0]], *row[1:]) for row in parcel.rows(RUNS.block, source))
    written = transaction.insert(RUNS.name, RUNS.columns, numbers.rows(RUNS, runs))
    records = 0
    for table in (*OF_RECORDS, *OF_INSTANCES):
        number = transaction.insert(table.name, table.columns, numbers.rows(table, parcel.rows(table.block, source)))
        records = number if table is RECORDS else records
    counts = (_count(numbers, row) for row in parcel.rows(COUNTS.block, source))
    transaction.insert(COUNTS.name, COUNTS.columns, numbers.rows(COUNTS, counts))
    return records, written, _take_history(change, parcel, one)


def _count(numbers: Numbers, row: Row) -> Row:
    """Those of lineages are named by number."""
    instance, what, name, n = row
    return (instance, what, str(numbers.lineages[int(name)]) if what in LINEAGE_COUNTS else name, n)


def _take_history(change: Change, parcel: SqlParcel, one: _Arrival) -> int:
    """In the order in which it was written; each entry with the numbers that it was hashed with."""
    rows = one.numbers.rows(HISTORY, parcel.rows(HISTORY.block, one.source))
    first, number = one.freed
    written = 0
    if first is not None and number:
        places: Iterable[Any] = range(first, first + number)
        again = ((place, *row) for place, row in zip(places, islice(rows, number), strict=True))
        written = change.transaction.insert(HISTORY.name, ("id", *HISTORY.columns), again)
    return written + change.transaction.insert(HISTORY.name, HISTORY.columns, rows)


def _take_entries(change: Change, parcel: SqlParcel, name: str, arrivals: Sequence[_Arrival]) -> int:
    """The ledger's entries under one name: those of the records that come, and what is known of those of others."""
    ours = {one.source: one.numbers.maker(ENTRIES) for one in arrivals}
    left_behind = Numbers(0, 0, {}, arrivals[0].numbers.later).maker(ENTRIES)

    def numbered(row: Row) -> Row:
        if row[_OWNER] in ours:
            return ours[row[_OWNER]](row[:_OWNER])
        return left_behind((*row[:_RECORD], NOBODY, *row[_RECORD + 1 : _OWNER]))

    rest = parcel.rows("out_entries", arrivals[0].source, name)
    taken = 0
    while block := list(islice(rest, AT_ONCE)):
        places = [[row[0], row[1]] for row in block]
        known = {(row[0], row[1]): row[2:] for row in change.rows("known_entries", places)}
        wanted = [row for row in block if _is_wanted(row, known.get((row[0], row[1])), row[_OWNER] in ours)]
        change.execute("forget_entries", [[row[0], row[1]] for row in wanted if (row[0], row[1]) in known])
        taken += change.transaction.insert(ENTRIES.name, ENTRIES.columns, map(numbered, wanted))
    return taken


def _is_wanted(row: Row, known: Row | None, is_ours: bool) -> bool:
    """Raises UsageError where the two ledgers say different things, or one would be sent for in both stores."""
    if known is not None:
        state, payload_hash, record = known
        same = payload_hash == row[_PAYLOAD_HASH]
        if not is_ours and (row[_CLOSED] == Closed.MOVED or (same and state == row[_STATE])):
            return False
        if record == NOBODY and same:
            return True  # it came with an earlier instance
        raise UsageError(
            f"the ledger of the store that the job is to go to has an entry of its own for effect {row[0]!r} with the "
            f"key {row[1]}: the same obligation was met in both; nothing was copied"
        )
    if not is_ours and row[_STATE] in OPEN:
        raise UsageError(
            f"the outcome of effect {row[0]!r} with the key {row[1]} is open, and is not that of what is moved: settle "
            "it first; nothing was copied"
        )
    return True
