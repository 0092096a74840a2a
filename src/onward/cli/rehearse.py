"""`onward rehearse`: the job is killed and resumed again and again, and what that shows is told."""

from __future__ import annotations

import os
import sys
import time
from typing import TYPE_CHECKING, Any, Unpack

from onward.cli import streams
from onward.cli.run import termination_interrupts
from onward.cli.target import About, find
from onward.cli.words import brief, duration, key_text, printable
from onward.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Iterator

    from rich.console import RenderableType

    from onward.rehearsal.report import Announced, Finding, Report

PAUSE = 5
STYLES = {"fault": "red", "warning": "yellow"}


def rehearse(job: str | None, records: int, wait: float, yes: bool, as_json: bool, **about: Unpack[About]) -> int:
    """0 clean, 1 faults found."""
    target = find(job, **about)
    if isinstance(target.job, str):
        raise UsageError("rehearse needs JOB, the file that declares it; no store is needed, and none is touched")
    from onward import api
    from onward.codec import dumps

    teller = _Teller(yes)
    with termination_interrupts(), streams.kept_clean():  # what the job prints is no part of the answer
        report = api.rehearse(
            target.job,
            records=records,
            wait=wait,
            params=target.params,
            instance=target.instance,
            announce=teller.announce,
            progress=teller.progress,
        )
    teller.end()
    if as_json:
        streams.answer(dumps(report.plain()))
    else:
        from onward.cli import tables

        tables.show(_told(report))
    return report.exit_code


class _Teller:
    """Speaks on the error output while the rehearsal goes on."""

    def __init__(self, at_once: bool):
        self._at_once = at_once
        self._live = sys.stderr.isatty() and os.environ.get("TERM", "dumb") != "dumb"

    def announce(self, told: Announced) -> None:
        name = f"{told.job} · {told.instance}" if told.instance else told.job
        many = "record" if told.records == 1 else f"{told.records:,} records"
        streams.err(f"rehearsing {printable(name)}: its first {many}, on a store that is thrown away")
        if told.effects:
            self._tell_effects(told)
        else:
            streams.err("no effect will be called: the job has none; its steps are killed and resumed")
        if self._live:
            self._line("first an undisturbed run")

    def _tell_effects(self, told: Announced) -> None:
        streams.err("will really be called, again and again, at the endpoint that the job names:")
        for one in told.effects:
            streams.err(f"  {one.step} ({printable(one.effect)}): {', '.join(one.calls)}  {one.place}")
        streams.err(f"all idempotency keys begin with {told.key_prefix}")
        if self._live and not self._at_once:
            self._leave_time()

    def _leave_time(self) -> None:
        """Nobody is asked anything; who sees that this is the wrong endpoint can leave."""
        for left in range(PAUSE, 0, -1):
            self._line(f"begins in {left} s; Ctrl-C to leave it (--yes begins at once)")
            time.sleep(1)

    def progress(self, over: int, number: int) -> None:
        if self._live:
            self._line(f"{over:,} of {number:,} kills and resumptions")

    def end(self) -> None:
        if self._live:
            self._line("")

    def _line(self, text: str) -> None:
        sys.stderr.write(f"\r\x1b[2K{text}")
        sys.stderr.flush()


def _told(report: Report) -> Iterator[RenderableType]:
    from rich.text import Text

    for one in report.findings:
        yield from _finding(one)
    many = "1 record" if report.records == 1 else f"{report.records:,} records"
    missed = f", {report.missed:,} ended before they came to their point" if report.missed else ""
    yield Text(
        f"{many}, {report.runs:,} runs, {report.killed:,} killed{missed}, {duration(report.seconds)}",
        style="dim",
    )
    if report.left_out:
        yield Text(
            f"not killed at {report.left_out:,} of {report.points:,} points, which are too many: rehearse fewer "
            "records (--records)",
            style="yellow",
        )
    yield _verdict(report)


def _finding(one: Finding) -> Iterator[RenderableType]:
    from rich.text import Text

    name = printable(" ".join(filter(None, [one.step, f"({one.effect})" if one.effect else ""])))
    yield Text.assemble(
        (f"{one.level}: ", STYLES[one.level]), (f"{name}: " if name else "", "bold"), f"{one.kind}: {brief(one.what)}"
    )
    where = [one.place, f"record {key_text(one.record)}" if one.record is not None else None, one.when]
    where.append(f"{one.times:,} times" if one.times > 1 else None)
    if any(where):
        yield Text("  " + ", ".join(printable(part) for part in where if part), style="dim")
    yield Text(f"  {brief(one.advice)}")
    yield ""


def _verdict(report: Report) -> Any:
    from rich.text import Text

    faults, warnings = len(report.faults), len(report.findings) - len(report.faults)
    said = f", {warnings} {'warning' if warnings == 1 else 'warnings'}" if warnings else ""
    if not faults:
        return Text(f"clean{said}", style="green")
    return Text(f"{faults} {'fault' if faults == 1 else 'faults'}{said}", style="bold red")
