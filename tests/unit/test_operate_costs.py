"""What is told of the cost to finish, and why it is not."""

from __future__ import annotations

import pytest

from onward.model import Counts, State
from onward.operate.costs import UNREAD, time_to_finish, to_finish, to_go
from onward.ports.bill import Bill, CostSums, Pace

SUMS = CostSums("a", "1", 10, 0, 1e7, 1e13, 1e19, 0.0, 0.0, 0.0)
BILL = Bill([SUMS], {"a": 3}, {"a": 2})


def counts(complete: bool = True) -> Counts:
    states = {State.PENDING: 2, State.IN_PROGRESS: 1, State.FAILED: 2}
    return Counts(states, 5, 0, complete, {}, {})


def test_the_cost_to_finish_is_in_dollars() -> None:
    told = to_finish(BILL, counts(), {"a": "1"}, {"a": True})
    assert told == {"usd": 5.0, "p10": 5.0, "p90": 5.0, "why": None}


def test_of_an_input_that_is_not_read_it_is_unknown_unless_somebody_counted() -> None:
    unknown = {"usd": None, "p10": None, "p90": None, "why": UNREAD}
    assert to_finish(BILL, counts(False), {"a": "1"}, {"a": True}) == unknown
    assert to_finish(BILL, counts(False), {"a": "1"}, {"a": True}, unread=5)["usd"] == 10.0


def test_a_step_that_asks_and_has_cost_nothing_yet_is_unknown() -> None:
    assert "fewer than 5" in to_finish(Bill([], {"a": 3}), counts(), {"a": "1"}, {"a": True})["why"]
    assert to_finish(BILL, counts(), {"a": "1"}, {})["usd"] == 5.0


def test_a_job_that_asks_no_model_costs_nothing() -> None:
    assert to_finish(Bill([], {"a": 3}), counts(False), {"a": "1"}, {})["usd"] == 0


def test_the_time_to_finish_is_at_the_pace_of_all_together() -> None:
    pace = Pace(2.0, 10, 40.0, 180.0)
    told = time_to_finish(pace, 100, True)
    assert told["seconds"] == 50.0
    assert told["p10"] < 50.0 < told["p90"]
    assert time_to_finish(pace, 0, True) == {"seconds": 0.0, "p10": 0.0, "p90": 0.0}
    for unknown in (time_to_finish(pace, 100, False), time_to_finish(None, 100, True), time_to_finish(pace, 0, False)):
        assert unknown == {"seconds": None, "p10": None, "p90": None}


@pytest.mark.parametrize(("again", "number"), [(False, 3), (True, 5)])
def test_what_failed_is_to_go_where_it_is_tried_again(again: bool, number: int) -> None:
    assert to_go(counts(), again) == number
