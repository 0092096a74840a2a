"""Writing the history: entries are chained by their hashes as they are written, in the same transaction as the change
that they tell of. What many records share is read and written in blocks, so that memory stays constant."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import islice
from typing import Any

import orjson

from onward.model import StepVersion
from onward.policy.chain import BEGIN, EMPTY, END, Tip, link_hash
from onward.store.sql.change import Change, storable

AT_ONCE = 1000

Telling = Sequence[object]
"""One entry as those who write it have it: [record, event, step, reason, detail]; reason and what follows may be left
out."""


def tell(change: Change, entries: Iterable[Telling], *, run: int | None = None, actor: str | None = None) -> None:
    """Append entries to the chain of `run` (else of the change's own run), or, with an `actor`, to that of the acts of
    people in the change's instance: four statements for a thousand entries."""
    rest = iter(entries)
    run = None if actor is not None else run or change.run_number
    while block := list(islice(rest, AT_ONCE)):
        _append(change, block, run, None if actor is None else storable(actor))


def _append(change: Change, block: Sequence[Telling], run: int | None, actor: str | None) -> None:
    seq, head = tip_of(change, run)
    instance, now, rows = change.instance, change.now, []
    keys = dict(change.array("keys_of", list({one[0] for one in block} - {None})))
    for one in block:
        record, event, step, reason, detail = (*one, None, None, None)[:5]
        if isinstance(reason, str):
            reason = storable(reason)
        seq += 1
        head = link_hash(head, (instance, run, seq, record, keys.get(record), now, actor, event, step, reason, detail))
        rows.append((seq, head, record, event, step, reason, detail))
    change.send("insert_history", rows, run=run, actor=actor)
    change.send("move_run_head" if run is not None else "move_acts_head", run=run, seq=seq, head=head)


def tip_of(change: Change, run: int | None) -> Tip:
    """Where the chain of a run, or of the acts of people (None), ends."""
    found = change.rows("run_head", run=run) if run is not None else change.rows("acts_head")
    return Tip(*found[0]) if found else EMPTY


def begin(change: Change, host: str, steps: Iterable[StepVersion]) -> None:
    """A run's first entry: where it works, by which code, and where the chains of its instance ended before it."""
    after = change.rows("heads_before")
    detail = {"host": host, "versions": {step.name: step.version for step in steps}, "after": after}
    tell(change, [(None, BEGIN, None, None, _json(detail))])


def end(change: Change, run: int, reason: str, detail: dict[str, Any]) -> str:
    """A run's last entry; the head of its chain."""
    tell(change, [(None, END, None, reason, _json(detail))], run=run)
    return tip_of(change, run).hash


def _json(value: Any) -> str:
    return orjson.dumps(value).decode()
