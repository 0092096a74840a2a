"""What a store holds, read straight from the file: lines as an export has them, counts as a status has them.

The product's own export and status are judged elsewhere; here they must not be able to hide what the store says.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import apsw

from judge import chains

STATES = ("pending", "in_progress", "succeeded", "failed", "unconfirmed", "quarantined")

_SUCCEEDED = """
SELECT r.key, (SELECT value FROM inputs i WHERE i.record = r.id AND i.generation <= r.succeeded_generation
               ORDER BY i.generation DESC LIMIT 1), r.id, r.succeeded_generation, l.versions
FROM records r JOIN lineages l ON l.id = r.lineage WHERE r.state = 'succeeded' ORDER BY r.position"""


def connect(store: str | Path) -> apsw.Connection:
    connection = apsw.Connection(str(store), flags=apsw.SQLITE_OPEN_READWRITE)
    connection.set_busy_timeout(10_000)
    connection.execute("PRAGMA query_only = 1")
    return connection


def export_lines(store: str | Path) -> list[bytes]:
    """The succeeded records in source order, one JSON object a line; of a store with one instance."""
    connection = connect(store)
    lines = []
    for key, value, record, generation, versions in connection.execute(_SUCCEEDED):
        outputs = dict(
            connection.execute(
                "SELECT step, output FROM checkpoints WHERE record = ? AND generation = ?", (record, generation)
            )
        )
        made_by = dict(json.loads(versions))
        row = {
            "key": json.loads(key),
            "input": json.loads(value),
            "outputs": {step: json.loads(outputs[step]) for step in made_by if step in outputs},
            "state": "succeeded",
            "versions": made_by,
            "generation": generation,
        }
        lines.append(json.dumps(row, ensure_ascii=False).encode())
    connection.close()
    return lines


def status(store: str | Path) -> dict[str, Any]:
    """Counters, steps and runs of a store with one instance."""
    connection = connect(store)
    counted = dict.fromkeys(STATES, 0)
    counted.update(connection.execute("SELECT name, n FROM counts WHERE what = 'state'"))
    steps = connection.execute("SELECT name, n FROM counts WHERE what = 'step'")
    complete = connection.execute("SELECT source_complete FROM instances").fetchone()
    runs = connection.execute("SELECT id, started, ended, exit_code, reason FROM runs ORDER BY id")
    names = ("run", "started", "ended", "exit_code", "reason")
    found = {
        "counts": counted,
        "total": sum(counted.values()),
        "source_complete": bool(complete and complete[0]),
        "steps": [{"name": name, "succeeded": n} for name, n in steps],
        "runs": [dict(zip(names, row, strict=True)) for row in runs],
    }
    connection.close()
    return found


def keys_in(store: str | Path, state: str) -> set[str]:
    """The keys, as JSON text, of the records in one state."""
    connection = connect(store)
    keys = {key for (key,) in connection.execute("SELECT key FROM records WHERE state = ?", (state,))}
    connection.close()
    return keys


def acknowledgeable(connection: apsw.Connection) -> set[tuple[str, str]]:
    """Key (JSON text) and step of every checkpoint in the store."""
    query = "SELECT key, checkpoints.step FROM checkpoints JOIN records ON records.id = checkpoints.record"
    return set(connection.execute(query))


def contradictions(store: str | Path | apsw.Connection) -> list[str]:
    """What does not fit together inside the store: pages, counters against rows, states against checkpoints, and the
    chains of the history."""
    connection = store if isinstance(store, apsw.Connection) else connect(store)
    found = [row[0] for row in connection.execute("PRAGMA integrity_check") if row[0] != "ok"]
    rows = Counter(
        dict(connection.execute("SELECT state, count(*) FROM records WHERE vanished = 0 GROUP BY state").fetchall())
    )
    counted = Counter(dict(connection.execute("SELECT name, n FROM counts WHERE what = 'state'").fetchall()))
    found += [
        f"{counted[state]} counted as {state}, {rows[state]} are" for state in STATES if counted[state] != rows[state]
    ]
    steps = dict(
        connection.execute(
            "SELECT c.step, count(*) FROM checkpoints c JOIN records r ON r.id = c.record"
            " AND r.generation = c.generation GROUP BY c.step"
        )
    )
    said = dict(connection.execute("SELECT name, n FROM counts WHERE what = 'step' AND n <> 0"))
    if steps != said:
        found.append(f"checkpoints counted as {said}, there are {steps}")
    for key, versions, generation, record in connection.execute(
        "SELECT key, versions, succeeded_generation, r.id FROM records r JOIN lineages l ON l.id = r.lineage"
        " WHERE state = 'succeeded' AND l.skipped IS NULL"
    ):
        made = {
            step
            for (step,) in connection.execute(
                "SELECT step FROM checkpoints WHERE record = ? AND generation = ?", (record, generation)
            )
        }
        if missing := [step for step, _ in json.loads(versions) if step not in made]:
            found.append(f"{key} succeeded without checkpoints of {', '.join(missing)}")
    found += chains.broken(connection)
    if not isinstance(store, apsw.Connection):
        connection.close()
    return found
