"""The chains of the history computed afresh, by code of its own."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Iterable
from typing import Any

import apsw

HASHED = """CASE WHEN h.as_instance IS NULL THEN h.instance ELSE h.as_instance END AS of_instance,
    CASE WHEN h.as_instance IS NULL THEN h.run ELSE h.as_run END AS of_run, h.seq,
    CASE WHEN h.as_instance IS NULL THEN h.record ELSE h.as_record END AS of_record,
    (SELECT r.key FROM records r WHERE r.id = h.record) AS key, h.at, h.actor, h.event, h.step, h.reason, h.detail"""
"""What an entry's hash is over: what was written in another store has the numbers that it had there."""


def broken(connection: apsw.Connection) -> list[str]:
    """What does not fit, in one reading: entries that belong to no chain or do not follow the one before, chains that
    end otherwise than their run or instance says."""
    with connection:
        return broken_among(connection.execute)


def broken_among(ask: Callable[[str], Iterable[tuple[Any, ...]]]) -> list[str]:
    """The same of whatever answers to SQL."""
    heads = {(instance, run): end for instance, run, *end in ask(_HEADS)}
    tips: dict[Any, list[Any]] = {chain: [0, ""] for chain in heads}
    found = []
    for said, instance, run, *entry in ask(f"SELECT h.hash, h.instance, h.run, {HASHED} FROM history h ORDER BY h.id"):
        seq = entry[2]
        last, before = tips.get((instance, run), [-1, ""])
        text = json.dumps([1, before, *entry], separators=(",", ":"), ensure_ascii=False)
        if seq != last + 1 or said != hashlib.blake2b(text.encode(), digest_size=32).hexdigest():
            found.append(f"entry {seq} of the history of run {run} does not follow {last}")
        tips[instance, run] = [seq, said]
    return found + [
        f"the history of run {chain[1]} ends with {tips[chain]}, not {end}"
        for chain, end in heads.items()
        if tips[chain] != end
    ]


_HEADS = "SELECT instance, id, entries, head FROM runs UNION ALL SELECT id, NULL, entries, head FROM instances"
