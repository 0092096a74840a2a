"""The interpreter's settings for the time of a run, and that they are as before after it."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator

import pytest

import onward
from onward import Job
from onward.engine.processes.interpreter import COLLECT_AFTER, SWITCH_INTERVAL, tuned_interpreter


def settings() -> tuple[float, tuple[int, int, int]]:
    return sys.getswitchinterval(), gc.get_threshold()


@pytest.fixture(autouse=True)
def _restored() -> Iterator[None]:
    before = gc.get_threshold()
    yield
    gc.set_threshold(*before)


def test_a_run_is_tuned_and_leaves_all_as_it_was() -> None:
    seen = []
    job = Job("tuned", source=onward.iterable(lambda: ["a"]))

    @job.step
    def look(record: str) -> None:
        seen.append((settings(), gc.get_freeze_count()))

    before = settings()
    assert onward.run(job, store="sqlite://").ok
    ((interval, (young, *_)), frozen) = seen[0]
    assert (interval, young) == (pytest.approx(SWITCH_INTERVAL), COLLECT_AFTER)
    assert frozen > 0
    assert (settings(), gc.get_freeze_count()) == (before, 0)


@pytest.mark.parametrize("young", [0, COLLECT_AFTER * 2])
def test_who_collects_less_or_not_at_all_goes_on_so(young: int) -> None:
    gc.set_threshold(young, 10, 10)
    with tuned_interpreter():
        assert gc.get_threshold() == (young, 10, 10)
    assert gc.get_threshold() == (young, 10, 10)


def test_settings_are_put_back_after_an_error_too() -> None:
    before = settings()
    with pytest.raises(RuntimeError), tuned_interpreter():
        raise RuntimeError
    assert settings() == before
