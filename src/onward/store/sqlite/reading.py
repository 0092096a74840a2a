"""Questions that both sides of the store ask."""

from __future__ import annotations

import apsw
import orjson

from onward.model import Counts, ResultGroup, State
from onward.policy.versions import ResultVersions
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
    return ResultVersions(
        [ResultGroup(*lineages[name], n, changed) for name, (n, changed) in counted.items() if n or changed]
    )
