"""What people do about effects whose outcome is open: say how it is, or have the far side asked again."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from onward.codec import dumps, loads
from onward.errors import MisfitRecord, OutputError, UsageError
from onward.job.plan import EffectPlan, StepPlan
from onward.model import EntryState, RunResult, State
from onward.operate.acts import actor
from onward.operate.choices import one_record
from onward.operate.questions import Subject, moment
from onward.ports.desk import Asked, Asking, Became, Desk, Word
from onward.ports.facts import EntryFacts, RecordFacts, Waiting

OPEN = (EntryState.INTENDED, EntryState.UNKNOWN, EntryState.SENT)


class Undecidable(UsageError):
    """Nothing can be decided about a record, or not now."""


@dataclass(frozen=True, slots=True)
class Decision:
    """What a person's word made of a record. `next_step`: where it goes on; None where it has succeeded. `new_input`:
    it takes the input that waited for the effect to be settled."""

    key: Any
    effect: str
    idempotency_key: str
    sent: bool
    receipt: Any
    state: str
    next_step: str | None
    new_input: bool = False

    def __str__(self) -> str:
        said = "was sent" if self.sent else "was not sent"
        then = "it has succeeded" if self.state == State.SUCCEEDED else f"it goes on at {self.next_step}"
        if self.new_input:
            then = "it takes its changed input, which has waited for this"
        return f"{shown(self.key)}: {self.effect} {said}, as you say; {then}"

    def plain(self) -> dict[str, Any]:
        """As JSON has it."""
        return {name: getattr(self, name) for name in self.__slots__}


@dataclass(frozen=True, slots=True)
class Reconciled:
    """What became of records that were asked about. `records`: each with its `state`, and what it `waiting`s for.

    Not asked about: `left`, whose effects nobody can be asked about; `busy`, which a living run is at work on;
    `sending`, whose calls may still go on in a process that lives; `elsewhere`, which wait for what becomes of another
    record that has taken their obligation over; `paused`: in words what was paused, so that nothing was asked there.
    `exit_code`, `reason`: how the run ended that asked;
    None where there was nothing to ask.
    """

    records: list[dict[str, Any]] = field(default_factory=list)
    left: int = 0
    busy: int = 0
    sending: int = 0
    elsewhere: int = 0
    exit_code: int | None = None
    reason: str | None = None
    paused: list[str] = field(default_factory=list)

    @property
    def counts(self) -> dict[str, int]:
        """Records that were asked about, by the state that they are in now."""
        return dict(Counter(one["state"] for one in self.records))

    @property
    def for_a_person(self) -> int:
        """How many of them, and of those that nobody can be asked about, wait for a person's word."""
        return self.left + sum(bool(one["waiting"] and one["waiting"]["since"]) for one in self.records)

    def plain(self) -> dict[str, Any]:
        """As JSON has it."""
        return {
            "asked": len(self.records),
            "counts": self.counts,
            "left": self.left,
            "busy": self.busy,
            "sending": self.sending,
            "elsewhere": self.elsewhere,
            "exit_code": self.exit_code,
            "reason": self.reason,
            "paused": self.paused,
            "records": self.records,
        }

    def __str__(self) -> str:
        parts = []
        if self.records:
            states = ", ".join(f"{number:,} {state.replace('_', ' ')}" for state, number in self.counts.items())
            but = " (where nothing is paused)" if self.paused else ""
            parts.append(f"{_many(len(self.records))} asked about{but}: {states}")
        if self.left:
            parts.append(f"{_many(self.left)} that nobody can be asked about")
        if self.busy:
            parts.append(f"{_many(self.busy)} that a run is at work on")
        if self.sending:
            parts.append(f"{_many(self.sending)} whose call may still be sending in a process that is alive")
        if self.elsewhere:
            parts.append(f"{_many(self.elsewhere)} whose obligation another record has taken over")
        parts += self.paused
        return "; ".join(parts) or "nothing is open: no effect is unconfirmed"


def decide(
    desk: Desk,
    subject: Subject,
    key: Any,
    steps: Sequence[StepPlan] | None,
    *,
    receipt: str | None,
    effect: str | None = None,
    reason: str | None = None,
) -> Decision:
    """Settle a record's open obligation: it was sent, with this receipt (JSON text), or (None) it was not.

    `steps` are the job's of today, None where only its store is at hand. Raises UsageError, and has then changed
    nothing: for an unknown key, a record that is not unconfirmed, a receipt that does not fit, "not sent" of a call
    that may still be sending.
    """
    record = one_record(desk, subject.number, key)
    facts = desk.record(record)
    among = names_among(effect, steps)
    word, entry = word_about(facts, subject, record, steps, receipt=receipt, among=among, reason=reason)
    if desk.settle(subject.number, word) is None:
        raise UsageError(f"{standing(desk.record(record))}; nothing was changed")
    after = desk.record(record)
    sent = word.receipt is not None
    said = loads(word.receipt) if word.receipt is not None else None
    took = after.generation > facts.generation
    begins = steps[0].name if steps and took else after.step
    return Decision(loads(facts.key), entry.effect, entry.key, sent, said, str(after.state), begins, took)


def word_about(
    facts: RecordFacts,
    subject: Subject,
    record: int,
    steps: Sequence[StepPlan] | None,
    *,
    receipt: str | None,
    among: Sequence[str] | None,
    reason: str | None,
) -> tuple[Word, EntryFacts]:
    """What a person says about a record's open obligation (one of `among`), and which that is. Raises Undecidable
    where there is none, UsageError for a receipt that does not fit."""
    try:
        entry = _open_entry(facts, among)
    except UsageError as error:
        raise Undecidable(str(error)) from None
    step = None if steps is None else _step_of(entry, steps)
    if receipt is not None:
        receipt = _received(receipt, entry, step, steps)
    at = None if step is None else step.name
    return Word(actor(), record, entry.effect, entry.key, receipt, reason, at, subject.today), entry


def names_among(effect: str | None, steps: Sequence[StepPlan] | None) -> list[str] | None:
    """The ledger names of an effect that was named, today's and former ones. Raises UsageError where there is none."""
    effects = [step.effect for step in steps or () if step.effect is not None]
    return None if effect is None else [effect] if steps is None else _names_of(effect, effects)


def ask_again(
    desk: Desk, subject: Subject, steps: Sequence[StepPlan], effect: str | None = None, reason: str | None = None
) -> Asked:
    """Which records are to be asked about; it is noted in their histories. Raises UsageError for an unknown effect."""
    effects = [step.effect for step in steps if step.effect is not None]
    among = None if effect is None else _names_of(effect, effects)
    asking = Asking(
        actor(),
        reason,
        found_out=_names(effects, lambda one: one.traits.finds_out),
        confirmed=_names(effects, lambda one: one.traits.has_confirm),
        among=among,
    )
    return desk.ask_again(subject.number, asking)


def reconciled(desk: Desk, subject: Subject, asked: Asked, ended: RunResult | None) -> Reconciled:
    """What became of the records that a run has asked about; `ended` None: there was nothing to ask."""
    found = Reconciled([], asked.left, asked.busy, asked.sending, asked.elsewhere)
    if ended is None:
        return found
    records = [_became(one) for one in desk.became(asked.records)]
    paused = [str(one) for one in desk.pauses(subject.number)]
    return replace(found, records=records, exit_code=ended.exit_code, reason=ended.reason, paused=paused)


def _open_entry(facts: RecordFacts, among: Sequence[str] | None) -> EntryFacts:
    """The obligation that a person decides about. Raises UsageError where there is none, or not just one."""
    found = [one for one in facts.entries if one.generation == facts.generation and one.state in OPEN]
    if facts.state is not State.UNCONFIRMED:
        raise UsageError(standing(facts))
    if among is not None:
        there, found = found, [one for one in found if one.effect in among]
        if not found:
            listed = ", ".join(one.effect for one in there) or "none"
            raise UsageError(f"{shown(loads(facts.key))} has nothing open under {among[0]!r} (open: {listed})")
    if not found:
        raise UsageError(_held_elsewhere(facts))
    if len(found) > 1:
        names = ", ".join(one.effect for one in found)
        raise UsageError(f"{shown(loads(facts.key))} has several open effects ({names}); say which with --effect")
    return found[0]


def _held_elsewhere(facts: RecordFacts) -> str:
    """Which record a person decides about instead."""
    key, holder = shown(loads(facts.key)), facts.held_by
    if holder is None:
        return f"{key} has nothing open: the next run goes on with it"
    whose = f"{shown(loads(holder.key))} of job {holder.job!r}"
    whose += f", instance {holder.instance}" if holder.instance else ""
    return (
        f"{whose} has taken over what {key} owes ({holder.effect}, {holder.idempotency_key}): decide about that one, "
        f"with that job's file; {key} then goes on by itself; nothing was changed"
    )


def standing(facts: RecordFacts) -> str:
    """Why there is nothing to decide."""
    key, state = shown(loads(facts.key)), str(facts.state).replace("_", " ")
    if facts.state is State.IN_PROGRESS:
        return (
            f"{key} is in progress: run {facts.run} is at work on it, or died; "
            "the next onward run sees what came of it; decide then"
        )
    if facts.state is State.PENDING and any(one.state in OPEN for one in facts.entries):
        return f"{key} is pending: its run has died, and the next one sees what is known of its effect; decide then"
    return f"{key} is {state}, not unconfirmed: there is nothing to decide"


def _step_of(entry: EntryFacts, steps: Sequence[StepPlan]) -> StepPlan | None:
    for step in steps:
        if step.effect is not None and entry.effect in (step.effect.name, *step.effect.formerly):
            return step
    return None


def _received(receipt: str, entry: EntryFacts, step: StepPlan | None, steps: Sequence[StepPlan] | None) -> str:
    if step is None or step.effect is None:
        why = "that needs the job's file" if steps is None else f"the job no longer declares {entry.effect!r}"
        raise UsageError(f"only the effect's declaration says what a receipt of {entry.effect!r} is, and {why}")
    try:
        return step.effect.receive(receipt)
    except (MisfitRecord, OutputError) as error:
        hint = "; a receipt that is more than text is given as JSON, with --json" if receipt.startswith('"') else ""
        raise UsageError(f"that is no receipt of {entry.effect!r}: {error}{hint}") from None


def receipt_of(text: str, as_json: bool) -> Any:
    """What a person typed: text, or JSON. Raises UsageError."""
    if not as_json:
        return text
    try:
        return loads(text)
    except ValueError as error:
        raise UsageError(f"the receipt is no JSON: {error}") from None


def _names_of(effect: str, effects: Sequence[EffectPlan]) -> list[str]:
    for one in effects:
        if effect in (one.name, *one.formerly):
            return [one.name, *one.formerly]
    listed = ", ".join(one.name for one in effects) or "none"
    raise UsageError(f"there is no effect {effect!r} (effects: {listed})")


def _names(effects: Iterable[EffectPlan], true: Callable[[EffectPlan], bool]) -> list[str]:
    return [name for one in effects if true(one) for name in (one.name, *one.formerly)]


def _became(one: Became) -> dict[str, Any]:
    return {
        "key": loads(one.key),
        "state": str(one.state),
        "step": one.step,
        "waiting": None if one.waiting is None else _waiting(one.waiting),
    }


def _waiting(one: Waiting) -> dict[str, Any]:
    return {"reason": one.reason, "until": moment(one.until), "since": moment(one.since)}


def _many(number: int) -> str:
    return "1 record" if number == 1 else f"{number:,} records"


def shown(key: Any) -> str:
    return f"record {key if isinstance(key, str) else dumps(key)}"
