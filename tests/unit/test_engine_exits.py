"""What steps do to the event loop is the record's own fault, if anybody's, and never a neighbour's nor onward's."""

from __future__ import annotations

import asyncio
import signal
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from children_bench import assignment_in, calling

import onward
from onward import api
from onward.engine.outcomes import Raised, Returned
from onward.model import Kind

pytestmark = pytest.mark.timeout(30)


async def leaves() -> None:
    await asyncio.sleep(0.01)
    sys.exit(3)


async def awaits_it() -> None:
    await asyncio.create_task(leaves())


async def gathers_it() -> None:
    await asyncio.gather(leaves(), asyncio.sleep(0.02))


async def in_a_group() -> None:
    async with asyncio.TaskGroup() as group:
        group.create_task(leaves())
        group.create_task(asyncio.sleep(10))


async def forgets_it() -> None:
    asyncio.create_task(leaves())  # noqa: RUF006
    await asyncio.sleep(0.05)


async def calls_back() -> None:
    asyncio.get_running_loop().call_soon(sys.exit, 3)
    await asyncio.sleep(0.05)


def a_job(act: Callable[[], object]) -> onward.Job:
    job = onward.Job("j", source=onward.iterable(lambda: range(12), version="1"), concurrency=6)

    @job.step(version="1")
    async def one(record: int) -> int:
        if record == 3:
            await act()  # type: ignore[misc]
        await asyncio.sleep(0.03)
        return record

    return job


@pytest.mark.parametrize("act", [awaits_it, gathers_it, in_a_group], ids=lambda act: act.__name__)
def test_it_is_the_failure_of_the_record_whose_step_hears_of_it(tmp_path: Path, act: Callable[[], object]) -> None:
    job, store = a_job(act), str(tmp_path / "store.db")
    before = signal.getsignal(signal.SIGINT)
    result = onward.run(job, store=store)
    assert (result.exit_code, result.counts["failed"], result.counts["succeeded"]) == (1, 1, 11)
    (failed,) = api.failures(job, store=store)
    assert (failed["key"], failed["kind"], failed["error_type"]) == (3, "bug", "SystemExit")
    assert signal.getsignal(signal.SIGINT) is before


@pytest.mark.parametrize("act", [forgets_it, calls_back], ids=lambda act: act.__name__)
def test_where_nobody_hears_of_it_nobody_fails(
    tmp_path: Path, act: Callable[[], object], caplog: pytest.LogCaptureFixture
) -> None:
    assert onward.run(a_job(act), store=str(tmp_path / "store.db")).exit_code == 0
    assert "a task or callback of a step called sys.exit(3); the run goes on" in caplog.text


def test_on_a_loop_of_others_it_ends_the_loop_and_no_record_is_blamed(tmp_path: Path) -> None:
    job, store = a_job(awaits_it), str(tmp_path / "store.db")
    with pytest.raises(SystemExit):
        asyncio.run(onward.run_async(job, store=store))
    status = api.status(job, store=store)
    assert (status["counts"]["quarantined"], status["counts"]["in_progress"]) == (0, 0)
    assert status["counts"]["failed"] <= 1
    assert (status["runs"][0]["exit_code"], status["runs"][0]["reason"]) == (3, "cancelled")
    assert onward.run(job, store=store).counts["succeeded"] == 11


def test_in_a_child_it_is_the_failure_of_that_call(tmp_path: Path) -> None:
    values = [{"do": "sleep", "seconds": 0.5}, {"do": "task exits"}, {"do": "return", "give": 1}]
    slept, left, gave = calling(assignment_in(tmp_path), *values)
    assert slept == Returned('"slept"')
    assert isinstance(gave, Returned)
    assert isinstance(left, Raised)
    assert (left.failure.kind, left.failure.error_type) == (Kind.BUG, "SystemExit")


async def cancels_all() -> None:
    for task in asyncio.all_tasks():
        task.cancel()


async def cancels_others() -> None:
    for task in asyncio.all_tasks() - {asyncio.current_task()}:
        task.cancel()


async def stops_the_loop() -> None:
    asyncio.get_running_loop().stop()


async def shuts_the_executor_down() -> None:
    await asyncio.get_running_loop().shutdown_default_executor()


async def breaks_the_factory() -> None:
    asyncio.get_running_loop().set_task_factory(lambda *_, **__: 1 / 0)  # type: ignore[arg-type, return-value]


@pytest.mark.parametrize("act", [cancels_all, cancels_others], ids=lambda act: act.__name__)
def test_a_step_that_cancels_all_tasks_ends_the_run_which_says_so(tmp_path: Path, act: Callable[[], object]) -> None:
    job, store = a_job(act), str(tmp_path / "store.db")
    result = onward.run(job, store=store)
    assert (result.exit_code, result.counts.get("failed", 0), result.counts.get("in_progress", 0)) == (4, 0, 0)
    assert result.reason.startswith("a step cancelled tasks that are not its own")
    (run,) = api.status(job, store=store)["runs"]
    assert (run["exit_code"], run["reason"]) == (4, result.reason)
    assert onward.run(a_job(lambda: asyncio.sleep(0)), store=store).exit_code == 0


@pytest.mark.parametrize(
    "act", [stops_the_loop, shuts_the_executor_down, breaks_the_factory], ids=lambda act: act.__name__
)
def test_a_step_that_meddles_with_the_loop_does_not_end_the_run(tmp_path: Path, act: Callable[[], object]) -> None:
    job, store = a_job(act), str(tmp_path / "store.db")
    assert onward.run(job, store=store).exit_code == 0
    assert api.status(job, store=store)["runs"][0]["exit_code"] == 0
