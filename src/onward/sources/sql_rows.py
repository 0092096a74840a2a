"""What `sources.sql` asks of a database: the rows of one query."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import Any, Protocol

Row = Sequence[Any]


class Unfit(Exception):
    """A value that JSON cannot hold; the message says what it is."""


MOST_ROWS = 2_000
MOST_CHARACTERS = 4 << 20
PAGE_SECONDS = 0.5


class Pace:
    """How many rows to ask for at a time: one at first, and twice as many each time, as long as they come within half
    a second and hold a few megabytes."""

    def __init__(self) -> None:
        self.wanted = 1

    def note(self, page: Sequence[Row], size: int, seconds: float) -> None:
        """How many characters the last page had, and how long it took to come."""
        by_size = MOST_CHARACTERS * len(page) // max(size, 1)
        by_time = int(len(page) * PAGE_SECONDS / max(seconds, 1e-6))
        self.wanted = max(1, min(MOST_ROWS, self.wanted * 2, by_size, by_time))


def size_of(row: Row) -> int:
    return sum(len(part) for part in row if isinstance(part, str | bytes))


class Rows(Protocol):
    """A query under way. `columns`: their names, in order; `convert`: for each what makes its values plain, None where
    they are; it raises Unfit."""

    @property
    def columns(self) -> list[str]: ...

    @property
    def convert(self) -> list[Callable[[Any], Any] | None]: ...

    def pages(self) -> Generator[Sequence[Row]]:
        """All rows of one snapshot, in constant memory, as they come: where a query is slow a page has few, so that
        they can be worked on, and do not go with a connection that is lost. Raises SourceError."""

    def close(self) -> None: ...
