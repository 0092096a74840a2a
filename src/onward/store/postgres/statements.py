"""The SQL of PostgreSQL: `:name` becomes a numbered parameter of the type that its name has everywhere.

Two short forms keep the blocks readable. `listed(:rows) AS f(id bigint, _ text, step text)` are the arrays of a JSON
array as rows, with a column `place`; `_` is passed over. `ids(:rows)` and `texts(:rows)` are the elements of one as an
SQL array.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Mapping
from typing import NamedTuple

from onward.store.sql import statements

PACKAGE = "onward.store.postgres"

_TYPES = {
    "bigint": """after base changed closed complete corrected death done entries exit_code fed_position fresh generation
        hash_length highest lowest partly_fed source_complete instance last limit lineage lives lock_class most named
        number other pass_number picodollars record requests run sending sent seq solo_deaths stale start
        started stored there to_suspect tokens total uncounted vanished whole attempts deaths fence
        concurrency pid sharing""",
    "double precision": "before cap created lease longest now rate seconds since steady",
    "json": "alive deduped instances keys later lineages models only places rows shut states today",
}
TYPE_OF = {name: kind for kind, names in _TYPES.items() for name in names.split()}
_LISTED = re.compile(r"listed\((?P<rows>[^()]+)\) AS (?P<alias>\w+)\((?P<columns>[^()]*)\)")
_ARRAYS = re.compile(r"\b(ids|texts)\(([^()]+)\)")
_READ = re.compile(r"\b(?:FROM|JOIN) (\w+)")
_WRITTEN = re.compile(r"\b(?:INSERT INTO|UPDATE|DELETE FROM) (\w+)")
_PARAMETER = re.compile(r"\$(\d+)")
_NAME = re.compile(r"(?<![:\w]):([a-z_]+)\b")


class Statement(NamedTuple):
    """SQL with numbered parameters, and their names in that order; the tables that it reads and changes."""

    text: str
    names: tuple[str, ...]
    reads: frozenset[str]
    writes: frozenset[str]

    def about(self, numbers: Mapping[str, int]) -> str:
        """The text with these for its parameters, to be sent beside others."""
        return _PARAMETER.sub(lambda match: str(int(numbers[self.names[int(match[1]) - 1]])), self.text)


def compiled(sql: str) -> Statement:
    reads, writes = frozenset(_READ.findall(sql)), frozenset(_WRITTEN.findall(sql))
    sql = _LISTED.sub(_as_rows, sql)
    sql = _ARRAYS.sub(_as_array, sql)
    names: list[str] = []

    def numbered(match: re.Match[str]) -> str:
        name = match[1]
        if name not in names:
            names.append(name)
        return f"${names.index(name) + 1}::{TYPE_OF.get(name, 'text')}"

    text = _NAME.sub(numbered, sql)
    return Statement(text, tuple(names), reads, writes)


def _as_rows(match: re.Match[str]) -> str:
    columns = []
    for number, column in enumerate(match["columns"].split(",")):
        name, kind = column.strip().split(" ", 1)
        if name == "_":
            continue
        arrow = "->" if kind == "json" else "->>"
        taken = f"value {arrow} {number}"
        columns.append(f"{taken} AS {name}" if kind in ("text", "json") else f"({taken})::{kind} AS {name}")
    listed = ", ".join([*columns, "place - 1 AS place"])
    source = f"json_array_elements({match['rows']}) WITH ORDINALITY AS every(value, place)"
    return f"(SELECT {listed} FROM {source}) AS {match['alias']}"


def _as_array(match: re.Match[str]) -> str:
    cast = "::bigint" if match[1] == "ids" else ""
    return f"ARRAY(SELECT value{cast} FROM json_array_elements_text({match[2]}) AS every(value))"


@functools.cache
def blocks() -> dict[str, Statement]:
    """All blocks by name."""
    return {name: compiled(sql) for name, sql in statements.blocks(PACKAGE).items()}


def migrations() -> list[tuple[int, str]]:
    """The numbered schema scripts, in order."""
    return statements.migrations(PACKAGE)
