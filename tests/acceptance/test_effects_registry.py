"""Effects against the registry of examples/filings, a process of its own that misbehaves in every way it knows.

Every habit of the registry meets a death before and after each commit of an effect's course and around its call. Each
obligation is applied at most once, by the registry's own log; in the end it is applied, or said to be unconfirmed.
"""

from __future__ import annotations

import json
import os
import random
import subprocess
import sys
import time
from pathlib import Path

import pytest

from acceptance.jobs import Place
from torture import effect_campaign as campaign
from torture.effect_scenes import HABITS, PAIRS, RECORDS
from torture.registry import EXAMPLE, Registry, running

HERE = "victims are forked: Linux only"
EFFECTS = PAIRS * RECORDS
FILINGS = 60

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


def write_due(path: Path, name: str = "due.jsonl", shuffled: bool = False) -> str:
    rows = [
        {
            "entity": f"LEI{number:05}",
            "name": f"Entity {number} Inc.",
            "jurisdiction": ("US-CA", "US-DE", "US-NY")[number % 3],
            "filing_type": "annual-report",
            "filing_year": 2025,
            "fee": 50 + number,
        }
        for number in range(FILINGS)
    ]
    if shuffled:
        random.Random(5).shuffle(rows)
    (path / name).write_text("".join(json.dumps(row) + "\n" for row in rows))
    return str(path / name)


def bring_the_example(folder: Path) -> Place:
    place = Place(folder, "")
    for name in ("job.py", "prepare.py"):
        (folder / name).write_text((EXAMPLE / name).read_text())
    return place


def run_in_a_loop(place: Place, *words: str) -> int:
    """Start again and again what is killed every few seconds, until it ends by itself."""
    draw = random.Random(3)
    for kill in range(20):
        run = place.start("run", "job.py", *words)
        try:
            return run.wait(draw.uniform(1.0, 3.0) if kill < 4 else 120)
        except subprocess.TimeoutExpired:
            run.kill()
            run.wait()
    raise AssertionError("it never ends")


def requests_to_submit(registry: Registry) -> int:
    return sum(one.requests for one in registry.verdicts())


@pytest.mark.timeout(400)
def test_the_example_killed_in_a_loop_and_then_shuffled_under_another_name(tmp_path: Path) -> None:
    place = bring_the_example(tmp_path)
    due = write_due(tmp_path)
    with running(tmp_path / "registry.db", "--seed", "7", "--switch", "reset_after_apply=0.2") as registry:
        words = ("-p", f"registry={registry.url}", "-p", f"due={due}")
        assert run_in_a_loop(place, *words) == 0
        assert [one.applied for one in registry.verdicts()] == [1] * FILINGS
        assert place.status()["counts"]["succeeded"] == FILINGS

        before = requests_to_submit(registry)
        job = (tmp_path / "job.py").read_text()
        (tmp_path / "job.py").write_text(job.replace('"annual-reports"', '"scored-again"'))
        again = ("-p", f"registry={registry.url}", "-p", f"due={write_due(tmp_path, 'again.jsonl', shuffled=True)}")
        assert place.run(*again).counts == {"succeeded": FILINGS}
        assert requests_to_submit(registry) == before
