"""Planted defects: what each one breaks, the text that it changes, and the tests that have to notice."""

from __future__ import annotations

from mutants.asking_defects import ASKING_DEFECTS
from mutants.batch_defects import BATCH_DEFECTS
from mutants.bill_defects import BILL_DEFECTS
from mutants.budget_defects import BUDGET_DEFECTS
from mutants.cluster_defects import CLUSTER_DEFECTS
from mutants.defect import Defect
from mutants.effect_defects import EFFECT_DEFECTS
from mutants.moving_defects import MOVING_DEFECTS
from mutants.operate_defects import OPERATE_DEFECTS
from mutants.postgres_defects import POSTGRES_DEFECTS
from mutants.sharing_defects import SHARING_DEFECTS
from mutants.table_defects import TABLE_DEFECTS

CONTRACT = "tests/contract"
RUNS = (f"{CONTRACT}/test_store_runs.py", f"{CONTRACT}/test_store_leases.py")
HOLD = "records.fence = f.fence AND records.run = :run AND records.state = 'in_progress'"


SQL = "store/sqlite/work.sql"

DEFECTS = (
    Defect(
        "child-outlives-its-run",
        "a child that holds the interpreter's lock goes on computing after its run was killed",
        "engine/processes/child.py",
        (("    _die_with_parent()\n", ""),),
        ("tests/unit/test_engine_children.py", "-k", "dies_with_its_parent"),
    ),
    Defect(
        "refused-locks-are-anothers",
        "where SQLite alone gets no locks, another program is waited for",
        "store/sqlite/liveness.py",
        (("                self._try(_try_as_sqlite_locks, self._descriptor())", "                pass"),),
        (f"{CONTRACT}/test_sqlite_opening.py", "-k", "refused_to_sqlite"),
    ),
    Defect(
        "no-fence",
        "results of a stale holder are taken",
        SQL,
        ((HOLD, "records.state = 'in_progress'"),),
        (f"{CONTRACT}/test_store_facts.py", "-k", "fence or old_hold or another_run"),
    ),
    Defect(
        "checkpoint-of-one-not-held",
        "a stale holder's checkpoint is taken where nothing else of the record changes",
        SQL,
        (
            (
                "WHERE r.fence = :fence AND r.run = :run AND r.state = 'in_progress'\n\n-- name: insert_failures",
                "WHERE :fence > 0\n\n-- name: insert_failures",
            ),
        ),
        (f"{CONTRACT}/test_store_facts.py", "-k", "fence or another_run or ended"),
    ),
    Defect(
        "stays-though-it-moved",
        "a record whose row says something else is taken for one that stays as it was claimed",
        "engine/attempt.py",
        (("        if row == self._as_row(self.started, self.attempts) and done", "        if done"),),
        ("tests/unit/test_engine_attempt.py",),
    ),
    Defect(
        "taken-over-run-writes",
        "a run that lost its lease goes on feeding and claiming",
        "store/sql/work.py",
        (('if not change.one("run_is_open"):', "if False:"),),
        (f"{CONTRACT}/test_store_facts.py", *RUNS, "-k", "taken_over"),
    ),
    Defect(
        "acknowledged-before-durable",
        "those who wait hear of a fact while its commit is still under way",
        "engine/journal.py",
        (
            (
                "            batch.blocks = [block for block, _ in feeding]\n",
                "            batch.blocks = [block for block, _ in feeding]\n"
                "            early = bool(batch.facts) and not (batch.wishes or feeding)\n"
                "            if early:\n"
                "                self._reader.committed(batch.facts, Outcome())\n",
            ),
            (
                "            self._reader.committed(batch.facts, outcome)",
                "            early or self._reader.committed(batch.facts, outcome)",
            ),
        ),
        ("tests/unit/test_engine_durability.py",),
    ),
    Defect(
        "next-step-before-commit",
        "a step begins before the checkpoint of the step before it is durable",
        "engine/worker.py",
        (
            (
                "        self.journal.state(fact)\n",
                "        self.journal.state(fact)\n"
                "        if fact.started and fact.checkpoint is not None:\n"
                "            self.slots.put(self.held[fact.record, fact.fence], first=True)\n",
            ),
            (
                "        elif fact.started:\n            self._put(",
                "        elif fact.started:\n            fact.checkpoint is None and self._put(",
            ),
        ),
        ("tests/unit/test_engine_durability.py",),
    ),
    Defect(
        "lost-waiters",
        "after a failed commit, whoever waits is never told",
        "engine/journal.py",
        (
            (
                "            self._fail_waiting(error)\n            self._reader.broken",
                "            self._reader.broken",
            ),
        ),
        ("tests/unit/test_engine_durability.py", "--timeout=30"),
    ),
    Defect(
        "weak-commits",
        "synchronous=NORMAL: a power cut takes what was acknowledged",
        "store/sqlite/connection.py",
        (('("synchronous", 2)', '("synchronous", 1)'),),
        ("tests/torture/test_power_loss.py", "-k", "acknowledged"),
        (("ONWARD_TEST_IMAGES", "600"),),
    ),
    Defect(
        "no-rollback",
        "a failed commit leaves its transaction open",
        "store/sqlite/connection.py",
        (('            connection.execute("ROLLBACK")\n', "            pass\n"),),
        (f"{CONTRACT}/test_store_facts.py", f"{CONTRACT}/test_sqlite_migrations.py"),
    ),
    Defect(
        "live-run-reset",
        "the records of a run that lives are put back",
        "store/sqlite/transaction.py",
        (("return boot == clock.boot and lease_until", "return False and lease_until"),),
        (*RUNS, "-k", "sees_the_others or failed_records_stay"),
    ),
    Defect(
        "stale-lock-believed",
        "a dead process is believed alive until its lease ends",
        "store/sqlite/transaction.py",
        ((" and self.is_held(transaction, run)", ""),),
        (*RUNS, "-k", "dead_process or dead_run"),
    ),
    Defect(
        "lease-without-end",
        "a process that sleeps keeps its records for ever",
        "store/sqlite/transaction.py",
        ((" and lease_until > clock.steady()", ""),),
        (*RUNS, "-k", "lease"),
    ),
    Defect(
        "lease-after-reboot",
        "the lease of a run before the reboot is taken for a fresh one",
        "store/sqlite/transaction.py",
        (("return boot == clock.boot and lease_until", "return lease_until"),),
        (*RUNS, "-k", "reboot"),
    ),
    Defect(
        "renewal-after-takeover",
        "a lease that another run took over is revived",
        SQL,
        (
            (
                "UPDATE runs SET lease_until = :steady + :lease WHERE id = :run AND ended IS NULL",
                "UPDATE runs SET lease_until = :steady + :lease WHERE id = :run",
            ),
        ),
        (*RUNS, "-k", "renew"),
    ),
    Defect(
        "renewed-while-hung",
        "a run whose loop hangs keeps its lease for ever",
        "engine/journal.py",
        (("if self._clock.steady() > self.alive_until:", "if False:"),),
        ("tests/unit/test_engine_durability.py", "-k", "renewed"),
    ),
    Defect(
        "claim-without-state",
        "records that another run works on are claimed",
        SQL,
        (
            (
                "WHERE id IN (SELECT value FROM json_each(:rows)) AND state IN ('pending', 'unconfirmed')",
                "WHERE id IN (SELECT value FROM json_each(:rows))",
            ),
            ("AND state = 'pending' AND vanished = 0 AND hold IS :hold", "AND vanished = 0 AND hold IS :hold"),
        ),
        (f"{CONTRACT}/test_store_claims.py",),
    ),
    Defect(
        "attempts-not-counted-before",
        "an attempt is not counted until it ended: a record that kills its process is never found",
        SQL,
        (("started = :start, attempts = attempts + :start", "started = 0, attempts = attempts"),),
        (f"{CONTRACT}/test_store_claims.py", *RUNS, "-k", "attempts or death"),
    ),
    Defect(
        "deaths-not-counted",
        "a record may kill any number of processes",
        SQL,
        (("deaths = deaths + (started AND :death)", "deaths = deaths"),),
        (*RUNS, "-k", "death or suspect"),
    ),
    Defect(
        "death-charged-to-all",
        "records that were only claimed are charged with a death",
        SQL,
        (("started AND :death", ":death"),),
        (*RUNS, "-k", "claimed_but_had_not_started or suspect_that_had_not"),
    ),
    Defect(
        "told-to-stop-ignored",
        "a run that was told to stop and killed counts as a death",
        "store/sql/burying.py",
        (("death = int(told is None)", "death = 1"),),
        (*RUNS, "-k", "told_to_stop"),
    ),
    Defect(
        "stop-not-noted",
        "the first signal is not made durable",
        "engine/govern.py",
        (("lambda store: store.note_stop(self._run, reason)", "lambda store: None"),),
        ("tests/acceptance/test_cli_signals.py", "-k", "sigkill"),
    ),
    Defect(
        "innocents-convicted",
        "whoever was beside a death is charged with it as if it had been alone",
        "engine/suspects.py",
        (("if group.alone:", "if died.beside:"),),
        ("tests/unit/test_engine_suspects.py", "-k", "one_guilty"),
    ),
    Defect(
        "charged-before-begun",
        "calls that a child had not begun are charged with its death",
        "engine/processes/children.py",
        (("_) in waiting.items() if number in self._begun)", "_) in waiting.items())"),),
        ("tests/unit/test_engine_children.py", "-k", "had_begun"),
    ),
    Defect(
        "disk-trusted-again",
        "after a fault of the disk the same connection is used on",
        "store/sqlite/work.py",
        (("self._fault, self._disk_failed = told, True", "pass"),),
        (f"{CONTRACT}/test_sqlite_faults.py",),
    ),
    Defect(
        "cursor-ahead-of-records",
        "a block that was cut keeps the cursor of the whole: what was cut is never read",
        "store/sql/feeding.py",
        (('    if block.partial:\n        change.execute("partly_fed")\n    else:\n', "    if True:\n"),),
        (f"{CONTRACT}/test_store_feeding.py", "-k", "partial"),
    ),
    Defect(
        "cursor-out-of-turn",
        "a block is taken although the one before it was refused",
        "store/sql/feeding.py",
        (("    if outcome.out_of_turn:\n", "    if False:\n"),),
        (f"{CONTRACT}/test_store_feeding.py", "-k", "out_of_turn or refused"),
    ),
    Defect(
        "duplicates-merged",
        "two records with one key become one, silently",
        "store/sql/feeding.py",
        (
            ("        if first != position:\n", "        if first is None:\n"),
            ("if last_pass == pass_number and old_position != position:", "if False:"),
        ),
        (f"{CONTRACT}/test_store_feeding.py", "-k", "twice or double"),
    ),
    Defect(
        "chain-without-the-one-before",
        "an entry of the history does not depend on the one before it: what was removed or exchanged goes unnoticed",
        "policy/chain.py",
        (
            ("orjson.dumps((FORMAT, previous, *link))", "orjson.dumps((FORMAT, *link))"),
            ("if place.seq != tip.seq + 1:", "if False:"),
        ),
        ("tests/unit/test_policy_chain.py", "tests/unit/test_operate_history.py"),
    ),
    Defect(
        "chain-without-reasons",
        "the hash of an entry leaves out why it was decided: a reason can be edited",
        "policy/chain.py",
        (("(FORMAT, previous, *link)", "(FORMAT, previous, *link[:8])"),),
        ("tests/unit/test_operate_history.py", "-k", "edit"),
    ),
    Defect(
        "chain-cut-unseen",
        "a chain that was cut at its end is taken for whole",
        "policy/chain.py",
        (("            if tip != head:\n", "            if False:\n"),),
        ("tests/unit/test_operate_history.py", "-k", "no_run_has_seen"),
    ),
    Defect(
        "history-outside-the-commit",
        "the head that a run keeps is not moved with its entries",
        "store/sql/chain.py",
        (('    change.send("move_run_head"', '    _ = lambda: change.send("move_run_head"'),),
        (f"{CONTRACT}/test_store_history.py",),
    ),
    Defect(
        "acts-in-the-chain-of-a-run",
        "what a person decides is written under the newest run",
        "store/sql/chain.py",
        (("run = None if actor is not None else", "run = 1 if actor is not None else"),),
        ("tests/unit/test_operate_history.py", "-k", "decision"),
    ),
    Defect(
        "export-in-order-of-arrival",
        "exports follow the order in which records were stored",
        "store/sqlite/asking.sql",
        (("ORDER BY position, id", "ORDER BY id"),),
        ("tests/unit/test_operate_export.py",),
    ),
    Defect(
        "claims-in-any-order",
        "records are claimed in no order",
        SQL,
        (("    ORDER BY rank, position LIMIT :limit)", "    ORDER BY key LIMIT :limit)"),),
        (f"{CONTRACT}/test_store_claims.py", "-k", "source_order"),
    ),
    *EFFECT_DEFECTS,
    *BATCH_DEFECTS,
    *BILL_DEFECTS,
    *BUDGET_DEFECTS,
    *POSTGRES_DEFECTS,
    *MOVING_DEFECTS,
    *CLUSTER_DEFECTS,
    *OPERATE_DEFECTS,
    *TABLE_DEFECTS,
    *ASKING_DEFECTS,
    *SHARING_DEFECTS,
)
