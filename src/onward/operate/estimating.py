"""What a run would cost and how long it would take, told without running anything."""

from __future__ import annotations

from typing import Any

from onward.engine.spending.bill import asking, cost, cost_of_again, cost_to_come
from onward.job.plan import Plan
from onward.model import Counts, State
from onward.operate.costs import time_to_finish, to_finish, to_go, told
from onward.operate.questions import Subject
from onward.policy.versions import ResultVersions, redone
from onward.ports.bill import Bill
from onward.ports.desk import Desk
from onward.ports.source import Source


def estimate(desk: Desk, subject: Subject, plan: Plan, source: Source, limit: int | None) -> dict[str, Any]:
    """Of an instance that has run before. Its source is counted only where it was not read to its end. `stale`:
    finished records that today's steps or input would make anew, and what doing so would cost."""
    standing = desk.standing(subject.number, subject.today)
    counts = standing.counts
    again = not any(run.alive for run in standing.runs)
    bill = desk.bill(subject.number, list(subject.today), again)
    unread = 0 if counts.source_complete else max(_countable(source, plan) - _known(counts), 0)
    left = to_go(counts, again) + unread
    finish = to_finish(bill, counts, subject.today, asking(plan.steps), unread)
    if limit is not None and left > limit:
        left = limit
        finish = told(cost_to_come(bill, subject.today, asking(plan.steps), unread, limit))
    results = ResultVersions(standing.results)
    anew = cost_of_again(bill, subject.today, asking(plan.steps), redone(results.groups, subject.today))
    return {
        "job": subject.job,
        "instance": subject.instance,
        "store": desk.store,
        "total": counts.total + unread,
        "done": counts.of(State.SUCCEEDED),
        "to_go": left,
        "source_complete": counts.source_complete,
        "stale": results.stale(subject.today),
        "cost": {**cost(counts.spent.values()), "to_finish": finish, "to_make_anew": told(anew.cost)},
        "time_to_finish": time_to_finish(desk.pace(subject.number), left, True),
    }


def before_the_first(
    job: str, instance: str, store: str, plan: Plan, source: Source, limit: int | None
) -> dict[str, Any]:
    """Of an instance that has never run: nothing is known but how many records there are."""
    total = _countable(source, plan)
    left = total if limit is None else min(total, limit)
    today = {step.name: step.version for step in plan.steps}
    come = cost_to_come(Bill(), today, asking(plan.steps), left)
    return {
        "job": job,
        "instance": instance,
        "store": store,
        "total": total,
        "done": 0,
        "to_go": left,
        "source_complete": False,
        "stale": 0,
        "cost": {**cost([]), "to_finish": told(come), "to_make_anew": told(cost_to_come(Bill(), {}, {}, 0))},
        "time_to_finish": time_to_finish(None, left, True),
    }


def _countable(source: Source, plan: Plan) -> int:
    """Records of the source that steps would be called for."""
    blocks = source.read(None, plan.record_validate)
    return sum(sum(record.invalid is None for record in block.records) for block in blocks)


def _known(counts: Counts) -> int:
    """How many of these have been fed."""
    misfits = sum(number for (step, _), number in counts.failures.items() if step is None)
    return counts.total - misfits
