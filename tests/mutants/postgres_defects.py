"""Planted defects of the PostgreSQL store: commits that are guessed, keys that merge, claims and clocks that clash."""

from __future__ import annotations

from mutants.defect import Defect

COMMITS = "tests/contract/test_postgres_commits.py"
CLOCKS = "tests/contract/test_postgres_clocks.py"
WAS_MADE = "return bool(row) and row[0] == self._batch"

POSTGRES_DEFECTS = (
    Defect(
        "lost-answer-taken-for-made",
        "a commit whose answer got lost is believed",
        "store/postgres/line.py",
        ((WAS_MADE, "return True"),),
        (COMMITS, "-k", "without_an_answer or cuts"),
    ),
    Defect(
        "lost-answer-taken-for-undone",
        "a commit whose answer got lost is made again",
        "store/postgres/line.py",
        ((WAS_MADE, "return False"),),
        (COMMITS, "-k", "without_an_answer or cuts"),
    ),
    Defect(
        "undone-change-is-a-fault",
        "a change that the database undid is not made again",
        "store/postgres/words.py",
        (("BEGUN_AGAIN = (errors.SerializationFailure, errors.DeadlockDetected)", "BEGUN_AGAIN = ()"),),
        (COMMITS, "-k", "as_a_whole"),
    ),
    Defect(
        "foreseen-for-ever",
        "what was asked as a change began is believed after the change has made it untrue",
        "store/postgres/transaction.py",
        (("if statement.writes & READ_BY[name]", "if False"),),
        (COMMITS, "-k", "foreseen"),
    ),
    Defect(
        "foreseen-of-another",
        "what was asked about one instance is told of another",
        "store/postgres/transaction.py",
        (("if foreseen is not None and all(", "if foreseen is not None or all("),),
        (COMMITS, "-k", "foreseen"),
    ),
    Defect(
        "sent-and-forgotten",
        "what waits for the commit is not made with it",
        "store/postgres/transaction.py",
        (
            (
                "        sent, self._pending = [*self._pending, *wanted], []",
                "        sent, self._pending = [*wanted], []",
            ),
        ),
        (COMMITS, "-k", "only_sent"),
    ),
    Defect(
        "chosen-by-two",
        "two runs choose the same records",
        "store/postgres/work.sql",
        (
            (
                "    ORDER BY rank, position LIMIT :limit\n    FOR UPDATE SKIP LOCKED) chosen",
                "    ORDER BY rank, position LIMIT :limit) chosen",
            ),
        ),
        (COMMITS, "-k", "in_threads"),
    ),
    Defect(
        "keys-that-merge",
        'the text "1" and the number 1 are one key',
        "store/postgres/migrations/0001_first.sql",
        (("octet_length(given) <= 500 THEN given", "octet_length(given) <= 500 THEN trim(both '\"' from given)"),),
        ("tests/contract/test_store_texts.py", "-k", "postgres and digit"),
    ),
    Defect(
        "stopped-process-holds-on",
        "a process that is stopped in mid-change holds up all others",
        "store/postgres/connection.py",
        (("idle_in_transaction_session_timeout TO '{IDLE_SECONDS}s'", "idle_in_transaction_session_timeout TO 0"),),
        (COMMITS, "-k", "stopped_process"),
    ),
    Defect(
        "waits-by-the-workers-clock",
        "a back-off is stored by the clock of a worker",
        "store/postgres/work.py",
        (("        if abs(offset) < SAME_TIME:\n", "        if True:\n"),),
        (CLOCKS, "-k", "back_offs or another_clock"),
    ),
    Defect(
        "acknowledged-too-early",
        "a server that acknowledges before it flushes will do",
        "store/postgres/connection.py",
        (('    if synchronous == "off":\n', "    if False:\n"),),
        ("tests/contract/test_postgres_opening.py", "-k", "too_early"),
    ),
    Defect(
        "old-run-on-a-new-schema",
        "a run at work does not notice that the store was brought up to date",
        "store/postgres/line.py",
        (("        if version != self._schema:\n", "        if False:\n"),),
        ("tests/contract/test_postgres_migrations.py", "-k", "at_work"),
    ),
    Defect(
        "migrations-clash",
        "two processes migrate at once",
        "store/postgres/connection.py",
        (("        connection.execute(ALONE, [address.lock_class, MIGRATING])\n", ""),),
        ("tests/contract/test_postgres_migrations.py", "-k", "at_once"),
    ),
)
