"""How many calls a run may have in progress: the newest word counts."""

from __future__ import annotations

import pytest

from onward.engine.concurrency import Concurrency
from onward.ports.work import Orders


def orders(concurrency: int | None, said: int) -> Orders:
    return Orders([], None, concurrency, said)


@pytest.mark.parametrize(("own", "said", "holds"), [(None, None, 32), (16, None, 16), (None, 8, 8), (16, 8, 16)])
def test_what_holds_at_the_start(own: int | None, said: int | None, holds: int) -> None:
    assert Concurrency(own, 32, orders(said, 0 if said is None else 1)).now == holds


def test_what_is_said_later_counts_before_what_the_run_was_started_with() -> None:
    one = Concurrency(16, 32, orders(8, 1))
    assert not one.hear(orders(8, 1))
    assert one.now == 16
    assert one.hear(orders(8, 2)), "the same number, said once more"
    assert one.now == 8
    assert one.hear(orders(None, 3))
    assert one.now == 16


def test_what_is_taken_back_leaves_what_the_job_declares() -> None:
    one = Concurrency(None, 32, orders(8, 1))
    assert one.hear(orders(None, 2))
    assert one.now == 32
    assert not one.hear(orders(32, 3)), "it holds already"


@pytest.mark.parametrize(
    ("own", "said", "words"),
    [
        (None, None, "32, as the job declares"),
        (None, 8, "8, as onward concurrency says (the job declares 32)"),
        (16, 8, "16, with which the run was started; onward concurrency says 8"),
    ],
)
def test_where_it_comes_from(own: int | None, said: int | None, words: str) -> None:
    assert str(Concurrency(own, 32, orders(said, 1))) == words
