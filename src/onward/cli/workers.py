"""`onward run JOB --on ray --workers N`: one command, many runs, one display, one exit code."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TextIO

from onward.cli import errors, streams
from onward.cli.target import Target
from onward.cli.words import brief
from onward.errors import StoreMissing, UsageError

if TYPE_CHECKING:
    from onward.cli.flags import RunFlags
    from onward.cluster.assignment import Assignment
    from onward.cluster.hand import Ended
    from onward.cluster.place import Place
    from onward.engine.govern import Bounds
    from onward.job.instance import Binding
    from onward.job.job import Job


class Asked(NamedTuple):
    """What `--on` and `--workers` ask for."""

    on: str
    place: Place
    workers: int


def checked(on: str | None, workers: int | None, store: str | None, limit: int | None) -> Asked:
    """What is asked for, before the job is loaded. Raises UsageError."""
    from importlib.util import find_spec

    from onward import runner
    from onward.cluster import place

    if on is None:
        raise UsageError("--workers needs --on: where they are to work, such as --on ray")
    found = place.parse(on)
    if workers is None:
        raise UsageError(f"--on {on} needs --workers: how many")
    if store is None or not runner.is_shared(store):
        has = "the one beside the job" if store is None else "a file or memory"
        raise UsageError(f"--on {on} needs a store that all workers reach, --store postgresql://…, not {has}")
    if limit is not None:
        raise UsageError("--limit is what one run may start, and --on begins several; leave one of the two out")
    if find_spec("ray") is None or (found.address is not None and find_spec("grpc") is None):
        raise UsageError(f"--on {on} needs Ray, which is not installed here: pip install 'onward[ray]'")
    return Asked(on, found, workers)


def run_on(target: Target, asked: Asked, bounds: Bounds, flags: RunFlags, budget: float | None) -> int:
    """Run the job to its end on the cluster; the exit code. Raises OnwardError where it cannot even begin."""
    from onward import api, runner
    from onward.cluster.assignment import travelling_folder
    from onward.job.job import Job

    job, store = target.job, target.store
    assert isinstance(job, Job) and store is not None
    binding = api.bind(job, target.params, target.instance)
    job.plan(binding.params)
    is_new = _is_new(store, flags["no_create"])
    folder = travelling_folder(job.reference)
    assignment = _assignment(job, binding, store, folder, bounds, flags, budget)
    command = _Command(target, asked, flags)
    with command.output():
        command.open(runner.shown_place(store), is_new, binding)
        return command.close(command.work(folder, assignment, bounds.max_time), binding)


def _is_new(store: str, no_create: bool) -> bool:
    """Whether the workers are to make the store; one that is there is at today's schema before they begin."""
    from onward import runner

    try:
        runner.bring_up_to_date(store)
    except StoreMissing:
        if no_create:
            place = runner.shown_place(store)
            raise StoreMissing(f"there is no store at {place}, and --no-create forbids to make one") from None
        return True
    return False


def _assignment(
    job: Job,
    binding: Binding,
    store: str,
    folder: Path | None,
    bounds: Bounds,
    flags: RunFlags,
    budget: float | None,
) -> Assignment:
    from onward.cluster.assignment import Assignment, below, own_version

    reference = job.reference
    if reference.file is None and reference.module is None:
        raise UsageError("a job that is declared in a notebook cannot travel; put it into a file")
    return Assignment(
        name=reference.name,
        file=below(folder, reference.file),
        module=reference.module,
        params=binding.params_json,
        instance=binding.instance,
        store=store,
        location=job.open_source(binding.params).location,
        onward=own_version(),
        concurrency=flags["concurrency"],
        budget=budget,
        max_failures=bounds.max_failures,
        max_failures_percent=bounds.max_failures_percent,
        wait=flags["wait"],
        grace=bounds.grace,
        source_changed=flags["source_changed"],
    )


class _Command:
    """What is said, and where it goes."""

    def __init__(self, target: Target, asked: Asked, flags: RunFlags):
        from onward.cli import crew

        again = ("onward", "run", *target.typed, "--on", asked.on, "--workers", str(asked.workers))
        self._target, self._asked = replace(target, again=again), asked
        self._log_json, self._as_json = flags["log_format"] == "json", flags["as_json"]
        self._teller = crew.teller(self._log_json, self._as_json)
        self._crew = crew.Crew(asked.workers, self._teller)
        self._out: TextIO | None = None
        self._began = time.time()

    @contextlib.contextmanager
    def output(self) -> Iterator[None]:
        if not self._as_json:
            yield
            return
        with streams.kept_clean() as self._out:
            yield

    def open(self, store: str, is_new: bool, binding: Binding) -> None:
        job = self._target.job
        name = job if isinstance(job, str) else job.name
        self._say(f"store {store}" + (" (new store, empty ledger of effects)" if is_new else ""))
        many = "1 worker" if self._asked.workers == 1 else f"{self._asked.workers} workers"
        instance = f", instance {binding.instance}" if binding.instance else ""
        self._say(f"job {name}{instance}, {many} on {self._asked.on}")

    def work(self, folder: Path | None, assignment: Assignment, max_time: float | None) -> Ended:
        from onward.cluster.front import Front
        from onward.cluster.order import Order

        order = Order(
            self._asked.place.address,
            self._asked.place.needs,
            self._asked.workers,
            None if folder is None else str(folder),
            assignment.grace,
            assignment.text(),
        )
        self._teller.start()
        try:
            return Front(self._crew.hear, self._teller.stopping, _last_words).work(order, max_time)
        finally:
            self._teller.stop()

    def close(self, ended: Ended, binding: Binding) -> int:
        from onward.cli import report
        from onward.model import RunResult

        code, status = ended.code, self._status(binding)
        if status is None or code in (errors.USAGE, errors.ONWARD_FAULT):
            streams.err(f"onward: {brief(ended.reason)}")
        seconds = time.time() - self._began
        counts = {} if status is None else status["counts"]
        total = 0 if status is None else status["total"]
        result = RunResult(code, ended.reason, ended.run, counts, total, seconds)
        if status is not None:
            for line in report.closing(result, self._finished(ended, status), self._target):
                self._say(line)
        return self._answered(code, status)

    def _finished(self, ended: Ended, status: Mapping[str, Any]) -> dict[str, Any]:
        """What the deciding run said of its end, with what is true of all."""
        now = {name: status[name] for name in ("vanished", "vanished_open", "stale", "source_complete")}
        cost = {"cost": status["cost"], "cost_here": status["cost"]}
        return {**(ended.finished or {}), **now, **cost, "adopted": self._crew.adopted}

    def _status(self, binding: Binding) -> dict[str, Any] | None:
        """None where the store cannot be asked; why is said, but where no worker has got as far as to bring the job
        there."""
        from onward import api
        from onward.errors import OnwardError

        try:
            return api.status(self._target.job, store=self._target.store, instance=binding.instance)
        except (StoreMissing, UsageError):
            return None
        except OnwardError as error:
            streams.err(f"onward: {error}")
            return None

    def _answered(self, code: int, status: Mapping[str, Any] | None) -> int:
        if not self._as_json:
            return code
        from onward.codec import dumps

        lost = status is None
        if status is not None:
            try:
                streams.answer(dumps(status), self._out)
            except streams.AnswerLost as error:
                streams.err(f"onward: {error}; what is done is kept, {self._target.command('status', '--json')} has it")
                lost = True
        return max(code, errors.STOPPED_EARLY) if lost and code != errors.USAGE else code

    def _say(self, line: str) -> None:
        if not self._as_json:
            streams.out(line)
        elif not self._log_json:
            streams.err(line)


def _last_words() -> None:
    with contextlib.suppress(OSError):
        os.write(2, b"\nonward: left at once; its workers stop as soon as they notice, and the same command goes on\n")
