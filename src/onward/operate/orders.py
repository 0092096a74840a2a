"""Telling runs at work to finish and end, and how many calls they may have in progress."""

from __future__ import annotations

from onward.errors import UsageError
from onward.operate.acts import actor
from onward.operate.questions import Subject, about
from onward.ports.desk import Desk, Drained


def drain(desk: Desk, subject: Subject, run: int | None, reason: str | None) -> str:
    """Have runs finish the calls in progress, begin no others and end; sentences for people. Raises UsageError for a
    run that the instance does not have."""
    drained = desk.drain(subject.number, run, actor(), reason)
    if drained:
        return "\n".join(_said(one) for one in drained)
    if run is None:
        return f"no run of {about(subject)} is at work"
    ended = next((one for one in desk.standing(subject.number, {}).runs if one.run == run), None)
    if ended is None:
        raise UsageError(f"{about(subject)} has no run {run}; onward status lists its runs")
    code = "" if ended.exit_code is None else f" with {ended.exit_code}"
    return f"run {run} has ended already{code}: {ended.reason}"


def _said(one: Drained) -> str:
    where = f"run {one.run} on {one.host}"
    if not one.alive:
        return f"{where} shows no sign of life: other runs take its records over; should it come back, it ends"
    if one.before:
        return f"{where} has been told already: it ends once its calls have"
    return f"{where} begins no call any more from about a second on; it ends once those in progress have"


def concurrency(desk: Desk, subject: Subject, number: int | None, reason: str | None) -> str:
    """Let each run have so many calls in progress, None: as its start or its job says; a sentence for people."""
    before = desk.concurrency(subject.number)
    if number is None and before is None:
        return f"{about(subject)}: nothing was said, so that what the job declares holds already"
    desk.set_concurrency(subject.number, number, actor(), reason)
    if number is None:
        return (
            f"{about(subject)}: what a run was started with, else what the job declares, holds again (it was {before})"
        )
    at_work = any(run.alive and run.ended is None for run in desk.standing(subject.number, {}).runs)
    when = "those at work notice within about a second" if at_work else "those that start from now on"
    return f"{about(subject)}: concurrency {number} for each run, {when}"


def told_concurrency(desk: Desk, subject: Subject) -> str:
    """What people have said; a sentence for people."""
    said = desk.concurrency(subject.number)
    if said is None:
        return f"{about(subject)}: nothing was said, so that what the job declares holds"
    return f"{about(subject)}: concurrency {said} for each run; `default` takes that back"
