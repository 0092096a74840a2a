"""What `import onward` offers besides declaring: running a job, asking about it, deciding about its records."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from onward import runner
from onward.engine.govern import Bounds
from onward.engine.tally import Progress
from onward.errors import UsageError
from onward.job import registry
from onward.job.instance import Binding
from onward.job.job import Job
from onward.job.plan import FailureLimit
from onward.model import RunResult


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
    _stop_if_only_loaded()
    _refuse_inside_loop()
    binding = bind(job, params, instance)
    bounds = _bounds(job, limit, max_failures, max_time, grace)
    return runner.run(job, binding, runner.Options(store, concurrency, bounds, wait, progress=progress))


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
    _stop_if_only_loaded()
    binding = bind(job, params, instance)
    bounds = _bounds(job, limit, max_failures, max_time, grace)
    options = runner.Options(store, concurrency, bounds, wait, progress=progress, handle_signals=False)
    return await runner.run_async(job, binding, options)


def bind(job: Job, params: Any, instance: str | None) -> Binding:
    """The params and the instance of a start; `instance` must be the one that the params make."""
    binding = job.bind(params)
    if instance is not None and instance != binding.instance:
        raise UsageError(f"these params make the instance {binding.instance!r}, not {instance!r}")
    return binding


def _bounds(
    job: Job, limit: int | None, max_failures: int | str | None, max_time: float | None, grace: float
) -> Bounds:
    ceiling = FailureLimit.parse(max_failures) if max_failures is not None else job.max_failures
    if limit is not None and limit < 1:
        raise UsageError("limit must be at least 1")
    return Bounds(
        limit=limit,
        max_failures=ceiling.count if ceiling else None,
        max_failures_percent=ceiling.percent if ceiling else None,
        max_time=max_time,
        grace=grace,
    )


def _stop_if_only_loaded() -> None:
    if registry.loading():
        raise registry.StopLoading


def _refuse_inside_loop() -> None:
    import asyncio

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise UsageError("onward.run was called inside a running event loop; use: await onward.run_async(…)")
