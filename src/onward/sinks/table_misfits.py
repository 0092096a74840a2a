"""Which row a table in PostgreSQL does not take, and which of its columns: the server names neither."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import psycopg
from psycopg import errors

from onward.sinks.table_target import KEY, quoted

OFFSETS = 2_048
"""More than a page of a table can have rows."""
SMALLEST_PAGE = 1_024
LONGEST_INDEXED = 2_600
LONGEST_SHOWN = 60
_CLASSES = ("22", "23", "54", "P0")
"""Of SQLSTATE: what is wrong with a value, breaks a constraint, exceeds a limit, or a trigger refuses."""
_PROBE = quoted("pg_temp", "onward_probe")


def is_of_a_row(error: psycopg.Error) -> bool:
    return (error.sqlstate or "")[:2] in _CLASSES


@dataclass(frozen=True)
class Staged:
    """Rows that wait in the table `name` to be brought into another, `table`; both as SQL has them. `held`: for each of
    that one's columns, by name, the column in which its values wait; `casts`: what makes them fit, `::json` or nothing.
    """

    name: str
    table: str
    held: Mapping[str, str]
    casts: Mapping[str, str]

    def value(self, column: str) -> str:
        return self.held[column] + self.casts[column]

    def one(self, column: str, where: str) -> str:
        """What asks for one value as text, with no more of it than people are shown, or a key whole."""
        text = f"{self.held[column]}::text"
        return (
            f"SELECT {text if column == KEY else f'left({text}, {LONGEST_SHOWN + 1})'} FROM {self.name} WHERE {where}"
        )


def misfit(
    connection: psycopg.Connection[Any], staged: Staged, bring: Callable[[str], object]
) -> tuple[str, str] | None:
    """The key of a row that does not fit, and why, in words; None where no row is to blame alone. `bring` brings in the
    rows of which a condition is true; whatever it does is undone."""

    def failure(low: int, high: int) -> psycopg.Error | None:
        return _failure(connection, lambda: bring(_between(low, high)))

    pages = _asked(connection, f"SELECT pg_relation_size('{staged.name}') / {SMALLEST_PAGE} + 1")
    low, high = 0, int(pages) * OFFSETS
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if failure(low, middle) else (middle, high)
    error, where = failure(low, high), _between(low, high)
    if error is None:
        return None
    key = _asked(connection, staged.one(KEY, where))
    return key, _why(connection, staged, error, key, where)


def _between(low: int, high: int) -> str:
    """A condition: rows from the one place to before the other, in the order in which they were staged."""
    first, last = (f"'({place // OFFSETS},{place % OFFSETS})'::tid" for place in (low, high))
    return f"ctid >= {first} AND ctid < {last}"


def _why(connection: psycopg.Connection[Any], staged: Staged, error: psycopg.Error, key: str, where: str) -> str:
    said = error.diag.message_primary or str(error)
    size = len(key.encode())
    if isinstance(error, errors.ProgramLimitExceeded) and size > LONGEST_INDEXED:
        return (
            f"its key has {size:,} bytes, and an index of PostgreSQL holds at most some 2,700 of a key ({said}). An "
            "export that makes the table itself makes one that takes it"
        )
    column = error.diag.column_name or _column(connection, staged, where)
    if column is None or column not in staged.held:
        return said
    value = _asked(connection, staged.one(column, where))
    return f'its "{column}" is {"null" if value is None else _shown(value)}: {said}'


def _column(connection: psycopg.Connection[Any], staged: Staged, where: str) -> str | None:
    """The column whose type does not take its value."""
    names = ", ".join(quoted(name) for name in staged.held)
    made = f"CREATE TEMPORARY TABLE {_PROBE} ON COMMIT DROP AS SELECT {names} FROM {staged.table} WITH NO DATA"
    connection.execute(made.encode())
    for name in staged.held:
        one = f"INSERT INTO {_PROBE} ({quoted(name)}) SELECT {staged.value(name)} FROM {staged.name} WHERE {where}"
        if _failure(connection, partial(connection.execute, one.encode())):
            return name
    return None


def _asked(connection: psycopg.Connection[Any], question: str) -> Any:
    row = connection.execute(question.encode()).fetchone()
    return row[0] if row else None


def _failure(connection: psycopg.Connection[Any], act: Callable[[], object]) -> psycopg.Error | None:
    """What the act ends with, where that is a row's fault; what it did is undone. Raises psycopg.Error."""
    connection.execute("SAVEPOINT onward_trial")
    failure = None
    try:
        act()
    except psycopg.Error as error:
        if not is_of_a_row(error):
            raise
        failure = error
    connection.execute("ROLLBACK TO SAVEPOINT onward_trial; RELEASE SAVEPOINT onward_trial")
    return failure


def _shown(text: str) -> str:
    return text if len(text) <= LONGEST_SHOWN else f"{text[:LONGEST_SHOWN]}…"
