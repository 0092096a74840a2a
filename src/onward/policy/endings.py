"""When a run has to stop, and with which exit code."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from onward.model import State

FIRST_ENDED = 50

OK, SOME_FAILED, NOT_STARTED, STOPPED_EARLY, NEEDS_A_PERSON, ONWARD_FAULT = 0, 1, 2, 3, 4, 70


@dataclass(frozen=True, slots=True)
class Ending:
    """Why a run ends before its work is done."""

    exit_code: int
    reason: str


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


@dataclass(frozen=True, slots=True)
class FailureCeiling:
    """`--max-failures N or P%`: how many records a run may leave failed or quarantined."""

    count: int | None = None
    percent: float | None = None

    PERCENT_NEEDS = 100

    def passed(self, left: int, ended: int) -> bool:
        if self.count is not None:
            return left > self.count
        if self.percent is not None and ended >= self.PERCENT_NEEDS:
            return left * 100 > self.percent * ended
        return False


def exit_code(states: Mapping[State, int], endings: Mapping[str, Ending] | None, waiting_for_person: int) -> int:
    """4 before 3 before 1 before 0, over everything that applies at the end."""
    codes = [ending.exit_code for ending in (endings or {}).values()]
    if waiting_for_person:
        codes.append(NEEDS_A_PERSON)
    left = states.get(State.PENDING, 0) + states.get(State.IN_PROGRESS, 0) - waiting_for_person
    if left > 0 and not codes:
        codes.append(STOPPED_EARLY)
    if any(states.get(state, 0) for state in (State.FAILED, State.QUARANTINED, State.UNCONFIRMED)):
        codes.append(SOME_FAILED)
    return max(codes, default=OK)
