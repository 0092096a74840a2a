"""The live display on a terminal: a picture redrawn a few times a second below the lines that are worth keeping."""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from onward.cli.frame import Frame
from onward.cli.happenings import Happenings

if TYPE_CHECKING:
    from onward.engine.tally import Progress

FRAMES_A_SECOND = 6


class _SteadyConsole(Console):
    """Leaves the cursor visible: a run that is killed in mid-picture must not leave a terminal without one."""

    def show_cursor(self, show: bool = True) -> bool:
        return False


class Display:
    """`event` and `progress` are what a run calls; drawing is done by a thread of its own."""

    def __init__(self, stdout_too: bool) -> None:
        """`stdout_too`: what is printed on standard output ends up on this terminal as well."""
        self.happenings = Happenings()
        self._progress: Progress | None = None
        self._run = ""
        self._stopping: str | None = None
        self._started = False
        self._console = _SteadyConsole(stderr=True, highlight=False, markup=False, emoji=False, soft_wrap=True)
        self._live = Live(
            get_renderable=self._picture,
            console=self._console,
            refresh_per_second=FRAMES_A_SECOND,
            redirect_stdout=stdout_too,
            vertical_overflow="crop",
        )
        self._ascii_only = not (self._console.encoding or "").lower().startswith("utf")

    def start(self) -> None:
        """The run has said what it found."""
        self.happenings.listening = True
        self._started = True
        self._live.start()

    def stop(self) -> None:
        """The run has ended: the last picture stays."""
        if self._started:
            self._started = False
            with contextlib.suppress(OSError):  # the terminal has gone
                self._live.stop()

    def event(self, event: str, fields: Mapping[str, Any]) -> None:
        self._run = str(fields.get("run", ""))
        if event == "run_paused" and "grace" in fields:
            self._stopping = str(fields.get("reason"))
        if event == "run_finished" and self._progress is not None:
            self._progress = replace(self._progress, counts=fields["counts"], total=fields["total"], calls=0)
        with contextlib.suppress(OSError):
            for line in self.happenings.lines(event, fields):
                self._console.print(Text(line, style=_STYLES.get(event, "")))

    def progress(self, progress: Progress) -> None:
        self._progress = progress

    def _picture(self) -> Any:
        if self._progress is None:
            return Group()
        return Frame(self._progress, self._run, self._stopping, not self._started, self._ascii_only)


_STYLES = {
    "record_failed": "red",
    "record_quarantined": "magenta",
    "bad_line": "red",
    "run_paused": "bold yellow",
    "log_grows": "yellow",
    "resource_failed": "yellow",
    "call_abandoned": "yellow",
    "source_read": "dim",
}
