"""How quickly records end, in equal windows."""

from __future__ import annotations

import pytest

from onward.policy.forecast import time_left
from onward.policy.windows import MOST, Windows


def marked(windows: Windows, *ended: tuple[float, int], at_work: bool = True) -> Windows:
    for now, number in ended:
        windows.mark(now, number, at_work)
    return windows


def test_quick_jobs_have_windows_of_a_second_and_look_back_twenty() -> None:
    windows = marked(Windows(0.0, 0), *((float(n), 10 * n) for n in range(1, 100)))
    assert windows.seconds == 1.0
    assert windows.moments.count == MOST
    assert windows.moments.mean == pytest.approx(10)
    assert windows.moments.variance == 0


def test_slow_jobs_look_back_for_longer() -> None:
    windows = marked(Windows(0.0, 0), *((float(n), n // 10) for n in range(1, 2001)))
    assert windows.seconds == 64.0
    left = time_left(windows.moments, windows.seconds, 100)
    assert left is not None
    assert left.p10 <= 1000 <= left.p90
    assert left.expected == pytest.approx(1000, rel=0.1)


def test_a_mark_that_comes_late_is_no_burst() -> None:
    windows = marked(Windows(0.0, 0), (1.0, 10), (3.0, 30), (4.0, 40))
    assert windows.moments.mean == pytest.approx(10)


def test_time_in_which_nothing_was_meant_to_happen_does_not_count() -> None:
    windows = marked(Windows(0.0, 0), *((float(n), 10 * n) for n in range(1, 6)))
    marked(windows, *((float(n), 50) for n in range(6, 60)), at_work=False)
    assert windows.moments.count == 5
    assert windows.moments.mean == pytest.approx(10)


def test_what_is_put_back_does_not_count_as_slower() -> None:
    windows = marked(Windows(0.0, 100), (1.0, 110), (2.0, 50), (3.0, 60))
    assert windows.moments.total == pytest.approx(20)
