"""Each kind of bad day that a PostgreSQL server and its runs can have, once; `day_campaign` has as many as one likes.

Filings go to the registry of examples/filings, a process of its own: by its log each is applied once, whatever is
killed, cut off, locked, put to sleep or shown a wrong clock meanwhile.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from helpers import postgres
from torture import day_campaign, effect_campaign
from torture.day_events import DAYS
from torture.effect_scenes import OTHER_POINTS, POINTS, close_registry

pytestmark = pytest.mark.skipif(
    not hasattr(os, "fork") or sys.platform == "darwin", reason="victims are forked: Linux only"
)


@pytest.fixture(scope="module")
def server() -> Iterator[postgres.Server]:
    try:
        with postgres.server(("deadlock_timeout=20ms",)) as own:
            yield own
    except postgres.NoServer as error:
        pytest.skip(str(error))
    finally:
        close_registry()


@pytest.mark.parametrize("kind", DAYS)
def test_a_bad_day(kind: str, server: postgres.Server, tmp_path: Path) -> None:
    report = day_campaign.try_seed(SEEDS[kind], server, tmp_path)
    assert report.habit == kind
    assert day_campaign.verdict([report]) == []
    assert report.twice == 0


SEEDS = {kind: number for number, kind in enumerate(DAYS)}


def test_who_sleeps_past_the_lease_at_any_point_of_an_effect_changes_nothing(database: str, tmp_path: Path) -> None:
    points = [*POINTS, *OTHER_POINTS]
    reports = effect_campaign.sleepers(points, database, tmp_path)
    assert [(one.points, what) for one in reports for what in one.found] == []
    assert [one.points for one in reports if not one.landed] == []
    assert sum(one.twice for one in reports) == 0
    assert max(one.beyond for one in reports) <= effect_campaign.CALLS_AT_ONCE, "what it was sending as it fell asleep"
