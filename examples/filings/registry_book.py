"""The registry's book: what it has on file, and a log of every request, in one SQLite file that is flushed to the disk.

A request is in the log before it is looked at, a filing before it is answered.
"""

from __future__ import annotations

import asyncio
import sqlite3
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

SCHEMA = """
CREATE TABLE IF NOT EXISTS requests (id INTEGER PRIMARY KEY, at REAL NOT NULL, sent_at REAL, what TEXT NOT NULL,
    key TEXT, obligation TEXT, body_hash TEXT, fate TEXT, status INTEGER, answered_at REAL);
CREATE TABLE IF NOT EXISTS filings (number TEXT PRIMARY KEY, request INTEGER NOT NULL, at REAL NOT NULL,
    key TEXT NOT NULL, obligation TEXT NOT NULL, body_hash TEXT NOT NULL, fee INTEGER NOT NULL);
CREATE INDEX IF NOT EXISTS filings_by_obligation ON filings (obligation);
CREATE INDEX IF NOT EXISTS requests_by_obligation ON requests (obligation);
CREATE INDEX IF NOT EXISTS requests_by_key ON requests (key);
"""
VERDICT = """
SELECT asked.obligation, asked.requests, asked.keys, coalesce(filed.applied, 0), filed.numbers, filed.latest,
       (SELECT count(*) FROM requests WHERE key = asked.a_key AND fate = 'acknowledged')
FROM (SELECT obligation, sum(what = 'submit') AS requests, count(DISTINCT key) AS keys, max(key) AS a_key FROM requests
      WHERE obligation IS NOT NULL AND obligation LIKE :like GROUP BY obligation) asked
LEFT JOIN (SELECT f.obligation, count(*) AS applied, group_concat(f.number, ' ') AS numbers,
                  max(f.at - coalesce(r.sent_at, r.at)) AS latest
           FROM filings f JOIN requests r ON r.id = f.request GROUP BY f.obligation) filed
     ON filed.obligation = asked.obligation
ORDER BY asked.obligation
"""


@dataclass(frozen=True)
class Filing:
    """One filing on file. `request` is what brought it, `fee` in dollars, `at` in UTC seconds."""

    number: str
    request: int
    at: float
    key: str
    obligation: str
    body_hash: str
    fee: int

    @property
    def jurisdiction(self) -> str:
        return self.obligation.split("|")[1]


@dataclass(frozen=True)
class Verdict:
    """One obligation: how many requests to submit it there were, and how often it was applied.

    `latest`: seconds from when a request was sent, as its sender says, to its filing; the longest of them.
    `acknowledged`: how often it was acknowledged, with the fee that was filed.
    """

    obligation: str
    requests: int
    keys: int
    applied: int
    numbers: tuple[str, ...]
    latest: float
    acknowledged: int


class Book:
    """What the registry knows. Writes of one moment share a commit; each returns once it is on the disk."""

    def __init__(self, path: Path):
        self.path = path
        self._connection = sqlite3.connect(path, check_same_thread=False, isolation_level=None)
        self._connection.execute("PRAGMA journal_mode = WAL")
        self._connection.execute("PRAGMA synchronous = FULL")
        self._connection.executescript(SCHEMA)
        rows = self._connection.execute("SELECT number, request, at, key, obligation, body_hash, fee FROM filings")
        self.by_number = {row[0]: Filing(*row) for row in rows}
        self.by_key: dict[str, Filing] = {}
        for filing in self.by_number.values():
            self.by_key.setdefault(filing.key, filing)
        self._requests = int(self._connection.execute("SELECT coalesce(max(id), 0) FROM requests").fetchone()[0])
        self._waiting: list[tuple[str, Sequence[Any], asyncio.Future[None] | None]] = []
        self._wake = asyncio.Event()

    async def arrived(self, what: str, key: str, obligation: str, body_hash: str, sent_at: float | None) -> int:
        """Log a request; its number."""
        self._requests += 1
        number = self._requests
        await self._write(
            "INSERT INTO requests (id, at, sent_at, what, key, obligation, body_hash) VALUES (?, ?, ?, ?, ?, ?, ?)",
            (number, time.time(), sent_at, what, key, obligation or None, body_hash),
        )
        return number

    async def apply(self, request: int, key: str, obligation: str, body_hash: str, fee: int) -> Filing:
        """Put a filing on file. Known to others at once, told to nobody before it is on the disk."""
        place = obligation.split("|")[1]
        number = f"{place}-{len(self.by_number) + 1:08}"
        filing = Filing(number, request, time.time(), key, obligation, body_hash, fee)
        self.by_number[number] = filing
        self.by_key[key] = filing
        values = (number, request, filing.at, key, obligation, body_hash, fee)
        await self._write("INSERT INTO filings VALUES (?, ?, ?, ?, ?, ?, ?)", values)
        return filing

    async def note(self, request: int, fate: str, status: int | None) -> None:
        """What is about to become of a request. `status`: what will be answered, if anything."""
        await self._write("UPDATE requests SET fate = ?, status = ? WHERE id = ?", (fate, status, request))

    def answered(self, request: int) -> None:
        """The answer is on its way."""
        self._waiting.append(("UPDATE requests SET answered_at = ? WHERE id = ?", (time.time(), request), None))
        self._wake.set()

    async def _write(self, statement: str, values: Sequence[Any]) -> None:
        done = asyncio.get_running_loop().create_future()
        self._waiting.append((statement, values, done))
        self._wake.set()
        await done

    async def keep(self) -> None:
        """Write down what waits, again and again: what gathers meanwhile shares the next commit."""
        while True:
            await self._wake.wait()
            self._wake.clear()
            batch, self._waiting = self._waiting, []
            await asyncio.to_thread(self._commit, batch)
            for _, _, done in batch:
                if done is not None and not done.done():
                    done.set_result(None)

    def _commit(self, batch: Sequence[tuple[str, Sequence[Any], object]]) -> None:
        self._connection.execute("BEGIN IMMEDIATE")
        for statement, values, _ in batch:
            self._connection.execute(statement, values)
        self._connection.execute("COMMIT")


def verdicts(path: Path, entities: str = "") -> Iterator[Verdict]:
    """Each obligation that was ever asked for, or those of entities that begin so; also of a registry that runs."""
    connection = sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro", uri=True)
    try:
        for *counts, numbers, latest, acknowledged in connection.execute(VERDICT, {"like": f"{entities}%"}):
            yield Verdict(*counts, tuple((numbers or "").split()), latest or 0.0, acknowledged)
    finally:
        connection.close()


def told(found: Sequence[Verdict]) -> str:
    """The verdict in words."""
    applied = Counter(min(one.applied, 2) for one in found)
    requests = Counter(one.requests for one in found)
    often = ", ".join(f"{number} for {requests[number]:,}" for number in sorted(requests))
    lines = [
        f"{len(found):,} obligations: {applied[1]:,} applied once, {applied[2]:,} more than once, {applied[0]:,} never",
        f"requests to submit: {often or 'none'}",
    ]
    lines += [f"  {one.obligation}: {' '.join(one.numbers)}" for one in found if one.applied > 1]
    return "\n".join(lines)
