"""Planted defects of models in batch mode: what is sent, found again, brought in, and paid."""

from __future__ import annotations

from mutants.defect import Defect

STORE, CARRYING = "tests/contract/test_store_batches.py", "tests/unit/test_engine_carrying.py"
LINES, RUNS = "tests/unit/test_llm_batching.py", "tests/acceptance/test_batch_mode.py"

BATCH_DEFECTS = (
    Defect(
        "batch-not-looked-for",
        "a chunk that may have been submitted is sent again without a question",
        "engine/batches/carrying.py",
        (
            (
                "            if found is not None:\n"
                "                await self._note(found, found=True)\n"
                "                return found\n",
                "",
            ),
        ),
        (CARRYING,),
    ),
    Defect(
        "batch-does-not-settle",
        "a batch is believed absent before it can be listed",
        "engine/batches/carrying.py",
        (("is_settled = time.monotonic() >= until", "is_settled = True"),),
        (RUNS, "-k", "listed_late"),
    ),
    Defect(
        "batch-sent-without-a-lease",
        "a run that has lost its lease submits",
        "engine/batches/carrying.py",
        (("            await self._leave_to_send()\n", ""),),
        (CARRYING, "-k", "lease"),
    ),
    Defect(
        "batch-answers-count-twice",
        "an answer that is brought in again is paid again",
        "store/sqlite/batching.sql",
        (
            (
                "WHERE b.chunk = :chunk AND b.answer IS NULL\n\n-- name: answer_batched",
                "WHERE b.chunk = :chunk\n\n-- name: answer_batched",
            ),
        ),
        (STORE, "-k", "twice"),
    ),
    Defect(
        "batch-wait-without-end",
        "an answer that comes before its record is noted as waiting is missed",
        "store/sql/batching.py",
        (('    change.execute("let_go_records", records, to_suspect=DEATHS_TO_SUSPECT)  # what', "    # what"),),
        (STORE, "-k", "before_the_wait"),
    ),
    Defect(
        "batch-at-full-price",
        "answers of batches are counted at the price of others",
        "llm/batching.py",
        ((", half=True)", ")"),),
        (LINES, "-k", "half"),
    ),
    Defect(
        "batch-not-set-aside",
        "what a chunk may cost is not set aside",
        "store/sqlite/spending.sql",
        (
            (
                "FROM chunks WHERE instance = :instance AND model = :model AND ended IS NULL), 0),\n",
                "FROM chunks WHERE 0), 0),\n",
            ),
        ),
        (STORE, "-k", "a_cap_bounds"),
    ),
    Defect(
        "batch-holds-what-has-changed",
        "records wait for answers to a prompt of yesterday",
        "store/sql/work.py",
        (("            batching.release(change, start)\n", ""),),
        (STORE, "-k", "otherwise_now"),
    ),
    Defect(
        "batch-strays-for-ever",
        "a step that asks something else each time goes on asking",
        "store/sql/batching.py",
        ((" + has_strayed", ""),),
        (STORE, "-k", "come_back"),
    ),
    Defect(
        "batch-fault-stays",
        "a request that failed once fails for ever",
        "store/sql/batching.py",
        (("        if fault:\n", "        if False:\n"),),
        (STORE, "-k", "told_once"),
    ),
    Defect(
        "batch-told-lines-are-lost",
        "a line that was not carried out counts as charged",
        "engine/batches/carrying.py",
        (("told = {one.fingerprint for one in self._told}", "told = set()"),),
        (CARRYING, "-k", "in_words or stops_all"),
    ),
    Defect(
        "batch-half-full",
        "files go out half full while more is being brought in",
        "engine/batches/making.py",
        (("is_quiet and not more_to_come", "is_quiet"),),
        (RUNS, "-k", "full_files"),
    ),
    Defect(
        "batch-lines-torn",
        "a text with a line separator is torn into two lines",
        "llm/batching.py",
        (("        for letter in NO_LINE_ENDS:\n", "        for letter in '':\n"),),
        (LINES, "-k", "one_line"),
    ),
    Defect(
        "batch-limit-forgets",
        "a run with a limit does not stay for what waits for a batch",
        "engine/worker.py",
        (
            (
                "        if fact.deferral is not None:\n            self.share.leave(fact)\n",
                "        if fact.deferral is not None:\n",
            ),
        ),
        (RUNS, "-k", "a_limit"),
    ),
    Defect(
        "batch-put-off-elsewhere",
        "a run ends beside records that another one has just put off",
        "engine/govern.py",
        (('if counts.held.get("batch") and await', 'if counts.held.get("nothing") and await'),),
        (RUNS, "-k", "as_it_looks"),
    ),
    Defect(
        "batch-sent-elsewhere",
        "a run ends beside a batch that another one has just sent",
        "engine/batches/making.py",
        (
            (
                "        if not self._stays:\n            await self._take_over()",
                "        if False:\n            await self._take_over()",
            ),
        ),
        (RUNS, "-k", "as_it_looks"),
    ),
    Defect(
        "batch-odd-line-ends-all",
        "a line of results that is none keeps the others from being brought in",
        "llm/batching.py",
        (("with contextlib.suppress(Misshapen):  #", "with contextlib.nullcontext():  #"),),
        (LINES, "-k", "costs_the_others"),
    ),
    Defect(
        "batch-odd-answer-ends-all",
        "an answer of a wrong shape is nobody's fault",
        "llm/batching.py",
        (
            (
                "            return self._told(name, told)\n        except Misshapen as wrong:",
                "            return self._told(name, told)\n        except KeyError as wrong:",
            ),
        ),
        (LINES, "-k", "wrong_shape"),
    ),
    Defect(
        "batch-page-is-read",
        "a page in place of a file of results costs its answers",
        "llm/batching.py",
        (('.startswith("text/html")', '.startswith("nothing")'),),
        (LINES, "-k", "a_page"),
    ),
)
