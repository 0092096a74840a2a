"""What `sources.sql` asks of a database: the rows of one query."""

from __future__ import annotations

from collections.abc import Callable, Generator, Sequence
from typing import Any, Protocol

Row = Sequence[Any]


class Unfit(Exception):
    """A value that JSON cannot hold; the message says what it is."""


class Rows(Protocol):
    """A query under way. `columns`: their names, in order; `convert`: for each what makes its values plain, None where
    they are; it raises Unfit."""

    @property
    def columns(self) -> list[str]: ...

    @property
    def convert(self) -> list[Callable[[Any], Any] | None]: ...

    def rows(self) -> Generator[Row]:
        """All rows of one snapshot, in constant memory. Raises SourceError."""

    def close(self) -> None: ...
