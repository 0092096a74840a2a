"""What a forecast of cost and time is made from, read from counters."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import orjson

from onward.model import Counts, ResultGroup, State
from onward.policy.versions import before
from onward.ports.bill import Bill, CostSums, Pace
from onward.store.sql.reading import read_counts, read_result_versions
from onward.store.sql.transaction import Transaction

TO_GO = (State.PENDING, State.IN_PROGRESS, State.UNCONFIRMED)


def read_bill(transaction: Transaction, instance: int, steps: Sequence[str], again: bool) -> Bill:
    """`steps`: today's, in order; `again`: what failed is counted, too."""
    counts = read_counts(transaction, instance)
    groups = read_result_versions(transaction, instance).groups
    bindings = {"instance": instance}
    failed: dict[str, int] = {}
    if again and (number := counts.of(State.FAILED)):
        having: dict[str, int] = dict(transaction.rows("failed_with", bindings))
        failed = {step: number - having.get(step, 0) for step in steps}
    return Bill(
        [CostSums(*row) for row in transaction.rows("sums", bindings)],
        _to_go(counts, groups, steps),
        failed,
        _reached(groups, steps),
    )


def _to_go(counts: Counts, groups: Sequence[ResultGroup], steps: Sequence[str]) -> dict[str, int]:
    """By step, those under way that have no checkpoint of it. Who failed at a step has those of the steps before."""
    under_way = sum(counts.of(state) for state in TO_GO)
    found = {}
    for step in steps:
        finished = sum(
            group.count + group.changed for group in groups if step in group.made_by and step != group.skipped
        )
        aside = sum(n for (at, _), n in counts.failures.items() if at is not None and step in before(at, steps))
        found[step] = max(under_way - (counts.steps.get(step, 0) - finished - aside), 0)
    return found


def _reached(groups: Sequence[ResultGroup], steps: Sequence[str]) -> dict[str, float]:
    total = sum(group.count + group.changed for group in groups)
    if not total:
        return {}
    ended: dict[str, int] = dict.fromkeys(steps, 0)
    for group in groups:
        if group.skipped in ended:
            for step in steps[steps.index(group.skipped) + 1 :]:
                ended[step] += group.count + group.changed
    return {step: 1 - number / total for step, number in ended.items()}


def read_version_parts(transaction: Transaction, instance: int) -> dict[tuple[str, str], dict[str, str]]:
    rows = transaction.rows("version_parts", {"instance": instance})
    return {(step, version): orjson.loads(parts) for step, version, parts in rows}


def read_pace(transaction: Transaction, instance: int) -> Pace | None:
    """As the run has it that was the last to tell."""
    found = transaction.rows("last_pace", {"instance": instance})
    return Pace(*orjson.loads(found[0][0])) if found else None


def as_text(pace: Pace) -> str:
    numbers: Mapping[str, float] = {name: getattr(pace, name) for name in pace.__slots__}
    return orjson.dumps(list(numbers.values())).decode()
