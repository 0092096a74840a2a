"""Admission: a record's next call begins only when every ceiling that it is under has room and its gate is open."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable, Mapping

from onward.engine.attempt import Attempt
from onward.engine.gates.ceiling import Ceiling
from onward.engine.gates.gates import Gate, Gates, Shut
from onward.engine.gates.model_ceiling import ModelCeiling
from onward.engine.gates.shares import Shares
from onward.engine.spending.bill import AtModel
from onward.job.plan import Plan, StepPlan
from onward.policy.failures import Classified
from onward.policy.pace import LONGEST_WAIT
from onward.policy.rates import rates
from onward.ports.work import GateStanding, GateWish, Pause

PATIENCE = 0.5


def _room_of(step: StepPlan) -> int | None:
    """How many calls of a step may be in progress; steps for worker processes get one a processor."""
    if step.concurrency is None and step.process:
        return os.cpu_count() or 1
    return step.concurrency


class Admission:
    """`begin` is called with each attempt that is let in, `put_back` with each that is to wait in the store.

    Where nothing bounds the calls of any step, a claimed record starts with its claim (`start_with_claim`), in one
    commit. `freed` is called when a gate may have room again for records that wait in the store.
    """

    def __init__(
        self,
        plan: Plan,
        begin: Callable[[Attempt], None],
        put_back: Callable[[Attempt, str], None] = lambda attempt, reason: None,
        freed: Callable[[], None] = lambda: None,
        value_of: Callable[[Attempt], str] = lambda attempt: attempt.claimed.value or "null",
        patient: bool = True,
        concurrency: int = 32,
        is_stopping: Callable[[], bool] = lambda: False,
    ):
        self.shares = Shares(plan.has_ceilings, self._say_what_waits, self._time_has_come, is_stopping)
        self.gates = Gates(plan, value_of, patient, self.shares)
        self.pause: Pause | None = None
        self.at_gates = self.gates.has_groups
        self._begin = begin
        self._put_back = put_back
        self._freed = freed
        self._steps = plan.steps
        limits: dict[int, Ceiling] = {}
        self.models: dict[str, ModelCeiling] = {}
        self._ceilings = [
            (*self._ceilings_of(step, limits, patient), *self._models_of(step, concurrency, patient))
            for step in plan.steps
        ]
        self._bounded = [
            bool(own) or step.group is not None for own, step in zip(self._ceilings, plan.steps, strict=True)
        ]
        self.start_with_claim = not any(self._bounded)
        self._in_line: dict[Gate, None] = {}
        self._shut: set[Gate] = set()
        self._letting_in: set[Gate] = set()
        self._timer: asyncio.TimerHandle | None = None

    def _ceilings_of(self, step: StepPlan, limits: dict[int, Ceiling], patient: bool) -> tuple[Ceiling, ...]:
        """The step's own, and that of its limit, which is one for all who were given the same object."""
        room = _room_of(step)
        own = () if room is None else (Ceiling(room),)
        if step.limit is None:
            return own
        if id(step.limit) not in limits:
            limits[id(step.limit)] = ceiling = Ceiling(step.limit.concurrency, step.limit.per_minute)
            if not patient:
                ceiling.bucket = None
            self.shares.add(ceiling, f"limit of {step.name}")
        return (*own, limits[id(step.limit)])

    def _models_of(self, step: StepPlan, concurrency: int, patient: bool) -> list[ModelCeiling]:
        online = [model for model in step.models if model.batching is None]
        for model in online:
            if model.name not in self.models:
                self.models[model.name] = ceiling = ModelCeiling(model, concurrency, patient)
                self.shares.add(ceiling, model.name)
        return [self.models[model.name] for model in online]

    def is_at_rest(self, calls: int) -> bool:
        """Whether nothing is meant to happen now: a pause, closed hours, an outage. A rate or a back-off is no rest."""
        if self.pause is not None:
            return True
        if calls > 1 or self.waiting:
            return False
        now = time.time()
        shut = ((gate, gate.shut(now)) for gate in self.gates.by_key.values() if gate.is_marked)
        return any(gate.outage.is_on or (why is not None and why.lasting) for gate, why in shut)

    def at_models(self) -> tuple[AtModel, ...]:
        """How many calls are at each model, and may be."""
        return tuple(AtModel(one.name, one.taken, one.most, one.throttled) for one in self.models.values())

    @property
    def waiting(self) -> int:
        return sum(len(gate.waiting) for gate in self._in_line)

    @property
    def room(self) -> dict[str, int]:
        """By step, for how many more calls there is room; steps without a bound are left out."""
        names = [step.name for step in self._steps]
        rooms = {
            name: [ceiling.room for ceiling in own if ceiling.room is not None]
            for name, own in zip(names, self._ceilings, strict=True)
        }
        return {name: min(found) for name, found in rooms.items() if found}

    def limits(self, step: StepPlan) -> bool:
        """Whether a call of the step may have to wait, so that it cannot start with the checkpoint before it."""
        if self.pause is not None or self._bounded[step.index]:
            return True
        gate = self.gates.of_step(step)
        return gate is not None and gate.is_marked

    def add(self, attempt: Attempt) -> None:
        """An attempt that has not started yet: it starts now, waits in line, or goes back to the store."""
        gate = self.gates.of(attempt)
        shut = self.why_not(attempt)
        if shut is not None:
            self._send_back(gate, attempt, shut)
            return
        gate.waiting.append(attempt)
        self._in_line[gate] = None
        self._admit(gate)
        if gate.has_line_enough:
            self._send_back(gate, gate.waiting.pop(), "no room")

    def may_be_shut(self, attempt: Attempt) -> bool:
        """Whether it has to be looked at again before a call begins."""
        return self.pause is not None or self.gates.of(attempt).is_marked

    def why_not(self, attempt: Attempt) -> str | None:
        """Why a call may not begin now; None where it may. During an outage the first to enter is tried."""
        if self.pause is not None:
            return "the job is paused"
        gate = self.gates.of(attempt)
        if not gate.is_marked or gate.trial is attempt:
            return None
        shut = gate.shut(time.time())
        return None if shut is None else shut.reason

    def enter(self, attempt: Attempt) -> bool:
        """A call is about to be made at a gate with a mark; False where it may not be after all."""
        if self.why_not(attempt) is not None:
            return False
        gate = self.gates.of(attempt)
        if gate.outage.is_on:
            gate.trial = attempt
        return True

    def leave(self, attempt: Attempt) -> None:
        """The call has ended, or nobody listens to it any more."""
        if attempt.inside is not None:
            attempt.inside.calls -= 1
            attempt.inside = None

    def heard(self, attempt: Attempt, failure: Classified | None) -> None:
        """A call has ended: what its requests to models say of how many may be in progress."""
        for ceiling in attempt.passed:
            if isinstance(ceiling, ModelCeiling):
                spent = [one.spent for one in attempt.spending if one.spent.model == ceiling.name]
                ceiling.heard(spent, failure, time.monotonic())

    def heard_rates(self, attempt: Attempt, model: str, headers: Mapping[str, str]) -> None:
        """A provider told of its limits: where nothing is left, all that go there wait."""
        told = rates(headers, time.time())
        if model in self.models:
            self.models[model].learn(told)
        used_up = [one.reset for one in (told.requests, told.tokens) if one.remaining == 0 and one.reset]
        wait = min(max([*used_up, told.retry_after or 0.0]), LONGEST_WAIT)
        if wait > 0 and attempt.gate is not None:
            attempt.gate.asked_until = max(attempt.gate.asked_until, time.monotonic() + wait)
            attempt.gate.mark()

    def release(self, attempt: Attempt) -> None:
        """The attempt is at its step no more."""
        if attempt.gate is not None and attempt.gate.trial is attempt:
            attempt.gate.trial = None
        if attempt.passed:
            left = attempt.passed
            for ceiling in left:
                ceiling.give_back()
            attempt.passed = ()
            for other in list(self._in_line):
                self._admit(other)
            if self.shares.is_on:
                self.shares.left(left)
            if self.gates.has_groups:
                self._freed()

    def _admit(self, gate: Gate) -> None:
        now = time.monotonic()
        while gate.waiting:
            ceilings = self._ceilings_at(gate)
            if not all(ceiling.is_free(now) for ceiling in ceilings):
                if self.shares.is_on:
                    self.shares.blocked(ceilings, now)
                self._look_again(ceilings, now)
                break
            attempt = gate.waiting.popleft()
            for ceiling in ceilings:
                ceiling.take(now)
            attempt.passed = ceilings
            if gate.outage.is_on:
                gate.trial = attempt
            self._begin(attempt)
            if gate.trial is attempt:
                break
        if not gate.waiting:
            self._in_line.pop(gate, None)
        else:
            self._in_line[gate] = self._in_line.pop(gate, None)  # to the end of the row

    def _look_again(self, ceilings: tuple[Ceiling, ...], now: float) -> None:
        """Where only a rate is in the way: when it no longer is."""
        times = [at for ceiling in ceilings if not ceiling.is_free(now) for at in [ceiling.free_at(now)]]
        known = [at for at in times if at is not None]
        if len(known) < len(times):
            return
        loop = asyncio.get_running_loop()
        due = loop.time() + max(max(known) - now, 0.001)
        if self._timer is not None:
            if self._timer.when() <= due:
                return
            self._timer.cancel()
        self._timer = loop.call_at(due, self._time_has_come)

    def _time_has_come(self) -> None:
        """What is in the way may no longer be: of a rate, or of what this run has of a ceiling."""
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        for gate in list(self._in_line):
            self._admit(gate)
        self._freed()

    def _say_what_waits(self) -> None:
        now = time.monotonic()
        for gate in self._in_line:
            self.shares.blocked(self._ceilings_at(gate), now)

    def _ceilings_at(self, gate: Gate) -> tuple[Ceiling, ...]:
        """Those that the first in line is under."""
        step = gate.waiting[0].step
        assert step is not None
        own = self._ceilings[step.index]
        return own if gate.ceiling is None else (*own, gate.ceiling)

    def _send_back(self, gate: Gate, attempt: Attempt, reason: str) -> None:
        self.at_gates = True
        if gate.trial is attempt:
            gate.trial = None
        self._put_back(attempt, reason)

    # What the worker asks.

    def wish(self, want: int) -> GateWish | None:
        """Which records are of use; None where none waits at a gate."""
        first = self.gates.first
        if not self.at_gates and (first is None or not first.is_marked):
            return None
        now = time.time()
        shut: set[str] = set()
        rooms: dict[str, int] = {}
        for key, gate in self.gates.by_key.items():
            if gate.shut(now) is not None:
                shut.add(key)
            elif gate.ceiling is not None or gate.outage.is_on:
                rooms[key] = gate.room(now, want)
        fresh = None
        if first is not None:
            fresh = 0 if first.key in shut else rooms.get(first.key)
        in_outage = [(key, gate) for key, gate in self.gates.by_key.items() if gate.outage.is_on and rooms.get(key)]
        last = {key: gate.failing.last for key, gate in in_outage}
        whole = None if first is None else first.key
        return GateWish(frozenset(shut), rooms, self.gates.room_of_others(want), fresh, last, whole)

    def key_of(self, attempt: Attempt) -> str | None:
        """Where a record that leaves is to wait in the store; at a step without a group only in trouble."""
        if attempt.step is None:
            return None
        gate = self.gates.of(attempt)
        return gate.key if gate.group is not None or gate.is_marked else None

    # What time and people bring.

    def look_around(self) -> list[tuple[Gate, Shut | None]]:
        """Put back who stands in line at gates that are shut now; the gates that have changed since the last look."""
        now = time.time()
        changed: list[tuple[Gate, Shut | None]] = []
        for gate in [gate for gate in self.gates.by_key.values() if gate.is_marked or gate in self._shut]:
            shut = gate.shut(now)
            if shut is not None and gate.waiting and (shut.until is None or shut.until > now + PATIENCE):
                while gate.waiting:
                    self._send_back(gate, gate.waiting.pop(), shut.reason)
                self._in_line.pop(gate, None)
            is_shut, lets_one_in = shut is not None or gate.outage.is_on, shut is None and gate.outage.is_on
            opens = lets_one_in and gate not in self._letting_in  # who comes later is found by the look of each second
            if is_shut != (gate in self._shut):
                changed.append((gate, shut))
                self._shut.symmetric_difference_update({gate})
                opens = shut is None
                if opens:
                    self.at_gates = self.at_gates or gate.group is None
            if lets_one_in:
                self._letting_in.add(gate)
            else:
                self._letting_in.discard(gate)
            if opens or lets_one_in:
                self._admit(gate)
            if opens:
                self._freed()
        return changed

    def standings(self) -> list[GateStanding]:
        return self.gates.standings(time.time())

    def lasting(self) -> dict[str | None, Shut]:
        """Gates that a run does not stay for, by their keys; None stands for records that wait nowhere."""
        now = time.time()
        found: dict[str | None, Shut] = {}
        for key, gate in self.gates.by_key.items():
            shut = gate.shut(now)
            if shut is not None and shut.lasting:
                found[key] = shut
                if gate.whole:
                    found[None] = shut
        return found

    def clear(self) -> list[Attempt]:
        """Send everybody in line away."""
        left = [attempt for gate in self._in_line for attempt in gate.waiting]
        for gate in self._in_line:
            gate.waiting.clear()
        self._in_line.clear()
        return left
