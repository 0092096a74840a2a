"""Jobs noticed while a file is loaded, and the stop for a script that would run its job while it is only loaded."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

_noticed: ContextVar[list[Any] | None] = ContextVar("noticed", default=None)


class StopLoading(BaseException):
    """Ends the loading of a script at its first `onward.run(job)`: whoever loads it wants the job, not its run."""


def loading() -> bool:
    """Whether a job file is being loaded: what runs jobs then raises StopLoading instead."""
    return _noticed.get() is not None


def notice(job: Any) -> None:
    """Called by every job that is declared."""
    jobs = _noticed.get()
    if jobs is not None:
        jobs.append(job)


@contextmanager
def noticing() -> Iterator[list[Any]]:
    """While it lasts, `loading()` is true and declared jobs are gathered in the list."""
    jobs: list[Any] = []
    before = _noticed.set(jobs)
    try:
        yield jobs
    finally:
        _noticed.reset(before)
