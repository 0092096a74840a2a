"""`onward copy`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from onward.cli import streams
from onward.cli.target import find, store_words
from onward.errors import UsageError


def copy(
    job: str | None,
    source: str | None,
    to: str,
    job_name: str | None,
    instance: str | None,
    params: list[str] | None,
) -> int:
    """Move a job to another store."""
    from onward import api

    if job is None and job_name is None:
        if params:
            raise UsageError("-p needs the job's file, which knows its params; without it give --instance NAME")
        streams.answer(str(api.copy(None, source=source, to=to, instance=instance)))
        return 0
    target = find(job, store=source, job_name=job_name, instance=instance, params=params)
    streams.answer(str(api.copy(target.job, source=source, to=to, instance=target.instance, params=target.params)))
    if not isinstance(target.job, str):
        streams.answer(f"Next: {replace(target, typed=(*_without_store(target.typed), *store_words(to))).run_command}")
    return 0


def _without_store(typed: Sequence[str]) -> Sequence[str]:
    """JOB and what stands behind it, but for the store that the job has left."""
    if "--store" not in typed:
        return typed
    at = typed.index("--store")
    return (*typed[:at], *typed[at + 2 :])
