"""What gates wait for in memory is told by a clock that only grows: one that is set moves what people are shown."""

from __future__ import annotations

import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest
from engine_bench import job

import onward
from clocks import HandClock
from onward.engine.attempt import Attempt
from onward.engine.gates.admission import Admission
from onward.engine.gates.gates import Gate
from onward.engine.gates.outages import Outages
from onward.model import Kind
from onward.policy.failures import Classified
from onward.policy.outage import FIRST_PAUSE

HOUR = 3600.0
THROTTLED = Classified(Kind.TRANSIENT, "HTTPStatusError", "429", retry_after=6.0, status=429, throttled=True)
UNAVAILABLE = Classified(Kind.TRANSIENT, "HTTPStatusError", "503", status=503)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> HandClock:
    hands = HandClock()
    module = SimpleNamespace(time=hands.now, monotonic=hands.steady)
    for name in ("gates", "admission", "outages", "model_ceiling"):
        monkeypatch.setattr(f"onward.engine.gates.{name}.time", module)
    return hands


@pytest.fixture
def gate() -> Gate:
    return Gate("key", "step answer", None, None, None)


def attempt(record: int, gate: Gate, began: float = 0.0) -> Attempt:
    found = SimpleNamespace(claimed=SimpleNamespace(id=record), attempts=1, gate=gate, began=began)
    return cast(Attempt, found)


def in_an_outage(gate: Gate, clock: HandClock, limit: float = 60.0) -> Outages:
    outages = Outages(lambda: True, limit)
    for record in range(3):
        outages.failed(gate, attempt(record, gate), UNAVAILABLE, lambda spared: None)
    assert gate.outage.is_on
    return outages


def is_shut(gate: Gate, clock: HandClock) -> bool:
    return gate.shut(clock.now()) is not None


@pytest.mark.parametrize("hours", [-1, 1])
def test_a_wait_that_was_asked_for_is_as_long_as_it_was(gate: Gate, clock: HandClock, hours: int) -> None:
    Outages(lambda: True, 60.0).failed(gate, attempt(1, gate), THROTTLED, lambda spared: None)
    clock.pass_time(1.0)
    clock.jump(hours * HOUR)
    shut = gate.shut(clock.now())
    assert shut is not None
    assert shut.until == pytest.approx(clock.now() + 5.0)  # as the clock shows it now
    clock.pass_time(4.9)
    assert is_shut(gate, clock)
    clock.pass_time(0.2)
    assert not is_shut(gate, clock)


def test_a_wait_that_headers_ask_for_is_as_long_as_it_was(clock: HandClock) -> None:
    work = job()

    @work.step(version="1")
    async def answer(record: Any) -> Any: ...

    admission = Admission(work.plan(None), lambda attempt: None)
    gate = admission.gates.first
    assert gate is not None
    admission.heard_rates(attempt(1, gate), "small", {"retry-after": "6"})
    clock.jump(-HOUR)
    assert is_shut(gate, clock)
    clock.pass_time(6.1)
    assert not is_shut(gate, clock)


@pytest.mark.parametrize("hours", [-1, 1])
def test_in_an_outage_one_is_tried_when_it_is_due(gate: Gate, clock: HandClock, hours: int) -> None:
    outages = in_an_outage(gate, clock)
    clock.jump(hours * HOUR)
    assert is_shut(gate, clock)
    clock.pass_time(FIRST_PAUSE + 0.1)
    assert not is_shut(gate, clock)
    gate.trial = tried = attempt(9, gate, clock.steady())
    outages.failed(gate, tried, UNAVAILABLE, lambda spared: None)
    gate.trial = None
    assert 0 < outages.pause_after_trial(gate) < 10.0
    assert not gate.given_up
    clock.jump(hours * HOUR)
    clock.pass_time(2 * FIRST_PAUSE + 0.1)
    assert not is_shut(gate, clock)


def test_an_answer_after_the_clock_was_set_back_ends_the_outage(gate: Gate, clock: HandClock) -> None:
    outages = in_an_outage(gate, clock)
    clock.jump(-HOUR)
    clock.pass_time(FIRST_PAUSE + 0.1)
    outages.answered(gate, clock.steady())
    assert not gate.outage.is_on


def test_an_outage_is_given_up_after_its_limit_whatever_the_clock_shows(gate: Gate, clock: HandClock) -> None:
    outages = in_an_outage(gate, clock, limit=60.0)
    clock.jump(-HOUR)
    clock.pass_time(61.0)
    gate.trial = tried = attempt(9, gate, clock.steady())
    outages.failed(gate, tried, UNAVAILABLE, lambda spared: None)
    assert gate.given_up


def test_what_is_told_of_a_wait_is_the_same_at_each_look(gate: Gate, clock: HandClock) -> None:
    in_an_outage(gate, clock)
    told = set()
    for _ in range(5):
        shut = gate.shut(clock.now())
        assert shut is not None
        told.add(shut.until)
        clock.pass_time(0.01)
        clock.jump(0.001)  # it is slewed all the time
    assert len(told) == 1


def test_a_run_goes_on_though_the_clock_is_set_back_in_an_outage(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real, calls = time.time, list[int]()
    work = onward.Job("clock", source=onward.iterable(lambda: range(12), version="1"), concurrency=4)

    @work.step(version="1")
    async def answer(record: int) -> int:
        calls.append(record)
        if len(calls) == 4:  # it is tried whether the outage is over
            monkeypatch.setattr(time, "time", lambda: real() - HOUR)
        if len(calls) <= 4:
            raise ConnectionRefusedError("nobody listens")
        return record

    result = onward.run(work, store=str(tmp_path / "store.db"), max_time=60.0)
    assert (result.exit_code, result.counts["succeeded"]) == (0, 12)
    assert 0 < result.seconds < 60
