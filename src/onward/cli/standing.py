"""How an instance stands, in words: whether anybody works on it, what is in the way, and what a person does next."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rich.text import Text

from onward.cli.target import Target
from onward.cli.words import brief, printable
from onward.ports.work import Pause

NEEDS_A_PERSON = 4
Answer = Mapping[str, Any]


def moved(where: Answer) -> str:
    """Where an instance has gone, or comes from."""
    if where["whole"]:
        return f"moved to {where['store']}, where it goes on; nothing is changed here any more"
    return f"being copied from {where['store']}, and not whole yet: onward copy, said again, finishes it"


def _alive(runs: Sequence[Answer]) -> list[Answer]:
    return [run for run in runs if run["ended"] is None and run["reason"] is None]


def last(runs: Sequence[Answer]) -> Answer:
    """The run that was the last to end, or to give a sign of life; not always the one that was the last to begin."""
    return max(runs, key=lambda run: (run["ended"] or run.get("noted") or run["started"], int(run["run"])))


def _is_through(found: Answer) -> bool:
    """Whether nothing is left that a run would work on, but for another try at what failed."""
    counts = found["counts"]
    return bool(found["source_complete"]) and not counts["pending"] and not counts["in_progress"]


def stopped(found: Answer) -> str:
    """Why the last run stopped before the work was done; empty where it did not, or died, or others are at it."""
    runs = found["runs"]
    if not runs or _alive(runs):
        return ""
    newest = last(runs)
    code = newest["exit_code"]
    if code in (None, 0, 1) or (code != NEEDS_A_PERSON and _is_through(found)):
        return ""
    return f"run {newest['run']} stopped: {brief(newest['reason'])}"


def headline(found: Answer) -> Text:
    """Whether anybody works on it: a run that died is not running, whatever it left behind."""
    runs, pause = found["runs"], pause_of_all(found)
    paused = "" if pause is None else f"paused by {brief(pause['by'])}, "
    alive = _alive(runs)
    if alive:
        names = ", ".join(f"{run['run']} on {printable(run['host'])}" for run in alive)
        return Text(f"{paused}running: run {names}", style="yellow" if paused else "green")
    if not runs:
        return Text(f"{paused}never run", style="dim")
    newest = last(runs)
    died = newest["ended"] is None
    number, how = newest["run"], printable(newest["reason"]) if died else f"ended with {newest['exit_code']}"
    if found["total"] and found["counts"]["succeeded"] == found["total"] and _is_through(found):
        return Text(f"all done, not running: run {number} {how}", style="dim")
    if died:
        return Text(f"{paused}stopped, not running: run {number} {how}", style="yellow")
    return Text(f"{paused}not running: run {number} {how}", style="dim")


def pause_of_all(found: Answer) -> Answer | None:
    return next((one for one in found["paused"] if one["group"] is None), None)


def _pauses_alone(found: Answer) -> list[str | None]:
    """What is to be resumed, groups or (None) the job, where nothing else is in the way of what is left."""
    if pause_of_all(found) is not None:
        return [None]
    said = {str(Pause(one["group"], 0.0, one["by"], one["reason"])) for one in found["paused"]}
    waiting = sum(one["count"] for one in found["waiting"] if one["reason"] in said)
    left = found["counts"]["pending"] + found["counts"]["in_progress"]
    return [one["group"] for one in found["paused"]] if found["source_complete"] and waiting == left else []


def advice(found: Answer, target: Target) -> str:
    """The next command; empty while a run is at work on what is left."""
    counts = found["counts"]
    if not _is_through(found):
        alive = bool(_alive(found["runs"]))
        if groups := _pauses_alone(found):
            return f"Next: {target.resume_command(groups, and_run=not alive)}"
        return "" if alive else f"Next: {target.run_command}"
    if counts["failed"] or counts["quarantined"]:
        return f"Next: {target.command('failures')}"
    if counts["unconfirmed"] or found["vanished_open"]:
        return f"Next: {target.command('reconcile')}"
    return f"Next: {target.command('rerun', '--stale') if found['stale'] else target.export_command}"
