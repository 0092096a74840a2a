"""Questions that both sides of the store ask."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping

import orjson

from onward.model import Counts, ResultGroup, Spent, State
from onward.policy.versions import ResultVersions, passed_over
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
    """What unfinished records have of other steps than today's, or from other versions. Looked for only where a run had
    others, and only until as many checkpoints are found as the counters say there are."""
    if _had_others(transaction, instance, today):
        there = _unfinished_outputs(transaction, instance)
        if there > 0:
            rows = transaction.rows("unfinished_outputs", {"instance": instance, "there": there})
            return _older_outputs([(dict(orjson.loads(made)), bool(rests), n) for made, rests, n in rows], today)
    return OlderOutputs()


def _had_others(transaction: Transaction, instance: int, today: Mapping[str, str]) -> bool:
    now = [list(one) for one in today.items()]
    return any(
        orjson.loads(versions) != now for (versions,) in transaction.rows("versions_run", {"instance": instance})
    )


def _older_outputs(groups: Iterable[tuple[dict[str, str], bool, int]], today: Mapping[str, str]) -> OlderOutputs:
    """`groups`: versions by step, whether the records that have just these rest, and how many records."""
    records, going_on, steps = 0, 0, dict[str, Counter[str]]()
    removed, passed = Counter[str](), Counter[str]()
    for made_by, rests, number in groups:
        older = [step for step, version in made_by.items() if today.get(step, version) != version]
        for step in older:
            steps.setdefault(step, Counter())[made_by[step]] += number
        records += number if older else 0
        going_on += number if older and not rests else 0
        removed.update({step: number for step in made_by if step not in today})
        passed.update(dict.fromkeys(passed_over(made_by, today), number))
    in_order = {step: steps[step] for step in today if step in steps}
    return OlderOutputs(records, going_on, in_order, removed, {step: passed[step] for step in today if passed[step]})


def _unfinished_outputs(transaction: Transaction, instance: int) -> int:
    """How many checkpoints unfinished records have, at most: all of them, less those of finished ones. Of a record that
    was finished without a step that it has an output of, that output stays in."""
    there: Counter[str] = Counter(read_counts(transaction, instance).steps)
    for group in read_result_versions(transaction, instance).groups:
        made = [step for step in group.made_by if step != group.skipped]  # that one ended the record without an output
        there.subtract(dict.fromkeys(made, group.count + group.changed))
    return (+there).total()
