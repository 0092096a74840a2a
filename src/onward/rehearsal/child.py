"""The program of the processes of a rehearsal: run the job on the scenario's store, and maybe die at a given point."""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import sys
import threading
import traceback
from pathlib import Path
from typing import Any, NoReturn

from onward import runner
from onward.engine.govern import Bounds
from onward.errors import OnwardError
from onward.job.instance import Binding
from onward.job.job import Job
from onward.job.loading import load_reference
from onward.job.plan import JobReference
from onward.model import State
from onward.ports.facts import FailedRecord
from onward.rehearsal.assignment import STORE, TRACE, Assignment
from onward.rehearsal.death import Death
from onward.rehearsal.first_records import FirstRecords
from onward.rehearsal.network import Call, watch
from onward.rehearsal.trace import Trace
from onward.rehearsal.watching import Commits, WatchedCalls, watched_plan

OPEN_STATES = (State.FAILED, State.QUARANTINED, State.UNCONFIRMED)
GRACE = 5.0


def main() -> None:
    """Be forked for each assignment that comes as a line of JSON, and tell how it ended; the end of the pipe ends all.
    Where nothing can be forked, do the first oneself."""
    importlib.import_module("pydantic.type_adapter")  # which most jobs need, and onward only for them
    pipe, answers = os.dup(0), os.fdopen(os.dup(1), "w")
    for line in os.fdopen(os.dup(pipe), buffering=1):
        assignment, said = json.loads(line)
        if not hasattr(os, "fork"):
            _live(Assignment(**assignment), said, pipe)
        process = os.fork()
        if not process:
            _live(Assignment(**assignment), said, pipe)
        _, status = os.waitpid(process, 0)
        print(os.waitstatus_to_exitcode(status), file=answers, flush=True)


def _live(assignment: Assignment, said: str, pipe: int) -> NoReturn:
    """One process's life: it does what it was told, unless it dies of it, and says how it ended."""
    _give_own_streams(said)
    threading.Thread(target=_end_with_the_parent, args=(pipe,), daemon=True).start()
    trace = Trace(Path(assignment.folder) / TRACE)
    try:
        ended = _rehearsed(assignment, trace)
    except OnwardError as error:
        ended = {"error": str(error), "code": error.exit_code}
    except BaseException as error:
        traceback.print_exc()
        ended = {"fault": f"{type(error).__name__}: {error}"}
    trace.note("ended", **ended)
    os._exit(0)  # what the job left behind must not keep the process alive


def _give_own_streams(said: str) -> None:
    """A step finds nothing to read, and what it prints goes to a file."""
    out = os.open(said, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    nothing = os.open(os.devnull, os.O_RDONLY)
    for stream, number in ((nothing, 0), (out, 1), (out, 2)):
        os.dup2(stream, number)
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr] # nothing is flushed when it is killed


def _end_with_the_parent(pipe: int) -> None:
    """Nothing more comes through the pipe until this process has ended, but the end of who holds its other end."""
    os.read(pipe, 1)
    os._exit(1)


def _rehearsed(assignment: Assignment, trace: Trace) -> dict[str, Any]:
    file = Path(assignment.file) if assignment.file else None
    job = load_reference(JobReference(file, assignment.module, assignment.name))
    binding = job.bind_json(assignment.params)
    death = Death(assignment.at, trace)
    _watch_network(trace)
    plan = watched_plan(job.plan(binding.params), assignment.key_prefix, trace)
    path = Path(assignment.folder) / STORE
    options = runner.Options(
        concurrency=1,
        bounds=Bounds(max_time=assignment.longest, grace=GRACE),
        wait=assignment.wait,
        handle_signals=False,
        source=FirstRecords(job.open_source(binding.params), assignment.records),
        opened=runner.open_telling(path, plan.store_inputs, Commits(trace, death)),
        in_process=True,
        plan=plan,
        patient=False,
        around=lambda inner, value_of: WatchedCalls(inner, value_of, trace, death),
    )
    result = runner.run(job, binding, options)
    return {"code": result.exit_code, "reason": result.reason, "total": result.total, **_left(path, job, binding)}


def _watch_network(trace: Trace) -> None:
    seen: set[tuple[str, int, str]] = set()

    def noticed(call: Call, address: str, line: int | None) -> None:
        once = (call.step.name, call.record, address)
        if call.step.effect is None and once not in seen:
            seen.add(once)
            trace.note("connection", step=call.step.name, key=call.key, address=address, line=line)

    watch(noticed)


def _asked_again_at(one: FailedRecord) -> float | None:
    """UTC seconds; None for what waits for a person, or for another run."""
    return one.waiting.until if one.waiting is not None and one.waiting.since is None else None


def _left(path: Path, job: Job, binding: Binding) -> dict[str, Any]:
    """Counts by state, the records that did not succeed, and when the first of them is asked about again."""
    with contextlib.closing(runner.open_desk(str(path))) as desk:
        facts = next(one for one in desk.instances(job.name) if one.name == binding.instance)
        open_records = [
            {
                "key": json.loads(one.key),
                "state": str(one.state),
                "step": one.step,
                "kind": one.kind,
                "error_type": one.error_type,
                "error": one.error,
                "until": _asked_again_at(one),
            }
            for one in desk.failures(facts.number, OPEN_STATES, None)
        ]
        counts = {str(state): number for state, number in facts.counts.states.items() if number}
    return {"counts": counts, "open": open_records}
