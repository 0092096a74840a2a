"""Questions that both sides of the store ask."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field

import apsw
import orjson

from onward.model import Counts, State
from onward.store.sqlite import statements


def read_counts(connection: apsw.Connection, instance: int) -> Counts:
    """One instance's counters, in one short read."""
    sql = statements.load("work.sql")
    states: dict[State, int] = dict.fromkeys(State, 0)
    counts = Counts(states, 0, 0, False, {}, {})
    with connection:
        row = connection.execute("SELECT source_complete FROM instances WHERE id = ?", (instance,)).fetchone()
        counts.source_complete = bool(row and row[0])
        for what, name, n in connection.execute(sql["counts"], {"instance": instance}):
            if what == "state":
                states[State(name)] += n
            elif what == "vanished":
                counts.vanished += n
            elif what == "step":
                counts.steps[name] = n
            elif what == "skipped":
                counts.skipped += n
            elif what == "failure" and n:
                step, kind = orjson.loads(name)
                counts.failures[step, kind] = n
        for hold, n in connection.execute(sql["count_held"], {"instance": instance}):
            counts.held[hold] = n
    counts.total = sum(states.values())
    return counts


@dataclass(slots=True)
class ResultVersions:
    """Finished records by the versions that made them: (versions by step, step it was skipped at, records, those of
    them whose input has changed since)."""

    groups: list[tuple[dict[str, str], str | None, int, int]] = field(default_factory=list)

    def stale(self, today: Mapping[str, str]) -> int:
        """Finished records that today's steps or input would make anew. `today`: step versions in step order."""
        return sum(
            n + changed if is_stale(made_by, skipped, today) else changed
            for made_by, skipped, n, changed in self.groups
        )

    def older(self, today: Mapping[str, str]) -> dict[str, dict[str, int]]:
        """For each of today's steps, how many results come from which other version."""
        found: dict[str, Counter[str]] = {}
        for made_by, _, n, changed in self.groups:
            for step, version in made_by.items():
                if today.get(step, version) != version and n + changed:
                    found.setdefault(step, Counter())[version] += n + changed
        return {step: dict(versions) for step, versions in found.items()}


def is_stale(made_by: Mapping[str, str], skipped: str | None, today: Mapping[str, str]) -> bool:
    """Whether a result differs from what today's steps would make: another version, or a step that it lacks.

    Steps behind the one that ended the record early were never due.
    """
    for step, version in today.items():
        if made_by.get(step) != version:
            return True
        if step == skipped:
            return False
    return False


def read_result_versions(connection: apsw.Connection, instance: int) -> ResultVersions:
    lineages = {
        str(number): (dict(orjson.loads(versions)), skipped)
        for number, versions, skipped in connection.execute(
            "SELECT id, versions, skipped FROM lineages WHERE instance = ?", (instance,)
        )
    }
    counted: dict[str, list[int]] = {}
    for what, name, n in connection.execute(
        "SELECT what, name, n FROM counts WHERE instance = ? AND what IN ('lineage', 'lineage_changed')", (instance,)
    ):
        counted.setdefault(name, [0, 0])[what == "lineage_changed"] += n
    return ResultVersions([(*lineages[name], n, changed) for name, (n, changed) in counted.items() if n or changed])
