"""What a dialect brings: transactions that run named blocks of SQL, and what tells which runs live."""

from __future__ import annotations

from collections.abc import Generator, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from enum import Enum
from typing import Any, Protocol

Row = tuple[Any, ...]


class Reach(Enum):
    """How far a change goes. ALL: whatever it likes; HELD: what one run holds, so that changes of others may be made at
    the same time; OWN_ROW: a run's own row, but for the history."""

    ALL = "all"
    HELD = "held"
    OWN_ROW = "own row"


class Transaction(Protocol):
    """One transaction, or one consistent reading, and its moment.

    `now` in UTC seconds; `steady` is the clock of leases, comparable within one `boot`. Statements take whole batches
    as one JSON parameter, and answer with rows or with one JSON array. Bindings that a block does not use do no harm.
    """

    @property
    def now(self) -> float: ...

    @property
    def steady(self) -> float: ...

    @property
    def boot(self) -> str: ...

    def execute(self, block: str, bindings: Mapping[str, Any]) -> int:
        """Run one block; the number of rows that it changed."""

    def execute_all(self, statements: Sequence[tuple[str, Mapping[str, Any]]]) -> list[int]:
        """Run blocks in this order; the numbers of rows that they changed."""

    def send(self, block: str, bindings: Mapping[str, Any]) -> None:
        """Run one block of which nobody asks what it changed: it may wait for what follows, at most for the commit."""

    def rows(self, block: str, bindings: Mapping[str, Any]) -> list[Row]:
        """All rows of a block."""

    def stream(self, block: str, bindings: Mapping[str, Any]) -> Generator[Row]:
        """The rows of a block one by one, as they are now, whatever is changed before the last is read."""

    def insert(self, table: str, columns: Sequence[str], rows: Iterable[Row]) -> int:
        """Add rows to a table, as fast as can be, and in constant memory; how many there were."""

    def parsed(self, text: str | None) -> list[Any]:
        """The JSON array that a block has answered with; none is an empty one."""

    def be_alone_in(self, instance: int) -> None:
        """From now on nobody else changes anything of this instance before the transaction ends."""

    def begin_part(self) -> None:
        """What follows can be undone alone. Parts do not nest."""

    def undo_part(self) -> None:
        """Undo what was done since `begin_part`; the part goes on."""

    def end_part(self) -> None:
        """What was done since `begin_part` belongs to the whole."""


class Life(Protocol):
    """Which runs live. Asked inside a transaction, of which the answer may be a part."""

    def is_alive(self, transaction: Transaction, run: int, boot: str, lease_until: float) -> bool:
        """Whether a run that has not ended is alive."""

    def is_held(self, transaction: Transaction, run: int) -> bool:
        """Whether the process lives that a run was in, and the run goes on there, or a call that it gave up on may."""


class Readable(Protocol):
    """A store that can be asked."""

    @property
    def life(self) -> Life: ...

    def reading(self) -> AbstractContextManager[Transaction]:
        """What is asked inside sees one state of the store. One inside another is the same."""
