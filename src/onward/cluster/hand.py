"""What a worker does: one run after the other, each in a process of its own, until one ends as all others would."""

from __future__ import annotations

import platform
import signal
import sys
import threading
from collections import deque
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

from onward.cluster.messages import Underling
from onward.policy.endings import CANNOT_GO_ON, NO_MEMORY, STOPPED_EARLY

RUN = "onward.cluster.run"
MOST_EVENTS = 5_000
MOST_LOST = 5
PAUSE = 2.0


@dataclass(frozen=True, slots=True)
class Ended:
    """How a worker came to its end. `finished`: what its last run said of its own end, if it did."""

    code: int
    reason: str
    run: str = ""
    finished: Mapping[str, Any] | None = None

    def plain(self) -> dict[str, Any]:
        return asdict(self)


class Hand:
    """`work` returns when there is nothing left for this worker; `stop` and `look` are called meanwhile, from other
    threads. A run whose process dies, loses its lease or its store is followed by another; five in a row that got
    nothing done are not."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._events: deque[tuple[str, Mapping[str, Any]]] = deque()
        self._lost = 0
        self._progress: Mapping[str, Any] | None = None
        self._run, self._runs = "", 0
        self._told: int | None = None
        self._is_told = threading.Event()
        self._current: Underling | None = None

    def work(self, assignment: str) -> Ended:
        idle = 0
        while True:
            ended, again, got_on = self._one(assignment)
            idle = 0 if got_on else idle + 1
            if self._told is not None or not again or idle >= MOST_LOST:
                return ended
            self._is_told.wait(PAUSE)
            if self._told is not None:
                return ended

    def stop(self, number: int) -> None:
        """Have the run end in good order, and begin no other. Said again, it is heard once."""
        with self._lock:
            if self._told is not None:
                return
            self._told = number
            current = self._current
        self._is_told.set()
        if current is not None:
            current.stop(number)

    def look(self) -> dict[str, Any]:
        """How it stands, and the events since the last look."""
        with self._lock:
            events, self._events = list(self._events), deque()
            lost, self._lost = self._lost, 0
            return {
                "host": platform.node(),
                "run": self._run,
                "runs": self._runs,
                "progress": self._progress,
                "events": events,
                "lost": lost,
            }

    def _one(self, assignment: str) -> tuple[Ended, bool, bool]:
        """Make one run; how it ended, whether another would get further, and whether this one got anything done."""
        with self._lock:
            if self._told is not None:
                return Ended(STOPPED_EARLY, _named(self._told)), False, False
            underling = self._current = Underling(RUN, assignment)
            self._runs += 1
        last: dict[str, Any] = {}
        reader = threading.Thread(target=self._hear, args=(underling, last), name="onward-worker", daemon=True)
        reader.start()
        status = underling.process.wait()
        reader.join(PAUSE)  # what the run has left behind may hold its end of the pipe
        underling.close()
        with self._lock:
            self._current, self._progress = None, None
        got_on = bool(last.get("got_on"))
        if "code" in last:
            ended = Ended(last["code"], last["reason"], last.get("run", ""), last.get("finished"))
            again = ended.code == STOPPED_EARLY and ended.reason.startswith((CANNOT_GO_ON, NO_MEMORY))
            return ended, again, got_on
        how = f"was killed by {_named(-status)}" if status < 0 else f"ended with {status} without a word"
        print(f"onward: the process of a run {how}", file=sys.stderr, flush=True)  # noqa: T201 - into the worker's log
        return Ended(STOPPED_EARLY, f"the process of a run {how}", last.get("run", "")), True, got_on

    def _hear(self, underling: Underling, last: dict[str, Any]) -> None:
        for message in underling.messages():
            what = message["what"]
            with self._lock:
                self._lost += message.get("lost", 0)
                if what == "progress":
                    self._progress = message["progress"]
                    last["got_on"] = last.get("got_on") or message["progress"]["ended_here"] > 0
                elif what == "event":
                    self._note(message["event"], message["fields"], last)
                elif what == "ended":
                    last.update(code=message["code"], reason=message["reason"])

    def _note(self, event: str, fields: Mapping[str, Any], last: dict[str, Any]) -> None:
        if event == "run_started":
            self._run = last["run"] = str(fields.get("run", ""))
        elif event == "run_finished":
            last["finished"] = fields
        if len(self._events) >= MOST_EVENTS:
            self._lost += 1
        else:
            self._events.append((event, fields))


def _named(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
