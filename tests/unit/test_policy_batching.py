"""How many requests go together, and when is asked how they stand."""

from __future__ import annotations

import pytest

from onward.policy import batching
from onward.ports.batches import BatchState, Queue


def test_a_batch_is_looked_at_often_in_the_beginning_and_once_a_minute_in_the_end() -> None:
    assert batching.pause_before_look(0.0) == 0.25
    assert batching.pause_before_look(100.0) == 10.0
    assert batching.pause_before_look(86400.0) == 60.0


def test_looks_are_few_and_late_by_no_more_than_a_tenth() -> None:
    watched, looks = 0.0, 0
    while watched < 86400.0:
        pause = batching.pause_before_look(watched)
        assert pause <= max(0.25, watched * 0.1)
        watched, looks = watched + pause, looks + 1
    assert looks < 1600


def test_a_file_is_full_by_its_requests_or_its_bytes() -> None:
    assert not batching.is_full(49_999, 1000)
    assert batching.is_full(50_000, 1000)
    assert batching.is_full(3, 64 << 20)
    assert batching.is_full(10, 1000, most_requests=10)


@pytest.mark.parametrize(("requests", "others", "fewer"), [(40, 0, 20), (3, 0, 1), (1, 2, 1), (1, 0, None)])
def test_fewer_go_together_until_one_alone_is_too_much(requests: int, others: int, fewer: int | None) -> None:
    assert batching.fewer(requests, others) == fewer


def test_a_batch_is_forgotten_only_once_it_must_be_over() -> None:
    assert not batching.is_forgotten(at=0.0, now=86400.0)
    assert batching.is_forgotten(at=0.0, now=86400.0 + 3601.0)


def test_what_is_left_of_a_queue_is_as_dense_as_it_was() -> None:
    assert Queue("m", "", "/responses", 100, 5000).without(60) == Queue("m", "", "/responses", 40, 2000)


@pytest.mark.parametrize("status", ["validating", "in_progress", "finalizing", "cancelling", ""])
def test_a_batch_that_may_still_bring_answers_is_not_over(status: str) -> None:
    assert not BatchState("b", status).is_over


@pytest.mark.parametrize("status", ["completed", "failed", "expired", "cancelled"])
def test_a_batch_that_brings_nothing_more_is_over(status: str) -> None:
    assert BatchState("b", status).is_over
