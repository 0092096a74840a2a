"""A run to be recorded call by call: the campaign's job with a log that is folded in often.

    VICTIM_SPEC=spec.json python tests/victims/recorded.py FOLDER

VICTIM_SYNCHRONOUS=1 plants a defect: commits that return before they are on disk.
"""

from __future__ import annotations

import os
import sys
from pathlib import Path

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))

from torture import faults, forked

STORE = ".onward/onward.db"


def plant_weak_commits(level: str) -> None:
    from onward.store.sqlite import connection

    original = connection._configure_writer

    def configure(writer: object, path: object) -> None:
        original(writer, path)  # type: ignore[arg-type]
        writer.execute(f"PRAGMA synchronous = {level}")  # type: ignore[attr-defined]

    connection._configure_writer = configure  # type: ignore[assignment]


def prepare() -> None:
    faults.keep_log_small(100)
    if level := os.environ.get("VICTIM_SYNCHRONOUS"):
        plant_weak_commits(level)


if __name__ == "__main__":
    victim = forked.Victim(forked.VICTIMS / "campaign.py", "campaign", Path(sys.argv[1]), {}, STORE)
    sys.exit(forked.run_job(victim, prepare))
