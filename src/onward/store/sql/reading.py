"""Questions that both sides of the store ask."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import orjson

from onward.model import Counts, ResultGroup, Spent, State
from onward.policy.versions import ResultVersions
from onward.ports.work import OlderOutputs
from onward.store.sql.spending import COUNTED
from onward.store.sql.transaction import Transaction

_SPENT = {f"spent {name}": name for name in COUNTED} | {"lost picodollars": "picodollars"}


def read_counts(transaction: Transaction, instance: int) -> Counts:
    """One instance's counters, in one short read."""
    states: dict[State, int] = dict.fromkeys(State, 0)
    counts = Counts(states, 0, 0, False, {}, {})
    bindings = {"instance": instance}
    for (complete,) in transaction.rows("source_complete", bindings):
        counts.source_complete = bool(complete)
    for what, name, n in transaction.rows("counts", bindings):
        if what == "state":
            states[State(name)] += n
        elif what == "vanished":
            counts.vanished += n
            counts.vanished_open += n if name == State.UNCONFIRMED else 0
        elif what == "waits":
            counts.inputs_waiting = n
        elif what == "step":
            counts.steps[name] = n
        elif what == "skipped":
            counts.skipped += n
        elif what == "failure" and n:
            step, kind = orjson.loads(name)
            counts.failures[step, kind] = n
        elif what in _SPENT and n:
            spent, counted = counts.spent.setdefault(name, Spent(name)), _SPENT[what]
            setattr(spent, counted, getattr(spent, counted) + n)
    for hold, n in transaction.rows("count_held", bindings):
        counts.held[hold] = n
    counts.total = sum(states.values())
    return counts


def read_result_versions(transaction: Transaction, instance: int) -> ResultVersions:
    lineages = {
        str(number): (dict(orjson.loads(versions)), skipped)
        for number, versions, skipped in transaction.rows("lineages", {"instance": instance})
    }
    counted: dict[str, list[int]] = {}
    for what, name, n in transaction.rows("count_lineages", {"instance": instance}):
        counted.setdefault(name, [0, 0])[what == "lineage_changed"] += n
    return ResultVersions(
        [ResultGroup(*lineages[name], n, changed) for name, (n, changed) in counted.items() if n or changed]
    )


def read_older_outputs(transaction: Transaction, instance: int, today: Mapping[str, str]) -> OlderOutputs:
    """What unfinished records have from other versions than today's. Looked for only where a run had others, and only
    until as many checkpoints are found as the counters say there are."""
    if _had_others(transaction, instance, today):
        there = _unfinished_outputs(transaction, instance, today)
        if there > 0:
            return _older_outputs(transaction, instance, today, there)
    return OlderOutputs()


def _had_others(transaction: Transaction, instance: int, today: Mapping[str, str]) -> bool:
    for (versions,) in transaction.rows("versions_run", {"instance": instance}):
        if any(today.get(step, version) != version for step, version in orjson.loads(versions)):
            return True
    return False


def _older_outputs(transaction: Transaction, instance: int, today: Mapping[str, str], there: int) -> OlderOutputs:
    bindings = {"instance": instance, "today": orjson.dumps(dict(today)).decode(), "there": there}
    records, steps = 0, dict[str, dict[str, int]]()
    for step, version, number in transaction.rows("older_outputs", bindings):
        if step is None:
            records = number
        else:
            steps.setdefault(step, {})[version] = number
    return OlderOutputs(records, {step: steps[step] for step in today if step in steps})


def _unfinished_outputs(transaction: Transaction, instance: int, today: Mapping[str, str]) -> int:
    """How many checkpoints of today's steps unfinished records have: all of them, less those of finished ones."""
    there: Counter[str] = Counter(read_counts(transaction, instance).steps)
    for group in read_result_versions(transaction, instance).groups:
        made = [step for step in group.made_by if step != group.skipped]  # that one ended the record without an output
        there.subtract(dict.fromkeys(made, group.count + group.changed))
    return sum(there[step] for step in today)
