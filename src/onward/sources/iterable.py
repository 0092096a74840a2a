"""Records from a function that makes an iterable or an async iterable."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from onward.codec import check, dumps
from onward.errors import DeclarationError, OutputError, SourceError
from onward.model import BadLine, FeedBlock, SourceRecord
from onward.ports import Resume, Validate
from onward.sources.keys import RecordMaker, key_fields
from onward.sources.lines import bad_first
from onward.sources.plain import plain

MAX_AHEAD = 10_000
MAX_RECORDS = 1_000
MAX_CHARACTERS = 4 << 20
SLOW = 0.05
_FAILS = (Exception, SystemExit, KeyboardInterrupt)  # in the feed's thread the last two are the iterable's own

Make = Callable[[], Iterable[Any] | AsyncIterable[Any]]


def iterable(make: Make, key: str | Sequence[str] | None = None, version: str | None = None) -> IterableSource:
    """Records that a function without arguments makes. It is called anew whenever the source is read again, which is
    at every run, unless `version` says that nothing has changed since all was read.

    `key` names the field, or fields, that identify a record; without it the value itself, text or an integer, does.
    Values may be plain JSON values, pydantic models, dataclasses (see `onward.sources.plain`). The iterable is never
    asked for more than 10,000 records beyond those that have ended. An async iterable runs in an event loop of its
    own. Raises DeclarationError.
    """
    if not callable(make):
        raise DeclarationError("iterable() takes a function that makes the iterable: iterable(lambda: rows)")
    return IterableSource(make, None if key is None else key_fields(key), version)


class IterableSource:
    """Implements `onward.ports.Source`."""

    max_ahead: int | None = MAX_AHEAD - MAX_RECORDS  # one block more is made before the feed looks again
    location = "iterable"

    def __init__(self, make: Make, fields: tuple[str, ...] | None, version: str | None):
        self._make = make
        self._fields = fields
        self._version = version
        self._made_before: object = None

    @property
    def key(self) -> tuple[str, ...] | None:
        """The fields that identify a record; None: the value itself does."""
        return self._fields

    @property
    def title(self) -> str:
        name = str(getattr(self._make, "__name__", ""))
        return name if name.isidentifier() else "iterable"

    def based_at(self, folder: Path) -> IterableSource:
        """Itself: it has no paths."""
        return self

    def where(self, position: int) -> str:
        return f"{self.title}:{position}"

    def resume(self, cursor: str | None, complete: bool) -> Resume:
        """`done` only with a version that is the one of a complete pass."""
        if complete and self._version is not None and cursor == self._cursor():
            return Resume("done", cursor)
        return Resume("again")

    def read(self, cursor: str | None, validate: Validate | None) -> Iterator[FeedBlock]:
        """See `onward.ports.Source`. Always from the start; SourceError where the iterable itself fails."""
        collector = _Collector(RecordMaker(self.title, self._fields, validate))
        failure: SourceError | None = None
        try:
            made = self._made()
            batches = _batches_async(made, collector) if hasattr(made, "__anext__") else _batches(made, collector)
        except _FAILS as error:
            raise self._failed(error, 0) from error
        while failure is None:
            try:
                items = next(batches, None)
            except _FAILS as error:
                failure = self._failed(error, collector.count)
                failure.__cause__ = error
                items = None
            if items is None:
                break
            yield from self._blocks(items)
        yield from self._blocks(collector.taken())
        if failure is not None:
            raise failure
        yield FeedBlock([], [], self._cursor(), complete=True)

    def _blocks(self, items: list[SourceRecord | BadLine]) -> Iterator[FeedBlock]:
        return (FeedBlock(records, bad, self._cursor()) for records, bad in bad_first(items))

    def _made(self) -> Any:
        """A new iterator, sync or async."""
        made = self._make()
        if hasattr(made, "__aiter__"):
            iterator: Any = made.__aiter__()
        elif hasattr(made, "__iter__") and not isinstance(made, str | bytes):
            iterator = iter(made)
        else:
            raise SourceError(f"{self.title}() gave {type(made).__name__}, not something to iterate over")
        if iterator is self._made_before:
            raise SourceError(f"{self.title}() gave the same iterator twice; it has to make a new one each time")
        self._made_before = iterator
        return iterator

    def _failed(self, error: BaseException, count: int) -> SourceError:
        if isinstance(error, SourceError):
            return error
        return SourceError(f"{self.title}() failed after {count:,} records: {type(error).__name__}: {error}")

    def _cursor(self) -> str:
        return json.dumps({"version": self._version, "key": self._fields})


class _Collector:
    """Gathers records to blocks: one record at first and after every pause, so that work can begin, and twice as many
    each time as long as they come quickly."""

    def __init__(self, maker: RecordMaker):
        self.count = 0
        self._maker = maker
        self._items: list[SourceRecord | BadLine] = []
        self._characters = 0
        self._limit = 1
        self._asked = time.monotonic()

    def add(self, value: Any) -> bool:
        """Take one value; True when it is time to hand over what was gathered."""
        now = time.monotonic()
        slow, self._asked = now - self._asked > SLOW, now
        self.count += 1
        item = item_of(value, self.count, self._maker)
        self._items.append(item)
        self._characters += len(item.value if isinstance(item, SourceRecord) else item.raw)
        if slow:
            self._limit = 1
        return slow or len(self._items) >= self._limit or self._characters >= MAX_CHARACTERS

    def taken(self) -> list[SourceRecord | BadLine]:
        items, self._items, self._characters = self._items, [], 0
        self._limit = min(self._limit * 2, MAX_RECORDS)
        return items

    def ask_again(self) -> None:
        """The time that others took is not the iterable's."""
        self._asked = time.monotonic()


def _batches(iterator: Iterator[Any], collector: _Collector) -> Iterator[list[SourceRecord | BadLine]]:
    try:
        for value in iterator:
            if collector.add(value):
                yield collector.taken()
                collector.ask_again()
    finally:
        if hasattr(iterator, "close"):
            iterator.close()


def _batches_async(iterator: AsyncIterator[Any], collector: _Collector) -> Iterator[list[SourceRecord | BadLine]]:
    async def gather() -> bool:
        async for value in iterator:
            if collector.add(value):
                return True
        return False

    with asyncio.Runner() as runner:
        while runner.run(gather()):
            yield collector.taken()
            collector.ask_again()


def item_of(value: Any, position: int, maker: RecordMaker) -> SourceRecord | BadLine:
    try:
        text = dumps(value)
    except OutputError:
        try:
            value = plain(value)
            check(value, "the record")
            text = dumps(value)
        except OutputError as error:
            return maker.bad(position, str(error).partition(";")[0], repr(value))
    return maker.make(value, text, position)
