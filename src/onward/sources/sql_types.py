"""What PostgreSQL's types become, also those that people have made: domains are what they are made of, and arrays are
lists of whatever their elements are."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

import psycopg

from onward.sources import sql_values

Convert = Callable[[str], Any] | None

CATALOG = """
WITH RECURSIVE wanted AS (
  SELECT t.oid, t.typname, t.typtype, t.typelem, t.typbasetype, t.typdelim FROM pg_catalog.pg_type t
  WHERE t.oid = ANY ($1::oid[])
UNION
  SELECT t.oid, t.typname, t.typtype, t.typelem, t.typbasetype, t.typdelim
  FROM wanted w JOIN pg_catalog.pg_type t ON t.oid = CASE w.typtype WHEN 'd' THEN w.typbasetype ELSE w.typelem END
)
SELECT w.oid::int8, w.typname::text, w.typbasetype::int8,
  CASE WHEN e.typarray = w.oid THEN w.typelem::int8 ELSE 0 END, coalesce(e.typdelim::text, ',')
FROM wanted w LEFT JOIN pg_catalog.pg_type e ON e.oid = w.typelem AND w.typelem <> 0
"""
"""For some types and all that they are made of: number, name, what a domain is made of, what an array has, and what
stands between its elements; 0 where there is none."""

_CONVERT: dict[str, Callable[[str], Any]] = {
    "bool": sql_values.boolean,
    "int2": int,
    "int4": int,
    "int8": int,
    "oid": int,
    "float4": float,
    "float8": float,
    "numeric": sql_values.numeric,
    "json": sql_values.json_value,
    "jsonb": sql_values.json_value,
    "bytea": sql_values.octets,
    "date": sql_values.date,
    "timestamp": sql_values.timestamp,
    "timestamptz": sql_values.timestamp,
    "time": sql_values.time,
    "timetz": sql_values.time,
}
UNKNOWN_ELEMENTS = ("anyarray", "anycompatiblearray")
"""Arrays that do not say of what, as the statistics have them."""


@dataclass(frozen=True, slots=True)
class Kind:
    """A type as the catalog has it."""

    name: str
    base: int
    element: int
    delimiter: str


def kinds(rows: Iterable[tuple[Any, ...]]) -> dict[int, Kind]:
    """Of the catalog's answer, by their numbers."""
    return {
        int(number): Kind(name, int(base), int(element), delimiter) for number, name, base, element, delimiter in rows
    }


def converter(number: int, known: Mapping[int, Kind]) -> Convert:
    """What makes a value of that type plain; None where its text stays as it is."""
    builtin = psycopg.adapters.types.get(number)
    kind = known.get(number)
    if kind is None or (builtin is not None and builtin.oid == number):
        return None if builtin is None else _CONVERT.get(builtin.name)
    if kind.base:
        return converter(kind.base, known)
    return sql_values.array_of(converter(kind.element, known), kind.delimiter) if kind.element else None
