"""Resources that misbehave: the run says so, closes the others and comes to its end."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator
from pathlib import Path

import pytest

import onward
from onward import api
from onward.engine import resources

RAISED = [SystemExit(0), KeyboardInterrupt(), asyncio.CancelledError(), BaseExceptionGroup("g", [SystemExit(0)])]


def a_job(seen: list[str], opening: BaseException | None = None, closing: BaseException | None = None) -> onward.Job:
    job = onward.Job("j", source=onward.iterable(lambda: range(4), version="1"), concurrency=2)

    @job.resource
    def first() -> Iterator[int]:
        seen.append("first opened")
        yield 1
        seen.append("first closed")

    @job.resource
    async def second() -> AsyncIterator[int]:
        if opening is not None:
            raise opening
        yield 2
        if closing is not None:
            raise closing

    @job.step(version="1")
    async def one(record: int, first: int, second: int) -> int:
        return record

    return job


@pytest.mark.timeout(30)
@pytest.mark.parametrize("raised", RAISED, ids=lambda raised: type(raised).__name__)
def test_whatever_a_resource_raises_at_its_end_the_run_has_its_result(tmp_path: Path, raised: BaseException) -> None:
    seen: list[str] = []
    job, store = a_job(seen, closing=raised), str(tmp_path / "store.db")
    assert onward.run(job, store=store).exit_code == 0
    assert seen == ["first opened", "first closed"]
    assert api.status(job, store=store)["runs"][0]["exit_code"] == 0


@pytest.mark.timeout(30)
@pytest.mark.parametrize("raised", [*RAISED, ValueError("no such host")], ids=lambda raised: type(raised).__name__)
def test_whatever_a_resource_raises_at_its_beginning_no_record_is_blamed(tmp_path: Path, raised: BaseException) -> None:
    seen: list[str] = []
    result = onward.run(a_job(seen, opening=raised), store=str(tmp_path / "store.db"))
    assert (result.exit_code, result.counts["failed"], result.counts["quarantined"]) == (4, 0, 0)
    assert "the resource second could not be opened" in result.reason
    assert seen.count("first opened") == seen.count("first closed")


@pytest.mark.timeout(30)
def test_a_resource_that_does_not_close_does_not_keep_the_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resources, "LONGEST_CLOSE", 0.2)
    job = onward.Job("j", source=onward.iterable(lambda: range(4), version="1"))

    @job.resource
    async def stuck() -> AsyncIterator[int]:
        yield 1
        await asyncio.sleep(3600)

    @job.step(version="1")
    async def one(record: int, stuck: int) -> int:
        return record

    assert onward.run(job, store=str(tmp_path / "store.db")).exit_code == 0


@pytest.mark.timeout(30)
def test_a_resource_that_opens_slowly_takes_no_time_from_a_call(tmp_path: Path) -> None:
    seen: list[str] = []
    job = onward.Job("j", source=onward.iterable(lambda: range(1), version="1"))

    @job.resource
    def first() -> Iterator[int]:
        seen.append("opened")
        yield 1
        seen.append("closed")

    @job.resource
    async def slow(first: int) -> int:
        await asyncio.sleep(1.0)
        return 2

    @job.step(version="1", timeout=0.2, retry=onward.Retry(attempts=1))
    async def one(record: int, slow: int) -> int:
        return record

    assert onward.run(job, store=str(tmp_path / "store.db")).exit_code == 0
    assert seen == ["opened", "closed"]
