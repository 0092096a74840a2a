"""Records handed over in a list, for tests of a job: keyed as the job's own source keys them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

from onward.errors import MisfitRecord
from onward.model import BadLine, FeedBlock, SourceRecord
from onward.ports.source import Resume, Validate
from onward.sources.iterable import item_of
from onward.sources.keys import RecordMaker
from onward.sources.lines import bad_first

AT_ONCE = 1000
BY_POSITION = "position"


class Given:
    """Implements `ports.source.Source`. `key`: field names, None (the value is its own key), or `BY_POSITION`."""

    max_ahead: int | None = None
    location = title = "the given records"

    def __init__(self, records: Sequence[Any], key: tuple[str, ...] | str | None):
        self._records = records
        self._key = key

    def where(self, position: int) -> str:
        return f"{self.title}:{position}"

    def resume(self, cursor: str | None, complete: bool) -> Resume:
        return Resume("done" if complete else "again", cursor)

    def read(self, cursor: str | None, validate: Validate | None) -> Iterator[FeedBlock]:
        """See `ports.source.Source`."""
        for start in range(0, len(self._records), AT_ONCE):
            records = self._records[start : start + AT_ONCE]
            items = [self._item(value, start + index, validate) for index, value in enumerate(records)]
            for good, bad in bad_first(items):
                yield FeedBlock(good, bad, "given")
        yield FeedBlock([], [], "given", complete=True)

    def _item(self, value: Any, position: int, validate: Validate | None) -> SourceRecord | BadLine:
        if self._key != BY_POSITION:
            fields = self._key if isinstance(self._key, tuple) else None
            return item_of(value, position, RecordMaker(self.title, fields, validate))
        return item_of(value, position, _Numbered(self.title, None, validate))


class _Numbered(RecordMaker):
    """Keys records by their place in the list, from 0 on."""

    def make(self, value: Any, text: str, position: int) -> SourceRecord | BadLine:
        record = SourceRecord(str(position), text, position)
        if self._validate is not None:
            try:
                self._validate(value)
            except MisfitRecord as misfit:
                record.invalid = str(misfit)
        return record
