"""Instances on their way to another store: their rows as they are read, and with the numbers that they get there."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from typing import Any

from onward.store.sql.transaction import Row, Transaction

LINEAGE_COUNTS = ("lineage", "lineage_changed")  # named by number
SAME_TIME = 1.0
"""Seconds by which clocks may differ before times are told by the other's."""
_TIMES = frozenset({"not_before", "since", "ask_at", "first_at", "intended_at", "sent_at", "ended_at"})


@dataclass(frozen=True, slots=True)
class Table:
    """One table: the block that gives it out, and its columns as that has them."""

    name: str
    columns: tuple[str, ...]

    @property
    def block(self) -> str:
        return f"out_{self.name}"


def _table(name: str, columns: str) -> Table:
    return Table(name, tuple(columns.split()))


RECORDS = _table(
    "records",
    "id instance key position pass state vanished hold rank gate not_before run fence generation step started attempts "
    "deaths solo_deaths failed_runs input_changed succeeded_generation lineage since",
)
RUNS = _table(
    "runs",
    "id host params versions started ended exit_code reason told effects pace entries head instance boot lease_until",
)
HISTORY = _table(
    "history",
    "instance record run seq hash at actor event step reason detail as_instance as_record as_run",
)
ENTRIES = _table(
    "effects",
    "name key state payload payload_hash receipt record generation fence run first_at intended_at ask_at asks sent_at "
    "fields ended_at deadline settle",
)
COUNTS = _table("counts", "instance what name n")
OF_RECORDS = (
    RECORDS,
    _table("inputs", "record generation hash value source_hash"),
    _table("checkpoints", "record generation step version output run at"),
    _table("generations", "record generation lineage"),
    _table("failures", "record step version kind error_type message attempts run at received"),
    _table(
        "usage",
        "record generation step model version requests tokens_in tokens_out cached_tokens picodollars unpriced "
        "uncounted lost repairs seconds",
    ),
    _table("owed", "record name key generation"),
    _table("awaits", "name key record"),
)
OF_INSTANCES = (
    _table("versions", "instance step version parts"),
    _table("costs", "instance step version n unknown first second third earlier earlier_second crossed"),
    _table("pauses", "instance name at actor reason"),
    _table("answers", "instance fingerprint text"),
    _table(
        "batched",
        "instance fingerprint model place path body size picodollars tokens repairs tries chunk answer fault spent",
    ),
    _table("batch_waits", "instance record fingerprint generation version strays"),
    _table(
        "chunks",
        "id instance run model place path requests picodollars tokens at file batch status done total ended",
    ),
)
_DROPPED = (
    "inputs checkpoints generations failures usage owed awaits effects records lineages versions costs pauses answers "
    "batched batch_waits chunks history counts runs"
)
DROPPED = tuple(f"drop_all_{name}" for name in _DROPPED.split())
"""Blocks that take an instance away again, in order."""


@dataclass(slots=True)
class Numbers:
    """What numbers of one instance become. `shift`: what is added to those of its records; `later`: seconds by which
    the target's clock is ahead."""

    instance: int
    shift: int
    runs: Mapping[int, int]
    later: float = 0.0
    lineages: dict[int, int] = field(default_factory=dict)

    def rows(self, table: Table, rows: Iterable[Row]) -> Iterator[Row]:
        """The rows of a table as they are to be in the target."""
        return map(self.maker(table), rows)

    def maker(self, table: Table) -> Callable[[Row], Row]:
        """What makes of a row of a table what it is to be in the target."""
        changes = [(place, self._change(table, name)) for place, name in enumerate(table.columns)]
        told = [(place, change) for place, change in changes if change is not None]

        def make(row: Row) -> Row:
            changed = list(row)
            for place, change in told:
                if changed[place] is not None:
                    changed[place] = change(changed[place])
            return tuple(changed)

        return make

    def _change(self, table: Table, column: str) -> Callable[[Any], Any] | None:
        if column == "record" or (column == "id" and table is RECORDS):
            return self.record
        if column == "run":
            return self.run
        if column == "instance":
            return lambda _: self.instance
        if column == "lineage":
            return self.lineages.__getitem__
        return self.time if column in _TIMES and self.later else None

    def record(self, number: int) -> int:
        return number + self.shift

    def run(self, number: int) -> int:
        """0: one of another instance, which has no row there."""
        return self.runs.get(number, 0)

    def time(self, at: float) -> float:
        return at + self.later if at else at


@dataclass(frozen=True, slots=True)
class SqlParcel:
    """`ports.moving.Parcel` in one reading of a SQL store."""

    reading: Transaction
    job: str
    instances: tuple[int, ...]
    names: tuple[str, ...]
    stamp: str
    moment: tuple[float, float]
    explained: Callable[[], AbstractContextManager[None]]
    ranges: Mapping[int, tuple[int, int]]
    """The lowest and the highest number of the records of each instance."""

    def rows(self, block: str, instance: int, name: str | None = None) -> Iterator[Row]:
        lowest, highest = self.ranges[instance]
        bindings = {"instance": instance, "name": name, "lowest": lowest, "highest": highest}
        with self.explained():  # else a fault of the source would look like one of the target
            yield from self.reading.stream(block, bindings)
