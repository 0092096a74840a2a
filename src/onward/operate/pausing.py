"""Pausing a job or one of its groups, while it runs or not; and letting it go on."""

from __future__ import annotations

from onward.operate.acts import actor
from onward.operate.questions import Subject, about
from onward.ports.desk import Desk


def pause(desk: Desk, subject: Subject, group: str | None, reason: str | None) -> str:
    """Let nothing begin any more, in a group or in all of the instance. What is in progress goes on to its end; a
    sentence for people."""
    if not desk.pause(subject.number, group, actor(), reason):
        said = next((one for one in desk.pauses(subject.number) if one.group == group), None)
        who = f" by {said.actor}" if said is not None else ""
        return f"{_what(subject, group)} is paused already{who}"
    return f"{_what(subject, group)} is paused: runs notice within about a second and begin no call there any more"


def resume(desk: Desk, subject: Subject, group: str | None, reason: str | None) -> str:
    """Let what was paused go on; a sentence for people."""
    if not desk.resume(subject.number, group, actor(), reason):
        others = [one.group for one in desk.pauses(subject.number)]
        listed = ", ".join("the job" if other is None else f"group {other}" for other in others) or "nothing"
        return f"{_what(subject, group)} is not paused (paused: {listed})"
    return f"{_what(subject, group)} goes on"


def _what(subject: Subject, group: str | None) -> str:
    return about(subject) if group is None else f"group {group} of {about(subject)}"
