"""Running a job, rehearsing it, and what a run would cost."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from onward import runner
from onward.api.subject import (
    bind,
    refuse_inside_loop,
    stop_if_only_loaded,
    subject_of,
)
from onward.engine.govern import Bounds
from onward.engine.tally import Progress
from onward.errors import DeclarationError, UsageError
from onward.job import checks
from onward.job.job import Job
from onward.job.plan import FailureLimit
from onward.model import RunResult
from onward.operate import estimating
from onward.rehearsal.report import Announced, Report


def run(
    job: Job,
    *,
    store: str | None = None,
    params: Any = None,
    instance: str | None = None,
    concurrency: int | None = None,
    limit: int | None = None,
    max_failures: int | str | None = None,
    max_time: float | None = None,
    wait: float = 60.0,
    grace: float = 30.0,
    progress: Callable[[Progress], None] | None = None,
) -> RunResult:
    """Run or resume a job and return when it ends; times in seconds.

    SIGINT and SIGTERM stop it in good order when it is called in the main thread. Raises UsageError inside a running
    event loop: there, `await run_async(...)`.
    """
    stop_if_only_loaded()
    refuse_inside_loop()
    options = _options(job, store, concurrency, limit, max_failures, max_time, wait, grace, progress)
    return runner.run(job, bind(job, params, instance), options)


async def run_async(
    job: Job,
    *,
    store: str | None = None,
    params: Any = None,
    instance: str | None = None,
    concurrency: int | None = None,
    limit: int | None = None,
    max_failures: int | str | None = None,
    max_time: float | None = None,
    wait: float = 60.0,
    grace: float = 30.0,
    progress: Callable[[Progress], None] | None = None,
) -> RunResult:
    """`run` on the current event loop; signals stay with the caller, and cancelling stops the run."""
    stop_if_only_loaded()
    options = _options(job, store, concurrency, limit, max_failures, max_time, wait, grace, progress)
    return await runner.run_async(job, bind(job, params, instance), replace(options, handle_signals=False))


def estimate(
    job: Job,
    *,
    store: str | None = None,
    params: Any = None,
    instance: str | None = None,
    limit: int | None = None,
) -> dict[str, Any]:
    """What a run would work on, and what that is to cost and to take, as `onward run --estimate --json` has it.

    Nothing is asked and nothing changed; the source is read, to count it, where no run has read it to its end. `limit`:
    a run with this limit. Numbers are null while too little is known: at least five records have to be through with
    each step that asks a model. Raises UsageError, SourceError.
    """
    stop_if_only_loaded()
    if not isinstance(job, Job):
        raise UsageError(f"an estimate needs the job itself, not {job!r}")
    binding = bind(job, params, instance)
    plan, source = job.plan(binding.params), job.open_source(binding.params)
    url = runner.store_url(job, store)
    with contextlib.ExitStack() as stack:
        desk = stack.enter_context(contextlib.closing(runner.open_desk(url))) if runner.is_there(url) else None
        if desk is not None and binding.instance in {one.name for one in desk.instances(job.name)}:
            subject = subject_of(desk, job, params, binding.instance)
            return estimating.estimate(desk, subject, plan, source, limit)
    place = runner.shown_place(url)
    return estimating.before_the_first(job.name, binding.instance, place, plan, source, limit)


def rehearse(
    job: Job,
    *,
    records: int = 3,
    params: Any = None,
    instance: str | None = None,
    wait: float = 120.0,
    announce: Callable[[Announced], None] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Report:
    """Crash-test a job: run its first `records` records, killed at every commit and before and after every call of an
    effect, and resumed each time, on stores that are thrown away. The job's own store is not touched.

    Effects are really called, at whatever endpoint the job and its `params` name, under idempotency keys that begin
    with `rehearsal-`. `announce` is told which, before anything is called; what it raises ends the rehearsal there.
    `wait`: seconds to stay for what is unconfirmed after a kill. `progress` hears how many of how many kills are over.

    Raises UsageError, also for a job in a notebook, and inside a running event loop.
    """
    stop_if_only_loaded()
    refuse_inside_loop("rehearse", "a thread: await asyncio.to_thread(onward.rehearse, …)")
    if not isinstance(job, Job):
        raise UsageError(f"what is to be rehearsed must be a Job, not {job!r}")
    try:
        number, seconds = checks.positive_int("records", records), checks.seconds_from_zero("wait", wait)
    except DeclarationError as error:
        raise UsageError(str(error)) from None
    from onward.rehearsal import rehearse as rehearsing

    binding = bind(job, params, instance)
    return rehearsing.rehearse(job, binding, number, seconds, announce or _unheard, progress or _unheard)


def _unheard(*told: Any) -> None:
    """Nobody listens."""


def _options(
    job: Job,
    store: str | None,
    concurrency: int | None,
    limit: int | None,
    max_failures: int | str | None,
    max_time: float | None,
    wait: float,
    grace: float,
    progress: Callable[[Progress], None] | None,
) -> runner.Options:
    """How to run a job, from what was given for it. Raises UsageError."""
    if not isinstance(job, Job):
        raise UsageError(f"what is to be run must be a Job, not {job!r}")
    if progress is not None and not callable(progress):
        raise UsageError(f"progress must be a function, not {progress!r}")
    try:
        ceiling = FailureLimit.parse(max_failures) if max_failures is not None else job.max_failures
        bounds = Bounds(
            limit=None if limit is None else checks.positive_int("limit", limit),
            max_failures=ceiling.count if ceiling else None,
            max_failures_percent=ceiling.percent if ceiling else None,
            max_time=None if max_time is None else checks.seconds_from_zero("max_time", max_time),
            grace=checks.seconds_from_zero("grace", grace),
        )
        most = None if concurrency is None else checks.calls_at_once(concurrency)
        return runner.Options(
            store, most, bounds=bounds, wait=checks.seconds_from_zero("wait", wait), progress=progress
        )
    except DeclarationError as error:
        raise UsageError(str(error)) from None
