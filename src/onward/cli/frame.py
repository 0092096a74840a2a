"""One picture of a run: what the live display shows at a moment, for any width of terminal."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

from rich.console import Console, ConsoleOptions, RenderResult
from rich.segment import Segment
from rich.text import Text

from onward.cli import spending
from onward.cli.words import duration, held_elsewhere, key_text, left, printable, rates, records

if TYPE_CHECKING:
    from onward.engine.tally import Progress

STYLES = {
    "succeeded": "green",
    "failed": "red",
    "quarantined": "magenta",
    "unconfirmed": "yellow",
    "in_progress": "cyan",
    "pending": "bright_black",
}
LONG_CALL = 2.0
SHORTEST_BAR, LONGEST_BAR = 10, 72
COMFORTABLE = 70


class Frame:
    """A rich renderable of fixed order: name, bar, counts, pace, and what waits or takes long."""

    _who = "run"

    def __init__(
        self, progress: Progress, run: str, stopping: str | None, ended: bool = False, ascii_only: bool = False
    ):
        self._progress = progress
        self._ended = ended
        self._run = run
        self._stopping = stopping
        self._ascii_only = ascii_only
        self._heavy, self._light = ("#", ".") if ascii_only else ("━", "─")
        self._dot = "-" if ascii_only else "·"

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        width = max(options.max_width - 1, 1)  # the last column is left alone: some terminals wrap there
        for line in self.lines(width):
            if self._ascii_only:
                line.plain = line.plain.replace("–", "-")
            line.truncate(width, overflow="ellipsis")
            yield from line.render(console)
            yield Segment.line()

    def lines(self, width: int) -> list[Text]:
        found = [self._title(width), self._bar(width), *self._counts(width)]
        if self._ended:
            return found
        return [*found, *self._pace(width), *self._money(), *self._waiting(), *self._longest()]

    def _title(self, width: int) -> Text:
        progress = self._progress
        name = f"{progress.job} {self._dot} {progress.instance}" if progress.instance else progress.job
        title = Text(printable(name), style="bold")
        if self._stopping and not self._ended:
            calls = f"{progress.calls} {'call' if progress.calls == 1 else 'calls'}"
            title.append(f"  stopping ({printable(self._stopping)}): {calls} to finish", style="bold yellow")
        clock = f"{self._who} {self._run} {self._dot} {_clock(time.time() - progress.started)}"
        room = width - title.cell_len - len(clock)
        if room >= 2:
            title.append(" " * room + clock, style="dim not bold")
        return title

    def _bar(self, width: int) -> Text:
        done, total = _done(self._progress), _total(self._progress)
        label = Text(f" {done:,} / {total:,}")
        if self._progress.target is None and not self._progress.source_complete:
            label.append(" read so far", style="dim")
        elif total:
            label.append(f" {_percent(done, total):>4}", style="bold")
        room = min(width - label.cell_len, LONGEST_BAR)
        if room < SHORTEST_BAR:
            return label[1:] if label.plain.startswith(" ") else label
        counts = self._by_state() if self._progress.target is None else {"succeeded": done}
        return bar(counts, total, room, self._heavy, self._light) + label

    def _by_state(self) -> dict[str, int]:
        """Records by state in the order in which they are shown."""
        counts = {str(state): number for state, number in self._progress.counts.items()}
        return {state: max(counts.get(state, 0), 0) for state in STYLES}

    def _counts(self, width: int) -> list[Text]:
        """As many lines as it takes; on a narrow terminal only states that have records."""
        counts = self._by_state()
        always = ("succeeded", "in_progress", "pending") if width >= COMFORTABLE else ()
        shown = [state for state in STYLES if counts[state] or state in always]
        return _flowing([Text(f"{counts[state]:,} {_name(state)}", style=STYLES[state]) for state in shown], width)

    def _pace(self, width: int) -> list[Text]:
        progress = self._progress
        parts = [Text(rates(progress.rate, progress.rate_of_all))]
        if self._stopping:
            pass
        elif progress.waits_for_others:
            parts.append(Text(held_elsewhere(progress.elsewhere), style="yellow"))
        elif progress.eta is not None:
            parts.append(Text(left(progress.eta, progress.time_left)))
        elif not progress.source_complete:
            parts.append(Text("the input is still being read", style="dim"))
        calls = f"{progress.calls} {'call' if progress.calls == 1 else 'calls'} now"
        claimed = self._by_state()["in_progress"] - progress.calls - progress.elsewhere  # from the claim on
        more = f", {claimed:,} more claimed" if claimed > 0 else ""
        beside = f", {progress.elsewhere:,} with other runs" if progress.elsewhere else ""
        return _flowing([*parts, Text(calls + more + beside, style="dim")], width)

    def _money(self) -> list[Text]:
        """What it costs, and how many calls may be at each model; a line each."""
        progress = self._progress
        if progress.money is None:
            return []
        lines = [Text("   ".join(spending.parts(progress.money, not self._stopping, progress.source_complete)))]
        for model in progress.models:
            throttled = spending.throttled(model, progress.now)
            line = Text(f"{printable(model.name)}: {model.calls} of up to {model.most} calls", style="dim")
            lines.append(line.append(f"   {throttled}" if throttled else "", style="yellow not dim"))
        return lines

    def _waiting(self) -> list[Text]:
        progress, lines = self._progress, []
        waiting = sum(progress.retrying.values())
        if waiting:
            causes = ", ".join(f"{printable(cause)} ×{number:,}" for cause, number in _most(progress.retrying))
            soonest = max((progress.next_try or progress.now) - time.time(), 0.0)
            when = f", next in {duration(soonest)}" if soonest >= 1 else ""
            lines.append(Text(f"{waiting:,} waiting for another try{when}: {causes}", style="yellow"))
        if progress.asked_again:
            lines.append(
                Text(f"{records(progress.asked_again)} sent, or perhaps sent: to be asked about again", "yellow")
            )
        if progress.held.get("suspect"):
            lines.append(Text(f"{records(progress.held['suspect'])} under suspicion of killing the process", "magenta"))
        if progress.held.get("batch"):
            lines.append(Text(f"{records(progress.held['batch'])} waiting for batches of requests", "cyan"))
        if progress.held.get("person"):
            lines.append(Text(f"{records(progress.held['person'])} waiting for a person's word", "yellow"))
        if progress.held.get("stale"):
            lines.append(Text(f"{records(progress.held['stale'])} waiting for a rerun", "yellow"))
        return lines

    def _longest(self) -> list[Text]:
        longest = self._progress.longest
        if longest is None or longest[2] < LONG_CALL:
            return []
        key, step, age = longest
        return [Text(f"longest: {key_text(key)} at {step}, for {duration(age)}", style="dim")]


def _flowing(parts: Sequence[Text], width: int) -> list[Text]:
    """Parts beside one another, on as many lines as it takes."""
    lines = [Text()]
    for part in parts:
        if lines[-1].cell_len and lines[-1].cell_len + 3 + part.cell_len > width:
            lines.append(Text())
        lines[-1].append("   " if lines[-1].cell_len else "").append_text(part)
    return lines


def bar(counts: Mapping[str, int], total: int, room: int, heavy: str = "━", light: str = "─") -> Text:
    """A bar of `room` cells in which every state has its share."""
    ordered = {state: max(counts.get(state, 0), 0) for state in STYLES}
    stripes = Text()
    for state, cells in shares(ordered, total, room).items():
        stripes.append(heavy * cells, style=STYLES[state])
    stripes.append(light * (room - stripes.cell_len), style=STYLES["pending"])
    return stripes


def shares(counts: Mapping[str, int], total: int, room: int) -> dict[str, int]:
    """Cells of a bar of `room` cells by state: one at least for a state that has records, rounding is taken from the
    largest. What is left of the bar stands for records to come."""
    shown = {state: number for state, number in counts.items() if number > 0}
    total = max(total, sum(shown.values()), 1)
    cells = {state: max(1, number * room // total) for state, number in shown.items() if state != "pending"}
    if not cells:
        return {}
    largest = max(cells, key=lambda state: cells[state])
    full = room if sum(shown[state] for state in cells) >= total else min(sum(cells.values()), room - 1)
    cells[largest] = max(cells[largest] + full - sum(cells.values()), 0)
    return cells


def _done(progress: Progress) -> int:
    if progress.target is not None:
        return progress.ended_here
    return progress.done


def _total(progress: Progress) -> int:
    return progress.total if progress.target is None else progress.target


def _most(causes: Mapping[str, int]) -> list[tuple[str, int]]:
    return sorted(causes.items(), key=lambda item: -item[1])[:3]


def _percent(done: int, total: int) -> str:
    """Never 100% before the end."""
    return f"{100 * done // total}%"


def _name(state: str) -> str:
    return state.replace("_", " ")


def _clock(elapsed: float) -> str:
    whole = int(elapsed)
    return f"{whole // 3600}:{whole % 3600 // 60:02}:{whole % 60:02}"
