"""One record's attempts, cut off anywhere and taken up again: the same outputs, each step completed once."""

from __future__ import annotations

import pytest

from simulation.attempts import Life

PER_PART = 1000


@pytest.mark.parametrize("part", range(5))
def test_many_lives_of_a_record(part: int) -> None:
    for seed in range(part * PER_PART, (part + 1) * PER_PART):
        try:
            Life(seed).live()
        except AssertionError as error:
            raise AssertionError(f"seed {seed}: {error}") from error
