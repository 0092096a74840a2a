"""What is given to `onward.run` is checked before anything starts."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

import onward
from onward.errors import UsageError

WHOLE = "must be a whole number of at least 1"
SECONDS = "must be a number of seconds, 0 or more"


@pytest.mark.parametrize(
    "given, told",
    [
        ({"concurrency": 0}, f"concurrency {WHOLE}, not 0"),
        ({"concurrency": 2.5}, f"concurrency {WHOLE}, not 2.5"),
        ({"concurrency": "3"}, f"concurrency {WHOLE}, not '3'"),
        ({"concurrency": True}, f"concurrency {WHOLE}, not True"),
        ({"limit": 0}, f"limit {WHOLE}, not 0"),
        ({"limit": 1.5}, f"limit {WHOLE}, not 1.5"),
        ({"max_time": -1}, f"max_time {SECONDS}, not -1"),
        ({"max_time": float("nan")}, f"max_time {SECONDS}, not nan"),
        ({"max_time": "55m"}, f"max_time {SECONDS}, not '55m'"),
        ({"wait": None}, f"wait {SECONDS}, not None"),
        ({"grace": float("inf")}, f"grace {SECONDS}, not inf"),
        ({"max_failures": 2.5}, 'max_failures must be a number of records or a percentage like "5%", not 2.5'),
        ({"progress": 3}, "progress must be a function, not 3"),
    ],
    ids=str,
)
def test_what_does_not_fit_is_refused_and_nothing_starts(tmp_path: Path, given: dict[str, Any], told: str) -> None:
    job, store = onward.Job("j", source=onward.iterable(lambda: range(3))), tmp_path / "store.db"

    @job.step
    def work(number: int) -> int:
        return number

    with pytest.raises(UsageError) as refused:
        onward.run(job, store=str(store), **given)
    assert str(refused.value) == told
    with pytest.raises(UsageError):
        asyncio.run(onward.run_async(job, store=str(store), **given))
    assert not store.exists()


def test_what_is_no_job_is_refused() -> None:
    with pytest.raises(UsageError, match=r"must be a Job, not 'job\.py'"):
        onward.run("job.py")  # type: ignore[arg-type]
