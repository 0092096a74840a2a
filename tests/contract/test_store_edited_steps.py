"""What unfinished records have of other steps, or of other versions, than today's."""

from __future__ import annotations

import pytest
from store_conformance import Bench, advanced, failed, finished, given_back, quarantined, retried

from onward.model import StepVersion
from onward.ports.work import OlderOutputs

THEN = {"a": "1", "b": "1", "c": "1"}
AS_THEN = tuple(StepVersion(step, version) for step, version in THEN.items())


@pytest.fixture
def parked(bench: Bench) -> Bench:
    """Two wait with `a` and `b`, one with `a`, one failed, one is quarantined with both; one is finished, one fresh."""
    run = bench.start("two", "back", "one", "failed", "quarantined", "finished", "fresh", steps=AS_THEN)
    claimed = dict(zip(("two", "back", "one", "failed", "quarantined", "finished"), bench.claim(run, 6), strict=True))
    bench.state(run, *(advanced(one) for name, one in claimed.items() if name != "failed"))
    both = [one for name, one in claimed.items() if name not in ("failed", "one")]
    bench.state(run, *(advanced(one, "b", then="c") for one in both))
    bench.state(
        run,
        retried(claimed["two"], bench.clock.now() + 9),
        retried(claimed["one"], bench.clock.now() + 9),
        given_back(claimed["back"]),
        failed(claimed["failed"]),
        quarantined(claimed["quarantined"]),
        finished(claimed["finished"], "c", lineage=tuple(THEN.items())),
    )
    return bench


def test_nothing_is_said_while_steps_and_versions_are_the_same(parked: Bench) -> None:
    assert parked.store.older_outputs(1, THEN) == OlderOutputs()


def test_outputs_of_older_versions_and_who_goes_on_from_them(parked: Bench) -> None:
    found = parked.store.older_outputs(1, {**THEN, "b": "2"})
    assert found == OlderOutputs(3, 2, {"b": {"1": 3}}, {}, {})


def test_a_step_that_is_no_longer_one(parked: Bench) -> None:
    assert parked.store.older_outputs(1, {"a": "1", "c": "1"}) == OlderOutputs(removed={"b": 3})


@pytest.mark.parametrize(
    ("today", "passed_over"),
    [
        (("x", "a", "b", "c"), {"x": 4}),
        (("a", "x", "b", "c"), {"x": 3}),
        (("a", "b", "x", "c"), {}),
        (("a", "b", "c", "x"), {}),
        (("x", "a", "y", "b", "c"), {"x": 4, "y": 3}),
    ],
)
def test_a_new_step_before_outputs_that_stand(
    parked: Bench, today: tuple[str, ...], passed_over: dict[str, int]
) -> None:
    assert parked.store.older_outputs(1, dict.fromkeys(today, "1")) == OlderOutputs(passed_over=passed_over)


def test_a_renamed_step_is_both(parked: Bench) -> None:
    found = parked.store.older_outputs(1, {"z": "1", "b": "1", "c": "1"})
    assert found == OlderOutputs(removed={"a": 4}, passed_over={"z": 3})


def test_what_was_finished_without_a_removed_step_is_not_told(parked: Bench) -> None:
    """Its output is still there, and is no part of what made the result."""
    today = {"a": "1", "c": "1"}
    run = parked.begin(steps=(StepVersion("a", "1"), StepVersion("c", "1"))).run
    (back,) = parked.claim(run, only=(parked.row("back")["id"],))
    parked.state(run, finished(back, "c", lineage=tuple(today.items())))
    assert parked.store.older_outputs(1, today) == OlderOutputs(removed={"b": 2})
