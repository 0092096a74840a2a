"""Gates: where records wait for their next call. One a group's value, else one a limit, else one a step."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from dataclasses import dataclass

from onward.codec import dumps
from onward.engine.attempt import Attempt
from onward.engine.gates.ceiling import MOST_AHEAD, Ceiling
from onward.engine.gates.shares import Shares
from onward.job.groups import NO_VALUE
from onward.job.plan import GroupPlan, Plan, StepPlan
from onward.model import SourceRecord
from onward.policy import hours, outage
from onward.policy.hours import Hours
from onward.policy.outage import Outage
from onward.ports.work import GateStanding, Pause

SAME_MOMENT = 0.1
"""Seconds by which two tellings of one moment may differ, so that what was told stands."""


def gate_key(group: str, value: str) -> str:
    """A gate's name in the store; the gates of steps without a group have none."""
    return dumps([group, value])


def place_of(plan: Plan) -> Callable[[SourceRecord], None] | None:
    """What gives a record that is fed its place in the order of admission, and the gate of its first call; None where
    the source's order is all there is. It raises UsageError."""
    rank_of, group = plan.rank_of, plan.steps[0].group if plan.steps else None
    if rank_of is None and group is None:
        return None

    def place(record: SourceRecord) -> None:
        if rank_of is not None:
            record.rank = rank_of(record.value)
        if group is not None:
            record.gate = gate_key(group.name, group.value_of(record.value))

    return place


@dataclass(frozen=True, slots=True)
class Shut:
    """Why nothing passes. `until`: UTC seconds, None where it is not known; `lasting`: a run does not stay for it, or,
    where it `may_end` at any time, no longer than it was told to wait."""

    reason: str
    until: float | None
    lasting: bool
    may_end: bool = False


class Gate:
    """`group`: the value of the group that it is for, None for a step's or limit's own; `whole`: records that wait
    nowhere pass here, too. `hesitating`: calls that wait until a fault beside them is explained; `call_seconds`: how
    long a call takes, about. `trial`: the attempt by which an outage is found to be over, or not; `asked_until`: until
    when the far side wants to be left alone. That and the times of the outage are monotonic seconds: no clock that is
    set moves them. `failing`: what is known of records that meet faults in outages."""

    def __init__(self, key: str, title: str, ceiling: Ceiling | None, opening: Hours | None, group: str | None):
        self.key = key
        self.title = title
        self.group = group
        self.ceiling = ceiling
        self.whole = False
        self.waiting: deque[Attempt] = deque()
        self.calls = 0
        self.hesitating = 0
        self.call_seconds = 0.0
        self.outage: Outage = outage.NONE
        self.cause = ""
        self.failing = outage.Failing()
        self.trial: Attempt | None = None
        self.asked_until = 0.0
        self._told_until = 0.0
        self.pause: Pause | None = None
        self.given_up = False
        self._opening = opening
        self._standing: hours.Standing | None = None
        self.is_marked = opening is not None

    def took(self, seconds: float) -> None:
        """A call has ended."""
        self.call_seconds += 0.1 * (seconds - self.call_seconds)

    def mark(self) -> None:
        """Note whether something may keep it shut, now or later."""
        self.is_marked = (
            self.pause is not None or self._opening is not None or self.outage.is_on or self.asked_until > 0
        )

    def shut(self, now: float) -> Shut | None:
        """None while records pass; also where one record may be tried. `now` in UTC seconds."""
        if not self.is_marked:
            return None
        if self.pause is not None:
            why = f": {self.pause.reason}" if self.pause.reason else ""
            return Shut(f"{self.title} is paused by {self.pause.actor}{why}", None, True, may_end=True)
        if self._opening is not None:
            standing = self._look_at_clock(self._opening, now)
            if not standing.is_open:
                return Shut(f"{self.title} is closed", standing.until, True)
        if self.given_up:
            return Shut(f"{self.title}: calls went on failing ({self.cause})", None, True)
        steady = time.monotonic()
        if self.outage.is_on and (steady < self.outage.until or self.trial is not None):
            next_try = self._in_utc(self.outage.until - steady, now)
            return Shut(f"{self.title}: calls fail ({self.cause}); one is tried now and then", next_try, False)
        if steady < self.asked_until:
            return Shut(f"{self.title}: asked to wait", self._in_utc(self.asked_until - steady, now), False)
        if self.asked_until:
            self.asked_until = 0.0
            self.mark()
        return None

    def _in_utc(self, seconds: float, now: float) -> float:
        """When so many seconds will have passed, for people: the same at each look, unless the clock was set."""
        if abs(now + seconds - self._told_until) > SAME_MOMENT:
            self._told_until = now + seconds
        return self._told_until

    def _look_at_clock(self, opening: Hours, now: float) -> hours.Standing:
        known = self._standing
        if known is None or known.until is None or now >= known.until or known.until > now + 86400 * 7:
            known = self._standing = hours.standing(opening, now)
        return known

    def room(self, now: float, want: int) -> int:
        """How many more records it has use for, those in line counted."""
        if self.outage.is_on:
            return 0 if self.trial is not None or self.waiting else 1
        if self.ceiling is None:
            return want
        steady = time.monotonic()
        ceiling = self.ceiling
        free = want if ceiling.room is None else ceiling.room
        if ceiling.bucket is not None:
            free = min(free, ceiling.bucket.available(steady))
        return min(want, max(free + ceiling.ahead - len(self.waiting), 0))

    @property
    def has_line_enough(self) -> bool:
        """Whether whoever comes now waits better in the store."""
        ahead = MOST_AHEAD if self.ceiling is None else self.ceiling.ahead
        return self.group is not None and len(self.waiting) > ahead


class Gates:
    """All gates that a run knows. `value_of` gives an attempt's input as JSON text; groups' ceilings join `shares`."""

    def __init__(self, plan: Plan, value_of: Callable[[Attempt], str], patient: bool, shares: Shares):
        self._value_of = value_of
        self._shares = shares
        self._patient = patient
        self._groups = {step.group.name: step.group for step in plan.steps if step.group is not None}
        self._pauses: dict[str, Pause] = {}
        self.by_key: dict[str, Gate] = {}
        self._limits: dict[int, Gate] = {}
        self._steps = [None if step.group is not None else self._own_gate(step) for step in plan.steps]
        if self._steps and self._steps[0] is not None:
            self._steps[0].whole = True
        if patient:
            for group in self._groups.values():
                for value in {*group.ceilings, *group.openings}:
                    self._gate(group, value)

    @property
    def has_groups(self) -> bool:
        return bool(self._groups)

    @property
    def first(self) -> Gate | None:
        """The gate of records that wait nowhere: None where the first step has a group."""
        return self._steps[0] if self._steps else None

    def room_of_others(self, want: int) -> int:
        """For gates that are not known yet; where runs share, nothing is had there before it is asked for."""
        if self._shares.is_on and any(group.ceiling is not None for group in self._groups.values()):
            return 1
        rooms = [
            want if ceiling is None else (ceiling.room or ceiling.ahead) + ceiling.ahead
            for ceiling in (Ceiling.of(group.ceiling) for group in self._groups.values())
        ]
        return min(want, max(rooms, default=want))

    def _own_gate(self, step: StepPlan) -> Gate:
        shared = step.limit or (step.models[0] if step.models else None)
        if shared is not None and id(shared) in self._limits:
            return self._limits[id(shared)]
        title = step.models[0].title if step.models and step.limit is None else f"step {step.name}"
        gate = Gate(gate_key("", step.name), title, None, None, None)
        if shared is not None:
            self._limits[id(shared)] = gate
        self.by_key[gate.key] = gate
        return gate

    def _gate(self, group: GroupPlan, value: str) -> Gate:
        key = gate_key(group.name, value)
        if key not in self.by_key:
            limit = group.ceilings.get(value, group.ceiling)
            ceiling = Ceiling.of(limit)
            if ceiling is not None and not self._patient:
                ceiling.bucket = None
            if ceiling is not None:
                self._shares.add(ceiling, key)
            opening = group.openings.get(value) if self._patient else None
            title = f"group {value}" if value != NO_VALUE else f"records without {group.name}"
            gate = self.by_key[key] = Gate(key, title, ceiling, opening, value)
            gate.pause = self._pauses.get(value)
            gate.mark()
        return self.by_key[key]

    def of(self, attempt: Attempt) -> Gate:
        """Where the attempt's next call waits."""
        step = attempt.step
        if attempt.gate_of is not step:
            assert step is not None
            attempt.gate_of, attempt.gate = step, self._steps[step.index] or self._of_group(step.group, attempt)
        gate: Gate = attempt.gate
        return gate

    def _of_group(self, group: GroupPlan | None, attempt: Attempt) -> Gate:
        assert group is not None
        try:
            value = group.value_of(self._value_of(attempt))
        except Exception:  # the call itself will say what is wrong with the input
            value = NO_VALUE
        return self._gate(group, value)

    def of_step(self, step: StepPlan) -> Gate | None:
        """The gate of a step without a group."""
        return self._steps[step.index]

    def paused(self, pauses: dict[str, Pause]) -> list[Gate]:
        """People's pauses by group; the gates for which that is news."""
        changed = []
        for value in pauses:
            for group in self._groups.values():
                self._gate(group, value)
        self._pauses = pauses
        for gate in self.by_key.values():
            pause = pauses.get(gate.group) if gate.group is not None else None
            if pause != gate.pause:
                gate.pause = pause
                gate.mark()
                changed.append(gate)
        return changed

    def standings(self, now: float) -> list[GateStanding]:
        """Gates that are shut, but for pauses, which are known."""
        found = []
        for gate in self.by_key.values():
            if gate.is_marked and gate.pause is None and (shut := gate.shut(now)) is not None:
                found.append(GateStanding(gate.key, shut.reason, shut.until, gate.whole))
        return found
