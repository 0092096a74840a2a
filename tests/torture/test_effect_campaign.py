"""Effects against the registry of examples/filings, a process of its own that misbehaves in every way it knows.

Every habit of the registry meets a death before and after each commit of an effect's course and around its call. Each
obligation is applied at most once, by the registry's own log; in the end it is applied, or said to be unconfirmed.
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest

from torture import effect_campaign as campaign
from torture.effect_scenes import HABITS, PAIRS, RECORDS

HERE = "victims are forked: Linux only"
EFFECTS = PAIRS * RECORDS

needs_fork = pytest.mark.skipif(not hasattr(os, "fork") or sys.platform == "darwin", reason=HERE)


@needs_fork
@pytest.mark.timeout(900)
def test_every_habit_of_the_registry_and_every_moment_of_death(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert EFFECTS >= 3000
    began = time.monotonic()
    reports = campaign.campaign(EFFECTS, seed=0, workers=12, keep=tmp_path, ledger=None)
    with capsys.disabled():
        print(f"\n{campaign.summary(reports, time.monotonic() - began)}")
    assert campaign.verdict(reports) == []
    assert sum(report.effects for report in reports) == EFFECTS
    assert sum(report.twice for report in reports) == 0
    assert {report.habit for report in reports} == set(HABITS)
