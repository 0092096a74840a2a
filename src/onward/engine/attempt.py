"""One record's remaining steps as a machine without I/O: it asks for calls and states facts."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

from onward.codec import dumps, loads
from onward.errors import StaleCheckpoint
from onward.job.plan import Argument, Plan, StepPlan
from onward.model import (
    BatchRequest,
    Claimed,
    Deferral,
    EffectFact,
    Entry,
    EntryState,
    Fact,
    Failure,
    Spending,
    State,
    StoredOutput,
)
from onward.policy.attempts import Decision
from onward.policy.failures import Classified
from onward.policy.suspects import SUSPECT, is_suspect

Phase = Literal["step", "prepare", "probe", "send", "confirm"]

_VERDICT = {
    "retry": (State.PENDING, "record_retrying"),
    "fail": (State.FAILED, "record_failed"),
    "quarantine": (State.QUARANTINED, "record_quarantined"),
    "stop": (State.PENDING, "record_reset"),
}


class Attempt:
    """A claimed record under way. `step` is the next step without a checkpoint, None when nothing is left.

    `attempts` counts the tries of that step, the one in progress included once it has started. `home` is where its
    calls are made when not in this process; `called` is told when the step's function is about to be called, which is
    when its timeout begins; `begun`: it is. `phase` is what is called next of an effect on its `course`, `entry`
    what the ledger knows of it, and `sending` holds from before its first byte until it is known what came of it;
    `prepared`: the payload that was made, and the texts in it by parameter; `begin_by`: when (monotonic seconds) it is
    too late for its call to begin.

    The last ones are admission's: `gate` is where calls of the step `gate_of` wait, `inside` the gate whose call is in
    progress since `began` (monotonic seconds), `passed` the ceilings that keep room for it; `pause`: the fault that it
    met costs no attempt, and the next try comes after so many seconds. `spending` and `answers` go with the fact that
    is stated next.
    """

    __slots__ = (
        "answers",
        "attempts",
        "began",
        "begin_by",
        "begun",
        "called",
        "claimed",
        "course",
        "entry",
        "gate",
        "gate_of",
        "home",
        "inside",
        "outputs",
        "passed",
        "pause",
        "phase",
        "plan",
        "prepared",
        "row",
        "sending",
        "spending",
        "started",
        "step",
    )

    def __init__(self, plan: Plan, claimed: Claimed, started: bool):
        self.plan = plan
        self.claimed = claimed
        self.outputs: dict[str, StoredOutput] = claimed.checkpoints
        self.step: StepPlan | None = _first_missing(plan, self.outputs)
        self.started = started
        self.home: object | None = None
        self.called: Callable[[], None] = _nobody_waits
        self.phase: Phase = "step"
        self.course: Any = None
        self.prepared: tuple[str, dict[str, str]] | None = None
        self.sending = False
        self.begin_by: float | None = None
        self.begun = False
        self.gate: Any = None
        self.gate_of: StepPlan | None = None
        self.inside: Any = None
        self.passed: tuple[Any, ...] = ()
        self.began = 0.0
        self.pause: float | None = None
        self.spending: list[Spending] = []
        self.answers: list[tuple[str, str]] = []
        self.entry = self._known_entry()
        same_step = self.step is not None and claimed.step in (None, self.step.name)
        self.attempts = claimed.attempts if same_step else int(started)
        # As the store has it; None where its row names a step.
        self.row = None if claimed.step is not None else self._as_row(started, claimed.attempts)

    def _as_row(self, started: bool, attempts: int) -> tuple[bool, int, int, int]:
        return started, attempts, self.claimed.deaths, self.claimed.solo_deaths

    def _known_entry(self) -> Entry | None:
        """What the ledger knows of the obligation of the step that is next."""
        if not self.claimed.entries or self.step is None or self.step.effect is None:
            return None
        return self.claimed.entries.get(self.step.effect.name)

    @property
    def is_unprepared(self) -> bool:
        """Whether its next step is an effect of which the ledger knows nothing yet, to be called in this process."""
        step = self.step
        return step is not None and step.effect is not None and self.entry is None and self.home is None

    @property
    def is_late(self) -> bool:
        """Whether too much of the time of what is to be sent has gone by for its function to be called."""
        return self.phase == "send" and self.begin_by is not None and time.monotonic() > self.begin_by

    def arguments(
        self, wanted: Sequence[Argument], value: str, offered: Mapping[str, Any]
    ) -> tuple[list[Any], dict[str, Any]]:
        """The decoded arguments of the next call: the first by position, the others by keyword.

        `offered` holds resources, `params` and `context` by name.

        Raises MisfitRecord for the record's value, StaleCheckpoint for an earlier output.
        """
        first: list[Any] = []
        others: dict[str, Any] = {}
        for argument in wanted:
            origin = argument.origin
            if origin in ("record", "step"):
                text = self._frozen(argument.parameter) or (
                    value if origin == "record" else self._output(argument.name)
                )
                given = argument.decode(text) if argument.decode else text
            elif origin in ("payload", "receipt"):
                text = self._of_entry(origin)
                given = argument.decode(text) if argument.decode else text
            elif origin == "idempotency_key":
                given = self.entry.key if self.entry is not None else None
            else:
                given = offered[argument.name]
            if first:
                others[argument.parameter] = given
            else:
                first.append(given)
        return first, others

    def texts(self, wanted: Sequence[Argument], value: str) -> dict[str, str]:
        """The record's input and earlier outputs by parameter, as JSON text."""
        return {one.parameter: value if one.origin == "record" else self._output(one.name) for one in wanted}

    def _frozen(self, parameter: str) -> str | None:
        """A send is made of what was frozen with the intent, not of what the record has become."""
        if self.phase != "send" or self.entry is None or self.step is None or self.step.effect is None:
            return None
        if self.step.effect.payload is not None:
            return None
        made = self.prepared
        if made is not None and made[0] == self.entry.payload:
            return made[1].get(parameter)
        return part_of(self.entry.payload, parameter)

    def _of_entry(self, origin: str) -> str:
        assert self.entry is not None
        return self.entry.payload if origin == "payload" else self.entry.receipt or "null"

    def _output(self, step: str) -> str:
        stored = self.outputs.get(step)
        if stored is None:
            raise StaleCheckpoint(step, f"the output of {step} is missing")
        return stored.output

    @property
    def following(self) -> StepPlan | None:
        """The step that is due after this one."""
        for step in self.plan.steps:
            if step is not self.step and step.name not in self.outputs:
                return step
        return None

    def clear(self) -> None:
        """The call returned, with a result or an error: its record kills no process."""
        self.claimed.deaths = self.claimed.solo_deaths = 0
        self.home = None

    def going_on(self) -> Fact:
        """The step goes on with another call."""
        assert self.step is not None
        return self._fact(State.IN_PROGRESS, step=self.step.name, started=True, attempts=self.attempts)

    def unconfirmed(self, until: float, hold: str | None, reason: str) -> Fact:
        """The effect is to be asked about at `until`, or by a person: the attempt is not counted."""
        assert self.step is not None
        fact = self._fact(State.UNCONFIRMED, step=self.step.name, attempts=max(self.attempts - int(self.started), 0))
        fact.not_before, fact.hold = until, hold
        fact.event, fact.reason = "effect_unconfirmed", reason
        return fact

    def begin(self) -> Fact:
        """The next step's attempt starts: to be durable before it is called."""
        assert self.step is not None
        self.attempts += 1
        self.started = True
        return self._fact(State.IN_PROGRESS, step=self.step.name, started=True, attempts=self.attempts)

    def completed(self, text: str, start_next: bool) -> Fact:
        """The step returned `text` (JSON). `start_next`: the following step's first attempt starts with this commit."""
        step = self.step
        assert step is not None
        self.outputs[step.name] = StoredOutput(step.version, text)
        self.step = _first_missing(self.plan, self.outputs)
        self.entry = self._known_entry()
        if self.step is None:
            fact = self._fact(State.SUCCEEDED, lineage=self.lineage())
        else:
            self.started = start_next
            self.attempts = int(start_next)
            fact = self._next(step)
        fact.done_step, fact.version, fact.checkpoint = step.name, step.version, text
        return _counted(fact, step)

    def _next(self, done: StepPlan) -> Fact:
        """The step that follows: what has become of the record is written only where its row tells it otherwise."""
        assert self.step is not None
        row = self.row
        fact = self._fact(State.IN_PROGRESS, step=self.step.name, started=self.started, attempts=self.attempts)
        if row == self._as_row(self.started, self.attempts) and done.effect is None and self.step.effect is None:
            fact.moves, self.row = False, row
        return fact

    def nothing_left(self) -> Fact:
        """Every step of today's job has a checkpoint already."""
        return self._fact(State.SUCCEEDED, lineage=self.lineage())

    def done_early(self, reason: str) -> Fact:
        """The step raised Done: later steps are skipped."""
        assert self.step is not None
        lineage = (*self.lineage(), (self.step.name, self.step.version))
        fact = self._fact(State.SUCCEEDED, step=self.step.name, lineage=lineage, skipped=self.step.name)
        fact.event, fact.reason = "record_done", reason
        return _counted(fact, self.step)

    def failed(self, failure: Classified, decision: Decision, now: float) -> Fact:
        """An attempt failed and `decision` says what follows."""
        assert self.step is not None
        state, event = _VERDICT[decision.verdict]
        fact = self._fact(state, step=self.step.name, attempts=self.attempts)
        fact.failed_runs = decision.failed_runs
        if not decision.counted:
            fact.attempts = max(self.attempts - 1, 0)
        if decision.verdict == "retry":
            fact.not_before = now + decision.wait
        fact.event, fact.reason = event, decision.reason
        fact.failure = Failure(
            self.step.name,
            self.step.version,
            failure.kind,
            failure.error_type,
            failure.message,
            self.attempts,
            failure.received,
        )
        return _counted(fact, self.step)

    def given_back(self, reason: str) -> Fact:
        """The record returns to pending untried: an attempt that had started is not counted."""
        fact = self._fact(State.PENDING, attempts=max(self.attempts - int(self.started), 0))
        fact.step = self.step.name if self.step is not None else None
        fact.event, fact.reason = "record_reset", reason
        return fact

    def held(self, hold: str, reason: str) -> Fact:
        """The record waits for a person, pending and out of the way of claims."""
        fact = self.given_back(reason)
        fact.hold = hold
        return fact

    def put_off(self, requests: tuple[BatchRequest, ...], known: tuple[str, ...]) -> Fact:
        """The record waits for answers that come later, and its attempt is not counted."""
        assert self.step is not None
        fact = self.held("batch", "")
        fact.event = fact.reason = None  # what becomes of its batch is told once for all who wait for it
        fact.deferral = Deferral(self.step.version, requests, known)
        return fact

    def died(self, deaths_to_convict: int, reason: str) -> Fact:
        """The process of this record alone died while its parent lived."""
        assert self.step is not None
        solo = self.claimed.solo_deaths + 1
        self.claimed.solo_deaths = solo
        if solo < deaths_to_convict:
            self.started = False
            self.attempts = max(self.attempts - 1, 0)
            return self._fact(State.IN_PROGRESS, step=self.step.name, started=False, attempts=self.attempts)
        fact = self._fact(State.QUARANTINED, step=self.step.name, attempts=self.attempts)
        fact.event, fact.reason = "record_quarantined", reason
        return fact

    def not_started_after_all(self) -> Fact:
        """The process died beside this record: its attempt does not count, and it stays with this run."""
        assert self.step is not None
        self.attempts = max(self.attempts - int(self.started), 0)
        self.started = False
        return self._fact(State.IN_PROGRESS, step=self.step.name, started=False, attempts=self.attempts)

    def lineage(self) -> tuple[tuple[str, str], ...]:
        """The versions that made the outputs so far, in step order."""
        outputs = self.outputs
        return tuple([(step.name, outputs[step.name].version) for step in self.plan.steps if step.name in outputs])

    def call_lost(self, begun: bool) -> None:
        """The call of an effect ended with its process, or never came about."""
        self.phase = "step"
        self.sending = self.sending and begun

    def learn(self, said: EffectFact, clock: Callable[[], float]) -> None:
        """What was stated of the entry has become durable."""
        self.sending = False
        entry = self.entry
        if entry is None or said.payload is not None or (entry.name, entry.key) != (said.name, said.key):
            return  # an intent is answered with what it came upon
        again, now = said.state is EntryState.INTENDED, clock()
        self.entry = replace(
            entry,
            state=said.state,
            receipt=said.receipt if said.receipt is not None else entry.receipt,
            asks=said.asks,
            ask_at=said.ask_at,
            fence=self.claimed.fence if again else entry.fence,
            intended_at=now if again else entry.intended_at,
            ended_at=None if again else entry.ended_at,
            deadline=said.deadline if again else entry.deadline,
            settle=said.settle if again else entry.settle,
            sent_at=entry.sent_at or (now if said.state is EntryState.SENT else None),
            origin=None if again else entry.origin,  # what is sent from now on is this record's own
            origin_job=None if again else entry.origin_job,
        )

    def _may_have_been_sent(self) -> bool:
        entry = self.entry
        if entry is None:
            return False
        left_by_another = entry.state is EntryState.INTENDED and entry.fence != self.claimed.fence
        return self.sending or left_by_another or entry.state in (EntryState.UNKNOWN, EntryState.SENT)

    def _left_open(self, state: State) -> EffectFact | None:
        """What the ledger is to know where nothing else is stated: a send that ended unheard may have been applied; an
        intent that is given up before its send was not."""
        entry = self.entry
        if entry is None or entry.state is not EntryState.INTENDED or entry.fence != self.claimed.fence:
            return None
        if self.sending:
            return EffectFact(entry.name, entry.key, EntryState.UNKNOWN, asks=entry.asks, ask_at=entry.ask_at)
        if state is State.IN_PROGRESS:
            return None
        return EffectFact(entry.name, entry.key, EntryState.ABSENT)

    def _fact(
        self,
        state: State,
        step: str | None = None,
        started: bool = False,
        attempts: int = 0,
        lineage: tuple[tuple[str, str], ...] | None = None,
        skipped: str | None = None,
    ) -> Fact:
        claimed = self.claimed
        effect = None if self.entry is None else self._left_open(state)
        if state is State.PENDING and self._may_have_been_sent():
            state = State.UNCONFIRMED
        self.row = None
        spending, answers = self.spending or None, self.answers or None
        if spending or answers:
            self.spending, self.answers = [], []
        return Fact(
            effect=effect,
            spending=spending,
            answers=answers,
            record=claimed.id,
            fence=claimed.fence,
            generation=claimed.generation,
            state=state,
            step=step,
            started=started,
            attempts=attempts,
            deaths=claimed.deaths,
            solo_deaths=claimed.solo_deaths,
            failed_runs=claimed.failed_runs,
            hold=SUSPECT if state is State.PENDING and is_suspect(claimed.deaths, claimed.solo_deaths) else None,
            lineage=lineage,
            skipped=skipped,
        )


def _counted(fact: Fact, step: StepPlan) -> Fact:
    """What a step that asks models has cost counts, also where it came to nothing."""
    if step.models and fact.spending is None:
        fact.spending = []
    return fact


def part_of(payload: str, parameter: str) -> str:
    """One of the inputs that a default payload is made of, as JSON text.

    Raises StaleCheckpoint where it was made of others: a parameter has another name by now, or is new.
    """
    parts = loads(payload)
    if not isinstance(parts, dict) or parameter not in parts:
        made_of = f"the parameters {', '.join(parts)}" if isinstance(parts, dict) else "something else"
        raise StaleCheckpoint("the payload", f"it was frozen of {made_of} and holds nothing for {parameter!r}")
    return dumps(parts[parameter])


def _nobody_waits() -> None:
    """Nobody measures the call."""


def _first_missing(plan: Plan, outputs: Mapping[str, StoredOutput]) -> StepPlan | None:
    for step in plan.steps:
        if step.name not in outputs:
            return step
    return None
