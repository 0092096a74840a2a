"""One record's remaining steps as a machine without I/O: it asks for calls and states facts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from onward.errors import StaleCheckpoint
from onward.job.plan import Plan, StepPlan
from onward.model import Claimed, Fact, Failure, State, StoredOutput
from onward.policy.attempts import Decision
from onward.policy.failures import Classified
from onward.policy.suspects import SUSPECT, is_suspect

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
    when its timeout begins.
    """

    __slots__ = (
        "attempts",
        "called",
        "claimed",
        "entry",
        "home",
        "outputs",
        "phase",
        "plan",
        "sending",
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
        self.sending = False
        self.entry = self._known_entry()
        same_step = self.step is not None and claimed.step in (None, self.step.name)
        self.attempts = claimed.attempts if same_step else int(started)

    def _known_entry(self) -> Entry | None:
        """What the ledger knows of the obligation of the step that is next."""
        if not self.claimed.entries or self.step is None or self.step.effect is None:
            return None
        return self.claimed.entries.get(self.step.effect.name)

    def arguments(self, value: str, offered: Mapping[str, Any]) -> tuple[list[Any], dict[str, Any]]:
        """The decoded arguments of the next call: the first by position, the others by keyword.

        `offered` holds resources, `params` and `context` by name.

        Raises MisfitRecord for the record's value, StaleCheckpoint for an earlier output.
        """
        assert self.step is not None
        first: list[Any] = []
        others: dict[str, Any] = {}
        for argument in self.step.arguments:
            if argument.origin == "record":
                given = argument.decode(value) if argument.decode else value
            elif argument.origin == "step":
                text = self._output(argument.name)
                given = argument.decode(text) if argument.decode else text
            else:
                given = offered[argument.name]
            if first:
                others[argument.parameter] = given
            else:
                first.append(given)
        return first, others

    def _output(self, step: str) -> str:
        stored = self.outputs.get(step)
        if stored is None:
            raise StaleCheckpoint(step, f"the output of {step} is missing")
        return stored.output

    @property
    def following(self) -> StepPlan | None:
        """The step that is due after this one."""
        due = (step for step in self.plan.steps if step is not self.step and step.name not in self.outputs)
        return next(due, None)

    def clear(self) -> None:
        """The call returned, with a result or an error: its record kills no process."""
        self.claimed.deaths = self.claimed.solo_deaths = 0
        self.home = None

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
        if self.step is None:
            fact = self._fact(State.SUCCEEDED, lineage=self.lineage())
        else:
            self.started = start_next
            self.attempts = int(start_next)
            fact = self._fact(State.IN_PROGRESS, step=self.step.name, started=start_next, attempts=self.attempts)
        fact.done_step, fact.version, fact.checkpoint = step.name, step.version, text
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
        return fact

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
            self.step.name, self.step.version, failure.kind, failure.error_type, failure.message, self.attempts
        )
        return fact

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
        return Fact(
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


def _nobody_waits() -> None:
    """Nobody measures the call."""


def _first_missing(plan: Plan, outputs: Mapping[str, StoredOutput]) -> StepPlan | None:
    for step in plan.steps:
        if step.name not in outputs:
            return step
    return None
