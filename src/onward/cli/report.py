"""What a run says before it works and when it has ended."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from onward import runner
from onward.cli import edits, spending
from onward.cli.target import Target
from onward.cli.words import brief, counted, duration, have, records

if TYPE_CHECKING:
    from onward.model import RunResult
    from onward.ports.work import OtherKey
    from onward.runner import Announcement


def opening(told: Announcement, target: Target) -> Iterator[str]:
    """The store, the job, what earlier runs left, and what of it is from other versions."""
    yield f"store {told.store}" + (" (new store, empty ledger of effects)" if told.new_store else "")
    instance = f", instance {told.instance}" if told.instance else ""
    yield f"job {told.job}{instance}, run {told.begun.run}"
    if told.counts.total or told.counts.vanished:
        plain = {str(state): number for state, number in told.counts.states.items()}
        whose = "so far" if told.begun.others else "earlier runs left"
        yield f"{whose}: {counted(plain, told.counts.total, told.counts.vanished)}"
    yield from _put_back(told)
    if told.begun.others:
        yield f"{_runs(told.begun.others)} on this instance at the moment: they share the work"
    if told.concurrency is not None:
        yield f"concurrency {told.concurrency}"
    yield from map(_other_key, told.begun.other_keys)
    yield from _versions(told, target)


def _other_key(other: OtherKey) -> str:
    there = "1 obligation" if other.obligations == 1 else f"{other.obligations:,} obligations"
    return (
        f"{brief(other.effect)}: its key is ({', '.join(other.now)}) now; {there} of this job under the key "
        f"({', '.join(other.fields)}) will not be recognised in other files or records"
    )


def _runs(number: int) -> str:
    return "another run works" if number == 1 else f"{number} other runs work"


def _put_back(told: Announcement) -> Iterator[str]:
    for dead in told.begun.dead_runs:
        how = "was told to stop" if dead.told_to_stop else "died"
        begun = f"at most {dead.started:,}" if dead.started else "none"
        yield f"run {dead.run} {how}: {records(dead.put_back)} put back, {begun} had an attempt in progress"
    if told.begun.reset_failed:
        yield f"{records(told.begun.reset_failed)} failed in an earlier run: tried again"
    if waiting := told.counts.inputs_waiting:
        yield f"{records(waiting)} with an input that changed while an effect was open: the new one waits"
    suspects = told.counts.held.get("suspect", 0)
    if suspects:
        yield f"{records(suspects)} under suspicion of killing the process: tried in child processes"


def _versions(told: Announcement, target: Target) -> Iterator[str]:
    results, today = told.results, told.versions
    told_of_models = edits.of_models(told, target)
    yield from told_of_models.lines
    for step, versions in results.older(today).items():
        for version, number in versions.items() if step not in told.asks else ():
            yield f"{number:,} kept from the older version of {step} ({version[:8]}; now {today[step][:8]})"
    for step, number in results.lacking(today).items():
        yield f"{number:,} kept that were made without {step}, which is a new step"
    for step, number in results.removed(today).items():
        yield f"{number:,} kept with outputs of {step}, which is no longer a step"
    if results.changed:
        yield f"{results.changed:,} kept whose input has changed since"
    yield from _unfinished(told, target)
    stale = results.stale(today)
    if stale and stale != told_of_models.stale:
        them = "it" if stale == 1 else "them"
        yield f"{records(stale)} stale; re-run {them} with: {target.command('rerun', '--stale')}"
    if sent := results.sent(today, told.effects):
        from onward.operate.acts import sent_already  # what acts need is not for every run to load

        yield from sent_already(sent)


def _unfinished(told: Announcement, target: Target) -> Iterator[str]:
    for step, versions in told.older.steps.items():
        now = told.versions[step][:8]
        for version, number in versions.items():
            what = f"what the older version of {step} made ({version[:8]}; now {now})"
            yield f"{number:,} unfinished {have(number)} {what}"
    yield from edits.of_unfinished(told.older.removed, told.older.passed_over)
    number = told.older.going_on
    if number:
        go, them = ("goes", "it") if number == 1 else ("go", "them")
        again = target.command("rerun", "--stale")
        yield f"{records(number)} {go} on from older outputs and will be stale; re-run {them} then with: {again}"


def closing(result: RunResult, finished: Mapping[str, Any], target: Target, taken: str = "") -> Iterator[str]:
    """Why the run ended, the head of its chain of history, and as the last line the counts and the next command.
    `finished`: the last event; `taken`: what has been done with the results."""
    if result.exit_code in (3, 4):
        yield f"stopped: {brief(result.reason)}"
    if not finished.get("recorded", True):
        yield "the end of this run could not be written to the store; the next run puts its records back"
    if result.total == 0 and result.exit_code == 0:
        yield "the input is empty: it has no records"
    if finished.get("head"):
        yield f"history: {finished['head']}"
    yield from spending.closing(finished)
    yield from _adopted(finished.get("adopted", {}))
    waiting = finished.get("held", {}).get("stale", 0)
    if waiting:
        yield f"{records(waiting)} wait with a checkpoint that no longer decodes"
    yield from _undecodable(finished.get("held", {}).get("undecodable", 0), target)
    held = finished.get("held", {})
    yield from _unconfirmed(result, held.get("person", 0) + held.get("undecodable", 0))
    if owing := finished.get("vanished_open", 0):
        which = target.command("failures", "--state", "unconfirmed")
        yield f"{records(owing)} no longer in the source, with an effect still open; which: {which}"
    if target.again and not taken and result.exit_code in (1, 3, 4) and result.counts.get("succeeded"):
        yield f"what is done so far: {target.export_command}"
    counts = counted(result.counts, result.total, finished.get("vanished", 0), finished.get("stale", 0))
    older = finished.get("unfinished_older", 0)
    counts += f", {older:,} unfinished with outputs of older steps" if older else ""
    parts = [f"{counts} in {duration(result.seconds)}.", taken, _next(result, finished, target, bool(taken))]
    yield " ".join(filter(None, parts))


def _adopted(counts: Mapping[str, int]) -> Iterator[str]:
    """What this run found done already, and by whom."""
    for job, number in counts.items():
        whose = f"sent by {brief(job)} already" if job else "it turned out, when asked, that the far side had them"
        yield f"{number:,} not sent again: {whose}"


def _unconfirmed(result: RunResult, for_a_person: int) -> Iterator[str]:
    number = result.counts.get("unconfirmed", 0)
    if number:
        rest = number - for_a_person
        parts = [f"{for_a_person:,} wait for a person's word"] if for_a_person else []
        parts += [f"{rest:,} to be asked about again"] if rest else []
        yield f"unconfirmed: {', '.join(parts)}"


def _undecodable(number: int, target: Target) -> Iterator[str]:
    if number:
        say = target.command("reconcile", "KEY")
        yield f"{records(number)} with an effect open of which something stored no longer decodes"
        yield (
            "Put the model, or the parameter, back and run again, or say what became of each: "
            f"{say} --sent RECEIPT (or --not-sent)"
        )


def _next(result: RunResult, finished: Mapping[str, Any], target: Target, is_taken: bool) -> str:
    """The next command; none where there is nothing left to do with results that are taken."""
    if runner.is_in_memory(target.store):
        return "The store was in memory and has ended with the run."
    act = finished.get("next_act", "run")
    again = target.run_command
    if act == "reconcile":
        return f"Next: {target.command('reconcile')}"
    if act == "failures":
        return f"Next: {target.command('failures')}"
    if act == "rerun":
        return f"Next: {target.command('rerun', '--stale')}"
    if act == "resume":
        return f"Go on with: {target.resume_command(finished['paused'], and_run=True)}"
    if act == "export":
        return "Nothing is left to do." + ("" if is_taken else f" Next: {target.export_command}")
    if result.exit_code == 0:
        done = result.counts.get("succeeded", 0) == result.total
        if not result.total and finished.get("source_complete"):
            return f"Next, when the input has records: {again}"
        if done and finished.get("stale"):
            anew = f"make the stale ones anew: {target.command('rerun', '--stale')}"
            return f"To {anew}" if is_taken else f"Next: {target.export_command}, or {anew}"
        if done and is_taken:
            return ""
        return f"Next: {target.export_command if done else again}"
    if act == "raise" and (raised := target.raised_command):
        return f"Go on with a higher --budget: {raised}"
    return f"Mend that, then: {again}" if result.exit_code in (2, 4) else f"Go on with: {again}"
