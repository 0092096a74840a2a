"""The first records of a source, as a source."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from onward.model import FeedBlock
from onward.ports.source import Resume, Source, Validate


class FirstRecords:
    """Implements `ports.source.Source`: reading ends behind the first `number` records, as if there were no more.

    A pass that was cut short begins anew, since a cursor does not say how many records lie before it.
    """

    def __init__(self, source: Source, number: int):
        self._source = source
        self._number = number
        self.location = source.location
        self.title = source.title
        self.max_ahead = source.max_ahead

    def where(self, position: int) -> str:
        return self._source.where(position)

    def resume(self, cursor: str | None, complete: bool) -> Resume:
        found = self._source.resume(cursor, complete)
        return found if found.how == "done" else Resume("again", None, found.why)

    def read(self, cursor: str | None, validate: Validate | None) -> Iterator[FeedBlock]:
        """See `ports.source.Source`."""
        left = self._number
        for block in self._source.read(cursor, validate):
            if len(block.records) < left:
                left -= len(block.records)
                yield block
                continue
            records = block.records[:left]
            bad = [one for one in block.bad if one.position < records[-1].position]
            yield replace(block, records=records, bad=bad, complete=True)
            return
