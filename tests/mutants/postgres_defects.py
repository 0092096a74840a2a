"""Planted defects of the PostgreSQL store: commits that are guessed, keys that merge, claims and clocks that clash."""

from __future__ import annotations

from mutants.defect import Defect

COMMITS = "tests/contract/test_postgres_commits.py"
CLOCKS = "tests/contract/test_postgres_clocks.py"
LOST = "tests/contract/test_postgres_lost.py"
SETTINGS = "tests/contract/test_postgres_settings.py"
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
        "encoding-of-others",
        "texts go to the database in the encoding that the environment or the role is set to",
        "store/postgres/connection.py",
        (("**{**_KEPT, **given, **_OURS}", "**{**_KEPT, **given}"),),
        (SETTINGS, "-k", "sent_as_they_are"),
    ),
    Defect(
        "stopped-between-messages-holds-on",
        "who was stopped in the middle of an exchange with the server keeps its locks",
        "store/postgres/line.py",
        (("            self._end_stopped()\n", ""),),
        (COMMITS, "-k", "middle_of_an_exchange"),
    ),
    Defect(
        "stopped-with-a-row-holds-on",
        "who was stopped in the middle of an exchange keeps the rows that it has changed",
        "store/postgres/own.sql",
        (("        OR l.locktype = 'relation'", "        OR false AND l.locktype = 'relation'"),),
        (COMMITS, "-k", "middle_of_an_exchange"),
    ),
    Defect(
        "stopped-between-exchanges-holds-on",
        "who was stopped between two exchanges, which the server's own bound does not end, keeps its locks",
        "store/postgres/own.sql",
        (("  AND a.wait_event IN ('ClientRead'", "  AND a.state = 'active' AND a.wait_event IN ('ClientRead'"),),
        (COMMITS, "-k", "between_two_exchanges"),
    ),
    Defect(
        "stopped-as-it-migrates-holds-on",
        "who was stopped in the middle of a migration keeps everybody out",
        "store/postgres/connection.py",
        (
            (
                "        f\"SET LOCAL idle_in_transaction_session_timeout TO '{IDLE_SECONDS}s';\"\n"
                '        f"SET LOCAL synchronous_commit TO on',
                '        f"SET LOCAL synchronous_commit TO on',
            ),
        ),
        ("tests/contract/test_postgres_migrations.py", "-k", "is_stopped"),
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
    Defect(
        "loss-unnoticed",
        "a run goes on, on a server that has lost what it had acknowledged",
        "store/postgres/line.py",
        (
            (" AND batch >= {self.made:d};", ";"),
            (
                "        if (batch is None or batch < self.made) and not self._may_be_tidied(batch):\n",
                "        if False:\n",
            ),
        ),
        (LOST, "-k", "says_so"),
    ),
    Defect(
        "lost-intents-forgotten",
        "effects whose intents the server has lost are sent once more",
        "store/postgres/work.py",
        (
            (
                "                number, unknown = self._line.change(make,",
                "                number, unknown = 1, []\n                (make,",
            ),
        ),
        (LOST, "-k", "intents_that_were_lost"),
    ),
    Defect(
        "absent-believed-after-a-loss",
        "what was sent anew counts as not applied after the server has lost that it was",
        "store/postgres/own.sql",
        (("AND effects.state = 'absent'\nRETURNING", "AND effects.state = 'never'\nRETURNING"),),
        (LOST, "-k", "doubted"),
    ),
    Defect(
        "namesake-ended",
        "a run that the server does not know any more ends the one that has its number now",
        "store/postgres/work.py",
        (("        if run in self._forgotten:", "        if run is None:"),),
        (LOST, "-k", "has_its_number"),
    ),
    Defect(
        "replaced-server-untold",
        "nobody is told that the server has another history than at the last run",
        "store/postgres/lost.py",
        (
            (
                "    return any(n is not None and name in known",
                "    return False and any(n is not None and name in known",
            ),
        ),
        (LOST, "-k", "replaced_between_runs"),
    ),
    Defect(
        "all-buried-after-an-outage",
        "the first run to come back after an outage takes the others for dead",
        "store/postgres/work.py",
        ((" and not self._line.is_just_back(self.lease) else []", " else []"),),
        (LOST, "-k", "after_an_outage"),
    ),
    Defect(
        "standby-written-to",
        "a standby that is not promoted yet ends a run instead of being waited for",
        "store/postgres/connection.py",
        (("    if is_standby and to_write:\n", "    if False:\n"),),
        ("tests/torture/test_postgres_promoted.py", "-k", "probe"),
    ),
    Defect(
        "key-known-by-the-workers-clock",
        "how long the far side knows a key is told by a worker's clock",
        "store/postgres/work.py",
        (("    entry.first_at -= offset\n", ""),),
        (CLOCKS, "-k", "entries_are_told"),
    ),
    Defect(
        "starting-server-is-final",
        "a server that is starting up or shutting down is not waited for",
        "store/postgres/words.py",
        (("    errors.AdminShutdown,\n    errors.CrashShutdown,\n", ""),),
        ("tests/torture/test_postgres_days.py", "-k", "terminated"),
    ),
    Defect(
        "zombie-writes",
        "a run whose records were taken over goes on changing them",
        "store/postgres/work.sql",
        ((" AND fence = :fence AND run = :run AND coalesce(state, '') = 'in_progress'", ""),),
        ("tests/contract/test_store_facts.py", "-k", "postgres and stale_fence"),
    ),
    Defect(
        "lock-waits-blur-clocks",
        "while a worker waits for locks, the time that this takes counts as a difference of the clocks",
        "store/postgres/line.py",
        (
            (
                "        self.offset = min(max(self.offset, moment - self._clock.now()), moment - began)\n",
                "        self.offset = moment - began\n",
            ),
        ),
        (CLOCKS, "-k", "waits_for_locks"),
    ),
    Defect(
        "server-waited-for-again",
        "a server that was waited for in vain is waited for again at each act that closes the run",
        "store/postgres/line.py",
        (("        self._is_given_up = True\n", ""),),
        (COMMITS, "-k", "in_vain"),
    ),
    Defect(
        "busy-run-loses-its-lease",
        "the lease is not renewed as long as there is something to commit",
        "engine/journal.py",
        (("            self._renew_when_due()  # there may be no end of what waits\n", ""),),
        ("tests/unit/test_engine_journal.py", "-k", "no_end_of_what_waits"),
    ),
    Defect(
        "lost-too-often",
        "a change is given up after twenty lost connections, though there is time",
        "store/postgres/line.py",
        (("tries.once_more(most=None)", "tries.once_more()"),),
        (COMMITS, "-k", "as_often"),
    ),
    Defect(
        "lost-over-tls-is-a-refusal",
        "a connection over TLS that is lost counts as one whose settings do not fit, and the run ends",
        "policy/refusals.py",
        (
            ("not any(sign in said for sign in _CONNECTING) or ", ""),
            ('    "unexpected eof",\n    "closed unexpectedly",\n', ""),
        ),
        (COMMITS, "-k", "over_tls"),
    ),
)
