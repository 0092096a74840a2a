"""A job file that a test edits between runs, and the calls of its steps, counted outside the store."""

from __future__ import annotations

import json
import textwrap
from collections import Counter
from pathlib import Path
from typing import Any

import onward
from onward.job.loading import load_job


class JobFolder:
    """A folder with `job.py` and `in.jsonl`. Steps note their calls with `call(step, key)`."""

    HEADER = """
    import onward
    from pathlib import Path

    def call(step, key):
        with Path(__file__).with_name("calls").open("a") as file:
            print(step, key, file=file)
    """

    def __init__(self, folder: Path, name: str, text: str):
        self.folder = folder
        self.file = folder / f"{name}.py"
        self.write(text)

    def write(self, text: str) -> None:
        self.file.write_text(textwrap.dedent(self.HEADER) + textwrap.dedent(text))

    def edit(self, old: str, new: str) -> None:
        text = self.file.read_text()
        assert text.count(old) == 1, old
        self.file.write_text(text.replace(old, new))

    def feed(self, rows: list[dict[str, Any]]) -> None:
        (self.folder / "in.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))

    @property
    def job(self) -> onward.Job:
        return load_job(str(self.file))

    def run(self, **options: Any) -> onward.RunResult:
        (self.folder / "calls").unlink(missing_ok=True)
        return onward.run(self.job, **options)

    @property
    def calls(self) -> Counter[str]:
        """Calls by step since the last run began."""
        file = self.folder / "calls"
        return Counter(line.split()[0] for line in file.read_text().splitlines()) if file.exists() else Counter()

    def exported(self, **words: Any) -> list[dict[str, Any]]:
        out = self.folder / "out.jsonl"
        onward.export(self.job, out, **words)
        return [json.loads(line) for line in out.read_text().splitlines()]
