"""Questions that both sides of the store ask."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import apsw
import orjson

from onward.model import Counts, ResultGroup, Spent, State
from onward.policy.versions import ResultVersions
from onward.ports.work import OlderOutputs
from onward.store.sqlite import statements
from onward.store.sqlite.spending import COUNTED

SQL = statements.load("reading.sql")
_SPENT = {f"spent {name}": name for name in COUNTED} | {"lost picodollars": "picodollars"}


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
                counts.vanished_open += n if name == State.UNCONFIRMED else 0
            elif what == "waits":
                counts.inputs_waiting = n
            elif what == "step":
                counts.steps[name] = n
            elif what == "skipped":
                counts.skipped += n
            elif what == "failure" and n:
                step, kind = orjson.loads(name)
                counts.failures[step, kind] = n
            elif what in _SPENT and n:
                spent, counted = counts.spent.setdefault(name, Spent(name)), _SPENT[what]
                setattr(spent, counted, getattr(spent, counted) + n)
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


def read_older_outputs(connection: apsw.Connection, instance: int, today: Mapping[str, str]) -> OlderOutputs:
    """What unfinished records have from other versions than today's. Looked for only where a run had others, and only
    until as many checkpoints are found as the counters say there are."""
    found = OlderOutputs()
    with connection:
        if _had_others(connection, instance, today):
            there = _unfinished_outputs(connection, instance, today)
            if there > 0:
                found = _older_outputs(connection, instance, today, there)
    return found


def _had_others(connection: apsw.Connection, instance: int, today: Mapping[str, str]) -> bool:
    for (versions,) in connection.execute(SQL["versions_run"], {"instance": instance}):
        if any(today.get(step, version) != version for step, version in orjson.loads(versions)):
            return True
    return False


def _older_outputs(connection: apsw.Connection, instance: int, today: Mapping[str, str], there: int) -> OlderOutputs:
    bindings = {"instance": instance, "today": orjson.dumps(dict(today)).decode(), "there": there}
    records, steps = 0, dict[str, dict[str, int]]()
    for step, version, number in connection.execute(SQL["older_outputs"], bindings):
        if step is None:
            records = number
        else:
            steps.setdefault(step, {})[version] = number
    return OlderOutputs(records, {step: steps[step] for step in today if step in steps})


def _unfinished_outputs(connection: apsw.Connection, instance: int, today: Mapping[str, str]) -> int:
    """How many checkpoints of today's steps unfinished records have: all of them, less those of finished ones."""
    there: Counter[str] = Counter(read_counts(connection, instance).steps)
    for group in read_result_versions(connection, instance).groups:
        made = [step for step in group.made_by if step != group.skipped]  # that one ended the record without an output
        there.subtract(dict.fromkeys(made, group.count + group.changed))
    return sum(there[step] for step in today)
