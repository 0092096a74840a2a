"""What people say to runs, at work or to come."""

from __future__ import annotations

from typing import Any

from onward.api.subject import (
    bind,
    name_of,
    open_desk,
    subject_of,
)
from onward.errors import DeclarationError, UsageError
from onward.job import checks
from onward.job.job import Job
from onward.operate import orders, pausing, vacuuming
from onward.operate.vacuuming import Emptied


def pause(
    job: Job | str,
    *,
    store: str | None = None,
    params: Any = None,
    instance: str | None = None,
    group: str | None = None,
    reason: str | None = None,
) -> str:
    """Let no call begin any more, in one group or in all of the instance, until `resume`; what came of it in words."""
    _check_group(job, group)
    with open_desk(job, store) as desk:
        return pausing.pause(desk, subject_of(desk, job, params, instance), group, reason)


def resume(
    job: Job | str,
    *,
    store: str | None = None,
    params: Any = None,
    instance: str | None = None,
    group: str | None = None,
    reason: str | None = None,
) -> str:
    """Let what was paused go on; what came of it in words."""
    with open_desk(job, store) as desk:
        return pausing.resume(desk, subject_of(desk, job, params, instance), group, reason)


def drain(
    job: Job | str,
    *,
    run: int | str | None = None,
    store: str | None = None,
    params: Any = None,
    instance: str | None = None,
    reason: str | None = None,
) -> str:
    """Have a run, or all that are at work, finish the calls in progress, begin no others and end (exit code 3); what
    came of it in words."""
    with open_desk(job, store) as desk:
        return orders.drain(desk, subject_of(desk, job, params, instance), _run_number(run), reason)


def _run_number(run: int | str | None) -> int | None:
    if run is None:
        return None
    if not str(run).isdecimal() or not 0 < int(run) < 1 << 63:
        raise UsageError(f"a run has a number, which onward status tells, not {run!r}")
    return int(run)


def concurrency(
    job: Job | str,
    number: int | None = None,
    *,
    default: bool = False,
    store: str | None = None,
    params: Any = None,
    instance: str | None = None,
    reason: str | None = None,
) -> str:
    """Let each run of the instance, those at work and those to come, have `number` calls in progress at most; with
    `default` as it was started or its job declares. Without either: what people have said. What came of it in words."""
    if number is not None:
        try:
            number = checks.calls_at_once(number)
        except DeclarationError as error:
            raise UsageError(str(error)) from None
    if default and number is not None:
        raise UsageError("a number and default exclude each other")
    with open_desk(job, store) as desk:
        subject = subject_of(desk, job, params, instance)
        if number is None and not default:
            return orders.told_concurrency(desk, subject)
        return orders.concurrency(desk, subject, number, reason)


def vacuum(
    job: Job | str,
    older_than: float,
    *,
    dry_run: bool = False,
    store: str | None = None,
    params: Any = None,
    instance: str | None = None,
) -> Emptied:
    """Remove what nobody has needed for so many seconds: outputs and inputs that newer ones have replaced, and errors
    of records that have succeeded since; of all instances of the job, unless one is named. The ledger, the history and
    the newest result of each record stay. Then disk space is given back, as far as that holds up nobody."""
    try:
        seconds = checks.seconds_from_zero("older_than", older_than)
    except DeclarationError as error:
        raise UsageError(str(error)) from None
    named = bind(job, params, instance).instance if isinstance(job, Job) and params is not None else instance
    with open_desk(job, store) as desk:
        return vacuuming.vacuum(desk, name_of(job), named, seconds, dry_run)


def _check_group(job: Job | str, group: str | None) -> None:
    declared = not isinstance(job, Job) or job.group or any(step.options.group for step in job.steps)
    if group is not None and not declared:
        raise UsageError(f"job '{name_of(job)}' has no groups: no step is declared with group=…")
