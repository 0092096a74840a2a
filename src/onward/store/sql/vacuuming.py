"""Removing what nobody needs any more: what newer results have replaced, and the errors of what has succeeded since.

It goes from page to page. Each is looked at in a reading, and only where there is something it is looked at once more
and changed, in a commit of its own: whoever is killed in the middle leaves nothing half removed.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from functools import partial
from typing import Protocol, TypeVar

from onward.ports.desk import Vacuumed
from onward.store.sql import chain
from onward.store.sql.change import Change

PAGE = 500
LONGEST_REST = 1.0
T = TypeVar("T")


class Maker(Protocol):
    """Has `make` called in a reading, or in a change that is durable afterwards."""

    def __call__(self, instance: int, make: Callable[[Change], T]) -> T: ...


def _rest(took: float) -> None:
    """Others have their turn for as long as this had."""
    time.sleep(min(took, LONGEST_REST))


class Vacuum:
    """One instance's. `older_than` in seconds; `rest` is told how long a change took."""

    def __init__(
        self,
        read: Maker,
        change: Maker,
        instance: int,
        older_than: float,
        actor: str,
        dry_run: bool,
        rest: Callable[[float], None] = _rest,
    ):
        self._read, self._change, self._rest = read, change, rest
        self._instance, self._actor, self._dry_run = instance, actor, dry_run
        self._before = read(instance, lambda change: change.now) - older_than
        self._told = False
        self.done = Vacuumed()

    def work(self) -> Vacuumed:
        for block, look in (("made_again", self._superseded), ("overcome", self._overcome)):
            after = -1
            while page := self._page(block, after):
                after = page[-1]
                self._do(partial(look, page))
        self._do(self._standings)
        return self.done

    def _page(self, block: str, after: int) -> list[int]:
        def look(change: Change) -> list[int]:
            return [row[0] for row in change.rows(block, after=after, limit=PAGE, before=self._before)]

        return self._read(self._instance, look)

    def _do(self, look: Callable[[Change, bool], Vacuumed]) -> None:
        found = self._read(self._instance, lambda change: look(change, False))
        if self._dry_run or not found.is_any:
            self.done.add(found)
            return

        def remove(change: Change) -> Vacuumed:
            removed = look(change, True)
            if removed.is_any and not self._told:
                since = time.strftime("%Y-%m-%d %H:%M", time.gmtime(self._before))
                why = f"what newer results had replaced before {since} UTC, and errors of records that have succeeded"
                chain.tell(change, [(None, "vacuumed", None, why)], actor=self._actor)
            return removed

        began = time.monotonic()
        removed = self._change(self._instance, remove)
        self._told = self._told or removed.is_any
        self.done.add(removed)
        self._rest(time.monotonic() - began)

    def _superseded(self, page: list[int], change: Change, remove: bool) -> Vacuumed:
        bound = {(record, generation) for record, generation in change.rows("sent_or_owed", page)}
        outputs, results = (
            [row for row in change.rows(block, page, before=self._before) if row[:2] not in bound]
            for block in ("superseded_outputs", "superseded_results")
        )
        inputs = [
            row
            for row in change.rows("superseded_inputs", page, before=self._before)
            if not any((row[0], generation) in bound for generation in range(row[1], row[3]))
        ]
        if remove:
            for block, rows in (("drop_outputs", outputs), ("drop_results", results), ("drop_inputs", inputs)):
                if rows:
                    change.execute(block, [row[:2] for row in rows])
        gone = {row[:2] for row in (*outputs, *results)}
        return Vacuumed(
            records=len({row[0] for row in (*outputs, *results, *inputs)}),
            results=len(gone),
            outputs=sum(row[2] for row in outputs),
            output_bytes=sum(row[3] for row in outputs),
            inputs=len(inputs),
            input_bytes=sum(row[2] for row in inputs),
        )

    def _overcome(self, page: list[int], change: Change, remove: bool) -> Vacuumed:
        errors = change.rows("overcome_among", page, before=self._before)
        if remove and errors:
            change.execute("clear_failures", [row[0] for row in errors])
        return Vacuumed(errors=len(errors), error_bytes=sum(row[1] for row in errors))

    def _standings(self, change: Change, remove: bool) -> Vacuumed:
        if remove:
            return Vacuumed(standings=change.execute("drop_old_standings", before=self._before))
        return Vacuumed(standings=change.one("old_standings", before=self._before))
