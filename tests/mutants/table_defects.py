"""Planted defects of queries as sources and of exports into tables: rows that get lost, values that turn into others,
records that nobody names."""

from __future__ import annotations

from mutants.defect import Defect

SOURCE = "tests/acceptance/test_sql_source.py"
VALUES = "tests/unit/test_sources_sql.py"
TABLES = "tests/unit/test_sinks_table.py"

TABLE_DEFECTS = (
    Defect(
        "rows-that-wait-for-others",
        "rows that had come go with the connection that brought them",
        "sources/sql_rows.py",
        (("self.wanted = max(1, min(MOST_ROWS, self.wanted * 2, by_size, by_time))", "self.wanted = MOST_ROWS"),),
        (SOURCE, "-k", "slow_query"),
    ),
    Defect(
        "lists-that-are-texts",
        "an array of what people have made a type of comes as text",
        "sources/sql_types.py",
        (("if kind.element else None", "if psycopg.adapters.types.get(number) else None"),),
        (SOURCE, "-k", "all_kinds"),
    ),
    Defect(
        "one-of-two-members",
        "of two members of one name in JSON the second is taken",
        "sources/sql_values.py",
        (("    if len(made) < len(pairs):\n", "    if False:\n"),),
        (VALUES, "-k", "cannot_hold"),
    ),
    Defect(
        "the-next-one-is-blamed",
        "another record is named than the one that does not fit",
        "sinks/table_misfits.py",
        (("low, high = (low, middle) if failure(low, middle)", "low, high = (low, middle) if failure(middle, high)"),),
        (TABLES, "-k", "record_and_column or breaks_a_rule"),
    ),
    Defect(
        "old-keys-are-new",
        "keys of any length that are there already are taken for new ones",
        "sinks/table_postgres.py",
        (("WHERE there.{key} = {staged.held[KEY]})", "WHERE there.{key} <> {staged.held[KEY]})"),),
        (TABLES, "-k", "any_length"),
    ),
    Defect(
        "written-into-the-temporary",
        "rows go into a table that goes with the connection",
        "sinks/table_postgres.py",
        (("        if is_temporary:\n", "        if False:\n"),),
        (TABLES, "-k", "goes_with_its_connection"),
    ),
)
