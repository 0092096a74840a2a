"""A run that is watched: what its calls are given and return, what is committed, and where it may die."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from onward.codec import canonical_hash, dumps, loads
from onward.engine.attempt import Attempt, Phase
from onward.engine.calls import OwnCalls
from onward.engine.outcomes import Answered, CallOutcome, EndedEarly, Prepared, Raised, Returned
from onward.job.plan import Argument, Plan, StepPlan
from onward.model import Fact
from onward.policy.identity import idempotency_key
from onward.ports.work import Batch, Outcome
from onward.rehearsal.death import Death
from onward.rehearsal.network import UNDER_WAY, Call
from onward.rehearsal.survival import changed
from onward.rehearsal.trace import Trace, kept

_CALLS_OUT = ("send", "probe", "confirm")


def watched_plan(plan: Plan, key_prefix: str, trace: Trace) -> Plan:
    """The plan with other idempotency keys, whose outputs are compared with what later steps will be given."""
    return replace(plan, steps=tuple(_watched_step(step, key_prefix, trace) for step in plan.steps))


def _watched_step(step: StepPlan, key_prefix: str, trace: Trace) -> StepPlan:
    def encode(value: Any) -> str:
        text = step.encode(value)
        call = UNDER_WAY.get()
        if call is not None and (how := changed(value, step.decode(text))) is not None:
            trace.note("changed in JSON", step=step.name, key=call.key, how=how)
        return text

    effect = None if step.effect is None else replace(step.effect, key_prefix=key_prefix)
    return replace(step, encode=encode, effect=effect)


class WatchedCalls:
    """Stands around what makes the calls. `value_of` gives a record's input as JSON text."""

    def __init__(self, inner: OwnCalls, value_of: Callable[[Attempt], str], trace: Trace, death: Death):
        self._inner = inner
        self._value_of = value_of
        self._trace = trace
        self._death = death
        self._times: Counter[str] = Counter()

    async def call(self, attempt: Attempt) -> CallOutcome:
        step = attempt.step
        assert step is not None
        call = _call(step, attempt)
        start_clock, point, token = attempt.called, "", None

        def called() -> None:
            """The function is about to be called: resources are open, arguments decoded."""
            nonlocal point, token
            point = self._begins(call, attempt)
            token = UNDER_WAY.set(call)
            start_clock()

        attempt.called = called
        try:
            outcome = await self._inner.call(attempt)
        finally:
            attempt.called = start_clock
            if token is not None:
                UNDER_WAY.reset(token)
        self._ended(call, attempt, outcome, point)
        return outcome

    def prepared(self, attempt: Attempt) -> Prepared | None:
        outcome = self._inner.prepared(attempt)
        if outcome is not None:
            assert attempt.step is not None
            self._prepared(_call(attempt.step, attempt, "prepare"), attempt, outcome)
        return outcome

    def _begins(self, call: Call, attempt: Attempt) -> str:
        """What the call is known by where it is one of an effect: whose, and the how manieth; empty for others."""
        point = ""
        if call.phase in _CALLS_OUT:
            name = f"{call.phase} of {call.step.name} for {call.record}"
            self._times[name] += 1
            point = f"{name}, {self._times[name]}"
        sent = attempt.entry.key if attempt.entry is not None else None
        self._trace.note("call", **_of(call), point=point, idempotency_key=sent)
        if point:
            self._death.passes(f"before {point}")
        return point

    def _ended(self, call: Call, attempt: Attempt, outcome: CallOutcome, point: str) -> None:
        sent = attempt.entry.key if attempt.entry is not None else None
        self._trace.note("back", **_of(call), point=point, idempotency_key=sent, **_came(outcome))
        if isinstance(outcome, Prepared):
            self._prepared(call, attempt, outcome)
        elif isinstance(outcome, Returned) and call.phase == "step":
            made = self._made_from(attempt, call.step.arguments)
            said = {"hash": canonical_hash(outcome.text), "text": kept(outcome.text)}
            self._trace.note("output", **_of(call), **made, **said)
        if point:
            self._death.passes(f"after {point}")

    def _prepared(self, call: Call, attempt: Attempt, outcome: Prepared) -> None:
        effect = call.step.effect
        assert effect is not None
        fields = effect.identify(self._value_of(attempt))
        keys = sorted({outcome.key.removeprefix(effect.key_prefix), idempotency_key(effect.name, fields)})
        hashes = {name: canonical_hash(dumps(repr(value))) for name, value in fields.items()}
        made = self._made_from(attempt, effect.inputs if effect.payload is None else effect.payload.arguments)
        said = {"hash": canonical_hash(outcome.payload), "text": kept(outcome.payload)}
        self._trace.note("intent", **_of(call), **made, **said, keys=keys, fields=hashes)

    def _made_from(self, attempt: Attempt, arguments: tuple[Argument, ...]) -> Mapping[str, str]:
        """Hashes of the record's input and of the earlier outputs among a call's arguments."""
        outputs = {one.name: attempt.outputs[one.name].output for one in arguments if one.origin == "step"}
        return {"input": canonical_hash(self._value_of(attempt)), "made_from": canonical_hash(dumps(outputs))}


def _call(step: StepPlan, attempt: Attempt, phase: Phase | None = None) -> Call:
    claimed = attempt.claimed
    return Call(step, phase or attempt.phase, claimed.id, claimed.generation, loads(claimed.key))


def _of(call: Call) -> dict[str, Any]:
    return {
        "step": call.step.name,
        "phase": call.phase,
        "record": call.record,
        "generation": call.generation,
        "key": call.key,
    }


def _came(outcome: CallOutcome) -> dict[str, Any]:
    if isinstance(outcome, Returned):
        return {"came": "returned", "receipt": canonical_hash(outcome.text)}
    if isinstance(outcome, Answered):
        return {"came": outcome.answer}
    if isinstance(outcome, Raised):
        return {"came": "raised", "error_type": outcome.failure.error_type}
    return {"came": "done" if isinstance(outcome, EndedEarly) else type(outcome).__name__.lower()}


class Commits:
    """Hears of the run's commits, in the journal's thread. Which facts share one may differ from run to run, so that a
    commit is known by each of its parts; one that changed nothing has none."""

    def __init__(self, trace: Trace, death: Death):
        self._trace = trace
        self._death = death
        self._times: Counter[str] = Counter()

    def coming(self, batch: Batch) -> None:
        """A pure step has returned, and its checkpoint is not durable yet: a death here makes it run again."""
        pure = [fact for fact in batch.facts if fact.checkpoint is not None and fact.effect is None]
        self._passes("coming", "before", [(_words(fact), str(fact.record)) for fact in pure])

    def committed(self, batch: Batch, outcome: Outcome) -> None:
        held = [fact for fact in batch.facts if (fact.record, fact.fence) not in outcome.lost]
        parts = [(_words(fact), str(fact.record)) for fact in held]
        parts += [("records read", "")] if batch.blocks else []
        parts += [("a claim", "")] if any(outcome.claimed) else []
        if not batch.facts and not batch.blocks and not batch.wishes:
            parts = [("the start of a run", "")]
        done = [[fact.record, fact.generation, fact.done_step] for fact in held if fact.checkpoint is not None]
        self._passes("commit", "after", parts, done=done)

    def _passes(self, what: str, side: str, parts: list[tuple[str, str]], **fields: Any) -> None:
        """`parts`: what is committed, in words, and whose it is."""
        if not parts:
            return
        names = [f"{words} {record}".strip() for words, record in parts]
        points = [f"{side} commit of {name}, {self._counted(f'{side} {name}')}" for name in names]
        self._trace.note(what, points=points, of=", ".join(dict.fromkeys(words for words, _ in parts)), **fields)
        for point in points:
            self._death.passes(point)

    def _counted(self, name: str) -> int:
        self._times[name] += 1
        return self._times[name]


def _words(fact: Fact) -> str:
    """What a fact says, as a part of a sentence."""
    if fact.checkpoint is not None:
        return f"the checkpoint of {fact.done_step}"
    if fact.effect is not None:
        if fact.effect.payload is not None:
            return f"the intent of {fact.step}"
        known = str(fact.effect.state)
        return f"the receipt of {fact.step}" if known == "sent" else f"the news that {fact.step} is {known}"
    return f"the start of {fact.step}" if fact.started else f"the record as {fact.state}"
