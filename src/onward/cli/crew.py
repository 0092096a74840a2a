"""One display for all workers of a job that runs on a cluster."""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from rich.text import Text

from onward.cli import lines
from onward.cli.display import Display
from onward.cli.frame import Frame
from onward.cli.lines import Lines
from onward.cli.logs import JsonLog
from onward.cli.words import brief, printable, rate, records
from onward.model import State

if TYPE_CHECKING:
    from onward.cluster.crew import Heard
    from onward.engine.tally import Progress

SHOWN = 16
UNSAID = frozenset({"run_paused", "run_resumed"})
"""What each of the workers says and one word is enough for."""


@dataclass(slots=True)
class Worker:
    """What is known of one worker. `run`: the number of its run in the store, as text; `begun`: how many it has begun;
    `done`: records that earlier ones of these ended, `here`: that the last one has."""

    number: int
    host: str = ""
    run: str = ""
    begun: int = 0
    progress: Progress | None = None
    ended: str | None = None
    done: int = 0
    here: int = 0

    @property
    def is_at_work(self) -> bool:
        return self.ended is None and self.progress is not None

    def line(self) -> str:
        """`worker 2: run 14 on host-b, 1,203 records done, 40/s, 8 calls`."""
        name = f"worker {self.number}: "
        if self.ended is not None:
            return name + brief(self.ended)
        if not self.run:
            return name + ("begins" if self.host else "waits for room in the cluster")
        where = f"{name}run {self.run} on {printable(self.host)}"
        if self.progress is None:
            return f"{where}, begins"
        done = self.done + self.here
        calls = f"{self.progress.calls} {'call' if self.progress.calls == 1 else 'calls'}"
        again = f", {self.begun - 1} begun anew" if self.begun > 1 else ""
        return f"{where}, {records(done)} done, {rate(self.progress.rate)}, {calls}{again}"


class Crew:
    """What all of them do together. `adopted`: what they found done already, by whom; `teller` is who shows it."""

    def __init__(self, workers: int, teller: CrewDisplay | CrewLines | CrewLog):
        self.workers = [Worker(number) for number in range(1, workers + 1)]
        self.adopted: Counter[str] = Counter()
        self._teller = teller
        self._began = time.time()
        teller.workers = self.workers

    def hear(self, heard: Heard) -> None:
        worker = self.workers[heard.worker - 1]
        if heard.look is not None:
            self._look(worker, heard.look)
        if heard.ended is not None:
            worker.ended, worker.progress = f"ended: {heard.ended.reason}", None
            self._teller.say("worker_ended", worker, exit_code=heard.ended.code)
        merged = merge([one.progress for one in self.workers if one.progress is not None], self._began)
        if merged is not None:
            self._teller.progress(merged)

    def _look(self, worker: Worker, look: Mapping[str, Any]) -> None:
        from onward.cluster.run import PROGRESS

        said = look["progress"]
        worker.progress = PROGRESS.validate_python(said) if said is not None else None
        worker.host = look["host"]
        if look["run"] and look["run"] != worker.run:
            worker.run, worker.begun = look["run"], worker.begun + 1
            worker.done, worker.here = worker.done + worker.here, 0
            self._teller.say("worker_began", worker)
        if worker.progress is not None:
            worker.here = worker.progress.ended_here
        for event, fields in look["events"]:
            if event == "run_finished":
                self.adopted.update(fields.get("adopted", {}))
            self._teller.event(event, {**fields, "worker": worker.number})
        if look["lost"]:
            self._teller.event("events_lost", {"worker": worker.number, "count": look["lost"]})


def merge(each: Sequence[Progress], began: float) -> Progress | None:
    """The newest reading of the instance's counters, with what the workers do taken together."""
    if not each:
        return None
    newest = max(each, key=lambda one: one.now)
    here = sum(one.counts.get(State.IN_PROGRESS, 0) - one.elsewhere for one in each)
    retrying = Counter[str]()
    for one in each:
        retrying.update(one.retrying)
    return replace(
        newest,
        started=began,
        rate=sum(one.rate for one in each),
        calls=sum(one.calls for one in each),
        retrying=retrying,
        ended_here=sum(one.ended_here for one in each),
        longest=max((one.longest for one in each if one.longest), key=lambda longest: longest[2], default=None),
        next_try=min((one.next_try for one in each if one.next_try), default=None),
        elsewhere=max(newest.counts.get(State.IN_PROGRESS, 0) - here, 0),
    )


class CrewFrame(Frame):
    """The picture of a run, with a line for each worker below it."""

    def __init__(self, progress: Progress, workers: Sequence[Worker], *rest: Any):
        at_work = sum(worker.is_at_work for worker in workers)
        super().__init__(progress, f"{at_work} of {len(workers)}", *rest)
        self._workers = workers

    _who = "workers"

    def lines(self, width: int) -> list[Text]:
        shown = [Text(worker.line(), style="dim") for worker in self._workers[:SHOWN]]
        if len(self._workers) > SHOWN:
            shown.append(Text(f"and {len(self._workers) - SHOWN} more workers", style="dim"))
        return [*super().lines(width), *shown]


class CrewDisplay(Display):
    """The live display on a terminal."""

    workers: Sequence[Worker] = ()

    def event(self, event: str, fields: Mapping[str, Any]) -> None:
        if event in UNSAID:
            return
        with contextlib.suppress(OSError):
            for line in self.happenings.lines(event, fields):
                self._console.print(Text(line))

    def say(self, event: str, worker: Worker, **fields: Any) -> None:
        """Nothing: its line shows it."""

    def stopping(self, reason: str) -> None:
        self._stopping = reason

    def _picture(self) -> Any:
        if self._progress is None:
            return Text("\n".join(worker.line() for worker in self.workers[:SHOWN]), style="dim")
        return CrewFrame(self._progress, self.workers, self._stopping, not self._started, self._ascii_only)


class CrewLines(Lines):
    """Plain lines, for files and pipes."""

    workers: Sequence[Worker] = ()

    def event(self, event: str, fields: Mapping[str, Any]) -> None:
        if event not in UNSAID:
            super().event(event, fields)

    def say(self, event: str, worker: Worker, **fields: Any) -> None:
        lines.say(worker.line())

    def stopping(self, reason: str) -> None:
        lines.say(f"stopping ({brief(reason)}): calls in progress may end; another signal stops at once")

    def told(self, progress: Progress) -> str:
        at_work = sum(worker.is_at_work for worker in self.workers)
        return f"{super().told(progress)}, {at_work} of {len(self.workers)} workers at work"


class CrewLog(JsonLog):
    """Events as JSON, each with its worker."""

    workers: Sequence[Worker] = ()

    def say(self, event: str, worker: Worker, **fields: Any) -> None:
        self.event(event, {"worker": worker.number, "run": worker.run, "host": worker.host, **fields})

    def stopping(self, reason: str) -> None:
        self.event("run_paused", {"reason": reason})


def teller(log_json: bool, as_json: bool) -> CrewDisplay | CrewLines | CrewLog:
    if log_json:
        return CrewLog(sys.stderr)
    if sys.stderr.isatty() and os.environ.get("TERM", "dumb") not in ("dumb", "unknown", ""):
        return CrewDisplay(stdout_too=as_json or sys.stdout.isatty())
    return CrewLines()
