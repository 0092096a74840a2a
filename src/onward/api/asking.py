"""Asking about a job, its runs, its records and their results."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from onward import runner
from onward.api.subject import (
    bind,
    each_of,
    name_of,
    open_desk,
    subject_of,
)
from onward.job.job import Job
from onward.model import Result
from onward.operate import choices, history, questions


def status(
    job: Job | str, *, store: str | None = None, params: Any = None, instance: str | None = None
) -> dict[str, Any]:
    """How an instance stands, as `onward status --json` has it. Without params and instance: the only one there is.

    `job` may be its name where only the store is at hand; its steps are then those of the newest run. Raises
    UsageError, StoreMissing.
    """
    with open_desk(job, store) as desk:
        return questions.status(desk, subject_of(desk, job, params, instance))


def instances(job: Job | str, *, store: str | None = None) -> list[dict[str, Any]]:
    """The job's instances, oldest first."""
    with open_desk(job, store) as desk:
        return questions.instances(desk, name_of(job))


def failures(
    job: Job | str,
    *,
    store: str | None = None,
    params: Any = None,
    instance: str | None = None,
    kind: str | None = None,
    state: str | None = None,
) -> Iterator[dict[str, Any]]:
    """Failed, quarantined and unconfirmed records in source order, as `onward failures --json` has them."""
    return each_of(job, store, params, instance, lambda desk, subject: questions.failures(desk, subject, kind, state))


def causes(
    job: Job | str,
    *,
    store: str | None = None,
    params: Any = None,
    instance: str | None = None,
    kind: str | None = None,
    state: str | None = None,
) -> list[dict[str, Any]]:
    """The same records, those alike in step, kind and type of error put together, most frequent first."""
    with open_desk(job, store) as desk:
        return questions.causes(desk, subject_of(desk, job, params, instance), kind, state)


def show(
    job: Job | str,
    key: Any,
    *,
    store: str | None = None,
    params: Any = None,
    instance: str | None = None,
    payloads: bool = False,
) -> dict[str, Any]:
    """One record's whole history and the reasons. `payloads`: also what its effects send."""
    with open_desk(job, store) as desk:
        subject = subject_of(desk, job, params, instance)
        return questions.show(desk, subject, choices.one_record(desk, subject.number, key), payloads)


def log(
    job: Job | str,
    *,
    store: str | None = None,
    params: Any = None,
    instance: str | None = None,
    since: float | None = None,
    payloads: bool = False,
) -> Iterator[dict[str, Any]]:
    """Every decision about an instance and its reason, oldest first."""
    return each_of(job, store, params, instance, lambda desk, subject: history.log(desk, subject, since, payloads))


def verify_log(
    job: Job | str | None,
    *,
    store: str | None = None,
    params: Any = None,
    instance: str | None = None,
    expected: str | None = None,
) -> dict[str, Any]:
    """Whether the history is what was written: an instance's, or that of all a job's, or of all the store's."""
    if job is None:
        with contextlib.closing(runner.open_desk(runner.store_url(None, store))) as desk:
            return history.verify(desk, None, None, expected)
    named = bind(job, params, instance).instance if isinstance(job, Job) and params is not None else instance
    with open_desk(job, store) as desk:
        return history.verify(desk, name_of(job), named, expected)


def results(
    job: Job | str,
    *,
    store: str | None = None,
    params: Any = None,
    instance: str | None = None,
    state: str = "succeeded",
) -> Iterator[Result]:
    """Results in source order, from one snapshot, in constant memory."""
    return each_of(job, store, params, instance, lambda desk, subject: questions.results(desk, subject, state))
