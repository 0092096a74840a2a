"""Poison runs, each deed in each form: the guilty are found, and nobody else is convicted."""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import pytest

from torture import poison_campaign
from torture.poison_campaign import EXPECTED, FORMS

RUNS = int(os.environ.get("ONWARD_TEST_POISON", "56"))


@pytest.mark.skipif(not hasattr(os, "fork") or sys.platform == "darwin", reason="victims are forked: Linux only")
@pytest.mark.timeout(600)
def test_poison_among_innocent_neighbours(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    began = time.monotonic()
    reports = poison_campaign.campaign(RUNS, seed=0, workers=3, keep=tmp_path, ledger=None)
    with capsys.disabled():
        print(f"\n{poison_campaign.summary(reports, time.monotonic() - began)}")
    assert poison_campaign.verdict(reports) == []
    assert {one.form for one in reports} == set(FORMS)
    assert {deed for one in reports for deed in one.poison.values()} == set(EXPECTED)
