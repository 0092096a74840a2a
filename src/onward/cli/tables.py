"""Answers to questions as tables for people; every text of foreign origin is one line without control characters."""

from __future__ import annotations

import io
import os
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from rich.console import Console, RenderableType
from rich.text import Text

from onward.cli import edits, money, standing, streams
from onward.cli.frame import STYLES, bar
from onward.cli.grid import table
from onward.cli.target import Target
from onward.cli.words import counted, duration, first_line, key_text, printable

ROOMY = 200
RUNS_SHOWN = 5
LISTED = 20
Answer = Mapping[str, Any]


def show(parts: Iterable[RenderableType]) -> int:
    """Write to standard output: as wide as the terminal, or wide enough for a file that nothing breaks."""
    terminal = sys.stdout.isatty()
    text = io.StringIO()
    given = os.environ.get("COLUMNS", "")
    width = None if terminal else int(given) if given.isdigit() and int(given) else ROOMY
    console = Console(file=text, force_terminal=terminal, width=width, highlight=False, markup=False, emoji=False)
    for part in parts:
        console.print(part, soft_wrap=isinstance(part, Text) and part.overflow == "ignore")
    streams.answer("\n".join(line.rstrip() for line in text.getvalue().strip("\n").splitlines()))
    return 0


def status(found: Answer, target: Target) -> Iterator[RenderableType]:
    counts, total = found["counts"], found["total"]
    done = sum(number for state, number in counts.items() if state not in ("pending", "in_progress"))
    name = f"{found['job']} · {found['instance']}" if found["instance"] else found["job"]
    yield Text.assemble((printable(name), "bold"), "  ", standing.headline(found))
    yield Text(f"store {found['store']}", style="dim")
    moved = found["moved"]
    if moved is not None:
        yield Text(standing.moved(moved), style="yellow")
    stopped = standing.stopped(found)
    if stopped:
        yield Text(stopped, style="yellow")
    line = bar(counts, total, 40)
    line.append(f" {done:,} / {total:,}" + (f"  {100 * done // total}%" if total and found["source_complete"] else ""))
    yield line.append("" if found["source_complete"] else " (the input is not read to its end)", style="dim")
    yield from _counts_line(found)
    yield from map(Text, money.standing(found))
    if found["concurrency"] is not None:
        yield Text(f"concurrency {found['concurrency']} for each run, as was said with onward concurrency")
    yield from _steps(found)
    yield from map(Text, edits.of_unfinished(found["unfinished_removed"], found["unfinished_passed_over"]))
    yield from table(
        "waiting for",
        "records:",
        "until (UTC)",
        "since (UTC)",
        rows=[
            (one["reason"], f"{one['count']:,}", moment(one["until"]), moment(one["since"])) for one in found["waiting"]
        ],
    )
    yield from table(
        "failed at",
        "kind",
        "records:",
        rows=[(one["step"] or "the record itself", one["kind"], f"{one['count']:,}") for one in found["failures"]],
    )
    yield from table(
        "in progress",
        "step",
        "since (UTC)",
        "run",
        rows=[
            (key_text(one["key"]), one["step"] or "", moment(one["since"]), one["run"]) for one in found["in_flight"]
        ],
    )
    more = counts["in_progress"] - len(found["in_flight"])
    if found["in_flight"] and more > 0:
        yield Text(f"and {more:,} more in progress, be they called or only claimed", style="dim")
    yield from _at_work(found)
    yield from _ended(found["runs"])
    advice = standing.advice(found, target)
    if advice and moved is None:
        yield _whole(advice)


def _whole(text: str) -> Text:
    """A line that is to be pasted: only the terminal breaks it."""
    return Text(text, no_wrap=True, overflow="ignore")


def _counts_line(found: Answer) -> Iterator[Text]:
    parts = [
        Text(f"{number:,} {state.replace('_', ' ')}", style=STYLES[state])
        for state in STYLES
        if (number := found["counts"][state]) or state == "succeeded"
    ]
    more = (
        ("vanished", "vanished"),
        ("vanished_open", "of them with an effect still open"),
        ("stale", "stale"),
        ("unfinished_older", "unfinished with outputs of older steps"),
        ("skipped", "ended early, of those succeeded"),
    )
    parts += [Text(f"{found[name]:,} {said}", style="yellow") for name, said in more if found[name]]
    yield Text("   ").join(parts)


def _steps(found: Answer) -> Iterator[RenderableType]:
    """Steps with today's version, which is not always the one that results come from."""
    older = {
        "finished by older versions:": found["older_versions"],
        "older, unfinished:": found["unfinished_older_versions"],
    }
    shown = {column: numbers for column, numbers in older.items() if numbers}
    rows = [
        (
            step["name"],
            step["version"][:12],
            f"{step['succeeded']:,}",
            *(f"{sum(numbers.get(step['name'], {}).values()):,}" for numbers in shown.values()),
        )
        for step in found["steps"]
    ]
    yield from table("step", "version now" if shown else "version", "succeeded:", *shown, rows=rows)


def _at_work(found: Answer) -> Iterator[RenderableType]:
    """Every run whose end is not known, also one that shows no sign of life."""
    works = "working" if standing.pause_of_all(found) is None else "paused"
    rows = [
        (
            run["run"],
            run["host"],
            str(run["pid"] or ""),
            _lasted(run),
            _lease(run),
            f"{run['done']:,}",
            "" if run["rate"] is None else f"{run['rate']:,.1f}",
            str(run["concurrency"] or ""),
            _doing(run, works),
        )
        for run in found["runs"]
        if run["ended"] is None
    ]
    columns = ("at work", "host", "pid", "for:", "lease", "records done:", "a second:", "concurrency:", "")
    yield from table(*columns, rows=rows)


def _lease(run: Answer) -> str:
    """For how long it still holds, or since when no more."""
    if run["lease"] is None:
        return "of an earlier boot"
    seconds = abs(run["lease"])
    return f"{seconds:.0f} s" if run["lease"] >= 0 else f"overdue for {duration(seconds)}"


def _doing(run: Answer, works: str) -> str:
    if run["reason"] is not None:
        return str(run["reason"])
    if run["told"] is None:
        return works
    return f"draining: {run['told']}" if run["draining"] else f"stopping: {run['told']}"


def _ended(runs: Sequence[Answer]) -> Iterator[RenderableType]:
    ended = [run for run in runs if run["ended"] is not None]
    rows = [
        (run["run"], moment(run["started"]), _lasted(run), _exit(run), run["host"], run["reason"])
        for run in ended[-RUNS_SHOWN:]
    ]
    yield from table("run", "started (UTC)", "lasted:", "exit:", "host", "reason", rows=rows)
    if len(ended) > RUNS_SHOWN:
        yield Text(f"and {len(ended) - RUNS_SHOWN:,} older runs: --json has them all", style="dim")


def _lasted(run: Answer) -> str:
    """Nobody knows how long a run worked that died; its end is when it was found dead."""
    if run["exit_code"] is None and run["reason"] is not None:
        return "unknown"
    ended = datetime.now(UTC) if run["ended"] is None else _time(run["ended"])
    return duration(max((ended - _time(run["started"])).total_seconds(), 0.0))


def _exit(run: Answer) -> str:
    return "" if run["exit_code"] is None else str(run["exit_code"])


def instances(found: Sequence[Answer]) -> Iterator[RenderableType]:
    rows = [
        (
            one["instance"] or "(the only one)",
            counted(one["counts"], one["total"], one["vanished"]),
            moment(one["last_run"]["started"]) if one["last_run"] else "",
            (_exit(one["last_run"]) or one["last_run"]["reason"] or "running") if one["last_run"] else "never run",
        )
        for one in found
    ]
    yield from table("instance", "records", "last run (UTC)", "exit", rows=rows)
    if not found:
        yield Text("no instances")


def no_failures(found: Answer, target: Target) -> Iterator[RenderableType]:
    """Why a run stopped is found with the run, where the records that failed were put back."""
    yield Text("no failed, quarantined or unconfirmed records")
    runs = found["runs"]
    if runs and standing.last(runs)["exit_code"] == standing.NEEDS_A_PERSON and (stopped := standing.stopped(found)):
        yield Text(f"but {stopped}", style="yellow")
        yield _whole(f"Mend that, then: {target.run_command}")


def failures(causes: Sequence[Answer], first: Sequence[Answer], target: Target) -> Iterator[RenderableType]:
    total = sum(cause["count"] for cause in causes)
    rows = [
        (
            f"{one['count']:,}",
            one["step"] or "the record itself",
            one["kind"] or "",
            one["error_type"],
            first_line(one["error"]),
        )
        for one in causes
    ]
    yield from table("records:", "step", "kind", "error", "for example", rows=rows)
    listed = [
        (
            key_text(one["key"]),
            one["state"] + (", vanished" if one["vanished"] else ""),
            one["step"] or "the record itself",
            one["kind"] or "",
            str(one["attempts"]),
            moment(one["at"]),
            first_line(one["error"]),
        )
        for one in first
    ]
    columns = ("key", "state", "step", "kind", "attempts:", "at (UTC)", "reason")
    yield from table(*columns, rows=listed, spare=("at (UTC)", "attempts:"))
    if total > len(first):
        yield Text(f"and {total - len(first):,} more; all of them: {target.command('failures', '--json')}", style="dim")
    yield from map(_whole, _ways_out(causes, target))


def _ways_out(causes: Sequence[Answer], target: Target) -> Iterator[str]:
    """The next command for each sort of records that failed."""
    sorts = Counter[str]()
    for cause in causes:
        sorts["failed"] += cause["counts"].get("failed", 0)
        open_one = "unconfirmed" if target.can_be_asked(cause["step"]) else "that nobody can be asked about"
        sorts[open_one] += cause["counts"].get("unconfirmed", 0)
        set_aside = "quarantined" if cause["step"] else "bad lines" if cause["error_type"] == "BadLine" else "misfits"
        sorts[set_aside] += cause["counts"].get("quarantined", 0)
    run, export = target.run_command, target.command("export", "--state", "quarantined", "--out", "FILE")
    advice = {
        "failed": f"{run}, which tries them again",
        "quarantined": f"mend the cause, then {target.command('release', '--all')}, then {run}",
        "misfits": f"mend the input, then {run}; or correct the inputs in what {export} writes, "
        f"then {target.command('release', '--from', 'FILE')}",
        "bad lines": f"mend the input, then {run}",
        "unconfirmed": target.command("reconcile"),
        "that nobody can be asked about": f"see whether it was sent, then {target.word_command}",
    }
    there = [sort for sort in advice if sorts[sort]]
    for sort in there:
        yield f"Next: {advice[sort]}" if len(there) == 1 else f"Next for the {sorts[sort]:,} {sort}: {advice[sort]}"


def reconciled(found: Answer) -> Iterator[RenderableType]:
    rows = [
        (key_text(one["key"]), one["state"], one["step"] or "", _waits(one["waiting"]))
        for one in found["records"][:LISTED]
    ]
    yield from table("key", "state", "step", "waiting for", rows=rows)
    if len(found["records"]) > LISTED:
        yield Text(f"and {len(found['records']) - LISTED:,} more: --json has them all", style="dim")


def _waits(waiting: Answer | None) -> str:
    """What one record waits for, and until or since when."""
    if waiting is None:
        return ""
    until, since = moment(waiting["until"]), moment(waiting["since"])
    when = f" (asked again at {until} UTC)" if until else f" (since {since} UTC)" if since else ""
    return f"{waiting['reason']}{when}"


def record(found: Answer) -> Iterator[RenderableType]:
    state = found["state"]
    extra = [f"at {found['step']}"] if found["step"] else []
    extra += [f"{name} {found[name]}" for name in ("attempts", "deaths") if found[name]]
    extra += [word for word in ("vanished", "stale") if found[word]]
    extra += [f"waiting for {_waits(found['waiting'])}"] if found["waiting"] else []
    yield Text.assemble(
        (key_text(found["key"]), "bold"), "  ", (state, STYLES[state]), "  ", (printable(", ".join(extra)), "dim")
    )
    if found["input_waits"]:
        yield Text("its input has changed: the new one waits until the effect that is open is settled", "yellow")
    if holder := found["held_by"]:
        whose = f"record {key_text(holder['key'])} of job {holder['job']}"
        whose += f", instance {holder['instance']}" if holder["instance"] else ""
        yield Text(f"{printable(whose)} has taken over what it owes: {printable(holder['effect'])}", "yellow")
    for generation in found["generations"]:
        yield from _generation(generation)
    yield from table(
        "effect",
        "idempotency key",
        "state",
        "intended (UTC)",
        "sent (UTC)",
        "receipt",
        rows=[
            (
                one["effect"],
                one["idempotency_key"],
                one["state"],
                moment(one["intended"]),
                moment(one["sent"]),
                "" if one["receipt"] is None else _value(one["receipt"]),
            )
            for one in found["effects"]
        ],
    )
    for one in found["effects"]:
        if "payload" in one:
            yield Text(f"payload of {one['effect']} {_value(one['payload'])}", overflow="ellipsis", no_wrap=True)
    failure = found["failure"]
    if failure:
        what = f"{failure['kind']} at {failure['step'] or 'the record itself'}, {moment(failure['at'])} UTC"
        error = ": ".join(filter(None, (printable(failure["error_type"]), printable(failure["error"]))))
        yield Text(f"last failure ({what}): {error}", "red")
        if failure["received"] is not None:
            yield Text(f"the model had answered: {_value(failure['received'])}", overflow="ellipsis", no_wrap=True)
    yield from table(
        "at (UTC)",
        "event",
        "step",
        "run",
        "by",
        "reason",
        rows=[
            (
                moment(one["at"]),
                one["event"],
                one["step"] or "",
                one["run"] or "",
                one["actor"] or "",
                first_line(one["reason"] or ""),
            )
            for one in found["history"]
        ],
    )


def _generation(generation: Answer) -> Iterator[RenderableType]:
    said = {True: "succeeded", False: "not finished", None: "no outputs are kept of it"}[generation["succeeded"]]
    yield ""
    yield Text(f"generation {generation['generation']}: {said}", style="bold")
    yield Text(f"input {_value(generation['input'])}", overflow="ellipsis", no_wrap=True)
    yield from table(
        "step",
        "version",
        "at (UTC)",
        "run",
        "output",
        rows=[
            (one["step"], one["version"][:12], moment(one["at"]), one["run"] or "", _value(one["output"]))
            for one in generation["checkpoints"]
        ],
    )
    yield from money.usage(generation["usage"])


def _value(value: Any) -> str:
    from onward.codec import dumps

    return dumps(value)


def _time(text: str) -> datetime:
    return datetime.fromisoformat(text)


def moment(text: str | None) -> str:
    """ISO 8601 as people read it, to the second."""
    return "" if text is None else text[:19].replace("T", " ")
