"""Three hundred random kills: nothing is lost, nothing acknowledged is done again, no innocent is convicted."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from torture import kill_campaign

KILLS = int(os.environ.get("ONWARD_TEST_KILLS", "300"))


@pytest.mark.timeout(900)
@pytest.mark.skipif(not hasattr(os, "fork") or sys.platform == "darwin", reason="victims are forked: Linux only")
def test_random_kills(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    reports = kill_campaign.campaign(KILLS, seed=1, workers=2, keep=tmp_path, ledger=None)
    with capsys.disabled():
        print(f"\n{kill_campaign.summary(reports, sum(report.seconds for report in reports) / 2)}")
    assert kill_campaign.verdict(reports) == []
