"""One record and its attempts, cut off at any point and taken up again from the facts that had been committed.

What comes out must be what an undisturbed run gives, however often it was cut, and no step may be called once its
output is durable.
"""

from __future__ import annotations

import random
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from onward.codec import dumps, loads
from onward.engine.attempt import Attempt
from onward.job.plan import Argument, JobReference, Plan, StepPlan
from onward.model import Claimed, Fact, Kind, Retry, State, StoredOutput
from onward.policy.attempts import History, decide
from onward.policy.failures import Classified

RESUME_CAP = 3


@dataclass
class Kept:
    """What a store would have of the record."""

    state: State = State.PENDING
    step: str | None = None
    started: bool = False
    attempts: int = 0
    failed_runs: int = 0
    fence: int = 0
    checkpoints: dict[str, StoredOutput] = field(default_factory=dict)
    lineage: tuple[tuple[str, str], ...] | None = None
    skipped: str | None = None


def make_plan(draw: random.Random) -> Plan:
    """Up to six steps; each takes the record and some of the outputs before it."""
    steps: list[StepPlan] = []
    for index in range(draw.randint(1, 6)):
        earlier = [step.name for step in steps if draw.random() < 0.5]
        arguments = [Argument("value", "record", "", loads)]
        arguments += [Argument(f"from_{name}", "step", name, loads) for name in earlier]
        name = f"s{index}"
        retry = Retry(attempts=draw.randint(1, 4), base=1.0)
        steps.append(
            StepPlan(
                index,
                name,
                str(draw.randint(1, 3)),
                function=lambda *args, **kwargs: None,
                is_async=False,
                retry=retry,
                timeout=60.0,
                concurrency=None,
                process=False,
                max_output=1 << 20,
                calls_out=False,
                arguments=tuple(arguments),
                encode=dumps,
            )
        )
    return Plan("job", tuple(steps), {}, None, 8, None, RESUME_CAP, "stop", True, None, JobReference(None, None, "j"))


def output_of(step: StepPlan, first: list[Any], others: dict[str, Any]) -> Any:
    """What a step makes: it names everything that it was given."""
    return {"step": step.name, "value": first[0], **others}


def undisturbed(plan: Plan, value: Any, done_at: str | None) -> dict[str, Any]:
    """Every step's output when nothing ever goes wrong."""
    made: dict[str, Any] = {}
    for step in plan.steps:
        if step.name == done_at:
            break
        others = {one.parameter: made[one.name] for one in step.arguments if one.origin == "step"}
        made[step.name] = output_of(step, [value], others)
    return made


class Life:
    """One record's life under a seed. Raises AssertionError where something is not as it must be."""

    def __init__(self, seed: int):
        self.draw = random.Random(seed)
        self.plan = make_plan(self.draw)
        self.value = {"n": self.draw.randint(0, 10**30), "text": "\ud800\x00é"}
        self.done_at = f"s{self.draw.randint(0, 5)}" if self.draw.random() < 0.2 else None
        self.kept = Kept()
        self.now = 1000.0
        self.stated: Counter[str] = Counter()
        self.run_is_fresh = True

    def live(self) -> None:
        for _ in range(1000):
            if self.kept.state is State.SUCCEEDED:
                self.judge()
                return
            if self.kept.state is State.FAILED:
                self.next_run()
            assert self.kept.state is not State.QUARANTINED or self.kept.failed_runs == RESUME_CAP
            if self.kept.state is State.QUARANTINED:
                self.released()
            self.one_claim()
        raise AssertionError("it never came to an end")

    def next_run(self) -> None:
        self.kept.state, self.kept.attempts = State.PENDING, 0

    def released(self) -> None:
        """By a person."""
        self.next_run()
        self.kept.failed_runs = 0

    def one_claim(self) -> None:
        """From a claim to the record's leaving, or to the death of its run."""
        kept = self.kept
        start = self.draw.random() < 0.5
        kept.state, kept.started = State.IN_PROGRESS, start
        kept.fence += 1
        kept.attempts += start
        attempt = Attempt(self.plan, self._claimed(), start)
        while kept.state is State.IN_PROGRESS:
            fact = self._next_fact(attempt)
            if self.draw.random() < 0.15:  # the run dies before the fact is durable
                kept.state = State.PENDING
                kept.attempts -= kept.started
                kept.started = False
                return
            self.commit(fact)

    def _claimed(self) -> Claimed:
        kept = self.kept
        return Claimed(
            1, kept.fence, 0, '"k"', 0, dumps(self.value), kept.step, kept.attempts, 0, 0, kept.failed_runs,
            dict(kept.checkpoints),
        )  # fmt: skip

    def _next_fact(self, attempt: Attempt) -> Fact:
        if attempt.step is None:
            return attempt.nothing_left()
        if not attempt.started:
            return attempt.begin()
        return self._call(attempt, attempt.step)

    def _call(self, attempt: Attempt, step: StepPlan) -> Fact:
        assert step.name not in self.kept.checkpoints, f"{step.name} is called though its output is durable"
        assert (self.kept.started, self.kept.step or step.name) == (True, step.name)
        assert self.kept.attempts == attempt.attempts >= 1
        assert attempt.attempts <= step.retry.attempts, "more attempts than the step allows"
        first, others = attempt.arguments(step.arguments, dumps(self.value), {})
        drawn = self.draw.random()
        if drawn < 0.25:
            return self._failed(attempt, step, Kind.TRANSIENT if drawn < 0.2 else Kind.BUG)
        if drawn < 0.3:
            return attempt.given_back("the run stops")
        if step.name == self.done_at:
            return attempt.done_early("enough")
        return attempt.completed(step.encode(output_of(step, first, others)), start_next=self.draw.random() < 0.5)

    def _failed(self, attempt: Attempt, step: StepPlan, kind: Kind) -> Fact:
        history = History(attempt.attempts, attempt.claimed.failed_runs, RESUME_CAP)
        failure = Classified(kind, "Error", "no")
        decision = decide(failure, history, step.retry, self.draw.random())
        assert (decision.verdict == "retry") == (kind is Kind.TRANSIENT and attempt.attempts < step.retry.attempts)
        return attempt.failed(failure, decision, self.now)

    def commit(self, fact: Fact) -> None:
        kept = self.kept
        assert fact.fence == kept.fence
        if fact.checkpoint is not None:
            assert fact.done_step is not None
            assert fact.version is not None
            self.stated[fact.done_step] += 1
            kept.checkpoints[fact.done_step] = StoredOutput(fact.version, fact.checkpoint)
        before = kept.failed_runs
        if fact.moves:
            kept.state, kept.step, kept.started, kept.attempts = fact.state, fact.step, fact.started, fact.attempts
        kept.failed_runs = fact.failed_runs
        if fact.state in (State.PENDING, State.IN_PROGRESS):
            assert kept.failed_runs == before, "a retry is no new count of runs"
        if fact.state in (State.FAILED, State.QUARANTINED):
            assert kept.failed_runs == before + 1
        kept.lineage, kept.skipped = fact.lineage, fact.skipped

    def judge(self) -> None:
        expected = undisturbed(self.plan, self.value, self.done_at)
        assert {name: loads(stored.output) for name, stored in self.kept.checkpoints.items()} == expected
        assert self.stated == Counter(list(expected)), "a step was completed twice"
        done = [(step.name, step.version) for step in self.plan.steps if step.name in expected]
        if self.done_at is not None and any(step.name == self.done_at for step in self.plan.steps):
            version = next(step.version for step in self.plan.steps if step.name == self.done_at)
            assert (self.kept.skipped, self.kept.lineage) == (self.done_at, (*done, (self.done_at, version)))
        else:
            assert (self.kept.skipped, self.kept.lineage) == (None, tuple(done))
