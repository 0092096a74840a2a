"""A store that tells of each of its commits, for a rehearsal that dies right before or right after one of them."""

from __future__ import annotations

from pathlib import Path
from typing import Protocol

from onward.ports.clock import Clock
from onward.ports.work import Batch, Outcome, RunBegun, RunStart
from onward.store.sqlite.work import SqliteWorkStore


class Hearer(Protocol):
    """Who is told, by the thread that calls the store. The commit with which a run begins has an empty batch."""

    def coming(self, batch: Batch) -> None:
        """It is about to be committed."""

    def committed(self, batch: Batch, outcome: Outcome) -> None:
        """It is durable, and nobody else knows it yet."""


class TellingStore(SqliteWorkStore):
    """Tells its hearer of what a run commits."""

    def __init__(self, path: Path, clock: Clock, store_inputs: bool, hearer: Hearer):
        super().__init__(path, clock, store_inputs=store_inputs)
        self._hearer = hearer

    def begin_run(self, start: RunStart) -> RunBegun:
        begun = super().begin_run(start)
        self._hearer.committed(Batch(), Outcome())
        return begun

    def write(self, run: int, batch: Batch) -> Outcome:
        self._hearer.coming(batch)
        outcome = super().write(run, batch)
        self._hearer.committed(batch, outcome)
        return outcome
