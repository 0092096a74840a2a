"""Records from a function that makes an iterable or an async iterable."""

from __future__ import annotations

import asyncio
import contextlib
import json
import threading
import time
from collections.abc import AsyncIterable, AsyncIterator, Callable, Generator, Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

from onward.codec import check, dumps
from onward.errors import DeclarationError, OutputError, SourceError
from onward.model import BadLine, FeedBlock, SourceRecord
from onward.ports.source import Resume, Validate
from onward.sources.keys import RecordMaker, key_fields
from onward.sources.lines import bad_first
from onward.sources.plain import plain

MAX_AHEAD = 10_000
MAX_RECORDS = 1_000
MAX_CHARACTERS = 4 << 20
SLOW = 0.05
CLOSE_WITHIN = 1.0

Make = Callable[[], Iterable[Any] | AsyncIterable[Any]]


def iterable(make: Make, key: str | Sequence[str] | None = None, version: str | None = None) -> IterableSource:
    """Records that a function without arguments makes. It is called anew whenever the source is read again, which is
    at every run, unless `version` says that nothing has changed since all was read.

    `key` names the field, or fields, that identify a record; without it the value itself, text or an integer, does.
    Values may be plain JSON values, pydantic models, dataclasses (see `onward.sources.plain`). The iterable is never
    asked for more than 10,000 records beyond those that have ended. It is gone through in a thread of its own, an async
    iterable in an event loop of its own there. Raises DeclarationError.
    """
    if not callable(make):
        raise DeclarationError("iterable() takes a function that makes the iterable: iterable(lambda: rows)")
    return IterableSource(make, None if key is None else key_fields(key), version)


class IterableSource:
    """Implements `ports.source.Source`."""

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
        """See `ports.source.Source`. Always from the start; SourceError where the iterable itself fails."""
        reading = _Reading(self._made, _Collector(RecordMaker(self.title, self._fields, validate)))
        try:
            while (items := reading.next()) is not None:
                yield from self._blocks(items)
        finally:
            reading.end()
        if reading.failure is not None:
            raise self._failed(reading.failure, reading.collector.count) from reading.failure
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
        self.items: list[SourceRecord | BadLine] = []
        self._maker = maker
        self._characters = 0
        self._limit = 1
        self._asked = time.monotonic()

    def add(self, value: Any) -> bool:
        """Take one value; True when it is time to hand over what was gathered."""
        now = time.monotonic()
        slow, self._asked = now - self._asked > SLOW, now
        self.count += 1
        item = item_of(value, self.count, self._maker)
        self.items.append(item)
        self._characters += len(item.value if isinstance(item, SourceRecord) else item.raw)
        if slow:
            self.hurry()
        return len(self.items) >= self._limit or self._characters >= MAX_CHARACTERS

    def hurry(self) -> None:
        """Records come slowly: the next is handed over at once."""
        self._limit = 1

    def taken(self) -> list[SourceRecord | BadLine]:
        items, self.items, self._characters = self.items, [], 0
        self._limit = min(self._limit * 2, MAX_RECORDS)
        return items

    def ask_again(self) -> None:
        """The time that others took is not the iterable's."""
        self._asked = time.monotonic()


class _Reading:
    """An iterable that is gone through in a thread of its own, so that what it gave can be handed over while it is
    long in giving more. It is asked only while somebody waits for a block."""

    def __init__(self, make: Callable[[], Any], collector: _Collector):
        self.failure: BaseException | None = None
        self.collector = collector
        self._make = make
        self._lock = threading.Lock()
        self._changed = threading.Condition(self._lock)
        self._wanted = self._full = self._over = self._closed = False
        self._thread = threading.Thread(target=self._work, name="onward-iterable", daemon=True)

    def next(self) -> list[SourceRecord | BadLine] | None:
        """The next block's records; None at the end, or where the iterable fails."""
        if not self._thread.ident:
            self._thread.start()
        with self._changed:
            self._wanted = True
            self._changed.notify_all()
            if not self._changed.wait_for(self._has_block, SLOW) and not self.collector.items:
                self.collector.hurry()
                self._changed.wait_for(self._has_block)
            self._wanted = self._full = False
            return self.collector.taken() if self.collector.items or not self._over else None

    def _has_block(self) -> bool:
        return self._full or self._over

    def end(self) -> None:
        """Have the iterable closed, unless it is in the midst of something that takes long."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        if self._thread.is_alive():
            self._thread.join(CLOSE_WITHIN)

    def _work(self) -> None:
        try:
            made = self._make()
            pauses = self._pauses_async(made) if hasattr(made, "__anext__") else self._pauses(made)
            with contextlib.closing(pauses):
                for _ in pauses:
                    if not self._goes_on():
                        break
        except BaseException as error:  # SystemExit and the like are the iterable's own
            self.failure = error
        with self._changed:
            self._over = True
            self._changed.notify_all()

    def _goes_on(self) -> bool:
        """Wait until another block is wanted; False where none ever will be."""
        with self._changed:
            self._changed.wait_for(lambda: self._closed or (self._wanted and not self._full))
            self.collector.ask_again()
            return not self._closed

    def _add(self, value: Any) -> bool:
        """Take one value; True where to pause is due."""
        with self._lock:  # the same, and quicker
            self._full = self.collector.add(value)
            if self._full:
                self._changed.notify_all()
            return self._full or not self._wanted

    def _pauses(self, iterator: Iterator[Any]) -> Generator[None, None, None]:
        try:
            for value in iterator:
                if self._add(value):
                    yield
        finally:
            if hasattr(iterator, "close"):
                iterator.close()

    def _pauses_async(self, iterator: AsyncIterator[Any]) -> Generator[None, None, None]:
        async def gather() -> bool:
            async for value in iterator:
                if self._add(value):
                    return True
            return False

        with asyncio.Runner() as runner:
            while runner.run(gather()):
                yield


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
