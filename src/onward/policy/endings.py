"""When a run has to stop, and with which exit code."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

NextAct = Literal["run", "failures", "rerun", "reconcile", "export", "resume", "raise"]

FIRST_ENDED = 50

OK, SOME_FAILED, NOT_STARTED, STOPPED_EARLY, NEEDS_A_PERSON, ONWARD_FAULT = 0, 1, 2, 3, 4, 70
CANNOT_GO_ON, NO_MEMORY = "the run cannot go on", "memory ran out"
"""Reasons of a run that another one, begun at once, need not share."""


@dataclass(frozen=True, slots=True)
class Ending:
    """Why a run ends before its work is done.

    `detail` may quote data, so that it is shown to people but never logged. `next_act` is what a person does then
    ("raise": a budget); `paused`: what is to be resumed, groups or (None) the job, where nothing else is in the way.
    """

    exit_code: int
    reason: str
    detail: str = ""
    next_act: NextAct = "run"
    paused: tuple[str | None, ...] = ()

    @property
    def text(self) -> str:
        return f"{self.reason}: {self.detail}" if self.detail else self.reason


@dataclass(frozen=True, slots=True)
class EndedCounts:
    """An instance's ended records; `failures` counts failed and quarantined ones by (step, kind)."""

    succeeded: int
    failures: Mapping[tuple[str, str], int]


def first_fifty(ended: EndedCounts) -> tuple[str, str] | None:
    """The (step, kind) that all of the first 50 ended records failed with, if they did."""
    if ended.succeeded or sum(ended.failures.values()) < FIRST_ENDED:
        return None
    common = [cause for cause, count in ended.failures.items() if count]
    return common[0] if len(common) == 1 else None


PERCENT_NEEDS = 100


def too_many_failures(count: int | None, percent: float | None, left: int, ended: int) -> bool:
    """`--max-failures N or P%`: whether a run has left more records failed or quarantined than it may.

    A percentage is of the records that this run ended, and is judged from 100 on.
    """
    if count is not None:
        return left > count
    if percent is not None and ended >= PERCENT_NEEDS:
        return left * 100 > percent * ended
    return False


@dataclass(frozen=True, slots=True)
class Remains:
    """What an instance, or the part that `--limit` chose, looks like when the run ends."""

    unfinished: int
    failed: int
    need_a_person: int


def exit_code(remains: Remains, ending: Ending | None) -> int:
    """4 before 3 before 1 before 0, over everything that applies."""
    codes = [OK]
    if ending is not None:
        codes.append(ending.exit_code)
    if remains.need_a_person:
        codes.append(NEEDS_A_PERSON)
    if remains.failed:
        codes.append(SOME_FAILED)
    if remains.unfinished > remains.need_a_person:
        codes.append(STOPPED_EARLY)
    return max(codes)
