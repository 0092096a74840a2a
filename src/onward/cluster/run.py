"""One ordinary run in a process of its own, told by whoever began it: `python -m onward.cluster.run FD`."""

from __future__ import annotations

import contextlib
import os
import sys
import threading
import time
import traceback
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import TypeAdapter

from onward import runner
from onward.cluster.assignment import Assignment
from onward.cluster.messages import Orders, Reports
from onward.engine.tally import Progress
from onward.errors import OnwardError, OutOfMemory, StoreAway, is_out_of_memory
from onward.policy.endings import ONWARD_FAULT, STOPPED_EARLY

TELL_EVERY = 0.5
AFTER_GRACE = 30.0
LEAVE_WITHIN = 5.0
UNTOLD = frozenset({"checkpoint_committed", "record_resumed", "record_skipped"})
PROGRESS: TypeAdapter[Progress] = TypeAdapter(Progress)


class Teller:
    """What a run does, as it is told upwards: events but those of every checkpoint, and progress now and then. Texts
    of errors, which may quote data, stay behind."""

    def __init__(self, reports: Reports):
        self._reports = reports
        self._next = 0.0

    def event(self, event: str, fields: Mapping[str, Any]) -> None:
        if event not in UNTOLD:
            told = {name: value for name, value in fields.items() if name != "detail" and value is not None}
            self._reports.say("event", event=event, fields=told)

    def progress(self, progress: Progress) -> None:
        now = time.monotonic()
        if now >= self._next:
            self._next = now + TELL_EVERY
            self._reports.say("progress", progress=PROGRESS.dump_python(progress, mode="json"))

    def waits(self, words: str) -> None:
        self._reports.say("event", event="store_waits", fields={"reason": words})


def main() -> None:
    reports = Reports(int(sys.argv[1]))
    orders = Orders()
    assignment = Assignment.parse(orders.first())
    orders.listen(lambda number: os.kill(os.getpid(), number), assignment.grace + AFTER_GRACE)
    code, reason = _run(assignment, Teller(reports))
    reports.say("ended", code=code, reason=reason)
    reports.close()
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    _leave_in_time(code)
    sys.exit(code)


def _run(assignment: Assignment, teller: Teller) -> tuple[int, str]:
    try:
        job = assignment.load()
        options = replace(
            assignment.options(),
            progress=teller.progress,
            listeners=[(teller.event, False)],
            waits=teller.waits,
        )
        result = runner.run(job, assignment.bind(job), options)
    except StoreAway as error:
        return STOPPED_EARLY, str(error)
    except OnwardError as error:
        return error.exit_code, str(error)
    except KeyboardInterrupt:
        return STOPPED_EARLY, "told to stop before it began"
    except Exception as error:
        if is_out_of_memory(error):
            return OutOfMemory.exit_code, str(OutOfMemory())
        return ONWARD_FAULT, f"a fault of onward itself: {type(error).__name__} {_where(error)}"
    return result.exit_code, result.reason


def _where(error: BaseException) -> str:
    frames = traceback.extract_tb(error.__traceback__)
    return f"in {Path(frames[-1].filename).name}:{frames[-1].lineno}" if frames else "nowhere"


def _leave_in_time(code: int) -> None:
    """What the job has started may never end: the interpreter would wait for it."""
    timer = threading.Timer(LEAVE_WITHIN, lambda: os._exit(code))
    timer.daemon = True
    timer.start()


if __name__ == "__main__":
    main()
