"""What a store holds, read straight from its tables: lines as an export has them, counts as a status has them.

The product's own export and status are judged elsewhere; here they must not be able to hide what the store says.
"""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import apsw
import psycopg

from judge import chains
from onward.store.postgres import texts
from onward.store.postgres.address import is_postgres, parse

STATES = ("pending", "in_progress", "succeeded", "failed", "unconfirmed", "quarantined")

_SUCCEEDED = """
SELECT r.key, (SELECT value FROM inputs i WHERE i.record = r.id AND i.generation <= r.succeeded_generation
               ORDER BY i.generation DESC LIMIT 1), r.id, r.succeeded_generation, l.versions
FROM records r JOIN lineages l ON l.id = r.lineage WHERE r.state = 'succeeded' ORDER BY r.position"""


class Served:
    """A store on PostgreSQL that is asked as one in a file is."""

    def __init__(self, url: str):
        address = parse(url)
        self._connection = psycopg.connect(address.server, autocommit=True)
        self._connection.execute(
            f"SET search_path TO {address.quoted}; SET default_transaction_read_only TO on".encode()
        )

    def execute(self, sql: str, bindings: Any = ()) -> Any:
        given = [texts.held(one) if isinstance(one, str) else one for one in bindings]
        rows = self._connection.execute(sql.replace("?", "%s").encode(), given).fetchall()
        found = [tuple(texts.given(one) if isinstance(one, str) else one for one in row) for row in rows]
        return _Rows(found)

    def close(self) -> None:
        self._connection.close()


class _Rows(list[tuple[Any, ...]]):
    def fetchone(self) -> tuple[Any, ...] | None:
        return self[0] if self else None

    def fetchall(self) -> list[tuple[Any, ...]]:
        return self


def connect(store: str | Path) -> Any:
    """What answers to `execute`, and can be closed."""
    if is_postgres(str(store)):
        return Served(str(store))
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
    counted.update(_counted(connection, "state"))
    steps = _counted(connection, "step").items()
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


def _counted(connection: Any, what: str) -> dict[str, int]:
    """Counters that are not zero; on PostgreSQL each run has some of its own."""
    query = "SELECT name, CAST(sum(n) AS bigint) FROM counts WHERE what = ? GROUP BY name HAVING sum(n) <> 0"
    return dict(connection.execute(query, (what,)))


def keys_in(store: str | Path, state: str) -> set[str]:
    """The keys, as JSON text, of the records in one state."""
    connection = connect(store)
    keys = {key for (key,) in connection.execute("SELECT key FROM records WHERE state = ?", (state,))}
    connection.close()
    return keys


def acknowledgeable(connection: Any) -> set[tuple[str, str]]:
    """Key (JSON text) and step of every checkpoint in the store."""
    query = "SELECT key, checkpoints.step FROM checkpoints JOIN records ON records.id = checkpoints.record"
    return set(connection.execute(query))


def contradictions(store: str | Path | Any) -> list[str]:
    """What does not fit together inside the store: pages, counters against rows, states against checkpoints, and the
    chains of the history."""
    given = not isinstance(store, str | Path)
    connection = store if given else connect(store)
    found = []
    if isinstance(connection, apsw.Connection):
        found = [row[0] for row in connection.execute("PRAGMA integrity_check") if row[0] != "ok"]
    rows = Counter(
        dict(connection.execute("SELECT state, count(*) FROM records WHERE vanished = 0 GROUP BY state").fetchall())
    )
    counted = Counter(_counted(connection, "state"))
    found += [
        f"{counted[state]} counted as {state}, {rows[state]} are" for state in STATES if counted[state] != rows[state]
    ]
    steps = dict(
        connection.execute(
            "SELECT c.step, count(*) FROM checkpoints c JOIN records r ON r.id = c.record"
            " AND r.generation = c.generation GROUP BY c.step"
        )
    )
    said = _counted(connection, "step")
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
    is_file = isinstance(connection, apsw.Connection)
    found += chains.broken(connection) if is_file else chains.broken_among(connection.execute)
    if not given:
        connection.close()
    return found
