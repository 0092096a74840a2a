"""What the stores of the suite that keep tables have in common: a recount that shares no code with them."""

from __future__ import annotations

import json
from abc import ABC, abstractmethod
from collections import Counter
from typing import Any

from store_conformance import Versions

from onward.codec import canonical_key
from onward.model import Counts, Spent, State
from onward.ports.work import WorkStore
from onward.store.sql.spending import COUNTED

WAITING = ("pending", "unconfirmed")


class TableStores(ABC):
    """`query` asks with `?` for parameters; rows come by the names of columns."""

    @abstractmethod
    def query(self, sql: str, *bindings: Any) -> list[dict[str, Any]]: ...

    @abstractmethod
    def broken_chains(self) -> list[str]: ...

    def counters(self, instance: int) -> list[dict[str, Any]]:
        return self.query("SELECT * FROM counts WHERE instance = ?", instance)

    def instances(self) -> list[int]:
        return [row["id"] for row in self.query("SELECT id FROM instances ORDER BY id")]

    def recount(self, instance: int) -> Counts:
        return Tables(self, instance).counts()

    def recounted_versions(self, instance: int) -> Versions:
        return Tables(self, instance).versions()

    def told_versions(self, store: WorkStore, instance: int) -> Versions:
        groups = {}
        for group in store.results_by_version(instance):
            key = (tuple(group.made_by.items()), group.skipped)
            assert key not in groups, "one lineage is interned twice"
            groups[key] = (group.count, group.changed)
        return Versions(groups)

    def faults(self) -> list[str]:
        found = [fault for instance in self.instances() for fault in Tables(self, instance).faults()]
        return found + self.broken_chains()

    def chain(self, run: int | None, instance: int = 1) -> list[dict[str, Any]]:
        return self.query("SELECT * FROM history WHERE instance = ? AND run IS ? ORDER BY id", instance, run)

    def row(self, key: Any, instance: int = 1) -> dict[str, Any]:
        found = self.query("SELECT * FROM records WHERE instance = ? AND key = ?", instance, canonical_key(key))
        assert len(found) == 1, f"{len(found)} records with the key {key!r}"
        row = found[0]
        number = row["id"]
        row["inputs"] = {
            one["generation"]: one["value"] for one in self.query("SELECT * FROM inputs WHERE record = ?", number)
        }
        row["checkpoints"] = {
            (one["generation"], one["step"]): (one["version"], one["output"])
            for one in self.query("SELECT * FROM checkpoints WHERE record = ?", number)
        }
        failures = self.query("SELECT * FROM failures WHERE record = ?", number)
        row["failure"] = failures[0] if failures else None
        row["history"] = [
            (one["event"], one["step"], one["reason"])
            for one in self.query("SELECT * FROM history WHERE record = ? ORDER BY id", number)
        ]
        return row

    def run_row(self, run: int) -> dict[str, Any]:
        return self.query("SELECT * FROM runs WHERE id = ?", run)[0]


class Tables:
    """One instance's rows, read whole; everything else is counted from them in Python."""

    def __init__(self, stores: TableStores, instance: int):
        query = stores.query
        self.instance = query("SELECT * FROM instances WHERE id = ?", instance)[0]
        self.records = query("SELECT * FROM records WHERE instance = ?", instance)
        self.runs = {row["id"]: row for row in query("SELECT * FROM runs")}
        self.lineages = {row["id"]: row for row in query("SELECT * FROM lineages WHERE instance = ?", instance)}
        self.checkpoints = query("SELECT record, generation, step FROM checkpoints")
        self.inputs = query("SELECT record, generation FROM inputs")
        own = "SELECT u.* FROM usage u JOIN records r ON r.id = u.record WHERE r.instance = ?"
        self.usage = query(own, instance)
        self.failures = {row["record"]: row for row in query("SELECT * FROM failures")}
        self.counters = stores.counters(instance)
        self.present = [row for row in self.records if not row["vanished"]]
        self.obliged = {row["record"] for row in query("SELECT record FROM effects WHERE state <> 'absent'")}

    def counts(self) -> Counts:
        states = dict.fromkeys(State, 0)
        failures: Counter[tuple[str, str]] = Counter()
        held: Counter[str] = Counter()
        skipped = 0
        for row in self.present:
            states[State(row["state"])] += 1
            if row["state"] in ("failed", "quarantined"):
                failure = self.failures[row["id"]]
                failures[failure["step"], failure["kind"]] += 1
            if row["state"] in WAITING and row["hold"] is not None:
                held[row["hold"]] += 1
            if row["state"] == "succeeded" and self.lineages[row["lineage"]]["skipped"] is not None:
                skipped += 1
        return Counts(
            states=states,
            total=len(self.present),
            vanished=len(self.records) - len(self.present),
            source_complete=bool(self.instance["source_complete"]),
            steps=dict(self._steps()),
            failures=dict(failures),
            skipped=skipped,
            held=dict(held),
            spent=self._spent(),
            inputs_waiting=sum(row["state"] != "succeeded" and row["input_changed"] for row in self.records),
            vanished_open=sum(row["vanished"] > 0 and row["state"] == "unconfirmed" for row in self.records),
        )

    def _spent(self) -> dict[str, Spent]:
        found: dict[str, Spent] = {}
        for row in self.usage:
            counted = {name: row[name] for name in COUNTED}
            found.setdefault(row["model"], Spent(row["model"])).add(Spent(row["model"], **counted))
        return found

    def _steps(self) -> Counter[str]:
        """Checkpoints of the newest generation of each record that the source still has."""
        newest = {(row["id"], row["generation"]) for row in self.present}
        return Counter(row["step"] for row in self.checkpoints if (row["record"], row["generation"]) in newest)

    def versions(self) -> Versions:
        counted: dict[Any, list[int]] = {}
        for row in self.present:
            if row["state"] == "succeeded":
                lineage = self.lineages[row["lineage"]]
                key = (tuple((step, version) for step, version in json.loads(lineage["versions"])), lineage["skipped"])
                counted.setdefault(key, [0, 0])[bool(row["input_changed"])] += 1
        return Versions({key: (n, changed) for key, (n, changed) in counted.items()})

    def faults(self) -> list[str]:
        found = [f"counter {row['what']}/{row['name']} is {row['n']}" for row in self.counters if row["n"] < 0]
        first_inputs: dict[int, int] = {}
        for row in self.inputs:
            first_inputs[row["record"]] = min(row["generation"], first_inputs.get(row["record"], row["generation"]))
        for row in self.records:
            found += [f"record {row['key']}: {fault}" for fault in self._faults_of(row)]
            result = row["generation"] if row["succeeded_generation"] is None else row["succeeded_generation"]
            if first_inputs.get(row["id"], result + 1) > result:
                found.append(f"record {row['key']}: no input")
        return found

    def _faults_of(self, row: dict[str, Any]) -> list[str]:
        held = row["state"] == "in_progress"
        run = self.runs.get(row["run"])
        says = {
            "held by nobody": held and run is None,
            "held by a run that has ended": held and run is not None and run["ended"] is not None,
            "held by a run of another instance": held and run is not None and run["instance"] != row["instance"],
            "has a run though nobody holds it": not held and row["run"] is not None,
            "started though nobody holds it": not held and row["started"],
            "in progress though it vanished": held and row["vanished"] and row["id"] not in self.obliged,
            "set apart though it does not wait": row["hold"] is not None and row["state"] not in WAITING,
            "waits though it is at work or done": row["not_before"] and row["state"] not in WAITING,
            "made by versions nobody knows": row["state"] == "succeeded" and row["lineage"] not in self.lineages,
            "succeeded in another generation": row["state"] == "succeeded"
            and row["succeeded_generation"] != row["generation"],
            "failed for no reason": row["state"] in ("failed", "quarantined") and row["id"] not in self.failures,
            "counts less than nothing": min(row["attempts"], row["deaths"], row["failed_runs"]) < 0,
        }
        return [what for what, true in says.items() if true]
