"""Records' values: from the store, or, where it keeps none, from another reading of the source."""

from __future__ import annotations

from collections.abc import Iterator

from onward.engine.attempt import Attempt
from onward.errors import SourceError
from onward.job.plan import Plan
from onward.model import SourceRecord
from onward.ports.source import Source


class Inputs:
    """Gives the input of a claimed record as JSON text.

    With `store_inputs=False` the source is read beside the work. Claims come in source order, so that one reading
    serves nearly all of them; a record that comes again from further back costs another reading.
    """

    def __init__(self, source: Source, plan: Plan):
        self._source = source
        self._validate = plan.record_validate
        self._reading: Iterator[SourceRecord] | None = None
        self._position = -1
        self._kept: dict[int, str] = {}

    def value_of(self, attempt: Attempt) -> str:
        """Raises SourceError when the record is no longer where it was."""
        claimed = attempt.claimed
        if claimed.value is None:
            claimed.value = self._read(claimed.position, claimed.key)
        return claimed.value

    def _read(self, position: int, key: str) -> str:
        if self._reading is None or position <= self._position:
            self._reading = self._records()
        for record in self._reading:
            self._position = record.position
            if record.position == position and record.key == key:
                return record.value
            if record.position > position:
                break
        self._reading = None
        raise SourceError(f"{self._source.where(position)} no longer holds the record {key}; its input is not stored")

    def _records(self) -> Iterator[SourceRecord]:
        for block in self._source.read(None, self._validate):
            yield from block.records
