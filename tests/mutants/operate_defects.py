"""Planted defects of operating: drains that cut or accuse, forgotten ceilings, vacuums that take what is needed."""

from __future__ import annotations

from mutants.defect import Defect

OPERATING = "tests/contract/test_store_operating.py"
EDITED = "tests/contract/test_store_edited_steps.py"
VACUUM = "tests/contract/test_store_vacuum.py"
RUNS = "tests/acceptance/test_operating.py"
SLOTS = "tests/unit/test_engine_slots.py"
VACUUMING = "store/sql/vacuuming.py"

STANDING = "tests/unit/test_cli_standing.py"
NEWEST_NUMBER = 'key=lambda run: int(run["run"])'

OPERATE_DEFECTS = (
    Defect(
        "newest-number-for-the-last",
        "status tells of the run that began last, and not of the one that ended last",
        "cli/standing.py",
        (('key=lambda run: (run["ended"] or run.get("noted") or run["started"], int(run["run"]))', NEWEST_NUMBER),),
        (STANDING,),
    ),
    Defect(
        "resumed-in-vain",
        "where something else is in the way as well, a pause is said to be all",
        "cli/standing.py",
        (('if found["source_complete"] and waiting == left else []', "if waiting else []"),),
        (STANDING,),
    ),
    Defect(
        "drain-cuts-calls",
        "a drain gives calls no more time than a signal does",
        "engine/govern.py",
        (("self._cut_at = math.inf if in_peace else", "self._cut_at ="),),
        (RUNS, "-k", "sqlite and (finishes_its_calls or being_sent)"),
    ),
    Defect(
        "drain-without-end",
        "a signal does not end the patience of a drain",
        "engine/govern.py",
        (("        if not in_peace:  # a signal", "        if False:  # a signal"),),
        (RUNS, "-k", "sqlite and patience_of_a_drain"),
    ),
    Defect(
        "drain-outlives-its-runs",
        "runs that begin after a drain are drained, too",
        "store/sqlite/operating.sql",
        (
            (
                "SELECT r.drain, i.concurrency",
                "SELECT (SELECT max(drain) FROM runs WHERE instance = r.instance), i.concurrency",
            ),
        ),
        (OPERATING, "-k", "begin_later"),
    ),
    Defect(
        "drained-run-suspects",
        "a run that was drained and is killed has died",
        "store/sqlite/operating.sql",
        (("SET drain = :reason, told = CASE WHEN :lives = 1", "SET drain = :reason, told = CASE WHEN :lives = 2"),),
        (OPERATING, "-k", "nobody_a_suspect"),
    ),
    Defect(
        "drain-hides-a-death",
        "a run that had died before it was drained counts as told to stop",
        "store/sqlite/operating.sql",
        (("SET drain = :reason, told = CASE WHEN :lives = 1", "SET drain = :reason, told = CASE WHEN :lives < 2"),),
        (OPERATING, "-k", "before_the_word"),
    ),
    Defect(
        "lower-ceiling-is-ignored",
        "with fewer calls allowed, others begin while too many go on",
        "engine/slots.py",
        (("            if len(self._slots) > self.limit:\n", "            if False:\n"),),
        (SLOTS, "-k", "lower_limit"),
    ),
    Defect(
        "turn-without-end",
        "all that is ready begins before an answer is read",
        "engine/slots.py",
        (("        return now >= self._turn_ends\n", "        return False\n"),),
        (SLOTS, "-k", "comes_meanwhile"),
    ),
    Defect(
        "old-word-counts",
        "what was said of concurrency before a run was started counts before its own",
        "engine/concurrency.py",
        (("self.now = own or orders.concurrency or declared", "self.now = orders.concurrency or own or declared"),),
        ("tests/unit/test_engine_concurrency.py",),
    ),
    Defect(
        "vacuum-takes-the-newest-result",
        "while a newer result is made, a vacuum removes the one that is exported",
        "store/sqlite/operating.sql",
        (("  AND c.generation IS NOT r.succeeded_generation\n", ""),),
        (VACUUM, "-k", "newest_result_stays"),
    ),
    Defect(
        "vacuum-takes-an-input-that-holds",
        "a vacuum removes the input of a result that stays",
        "store/sqlite/operating.sql",
        (
            (
                "WHERE s.until <= s.newest AND (s.result IS NULL OR s.result < s.generation OR s.result >= s.until)",
                "WHERE s.until <= s.newest",
            ),
        ),
        (VACUUM, "-k", "input_of_a_kept_result"),
    ),
    Defect(
        "vacuum-forgets-what-was-sent",
        "a vacuum removes outputs that something was sent for",
        "store/sql/vacuuming.py",
        (
            (
                "change.rows(block, page, before=self._before) if row[:2] not in bound",
                "change.rows(block, page, before=self._before)",
            ),
        ),
        (VACUUM, "-k", "was_sent_for"),
    ),
    Defect(
        "vacuum-forgets-who-sent-it",
        "a vacuum removes outputs that something was sent for, once a newer generation has the entry",
        "store/sqlite/operating.sql",
        (("WHERE c.record = e.record AND c.at >= e.sent_at", "WHERE c.record = e.record AND c.at < 0"),),
        (VACUUM, "-k", "what_sent_stays"),
    ),
    Defect(
        "removed-is-unfinished",
        "what a vacuum has removed is told as a generation that never finished",
        "store/sql/history.py",
        (("None if number < current and number not in checkpoints else False", "False"),),
        (VACUUM, "-k", "only_a_cost"),
    ),
    Defect(
        "vacuum-is-too-early",
        "a vacuum removes what was replaced a moment ago",
        "store/sqlite/operating.sql",
        (("r.since < :before AND r.state NOT IN", "r.state NOT IN"),),
        (VACUUM, "-k", "younger"),
    ),
    Defect(
        "vacuum-under-a-runs-hands",
        "a vacuum removes outputs of a record that a run works on",
        "store/sqlite/operating.sql",
        (("r.state NOT IN ('in_progress', 'unconfirmed')", "r.state NOT IN ('unconfirmed')"),),
        (VACUUM, "-k", "in_progress"),
    ),
    Defect(
        "vacuum-looks-once",
        "a vacuum removes what it saw before somebody changed it",
        VACUUMING,
        (
            ("            removed = look(change, True)\n", "            removed = self._again(look, change)\n"),
            (
                "    def _standings(",
                "    def _again(self, look: Callable[[Change, bool], Vacuumed], change: Change) -> Vacuumed:\n"
                "        self._before += 1e12\n        return look(change, True)\n\n    def _standings(",
            ),
        ),
        (VACUUM, "-k", "between_the_look"),
    ),
    Defect(
        "vacuum-is-not-told",
        "nobody can see in the history that a vacuum was made",
        VACUUMING,
        (("if removed.is_any and not self._told:", "if False:"),),
        (VACUUM, "-k", "newer_ones_have_replaced_go"),
    ),
    Defect(
        "export-with-holes",
        "an export leaves out what was removed while it was read",
        "store/sql/asking.py",
        (("if not texts and any(step != skipped for step in made_by):", "if False:"),),
        (VACUUM, "-k", "removed_meanwhile"),
    ),
    Defect(
        "index-over-what-changes",
        "each act of an effect makes new entries in all indexes",
        "store/postgres/migrations/0002_operating.sql",
        (("ON effects (intended_at);", "ON effects (intended_at) WHERE state IN ('intended', 'unknown');"),),
        ("tests/contract/test_postgres_plans.py", "-k", "changes_often"),
    ),
    Defect(
        "counters-of-all-runs",
        "counters of runs that have ended are summed again and again",
        "store/postgres/work.py",
        (('        transaction.own_execute("fold_counts", {"instance": begun.instance})\n', ""),),
        ("tests/contract/test_postgres_counters.py",),
    ),
    Defect(
        "file-shrinks-under-a-run",
        "the file is written anew while a run is at work",
        "store/sqlite/desk.py",
        (("        if alive:\n", "        if False:\n"),),
        ("tests/contract/test_sqlite_shrinking.py",),
    ),
    Defect(
        "drained-lease-runs-out",
        "a run whose last calls take long loses its lease once it was told to stop",
        "engine/govern.py",
        (
            (
                "            await self._wait(0.05)\n            self._note_responsive()\n",
                "            await self._wait(0.05)\n",
            ),
        ),
        ("tests/unit/test_engine_faults.py", "-k", "keeps_its_lease"),
    ),
    Defect(
        "removed-steps-unheard",
        "where a step was removed or inserted and no version changed, nobody looks for what unfinished records have",
        "store/sql/reading.py",
        (
            (
                "orjson.loads(versions) != now",
                "any(today.get(step, version) != version for step, version in orjson.loads(versions))",
            ),
        ),
        (EDITED, "-k", "new_step"),
    ),
    Defect(
        "quarantined-go-on",
        "records in quarantine are said to go on from older outputs",
        "store/sql/reading.py",
        (("number if older and not rests else 0", "number if older else 0"),),
        (EDITED,),
    ),
    Defect(
        "sent-and-unsaid",
        "a rerun does not say that it comes upon what was sent",
        "store/sql/deciding.py",
        (("decided.sent[effect] = decided.sent.get(effect, 0) + 1", "pass"),),
        ("tests/acceptance/test_edited_effects.py", "-k", "code_put_back"),
    ),
)
