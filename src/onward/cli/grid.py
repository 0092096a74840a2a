"""Tables for people that never wrap."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Literal

from rich import box
from rich.cells import cell_len
from rich.console import Console, ConsoleOptions, RenderableType, RenderResult
from rich.table import Table
from rich.text import Text

from onward.cli.frame import STYLES
from onward.cli.words import printable

GAP = 3
LEGIBLE = 8
TELLING = 40


def table(*columns: str, rows: Sequence[Sequence[str]], spare: Sequence[str] = ()) -> Iterator[RenderableType]:
    """A table, or nothing where there are no rows. A column whose name ends in a colon holds numbers. Those in `spare`
    are left out, one after the other, where the last column would have less than it takes to say something."""
    if rows:
        yield ""
        yield _Grid(columns, [[printable(cell) for cell in row] for row in rows], spare)


class _Grid:
    """A table that never wraps: on a narrow terminal columns are cut from the right, the first one last of all."""

    def __init__(self, columns: Sequence[str], rows: Sequence[Sequence[str]], spare: Sequence[str] = ()):
        self._columns = columns
        self._rows = rows
        self._spare = spare

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        spared = self._spared(options.max_width)
        if spared is not self:
            yield spared
            return
        table = Table(box=box.SIMPLE_HEAD, pad_edge=False, show_edge=False, header_style="bold dim")
        for column, width in zip(self._columns, self._widths(options.max_width), strict=True):
            side: Literal["left", "right"] = "right" if column.endswith(":") else "left"
            table.add_column(column.rstrip(":"), justify=side, no_wrap=True, overflow="ellipsis", width=width)
        for row in self._rows:
            table.add_row(*(Text(cell, style=STYLES.get(cell, "")) for cell in row))
        yield table

    def _spared(self, room: int) -> _Grid:
        """The table without its spare columns, as far as they are in the way."""
        wished = self._wished()
        left = room - sum(wished[:-1]) - GAP * (len(wished) - 1)
        if not self._spare or left >= min(wished[-1], TELLING):
            return self
        kept = [number for number, column in enumerate(self._columns) if column != self._spare[0]]
        columns = [self._columns[number] for number in kept]
        return _Grid(columns, [[row[number] for number in kept] for row in self._rows], self._spare[1:])._spared(room)

    def _wished(self) -> list[int]:
        cells = zip([column.rstrip(":") for column in self._columns], *self._rows, strict=True)
        return [max(map(cell_len, column)) for column in cells]

    def _widths(self, room: int) -> list[int]:
        widths = self._wished()
        excess = sum(widths) + GAP * (len(widths) - 1) - room
        for least in (LEGIBLE, 1):
            for number in reversed(range(len(widths))):
                cut = max(min(excess, widths[number] - least), 0)
                widths[number] -= cut
                excess -= cut
        return widths
