"""Two thousand connections to PostgreSQL cut around COMMIT: what was acknowledged is there, once, and nothing else."""

from __future__ import annotations

import os
import time

import pytest

from torture import cut_campaign

CUTS = int(os.environ.get("ONWARD_TEST_CUTS", "2000"))


def test_connections_cut_around_commit(database: str, capsys: pytest.CaptureFixture[str]) -> None:
    began = time.monotonic()
    reports = cut_campaign.Campaign(database, CUTS, seed=0).run()
    with capsys.disabled():
        print(f"\n{cut_campaign.summary(reports, time.monotonic() - began)}")
    assert [what for report in reports for what in report.found] == []
    assert sum(report.cuts for report in reports) >= CUTS
