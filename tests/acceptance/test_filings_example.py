"""examples/filings as a person uses it: the real registry in a process of its own, the command line, and kill -9.

The job is the example's, with shorter times: what was sent without an answer is asked about after two seconds.
"""

from __future__ import annotations

import json
import random
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from acceptance.far_side import requests
from acceptance.jobs import Place, Ran, plain, wait_until
from torture.registry import EXAMPLE, Registry, running

FILINGS = 150
PLACES = ("US-CA", "US-DE", "US-NY", "US-TX", "US-WA")
MOST_STARTS = 60


class Office:
    """The example's job in a folder, and the registry that it files with."""

    def __init__(self, folder: Path, registry: Registry):
        self.registry = registry
        self.place = Place(folder, "")
        (folder / "prepare.py").write_text((EXAMPLE / "prepare.py").read_text())
        self.job_named("annual-reports")
        self.due("due.jsonl", filings())

    def job_named(self, name: str) -> None:
        text = (EXAMPLE / "job.py").read_text()
        for old, new in (('"annual-reports"', f'"{name}"'), ("deadline=10.0, settle=5.0", "deadline=1.5, settle=0.5")):
            assert text.count(old) == 1
            text = text.replace(old, new)
        (self.place.folder / "job.py").write_text(text)

    def due(self, name: str, rows: list[dict[str, Any]]) -> None:
        self.place.write(name, rows)

    def words(self, due: str = "due.jsonl") -> tuple[str, ...]:
        return "-p", f"registry={self.registry.url}", "-p", f"due={due}"

    def run(self, *words: str, due: str = "due.jsonl") -> Ran:
        return self.place.run(*self.words(due), *words)

    def killed_until_it_ends_by_itself(self) -> tuple[int, int]:
        """What a shell loop does, every second or so: how often it was killed, and the exit code at last.

        The second begins with the run's first words: on a busy machine a start alone may take as long.
        """
        said, draw = self.place.folder / "said.txt", random.Random(3)
        for kills in range(MOST_STARTS):
            before = said.stat().st_size if said.exists() else 0
            run = self.place.start("run", "job.py", *self.words())
            try:
                wait_until(lambda run=run, before=before: run.poll() is not None or said.stat().st_size > before)  # type: ignore[misc]
                most = 2.0 + kills / 8  # a busy machine gets further between two kills, too
                return kills, run.wait(draw.uniform(0.3, 0.9) if kills < 4 else draw.uniform(1.0, most))
            except subprocess.TimeoutExpired:
                run.kill()
                run.wait()
        raise AssertionError("it never ends by itself")

    def applied_once(self) -> None:
        """As the registry's own log has it, and says it."""
        assert [one.applied for one in self.registry.verdicts()] == [1] * FILINGS
        command = [sys.executable, str(EXAMPLE / "registry.py"), str(self.registry.book), "--judge"]
        judged = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
        assert judged.returncode == 0, judged.stderr
        assert f"{FILINGS} obligations: {FILINGS} applied once, 0 more than once, 0 never" in judged.stdout


def filings() -> list[dict[str, Any]]:
    return [
        {
            "entity": f"LEI{number:05}",
            "name": f"Entity {number} Inc.",
            "jurisdiction": PLACES[number % len(PLACES)],
            "filing_type": "annual-report",
            "filing_year": 2025,
            "fee": 50 + number,
        }
        for number in range(FILINGS)
    ]


@pytest.mark.timeout(400)
def test_killed_again_and_again_and_then_shuffled_renamed_and_split(tmp_path: Path) -> None:
    switches = ("--seed", "7", "--switch", "reset_after_apply=0.2")
    with running(tmp_path / "registry.db", *switches) as registry:
        office = Office(tmp_path, registry)
        kills, code = office.killed_until_it_ends_by_itself()
        assert (kills > 2, code) == (True, 0)
        office.applied_once()
        unheard = sum("reset_after_apply" in request.fate for request in requests(registry))
        assert unheard > FILINGS / 10
        assert office.place.status()["counts"]["succeeded"] == FILINGS
        assert "150 succeeded" in office.place.fine("status", "job.py")
        assert "the history fits" in office.place.fine("log", "job.py", "--verify")

        before = len(requests(registry))
        shuffled = filings()
        random.Random(5).shuffle(shuffled)
        office.due("shuffled.jsonl", shuffled)
        office.due("half-1.jsonl", shuffled[: FILINGS // 2])
        office.due("half-2.jsonl", shuffled[FILINGS // 2 :])
        for name, due in (("scored-again", "shuffled.jsonl"), ("split-in-two", "half-*.jsonl")):
            office.job_named(name)
            ran = office.run(due=due)
            assert (ran.code, ran.counts) == (0, {"succeeded": FILINGS})
            assert "150 not sent again: sent by " in ran.said
        assert len(requests(registry)) == before
        office.applied_once()


@pytest.mark.timeout(400)
def test_one_jurisdiction_is_out_for_a_while(tmp_path: Path) -> None:
    """Lookups and submissions of one are answered with 503; the others finish meanwhile, and the run goes on alone."""
    with running(tmp_path / "registry.db") as registry:
        office = Office(tmp_path, registry)
        registry.switch(outage={"US-CA": 1000})
        run = office.place.start("run", "job.py", *office.words())
        wait_until(lambda: sum(one.applied for one in registry.verdicts()) == FILINGS - FILINGS // len(PLACES))
        wait_until(lambda: office.place.status()["counts"]["succeeded"] == FILINGS - FILINGS // len(PLACES))
        waiting = {one["reason"]: one["count"] for one in office.place.status()["waiting"]}
        out = [reason for reason in waiting if reason.startswith("group US-CA: calls fail (httpx.HTTPStatusError 503)")]
        assert len(out) == 1 and waiting[out[0]] > 20
        last = json.dumps(["LEI00145", "US-CA", "annual-report", 2025])
        assert json.loads(office.place.fine("show", "job.py", last, "--json"))["attempts"] == 0
        assert run.poll() is None
        registry.switch()
        assert run.wait(120) == 0
        office.applied_once()
        fates = Counter(request.fate for what in ("submit", "lookup") for request in requests(registry, what))
        assert fates["outage"] <= 25
        assert fates["applied"] == len(requests(registry)) == FILINGS
        said = (tmp_path / "said.txt").read_text()
        assert "paused: group US-CA: calls fail (httpx.HTTPStatusError 503)" in said
        assert "goes on: group US-CA is open" in said
        plain(said)
