"""Planted defects of what asking models costs: bills, forecasts, edits and samples."""

from __future__ import annotations

from mutants.defect import Defect

BILL, POLICY = "tests/contract/test_store_bill.py", "tests/unit/test_policy_bill.py"
ANSWERS = "tests/unit/test_llm_answers.py"
STATUS, SAMPLES = "tests/acceptance/test_asking_status.py", "tests/acceptance/test_asking_samples.py"

BILL_DEFECTS = (
    Defect(
        "failed-attempts-cost-nothing",
        "only the last attempt of a record is in what it cost",
        "store/sqlite/spending.sql",
        (("picodollars = picodollars + excluded.picodollars", "picodollars = excluded.picodollars"),),
        (BILL,),
    ),
    Defect(
        "refused-answers-cost-nothing",
        "records that ended quarantined are no samples",
        "store/sql/spending.py",
        (("elif fact.state is State.QUARANTINED and fact.failure is not None:", "elif False and fact.failure:"),),
        (BILL,),
    ),
    Defect(
        "unknown-price-is-zero",
        "a record whose cost is not known is a sample that cost nothing",
        "store/sqlite/spending.sql",
        (("u.unpriced + u.uncounted", "0"),),
        (BILL,),
    ),
    Defect(
        "unknown-price-is-told",
        "a forecast is made though the price of a model is not known",
        "policy/bill.py",
        (("if part.to_go > 0 and (not part.priced or", "if part.to_go > 0 and (False or"),),
        (POLICY,),
    ),
    Defect(
        "steps-go-apart",
        "steps are added up as if their costs had nothing to do with one another",
        "policy/bill.py",
        (("together = added(together, range_, sample.correlation)", "together = added(together, range_, 0.0)"),),
        (POLICY,),
    ),
    Defect(
        "older-samples-pass",
        "what an older version cost is taken for what the newest costs",
        "engine/spending/bill.py",
        (
            (
                "samples.get((step, version)), to_go",
                "samples.get((step, version), next(iter(samples.values()), None)), to_go",
            ),
        ),
        (POLICY,),
    ),
    Defect(
        "done-steps-to-come",
        "records that have a step's checkpoint are counted as having it to come",
        "store/sql/billing.py",
        (("under_way - (counts.steps.get(step, 0) - finished - aside)", "under_way"),),
        (BILL,),
    ),
    Defect(
        "pauses-are-slow",
        "time in which nothing was meant to happen counts for the pace",
        "policy/windows.py",
        (("if not at_work and not more:", "if False:"),),
        ("tests/unit/test_policy_windows.py",),
    ),
    Defect(
        "unread-is-known",
        "the cost to finish is told though the input is not read to its end",
        "operate/costs.py",
        (("if unread is None and not counts.source_complete", "if False and not counts.source_complete"),),
        ("tests/unit/test_operate_costs.py",),
    ),
    Defect(
        "sample-of-the-first",
        "a sample is of the first records and not spread over the source",
        "store/sql/deciding.py",
        (("(2 * one + 1) * total // (2 * number)", "one"),),
        (SAMPLES, "-k", "side_by_side"),
    ),
    Defect(
        "edit-not-named",
        "an edited prompt is said to be code",
        "job/versions.py",
        (("if name not in self._self_described)", ")"),),
        ("tests/unit/test_job_versions.py", "-k", "made_of"),
    ),
    Defect(
        "odd-counts-are-zero",
        "what is no count of tokens counts as none",
        "llm/answers.py",
        (("    except Misshapen:\n        return None\n", "    except Misshapen:\n        return Usage(0, 0, 0)\n"),),
        (ANSWERS, "-k", "unknown"),
    ),
    Defect(
        "costs-without-bounds",
        "an answer costs more than a store can hold",
        "llm/prices.py",
        (("or picodollars >= MOST_FOR_ONE:", "or False:"),),
        (ANSWERS, "-k", "half_of_it"),
    ),
    Defect(
        "empty-answers-pass",
        "an answer without text is a success",
        "llm/asking.py",
        (('answer.finish == "done" and answer.text:', 'answer.finish == "done":'),),
        (ANSWERS, "-k", "says_nothing"),
    ),
    Defect(
        "tools-are-answers",
        "an answer that ended for whatever reason is a success",
        "llm/chat.py",
        (('_FINISH.get(reason, "unknown")', '_FINISH.get(reason, "done")'),),
        (ANSWERS, "-k", "says_nothing"),
    ),
    Defect(
        "shapes-are-believed",
        "what a server says is taken for what it ought to be",
        "llm/answers.py",
        (("    if not isinstance(value, kind) or isinstance(value, bool):\n", "    if False:\n"),),
        (ANSWERS,),
    ),
    Defect(
        "older-api-is-believed-at-once",
        "a server is held for one of the older API though it has not answered by it",
        "llm/asking.py",
        (("            unknown = error\n", '            unknown = error\n            self.model.api = "chat"\n'),),
        (ANSWERS, "-k", "older_api"),
    ),
)
