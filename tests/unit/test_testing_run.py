"""`onward.testing.run`: a job in memory, without waiting, with a crash where one is wanted."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from pydantic import BaseModel

import onward
import onward.testing


class Row(BaseModel):
    id: str
    v: int


class Counted:
    """A job of three steps, whose calls are counted."""

    def __init__(self) -> None:
        self.calls: Counter[str] = Counter()
        self.job = onward.Job("counted", source=onward.jsonl("no such file.jsonl", key="id"), record=Row)

        @self.job.step
        async def first(row: Row) -> int:
            self.calls["first"] += 1
            await asyncio.sleep(0)
            return row.v

        @self.job.step(retry=onward.Retry(attempts=4, base=60))
        def second(row: Row, first: int, context: Any) -> int:
            self.calls["second"] += 1
            if row.v == 3 and context.attempt < 4:
                raise onward.Transient("busy", retry_after=600)
            if row.v == 5:
                raise onward.Rejected("never")
            return first + 1

        @self.job.step(process=True)
        def third(row: Row, second: int) -> int:
            self.calls["third"] += 1
            return second + 1


ROWS = [{"id": f"k{number}", "v": number} for number in range(8)]


def test_results_have_every_record_in_order_and_nothing_waits() -> None:
    counted = Counted()
    began = time.monotonic()
    result = onward.testing.run(counted.job, [*ROWS, Row(id="model", v=10), {"id": "misfit", "v": "x"}])
    assert time.monotonic() - began < 10
    assert (result.exit_code, result.counts["succeeded"], result.counts["quarantined"]) == (1, 8, 2)
    assert [one.key for one in result.results] == [*(f"k{number}" for number in range(8)), "model", "misfit"]
    assert result.results[3].outputs == {"first": 3, "second": 4, "third": 5}
    assert (result.results[5].state, dict(result.results[5].outputs)) == ("quarantined", {"first": 5})
    assert result.results[8].input == {"id": "model", "v": 10}
    assert not Path(".onward").exists()


@pytest.mark.parametrize("place", ["first", "second", "third", *range(1, 9)])
def test_a_crash_loses_nothing_and_repeats_only_what_was_in_flight(place: str | int) -> None:
    counted = Counted()
    without = onward.testing.run(counted.job, ROWS)
    calls = counted.calls.copy()
    counted.calls.clear()
    result = onward.testing.run(counted.job, ROWS, crash_at=place)
    assert result.results == without.results
    assert result.counts == without.counts
    assert int(result.run) == 2
    assert sum((counted.calls - calls).values()) <= len(ROWS)


class RateLimitError(Exception):
    """As the client `openai` has it: a 429, which costs no attempt."""

    status_code = 429


RateLimitError.__module__ = "openai"


@pytest.mark.timeout(60)
@pytest.mark.parametrize("refusals", [30, 10**9])
def test_refusals_that_cost_no_attempt_do_not_go_on_for_ever(refusals: int) -> None:
    job, tried = onward.Job("j", source=onward.iterable(list)), Counter[int]()

    @job.step
    async def one(record: int) -> int:
        tried[record] += 1
        if record == 2 and tried[record] <= refusals:
            raise RateLimitError("too many requests")
        return record

    result = onward.testing.run(job, [1, 2, 3])
    assert (result.exit_code, result.counts["failed"], result.counts["in_progress"]) == (
        0 if refusals == 30 else 3,
        0,
        0,
    )
    assert [one.state for one in result.results] == [
        "succeeded",
        "succeeded" if refusals == 30 else "pending",
        "succeeded",
    ]
    if refusals > 30:
        assert "step one put the same record off 1,000 times in a row (openai.RateLimitError" in result.reason


@pytest.mark.timeout(60)
@pytest.mark.parametrize("in_vain", [3, 10**9])
def test_a_stand_in_that_never_answers_is_not_called_for_ever(in_vain: int) -> None:
    job, tried = onward.Job("j", source=onward.iterable(list, key="id")), Counter[str]()

    @job.effect("report", key="id")
    def submit(record: Any, idempotency_key: str) -> str:
        raise AssertionError("a test never reaches the outside world")

    def lost(payload: Any, idempotency_key: str) -> str:
        tried[idempotency_key] += 1
        if payload["record"]["id"] == 2 and tried[idempotency_key] <= in_vain:
            raise RuntimeError("the reply is lost")
        return "receipt"

    result = onward.testing.run(job, [{"id": 1}, {"id": 2}, {"id": 3}], effects={"report": lost})
    open_still = in_vain > 3
    assert (result.exit_code, result.counts["unconfirmed"]) == ((1, 1) if open_still else (0, 0))
    assert [one.state for one in result.results] == [
        "succeeded",
        "unconfirmed" if open_still else "succeeded",
        "succeeded",
    ]
    assert sorted(tried.values()) == [1, 1, 5 if open_still else 4]


def test_it_is_there_after_import_onward_alone() -> None:
    code = "import sys, onward; assert 'onward.testing' not in sys.modules; onward.testing.run"
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(str(Path(part).absolute()) for part in sys.path)}
    subprocess.run([sys.executable, "-c", code], check=True, env=env)


def test_a_crash_that_does_not_come_is_none() -> None:
    assert onward.testing.run(Counted().job, ROWS, crash_at=10_000).run == "1"
    with pytest.raises(onward.UsageError, match="steps: first, second, third"):
        onward.testing.run(Counted().job, ROWS, crash_at="fourth")
    with pytest.raises(onward.UsageError, match="from 1"):
        onward.testing.run(Counted().job, ROWS, crash_at=0)


def test_it_works_inside_an_event_loop() -> None:
    async def inside() -> int:
        return onward.testing.run(Counted().job, ROWS[:2]).exit_code

    assert asyncio.run(inside()) == 0


def test_params_choose_what_they_choose_in_a_run() -> None:
    @dataclass
    class Params:
        factor: int = 2

    job = onward.Job("scaled", source=lambda p: onward.jsonl(f"{p.factor}.jsonl", key="id"), params=Params)

    @job.step
    def scale(row: Any, params: Params) -> int:
        return int(row["v"]) * params.factor

    result = onward.testing.run(job, [{"id": 1, "v": 5}], params={"factor": 3})
    assert [dict(one.outputs) for one in result.results] == [{"scale": 15}]


def test_records_without_a_key_have_their_place() -> None:
    job = onward.Job("plain", source=onward.iterable(list))

    @job.step
    def same(value: Any) -> Any:
        return value

    assert [one.key for one in onward.testing.run(job, [{"v": 1}, {"v": 1}]).results] == [0, 1]
    assert [one.key for one in onward.testing.run(job, ["x", 7]).results] == ["x", 7]
    assert onward.testing.run(job, []).ok
