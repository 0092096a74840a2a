"""`--flat`: the fields of records and outputs as columns.

Columns stand in the order key, the input's fields, the outputs by step, state, generation; within a group as they
are first seen. All rows are read before the first is written, through a file, so memory does not grow with them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager

import orjson

from onward.errors import ExportError
from onward.ports.sink import ExportRow
from onward.sinks import cells
from onward.sinks.place import Place, Scratch

MOST_COLUMNS = 10_000

Column = tuple[str, str]
"""Where a column's values come from, `input` or a step or one of the fixed columns, and its name."""

_KEY = ("", "key")
_LAST = (("", "state"), ("", "generation"))
_WHOLE_INPUT = ("", "input")


class Table:
    """Rows taken apart into cells (JSON texts), readable again and again, and the columns that they have."""

    def __init__(self, scratch: Scratch):
        self._scratch = scratch
        self._numbers: dict[Column, int] = {}
        self._steps: dict[str, int] = {}
        self.names: list[str] = []
        self.rows = 0

    def fill(self, rows: Iterable[ExportRow]) -> None:
        """Take all rows in. Raises ExportError."""
        for row in rows:
            numbered = [(self._number(column), cell) for column, cell in self._split(row)]
            self._scratch.write(orjson.dumps(numbered) + b"\n")
            self.rows += 1
        self._arrange()

    def read(self) -> Iterator[list[str | None]]:
        """All rows in order, each with one cell a column; None where a row has no such field."""
        for line in self._scratch.lines():
            row: list[str | None] = [None] * len(self.names)
            for number, cell in orjson.loads(line):
                row[self._places[number]] = cell
            yield row

    def _split(self, row: ExportRow) -> Iterator[tuple[Column, str]]:
        yield _KEY, row.key
        if row.input is not None:
            yield from _lifted(row.input, "input", "", _WHOLE_INPUT)
        for step, output in row.outputs.items():
            self._steps.setdefault(step, len(self._steps))
            yield from _lifted(output, f"step {step}", f"{step}.", (f"step {step}", step))
        yield _LAST[0], orjson.dumps(row.state).decode()
        yield _LAST[1], str(row.generation)

    def _number(self, column: Column) -> int:
        number = self._numbers.get(column)
        if number is None:
            if len(self._numbers) >= MOST_COLUMNS:
                raise ExportError(f"the rows have more than {MOST_COLUMNS} different fields; export without --flat")
            number = self._numbers[column] = len(self._numbers)
        return number

    def _arrange(self) -> None:
        seen = list(self._numbers)
        inputs = [column for column in seen if column[0] == "input" or column == _WHOLE_INPUT]
        outputs = [column for step in self._steps for column in seen if column[0] == f"step {step}"]
        arranged = [_KEY, *inputs, *outputs, *_LAST]
        self.names = _distinct(arranged)
        place = {column: index for index, column in enumerate(arranged)}
        self._places = [place[column] for column in seen]


def _lifted(text: str, group: str, prefix: str, whole: Column) -> Iterator[tuple[Column, str]]:
    if not cells.is_object(text):
        yield whole, text.strip()
        return
    for name, cell in cells.members(text).items():
        yield (group, prefix + name), cell


def _distinct(columns: list[Column]) -> list[str]:
    """The columns' names. The fixed ones keep theirs; a field or a step of a taken name says where it comes from."""
    taken = {name for group, name in columns if not group}
    names = []
    for group, name in columns:
        unique = name
        while group and unique in taken:
            unique = f"input.{unique}" if group == "input" else f"outputs.{unique}"
        taken.add(unique)
        names.append(unique)
    return names


@contextmanager
def gathered(place: Place, rows: Iterable[ExportRow]) -> Iterator[Table]:
    """The table of all rows, kept beside the place that they go to. Raises ExportError."""
    with place.scratch() as scratch:
        table = Table(scratch)
        table.fill(rows)
        yield table
