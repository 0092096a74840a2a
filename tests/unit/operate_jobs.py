"""A small job whose steps, versions, failures and input a test changes between runs, and a recount of its store."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import apsw

import onward
from onward.model import RunResult

Fails = dict[Any, Callable[[], Exception]]


class Batch:
    """Rows `{"id": …, "v": …}` through steps that return `v` and the step's version."""

    def __init__(self, folder: Path, rows: list[dict[str, Any]]):
        self.folder = folder
        self.rows = rows
        self.steps = {"a": "1", "b": "1", "c": "1"}
        self.fails: dict[str, Fails] = {}
        self.done_at: dict[str, set[Any]] = {}
        self.calls: Counter[str] = Counter()
        self.called: list[tuple[str, Any]] = []
        self.shapes: dict[str, Any] = {}  # what the later steps expect of a step's output
        self.values: dict[str, Any] = {}  # what a step returns, where it is not its usual text
        self.record: Any = None
        self.store = str(folder / "store.db")

    def write(self) -> Path:
        source = self.folder / "in.jsonl"
        source.write_text("".join(json.dumps(row) + "\n" for row in self.rows))
        return source

    def job(self) -> onward.Job:
        self.write()
        job = onward.Job(
            "batch",
            source=onward.jsonl(str(self.folder / "in.jsonl"), key="id"),
            record=self.record,
            on_bad="quarantine",
        )
        for name, version in self.steps.items():
            job.step(version=version)(self._step(name, version))
        return job

    def _step(self, name: str, version: str) -> Callable[..., Any]:
        def call(record: Any) -> Any:
            self.calls[name] += 1
            row = record if isinstance(record, dict) else record.model_dump()
            self.called.append((name, row["id"]))
            fails = self.fails.get(name, {}).get(row["id"])
            if fails is not None:
                raise fails()
            if row["id"] in self.done_at.get(name, ()):
                raise onward.Done("enough")
            return self.values.get(name, f"{row['v']}{name}{version}")

        expected = [step for step in self.shapes if step in self.steps and step < name]
        taken = "".join(f", {step}: shapes[{step!r}]" for step in expected)
        namespace: dict[str, Any] = {"call": call, "shapes": self.shapes}
        exec(f"def {name}(record{taken}): return call(record)", namespace)
        function: Callable[..., Any] = namespace[name]
        return function

    def run(self, **options: Any) -> RunResult:
        self.calls.clear()
        self.called.clear()
        return onward.run(self.job(), store=self.store, **options)

    def outputs(self, **options: Any) -> dict[Any, dict[str, Any]]:
        return {one.key: dict(one.outputs) for one in onward.results(self.job(), store=self.store, **options)}

    def counts(self) -> dict[str, int]:
        counts: dict[str, int] = onward.status(self.job(), store=self.store)["counts"]
        return {state: number for state, number in counts.items() if number}

    def check(self) -> None:
        assert kept_counts(self.store) == true_counts(self.store)


def kept_counts(store: str) -> dict[tuple[str, str], int]:
    """The counters as the store keeps them, those that are not zero."""
    connection = apsw.Connection(store)
    found = {(what, name): n for what, name, n in connection.execute("SELECT what, name, n FROM counts")}
    connection.close()
    return {name: n for name, n in found.items() if n}


def true_counts(store: str) -> dict[tuple[str, str], int]:
    """The same, counted afresh."""
    connection = apsw.Connection(store)
    counted: dict[tuple[str, str], int] = {}

    def count(what: str, query: str) -> None:
        for name, n in connection.execute(query):
            counted[what, str(name)] = n

    count("state", "SELECT state, count(*) FROM records WHERE vanished = 0 GROUP BY 1")
    count("vanished", "SELECT state, count(*) FROM records WHERE vanished = 1 GROUP BY 1")
    count(
        "step",
        "SELECT c.step, count(*) FROM records r JOIN checkpoints c ON c.record = r.id AND c.generation = r.generation "
        "WHERE vanished = 0 GROUP BY 1",
    )
    count(
        "failure",
        "SELECT json_array(f.step, f.kind), count(*) FROM records r JOIN failures f ON f.record = r.id "
        "WHERE vanished = 0 AND state IN ('failed', 'quarantined') GROUP BY 1",
    )
    finished = "FROM records WHERE state = 'succeeded' AND vanished = 0"
    count("lineage", f"SELECT lineage, count(*) {finished} AND input_changed = 0 GROUP BY 1")
    count("lineage_changed", f"SELECT lineage, count(*) {finished} AND input_changed = 1 GROUP BY 1")
    count(
        "skipped",
        "SELECT l.skipped, count(*) FROM records r JOIN lineages l ON l.id = r.lineage "
        "WHERE r.state = 'succeeded' AND r.vanished = 0 AND l.skipped IS NOT NULL GROUP BY 1",
    )
    connection.close()
    return counted
