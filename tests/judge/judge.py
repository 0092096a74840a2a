"""The judge: a pure function of what was asked, what steps did and what came out. It never looks into the store."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import Any

from judge.steplog import Entry, key_text

STATES = ("pending", "in_progress", "succeeded", "failed", "unconfirmed", "quarantined")

Line = str | bytes
Acknowledged = tuple[Any, str, float]
"""Key, step and time: at that time the checkpoint was seen to be durable."""


@dataclass(frozen=True, slots=True)
class StaleRun:
    """A run that lost its lease at `since` and woke later. `before` and `after` are the store's content (or a hash of
    it) read when only this run was active: just before it woke and just after it ended."""

    pid: int
    since: float
    before: object
    after: object


@dataclass(frozen=True, slots=True)
class Limits:
    """What may happen at most. Times are those of `steplog.now`.

    `in_flight`: starts that one death may cost: the calls in progress and those that waited for their commit.
    `deaths`: how many processes were killed or lost their lease.
    `finished`: when the last run ended, None if it did not within `seconds` after `last_fault`.
    `attempts`: planned starts of a (key, step) that fails on purpose; 1 for all others.
    `steps`: their order, to be checked where the log has ends.
    `may_stop`: exit codes 3, 4, 130 and 143 are what the scenario asked for. `limited`: the last run had `--limit`.
    """

    in_flight: int
    seconds: float
    finished: float | None
    last_fault: float = 0.0
    deaths: int = 0
    attempts: Mapping[tuple[Any, str], int] = field(default_factory=dict)
    steps: tuple[str, ...] = ()
    stale: tuple[StaleRun, ...] = ()
    may_stop: bool = False
    limited: bool = False


def judge(
    source_keys: Sequence[Any],
    step_log: Sequence[Entry],
    final_export_lines: Sequence[Line],
    undisturbed_export_lines: Sequence[Line],
    status: Mapping[str, Any],
    exit_code: int,
    ack_log: Iterable[Acknowledged],
    limits: Limits,
) -> list[str]:
    """Every promise that was broken, in words; empty when all is well.

    `source_keys` are the keys as JSON values in source order, the lines those of a JSONL export, `status` is the
    object of `status --json` after the last run, whose exit code is `exit_code`.
    """
    source = [key_text(key) for key in source_keys]
    if len(set(source)) != len(source):
        raise ValueError("the source given to the judge has duplicate keys")
    starts = [entry for entry in step_log if entry.what == "start"]
    exported, unreadable = _parsed(final_export_lines)
    return [
        *unreadable,
        *_lost(source, exported, status),
        *_order(source, exported),
        *_without_a_start(exported, starts),
        *_after_acknowledgement(starts, ack_log),
        *_rework(starts, limits),
        *_at_once(step_log, limits),
        *_out_of_turn(step_log, limits),
        *_differs(final_export_lines, undisturbed_export_lines),
        *_time(starts, limits),
        *_stale(starts, limits),
        *_counts(source, exported, status),
        *_steps(exported, status),
        *_exit_code(status, exit_code, starts, limits),
        *_runs(status, exit_code),
    ]


def judge_campaign(busy: float, planted: Mapping[str, bool], least: float = 0.9) -> list[str]:
    """What makes a whole campaign worthless: faults that struck an idle run, planted defects that nobody caught."""
    found = [f"the planted defect {name!r} survived" for name, caught in planted.items() if not caught]
    if busy < least:
        found.append(f"only {busy:.0%} of the faults struck while the run was busy, {least:.0%} are needed")
    return found


def _parsed(lines: Sequence[Line]) -> tuple[list[tuple[str, dict[str, Any]]], list[str]]:
    rows, faults = [], []
    for number, line in enumerate(lines, 1):
        try:
            row = json.loads(line)
            rows.append((key_text(row["key"]), row))
        except (ValueError, KeyError, TypeError):
            faults.append(f"export line {number} cannot be read: {line[:80]!r}")
    return rows, faults


def _lost(source: list[str], exported: list[tuple[str, Any]], status: Mapping[str, Any]) -> Iterator[str]:
    times = Counter(key for key, _ in exported)
    missing = [key for key in source if key not in times]
    counts = status.get("counts", {})
    unfinished = sum(counts.get(state, 0) for state in STATES if state != "succeeded")
    if len(missing) > unfinished:
        yield f"lost: {len(missing)} records are not in the export, {unfinished} are unfinished: {_some(missing)}"
    if repeated := [key for key, number in times.items() if number > 1]:
        yield f"exported more than once: {_some(repeated)}"
    if strangers := sorted(set(times) - set(source)):
        yield f"exported but not in the source: {_some(strangers)}"


def _order(source: list[str], exported: list[tuple[str, Any]]) -> Iterator[str]:
    place = {key: index for index, key in enumerate(source)}
    known = [key for key, _ in exported if key in place]
    for before, after in pairwise(known):
        if place[before] > place[after]:
            yield f"the export is not in source order: {before} stands before {after}"
            return


def _without_a_start(exported: list[tuple[str, Any]], starts: list[Entry]) -> Iterator[str]:
    started = {(entry.key, entry.step) for entry in starts}
    made = [(key, step) for key, row in exported for step in row.get("outputs", {})]
    if invented := [pair for pair in made if pair not in started]:
        yield f"outputs of steps that never started: {_some(invented)}"


def _after_acknowledgement(starts: list[Entry], ack_log: Iterable[Acknowledged]) -> Iterator[str]:
    durable: dict[tuple[str, str], float] = {}
    for key, step, moment in ack_log:
        pair = (key_text(key), step)
        durable[pair] = min(moment, durable.get(pair, moment))
    again = [
        (entry.key, entry.step) for entry in starts if entry.time > durable.get((entry.key, entry.step), entry.time)
    ]
    if again:
        yield f"started after the checkpoint was acknowledged, {len(again)} times: {_some(again)}"


def _rework(starts: list[Entry], limits: Limits) -> Iterator[str]:
    planned = {(key_text(key), step): number for (key, step), number in limits.attempts.items()}
    times = Counter((entry.key, entry.step) for entry in starts)
    extra = sum(max(0, number - planned.get(pair, 1)) for pair, number in times.items())
    allowed = limits.in_flight * limits.deaths
    if extra > allowed:
        yield f"rework: {extra} extra starts, {limits.deaths} deaths allow {allowed}"
    in_one = Counter((entry.key, entry.step, entry.pid) for entry in starts)
    twice = [(key, step) for (key, step, _), number in in_one.items() if number > planned.get((key, step), 1)]
    if twice:
        yield f"started too often in one process: {_some(twice)}"


def _at_once(step_log: Sequence[Entry], limits: Limits) -> Iterator[str]:
    """One record's step in two living processes; a stale run may still be in the call that it began in time."""
    stale_since = {run.pid: run.since for run in limits.stale}
    for pair, calls in _calls(step_log).items():
        for (one, ended), (other, _) in pairwise(sorted(calls, key=lambda call: call[0].time)):
            was_stale = stale_since.get(one.pid, float("inf")) <= other.time
            if ended is not None and other.time < ended and one.pid != other.pid and not was_stale:
                yield f"in two processes at once: {pair}"


def _calls(step_log: Sequence[Entry]) -> dict[tuple[str, str], list[tuple[Entry, float | None]]]:
    """Every start with the time of its end; None where it failed or died."""
    calls: dict[tuple[str, str], list[tuple[Entry, float | None]]] = defaultdict(list)
    begun: dict[tuple[str, str, int], int] = {}
    for entry in step_log:
        of_pair = calls[entry.key, entry.step]
        if entry.what == "start":
            begun[entry.key, entry.step, entry.pid] = len(of_pair)
            of_pair.append((entry, None))
        elif (index := begun.pop((entry.key, entry.step, entry.pid), None)) is not None:
            of_pair[index] = (of_pair[index][0], entry.time)
    return calls


def _out_of_turn(step_log: Sequence[Entry], limits: Limits) -> Iterator[str]:
    before = dict(zip(limits.steps[1:], limits.steps, strict=False))
    ended: set[tuple[str, str]] = set()
    early = []
    for entry in step_log:
        if entry.what == "end":
            ended.add((entry.key, entry.step))
        elif entry.step in before and (entry.key, before[entry.step]) not in ended:
            early.append((entry.key, entry.step))
    if early:
        yield f"started before the step before it had ended: {_some(early)}"


def _differs(final: Sequence[Line], undisturbed: Sequence[Line]) -> Iterator[str]:
    ours, theirs = list(map(_bytes, final)), list(map(_bytes, undisturbed))
    if ours == theirs:
        return
    for number, (one, other) in enumerate(zip(ours, theirs, strict=False), 1):
        if one != other:
            yield f"the export differs from the undisturbed one at line {number}: {one[:80]!r}, not {other[:80]!r}"
            return
    yield f"the export differs from the undisturbed one: {len(ours)} lines, not {len(theirs)}"


def _time(starts: list[Entry], limits: Limits) -> Iterator[str]:
    if limits.finished is None:
        yield f"not finished {limits.seconds:g} s after the last fault"
        return
    took = limits.finished - limits.last_fault
    if took > limits.seconds:
        yield f"finished only {took:.1f} s after the last fault, {limits.seconds:g} s are allowed"
    if late := [(entry.key, entry.step) for entry in starts if entry.time > limits.finished]:
        yield f"started after the last run had ended: {_some(late)}"


def _stale(starts: list[Entry], limits: Limits) -> Iterator[str]:
    for run in limits.stale:
        if run.before != run.after:
            yield f"the stale run {run.pid} changed the store"
        late = [(entry.key, entry.step) for entry in starts if entry.pid == run.pid and entry.time > run.since]
        if len(late) > limits.in_flight:
            yield f"the stale run {run.pid} went on: {len(late)} starts after it lost its lease: {_some(late)}"


def _counts(source: list[str], exported: list[tuple[str, Any]], status: Mapping[str, Any]) -> Iterator[str]:
    counts, total = status.get("counts"), status.get("total")
    if not isinstance(counts, Mapping) or not isinstance(total, int) or "source_complete" not in status:
        yield "the status lacks counts, total or source_complete"
        return
    if wrong := [state for state in STATES if type(counts.get(state)) is not int or counts[state] < 0]:
        yield f"the status does not count {', '.join(wrong)}"
        return
    if (added := sum(counts[state] for state in STATES)) != total:
        yield f"the counts add up to {added}, the total is {total}"
    if status["source_complete"] and total != len(source):
        yield f"the status says {total} records and a complete source, which has {len(source)}"
    if total > len(source):
        yield f"the status says {total} records, the source has {len(source)}"
    succeeded = sum(row.get("state") == "succeeded" for _, row in exported)
    if succeeded != counts["succeeded"]:
        yield f"the status says {counts['succeeded']} succeeded, the export has {succeeded}"


def _steps(exported: list[tuple[str, Any]], status: Mapping[str, Any]) -> Iterator[str]:
    outputs = Counter(step for _, row in exported for step in row.get("outputs", {}))
    all_succeeded = status.get("counts", {}).get("succeeded") == status.get("total")
    for step in status.get("steps", []):
        name, succeeded = step.get("name"), step.get("succeeded")
        if type(succeeded) is not int or succeeded < outputs[name] or (all_succeeded and succeeded != outputs[name]):
            yield f"the status says {succeeded} for step {name}, the export has {outputs[name]} outputs of it"


def _exit_code(status: Mapping[str, Any], code: int, starts: list[Entry], limits: Limits) -> Iterator[str]:
    counts = Counter({state: status.get("counts", {}).get(state, 0) for state in STATES})
    bad = counts["failed"] + counts["unconfirmed"] + counts["quarantined"]
    left = counts["pending"] + counts["in_progress"]
    complete = bool(status.get("source_complete"))
    if counts["in_progress"]:
        yield f"{counts['in_progress']} records are in progress, and no run is alive"
    if code in (0, 1):
        if (left or not complete) and not limits.limited:
            unread = "" if complete else " and the source is not read to its end"
            yield f"exit code {code} although {left} records are left{unread}"
        if code == 0 and bad:
            yield f"exit code 0 although {bad} records did not succeed"
        if code == 1 and not bad:
            yield "exit code 1 although no record is failed, unconfirmed or quarantined"
    elif code == 2:
        if starts:
            yield f"exit code 2 says that nothing was started; the log has {len(starts)} starts"
    elif code not in (3, 4, 130, 143):
        yield f"the last run did not end properly: exit code {code}"
    elif not limits.may_stop:
        yield f"the last run stopped early: exit code {code}"
    elif complete and not left and not bad:
        yield f"exit code {code} although every record succeeded"


def _runs(status: Mapping[str, Any], code: int) -> Iterator[str]:
    runs = status.get("runs", [])
    if not runs:
        return
    newest = max(runs, key=lambda run: run["started"])
    if newest.get("ended") is None:
        yield "the status says that the newest run has not ended"
    if code not in [run.get("exit_code") for run in runs if run.get("ended") is not None]:
        yield f"the status knows no run that ended with {code}"


def _bytes(line: Line) -> bytes:
    return line if isinstance(line, bytes) else line.encode()


def _some(items: Sequence[object]) -> str:
    shown = ", ".join(map(str, items[:5]))
    return shown if len(items) <= 5 else f"{shown} and {len(items) - 5} more"
