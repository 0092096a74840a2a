"""What is said when a budget is used up."""

from __future__ import annotations

import pytest

from onward.engine.spending.desk import why_reached
from onward.job.models import PICO, Cap
from onward.model import Spent
from onward.ports.work import Reserved


@pytest.mark.parametrize(
    "cap, spent, dearest, told",
    [
        (0.00042, 0.0004, 0.000105, "$0.00042 ($0.00040 is spent, one more request could cost $0.00010)"),
        (0.000000425, 0.0, 0.0000012, "$0.000000425 ($0.0000000 is spent, one more request could cost $0.0000012)"),
        (5, 4.99, 0.011, "$5.00 ($4.990 is spent, one more request could cost $0.011)"),
        (1200, 1199.5, 0.75, "$1,200.00 ($1,199.50 is spent, one more request could cost $0.75)"),
    ],
)
def test_amounts_have_digits_enough_to_be_compared(cap: float, spent: float, dearest: float, told: str) -> None:
    most = Spent("small")
    most.picodollars = round(dearest * PICO)
    said = why_reached("small", Cap(round(cap * PICO), None), Reserved(False, round(spent * PICO), 0), most, 0)
    assert said == f"the budget of model small is used up: {told}; raise it, with --budget too, and run again"
