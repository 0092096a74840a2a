"""Planted defects of moves between stores, of queries as sources, and of tables as targets."""

from __future__ import annotations

from mutants.defect import Defect

MOVING = "tests/contract/test_store_moving.py"
SQLITE = "sqlite-to-sqlite"

MOVING_DEFECTS = (
    Defect(
        "moved-and-worked-on",
        "a run works on in the store that its job has left",
        "store/sql/moves.py",
        (("    if closed == Closed.NO:\n", "    if True:\n"),),
        (MOVING, "-k", f"old_store_any_more and {SQLITE}"),
    ),
    Defect(
        "opened-before-it-is-closed-there",
        "what has arrived can be worked on while the old store still counts",
        "store/sql/arriving.py",
        (("closed=int(Closed.ARRIVING)", "closed=int(Closed.NO)"),),
        (MOVING, "-k", f"wherever_it_is_interrupted and {SQLITE}"),
    ),
    Defect(
        "closed-though-worked-on",
        "what was done in the old store while it was being copied is lost",
        "store/sql/moving.py",
        (("        if _stamp(transaction, instances, names) != stamp:\n", "        if False:\n"),),
        (MOVING, "-k", f"while_it_was_being_copied and {SQLITE}"),
    ),
    Defect(
        "open-in-two-stores",
        "a job that was moved to one store is opened in another, where a copy had died half way",
        "operate/moving.py",
        ((" and moved.place == target.store", ""),),
        (MOVING, "-k", f"gone_elsewhere and {SQLITE}"),
    ),
    Defect(
        "sleeper-wakes-after-the-move",
        "a run that slept through a move goes on in the old store",
        "store/sql/moving.py",
        (('            bury(change, store.life, None, "[]")\n', ""),),
        (MOVING, "-k", f"slept_through and {SQLITE}"),
    ),
    Defect(
        "moved-beside-a-run",
        "a job is moved while a run of it is alive",
        "store/sql/moving.py",
        (("        if concerned and alive:\n", "        if False:\n"),),
        (MOVING, "-k", f"alive and {SQLITE}"),
    ),
    Defect(
        "ledgers-overwrite",
        "an obligation of the target is overwritten by what arrives",
        "store/sql/arriving.py",
        (
            (
                "        if record == NOBODY and same:\n            return True",
                "        if same:\n            return True",
            ),
        ),
        (MOVING, "-k", f"met_in_both and {SQLITE}"),
    ),
    Defect(
        "others-obligations-stay-behind",
        "what other jobs have sent is not known in the new store",
        "store/sql/arriving.py",
        (
            (
                "    if not is_ours and row[_STATE] in OPEN:\n",
                "    if not is_ours:\n        return False\n    if False:\n",
            ),
        ),
        (MOVING, "-k", f"others_have_sent and {SQLITE}"),
    ),
    Defect(
        "open-obligation-in-two-stores",
        "an obligation whose outcome is open is torn in two",
        "store/sql/moving.py",
        (
            ("            if (sends and not ours) or", "            if"),
            ("(waits is not None", "(waits is not None and False"),
        ),
        (MOVING, "-k", f"torn_apart and {SQLITE}"),
    ),
    Defect(
        "sends-for-what-has-gone",
        "another job sends for an open obligation that was moved",
        "store/sql/ledger.py",
        (("(closed > 0 or (hold is None", "((hold is None"),),
        (MOVING, "-k", f"nobody_sends and {SQLITE}"),
    ),
    Defect(
        "numbers-of-records-clash",
        "records keep the numbers of their old store",
        "store/sql/parcels.py",
        (("        return number + self.shift\n", "        return number\n"),),
        (MOVING, "-k", f"numbers_of_others and {SQLITE}"),
    ),
    Defect(
        "hashed-by-new-numbers",
        "the history is verified by the numbers of the new store",
        "store/sql/history.py",
        (("            if as_instance is not None:", "            if False:"),),
        (MOVING, "-k", f"numbers_of_others and {SQLITE}"),
    ),
    Defect(
        "lineages-counted-by-old-numbers",
        "counters of results by version keep the numbers of their old store",
        "store/sql/arriving.py",
        (("str(numbers.lineages[int(name)]) if what in LINEAGE_COUNTS else name", "name"),),
        (MOVING, "-k", f"numbers_of_others and {SQLITE}"),
    ),
    Defect(
        "ages-by-another-clock",
        "what was sent looks younger or older where the new store's clock differs",
        "store/sql/arriving.py",
        (("    later = later if abs(later) >= SAME_TIME else 0.0\n", "    later = 0.0\n"),),
        (MOVING, "-k", f"may_be_another and {SQLITE}"),
    ),
    Defect(
        "password-in-the-place",
        "a changed password of a source is another place, and is kept in the store",
        "policy/addresses.py",
        (("parts.without_secrets().text(),", "url,"),),
        ("tests/unit/test_sources_sql.py", "-k", "password"),
    ),
    Defect(
        "digits-lost-in-json",
        "numbers in JSON columns lose digits silently",
        "sources/sql_values.py",
        (("parse_float=_exact, ", ""),),
        ("tests/unit/test_sources_sql.py", "-k", "json_cannot_hold"),
    ),
    Defect(
        "half-a-table",
        "an export into a table that breaks off leaves rows",
        "sinks/table_sqlite.py",
        (('connection.execute("ROLLBACK")', 'connection.execute("COMMIT")'),),
        ("tests/unit/test_sinks_table.py", "-k", "sqlite and undoes_all"),
    ),
    Defect(
        "names-that-are-sql",
        "the name of a table or column is taken for SQL",
        "sinks/table_target.py",
        ((""".replace('"', '""')""", ""),),
        ("tests/unit/test_sinks_table.py", "-k", "sqlite and nothing_else"),
    ),
)
