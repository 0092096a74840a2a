"""What records are read from."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Literal, Protocol

from onward.model import FeedBlock

Validate = Callable[[Any], Any]
"""Turns a source's plain value into the job's record type; raises MisfitRecord."""


@dataclass(frozen=True, slots=True)
class Resume:
    """How a source goes on from a stored cursor.

    `done`: read to its end and unchanged, nothing to read. `continue`: read what lies behind `cursor`.
    `again`: read from the start and match by key; `why` says what changed (empty where re-reading is the rule).
    """

    how: Literal["done", "continue", "again"]
    cursor: str | None = None
    why: str = ""


class Source(Protocol):
    """Where records come from. Reading is repeatable; a cursor is JSON text that only the source understands."""

    @property
    def location(self) -> str:
        """Identity of the place (paths, query), absolute; another location is not the same input."""

    @property
    def title(self) -> str:
        """What people are shown: a short path or name."""

    @property
    def max_ahead(self) -> int | None:
        """At most so many records may be fed before they are worked on; None: no bound."""

    def resume(self, cursor: str | None, complete: bool) -> Resume:
        """Compare the input with the stored cursor. `complete`: the stored pass had reached the end.

        Raises SourceError where there is no such input.
        """

    def read(self, cursor: str | None, validate: Validate | None) -> Iterator[FeedBlock]:
        """Yield blocks in source order, from behind `cursor` or from the start; memory stays constant.

        Every block's cursor covers the block itself. The last block has `complete=True` and may be empty. Positions
        grow with source order. A bad place is a `BadLine` in its block, never an exception; after it reading goes on
        where it can. From `damage` on no block is complete, and all are partial: no cursor passes the damage.
        Raises SourceError where nothing can be read at all (no such file, no such column).
        """

    def where(self, position: int) -> str:
        """The place of a position for people: `file:line`."""
