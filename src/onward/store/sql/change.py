"""One transaction under way: its instance and run, its moment, and the counters that it will have moved."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import orjson

from onward.model import State
from onward.store.sql.transaction import Row, Transaction

Rows = list[Any] | dict[Any, Any]


def _json(rows: Rows) -> str:
    return orjson.dumps(rows, option=orjson.OPT_NON_STR_KEYS).decode()


class Change:
    """What the parts of a store share inside one transaction.

    Statements take whole batches as one JSON parameter: one call into the database, so that the interpreter's lock is
    free for the event loop meanwhile.
    """

    def __init__(self, transaction: Transaction, instance: int, run: int | None):
        self.transaction = transaction
        self.now = transaction.now
        self._moved: Counter[tuple[str, str]] = Counter()
        self._common: dict[str, Any] = {
            "now": transaction.now,
            "steady": transaction.steady,
            "boot": transaction.boot,
        }
        self.is_about(instance, run)

    def is_about(self, instance: int, run: int | None) -> None:
        """What follows concerns this instance and this run."""
        self.instance, self.run_number = instance, run
        self._common |= {"instance": instance, "run": run}

    def execute(self, block: str, rows: Rows | None = None, **bindings: Any) -> int:
        """Run one named block; the number of rows it changed."""
        return self.transaction.execute(block, self._bound(rows, bindings))

    def execute_all(self, statements: Sequence[tuple[str, Rows, Mapping[str, Any]]]) -> list[int]:
        """Run blocks with their rows and bindings in this order; the numbers of rows that they changed."""
        return self.transaction.execute_all([(block, self._bound(rows, more)) for block, rows, more in statements])

    def send(self, block: str, rows: Rows | None = None, **bindings: Any) -> None:
        """Run one named block of which nobody asks what it changed; it may be made together with what follows."""
        self.transaction.send(block, self._bound(rows, bindings))

    def rows(self, block: str, rows: Rows | None = None, **bindings: Any) -> list[Row]:
        return self.transaction.rows(block, self._bound(rows, bindings))

    def _bound(self, rows: Rows | None, bindings: Mapping[str, Any]) -> dict[str, Any]:
        """What a block is given besides what all have in common."""
        listed = {} if rows is None else {"rows": _json(rows)}
        return {**self._common, **bindings, **listed}

    def stream(self, block: str, **bindings: Any) -> Iterator[Row]:
        """The rows of a block one by one; what it reads from must not change before the last."""
        return self.transaction.stream(block, {**self._common, **bindings})

    def one(self, block: str, **bindings: Any) -> Any:
        found = self.rows(block, **bindings)
        return found[0][0] if found else None

    def array(self, block: str, rows: Rows | None = None, **bindings: Any) -> list[Any]:
        """A block that answers with one JSON array."""
        return self.transaction.parsed(self.rows(block, rows, **bindings)[0][0])

    def count(self, what: str, name: str, n: int) -> None:
        if n:
            self._moved[what, name] += n

    def count_all(self, what: str, moved: Mapping[Any, int]) -> None:
        for name, n in moved.items():
            self.count(what, name, n)

    def move(self, before: State, after: State, n: int, gone: bool = False) -> None:
        """Count `n` records going from one state to another. `gone`: vanished ones, which are counted apart."""
        what = "vanished" if gone else "state"
        self.count(what, before, -n)
        self.count(what, after, n)

    def recount_failures(self) -> None:
        """Count failed and quarantined records by cause anew: they are few, and lie in an index of their own."""
        self.execute("drop_failure_counts")
        for what, name in list(self._moved):
            if what == "failure":
                del self._moved[what, name]  # their records lie in the tables already
        for step, kind, n in self.rows("count_failures"):
            self.count("failure", cause(step, kind), n)

    def flush(self) -> None:
        """Write the counters that were moved."""
        moved = [[what, name, n] for (what, name), n in sorted(self._moved.items()) if n]
        if moved:
            self.send("add_counts", moved)
        self._moved.clear()


def storable(text: str) -> str:
    """Text as databases can hold it: what is no Unicode (half of a surrogate pair) is written out as an escape."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "backslashreplace").decode()
    return text


def cause(step: str | None, kind: str) -> str:
    """The counter's name for failures of one kind at one step."""
    return orjson.dumps([step, kind]).decode()
