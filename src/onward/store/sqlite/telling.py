"""A store that tells of each of its commits, for a rehearsal that dies right after one of them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from onward.ports import Batch, Clock, Outcome, RunBegun, RunStart
from onward.store.sqlite.work import SqliteWorkStore


class TellingStore(SqliteWorkStore):
    """`told` hears of each commit of a run once it is durable, before anybody else does; the first, with which the run
    begins, has an empty batch."""

    def __init__(self, path: Path, clock: Clock, store_inputs: bool, told: Callable[[Batch, Outcome], None]):
        super().__init__(path, clock, store_inputs=store_inputs)
        self._told = told

    def begin_run(self, start: RunStart) -> RunBegun:
        begun = super().begin_run(start)
        self._told(Batch(), Outcome())
        return begun

    def write(self, run: int, batch: Batch) -> Outcome:
        outcome = super().write(run, batch)
        self._told(batch, outcome)
        return outcome
