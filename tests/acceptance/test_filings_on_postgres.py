"""The filings example on PostgreSQL: four runs, one killed now and then, the database restarted twice in mid-work."""

from __future__ import annotations

from pathlib import Path

import pytest

from helpers import postgres
from torture.registry import running
from torture.shared_filings import Shared, filings

FILINGS = 120


@pytest.mark.timeout(600)
def test_four_runs_are_killed_and_the_database_too_and_each_filing_is_applied_once(tmp_path: Path) -> None:
    try:
        with postgres.server() as server, running(tmp_path / "registry.db", "--switch", "reset_after_apply=0.1") as far:
            shared = Shared(tmp_path, far, server, runs=4, lease=8.0)
            shared.hurry()
            bout = shared.go(filings(FILINGS), every=4.0, restarts=2, slower=1.0)
            said = (tmp_path / "said.txt").read_text()
            assert bout.codes and set(bout.codes) <= {0, 3} and 0 in bout.codes, (bout, said[-3000:])
            assert bout.restarts == 2 and bout.kills >= 2, bout
            assert [one.applied for one in far.verdicts()] == [1] * FILINGS
            status = shared.status()
            assert status["counts"]["succeeded"] == FILINGS
            assert [run["exit_code"] for run in status["runs"]].count(None) <= bout.kills
            assert "the history fits" in shared.verified()
    except postgres.NoServer as error:
        pytest.skip(str(error))
