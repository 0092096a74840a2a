"""An effect's course: what an attempt at an effect does next, and what it states of what came of it. No I/O.

The order is that of the promise: the payload is built, the intent becomes durable, only then something is sent; the
receipt becomes durable, only then it is confirmed. Whatever ends a send without an answer leaves the entry unknown.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

from onward.codec import canonical_hash
from onward.engine.attempt import Attempt
from onward.engine.outcomes import Answered, CallOutcome, EndedEarly, Prepared, Raised, Returned, TooLate
from onward.model import EffectFact, Entry, EntryState, Fact, Failure, Kind, Met
from onward.policy.attempts import Decision
from onward.policy.effects import (
    SENDING,
    Act,
    Traits,
    asked_again_at,
    given_up,
    landed_by,
    next_act,
    sends_again,
    settles_within,
    time_to_begin,
)
from onward.policy.failures import Classified

Fail = Callable[[Attempt, Classified], Fact]

PERSON = "person"
FAR_SIDE = ""  # it said, when asked, that it had it
WAIT_FOR_OTHER = 2.0
WAIT_FOR_CALL = 10.0
_CUT = Classified(Kind.TRANSIENT, "CancelledError", "the run stopped before the call ended")
_ENDLESS = Classified(Kind.TRANSIENT, "TimeoutError", "no answer, and the call does not return (timeout)")


class Course:
    """One attempt's way through its effect. `now` gives UTC seconds; `starts_next` whether the step after it may start
    with the commit of its checkpoint."""

    __slots__ = ("_now", "_starts_next", "attempt", "effect", "step", "traits")

    def __init__(self, attempt: Attempt, starts_next: Callable[[Attempt], bool], now: Callable[[], float] = time.time):
        assert attempt.step is not None and attempt.step.effect is not None
        self.attempt = attempt
        self.step = attempt.step
        self._starts_next = starts_next
        self.effect = attempt.step.effect
        self.traits: Traits = self.effect.traits
        self._now = now

    @property
    def entry(self) -> Entry | None:
        return self.attempt.entry

    def begin(self) -> Fact | None:
        """The attempt's turn has come: what is to be called is `attempt.phase`; or what is to be stated instead."""
        now, fence = self._now(), self.attempt.claimed.fence
        act = next_act(self.traits, self.entry, fence, now)
        self.attempt.begin_by, self.attempt.begun = None, False
        if act.what == "send":
            entry, again = self._held(), sends_again(self._held(), fence)
            left = self._time_to_repeat(entry, now) if again else time_to_begin(self.traits, entry, now)
            if not again and left is not None and left <= 0:
                return self._intended_anew()
            self.attempt.begin_by = None if left is None else time.monotonic() + left
        if act.what in ("prepare", "probe", "send", "confirm"):
            self.attempt.phase = act.what
            return None
        if act.what == "finish":
            return self._finished(None)
        return self._waits(act)

    def _time_to_repeat(self, entry: Entry, now: float) -> float | None:
        """Seconds for which the far side will still know the key of what was sent before; None: for ever, or it is sent
        again without one."""
        if not self.traits.dedupes(entry, now) or self.traits.expires is None:
            return None
        return entry.first_at + self.traits.expires - now - self.traits.deadline - self.traits.settle

    def _intended_anew(self) -> Fact:
        """Nothing was sent under the intent yet, and it has grown old: another one begins its time anew."""
        fact = self.attempt.going_on()
        fact.effect = self._said(EntryState.INTENDED, asks=self._held().asks)
        return fact

    def met(self, met: Met) -> Fact | None:
        """What the intent came upon; None: the attempt goes on with the entry."""
        if met.meeting == "wait" and met.sending:  # for as long as that process lives: no run stays for it
            reason = f"waits for {met.entry.origin}, whose call with the same obligation may still be sending"
            return self.attempt.unconfirmed(self._now() + WAIT_FOR_CALL, None, reason)
        if met.meeting == "wait":
            fact = self.attempt.given_back(f"waits for {met.entry.origin}, which has the same obligation")
            fact.not_before = self._now() + WAIT_FOR_OTHER
            return fact
        if met.meeting in ("conflict", "other key"):
            self.attempt.entry = None
            failure = self._conflict(met)
            return self.attempt.failed(failure, Decision("quarantine", failure.message), self._now())
        self.attempt.entry = met.entry
        return None

    def _conflict(self, met: Met) -> Classified:
        """What stands in the way of the intent."""
        entry = met.entry
        if met.meeting == "conflict":
            told = (
                f"another payload is {entry.state} under the key {entry.key}; nothing was sent. To keep what that "
                "brought, put the code or the input back as it was and release the record; an amendment needs a key "
                "field of its own, such as a revision"
            )
            return Classified(Kind.CONFLICT, "PayloadConflict", told)
        told = (
            f"for the same input {entry.name!r} is {entry.state} under the key {entry.key}, and today's key= makes it "
            f"another obligation ({', '.join(self.effect.fields)}); nothing was sent. Put key= back as it was and "
            "release the record; or, to owe it once more, change its input in a field of the key, such as a revision"
        )
        return Classified(Kind.CONFLICT, "KeyConflict", told)

    def ended(self, outcome: CallOutcome | None, fail: Fail) -> Fact:
        """What came of the call of `attempt.phase`. `fail` decides about a failure that is known as one."""
        phase, self.attempt.phase = self.attempt.phase, "step"
        if phase == "prepare":
            return self._prepared(outcome, fail)
        if phase == "send":
            fact = self._sent(outcome, fail)
            self.attempt.sending = False
            return fact
        fact = self._probed(outcome) if phase == "probe" else self._confirmed(outcome)
        failure = outcome.failure if isinstance(outcome, Answered) else None
        return (
            fact if failure is None or failure.kind is not Kind.FATAL else _stopping(fact, fail(self.attempt, failure))
        )

    def _prepared(self, outcome: CallOutcome | None, fail: Fail) -> Fact:
        if isinstance(outcome, Prepared):
            fact = self.attempt.going_on()
            fact.effect = EffectFact(
                self.effect.name,
                outcome.key,
                EntryState.INTENDED,
                payload=outcome.payload,
                payload_hash=canonical_hash(outcome.payload),
                former=outcome.former,
                fields=self.effect.fields,
                deadline=self.traits.deadline,
                settle=self.traits.settle,
            )
            return fact
        if isinstance(outcome, EndedEarly):
            outcome = Raised(_done_is_a_bug())
        if isinstance(outcome, Raised):
            return fail(self.attempt, outcome.failure)
        return self.attempt.given_back("the run stopped before the step ended")

    def _sent(self, outcome: CallOutcome | None, fail: Fail) -> Fact:
        entry, fence = self._held(), self.attempt.claimed.fence
        again = sends_again(entry, fence)
        if isinstance(outcome, TooLate):
            return self._waits(self._about(entry, in_vain=False)) if again else self._intended_anew()
        if outcome is None and not self.attempt.begun and not again:
            self.attempt.sending = False
            return self.attempt.given_back("the run stopped before the step was called")
        if isinstance(outcome, Returned):
            if entry.origin is not None:  # whoever sent it before, so has this one
                self.attempt.entry = replace(entry, origin=None, origin_job=None)
            return self._receipt(outcome.text, None)
        if not isinstance(outcome, Raised) or not outcome.failure.not_applied:
            return self._unknown(outcome, again)
        if again and not self._refuses_the_key(outcome.failure):
            return self._refused_again(outcome, fail)
        said = self._said(EntryState.ABSENT)
        self.attempt.sending, self.attempt.entry = False, replace(entry, state=EntryState.ABSENT)
        fact = fail(self.attempt, outcome.failure)
        fact.effect = said
        return fact

    def _refuses_the_key(self, failure: Classified) -> bool:
        """Who dedupes by key answers a request that it has applied before with its outcome, and not with a refusal."""
        return failure.kind is Kind.REJECTED and self.traits.dedupes(self._held(), self._now())

    def _refused_again(self, outcome: Raised, fail: Fail) -> Fact:
        """This send was not applied; an earlier one may have been, so that the entry stays unknown."""
        fact = self._unknown(outcome, True)
        return fact if outcome.failure.kind is not Kind.FATAL else _stopping(fact, fail(self.attempt, outcome.failure))

    def _unknown(self, outcome: CallOutcome | None, again: bool) -> Fact:
        """A send ended without an answer: it uses up no attempt, and is never taken for a failure."""
        entry, now = self._held(), self._now()
        failure = outcome.failure if isinstance(outcome, Raised) else None
        if isinstance(outcome, EndedEarly):
            failure = _done_is_a_bug()
        if outcome is None:
            failure = _CUT
        asked = _asked_to_wait(outcome)
        entry = replace(entry, state=EntryState.UNKNOWN, asks=entry.asks + 1)
        entry.ask_at = self.unknown_until(entry, now, asked)
        fact = self._waits(self._about(entry, in_vain=again), entry)
        if failure is not None:
            fact.failure = self._failure(failure)
        return fact

    def never_returned(self, cut: bool = False) -> Fact:
        """The call of a send is still going on, nobody knows for how long: only its intent says so, of this run.

        `cut`: the run ends meanwhile; it is asked about once the call has returned, or its process has died.
        """
        entry = replace(self._held(), state=EntryState.INTENDED)
        self.attempt.phase = "step"
        reason = "the run ended before its call did" if cut else "its call does not return"
        fact = self._waits(Act("wait for a person", reason=f"{reason}: it may still be sending"), entry)
        fact.hold = SENDING if cut else fact.hold
        fact.failure = self._failure(_ENDLESS)
        self.attempt.sending = False
        return fact

    def unknown_until(self, entry: Entry, now: float, asked: float = 0.0) -> float:
        """When an entry whose send has just ended without an answer may be sent again, or asked about."""
        if self.traits.dedupes(entry, now) or not self.traits.has_probe:
            return asked_again_at(self.traits, entry, now, asked)
        return max(now + settles_within(self.traits, entry), landed_by(self.traits, entry), now + asked)

    def _probed(self, outcome: CallOutcome | None) -> Fact:
        entry = self._held()
        if isinstance(outcome, Answered) and outcome.answer == "found":
            assert outcome.receipt is not None
            return self._receipt(outcome.receipt, "the far side has it already")
        if isinstance(outcome, Answered) and outcome.answer == "absent":
            fact = self.attempt.going_on()
            fact.effect = self._said(EntryState.INTENDED, asks=entry.asks + 1)
            return fact
        return self._asked_in_vain(replace(entry, state=EntryState.UNKNOWN), outcome)

    def _confirmed(self, outcome: CallOutcome | None) -> Fact:
        entry = self._held()
        if isinstance(outcome, Answered) and outcome.answer == "confirmed":
            return self._finished(EntryState.CONFIRMED)
        if isinstance(outcome, Answered) and outcome.answer == "mismatch":
            fact = self._waits(Act("wait for a person", reason=f"the acknowledgement does not match: {outcome.reason}"))
            fact.effect = self._said(EntryState.SENT, asks=entry.asks + 1)
            return fact
        return self._asked_in_vain(entry, outcome)

    def _asked_in_vain(self, entry: Entry, outcome: CallOutcome | None) -> Fact:
        now = self._now()
        told = outcome.reason if isinstance(outcome, Answered) else ""
        failure = outcome.failure if isinstance(outcome, Raised) else None
        asked = _asked_to_wait(outcome)
        entry = replace(entry, asks=entry.asks + 1)
        entry.ask_at = asked_again_at(self.traits, entry, now, asked)
        fact = self._waits(self._about(entry, in_vain=True), entry)
        fact.reason = told or fact.reason
        if failure is not None:
            fact.failure = self._failure(failure)
        return fact

    def _about(self, entry: Entry, in_vain: bool) -> Act:
        """What will be done about the entry; never anything at once. `in_vain`: it was just asked, or sent again."""
        now = self._now()
        if in_vain and (reason := given_up(self.traits, entry, now)) is not None:
            return Act("wait for a person", reason=reason)
        act = next_act(self.traits, entry, self.attempt.claimed.fence, now)
        if act.what == "wait for a person":
            return act
        reason = act.reason or ("sent, to be confirmed" if entry.state is EntryState.SENT else "not known to be sent")
        return Act("ask later", max(act.until, entry.ask_at), reason)

    def _receipt(self, receipt: str, adopted: str | None) -> Fact:
        """The far side has it: durable as it arrives; with the checkpoint, where nothing is to be confirmed."""
        if not self.traits.has_confirm:
            return self._finished(EntryState.CONFIRMED, receipt, adopted)
        fact = self.attempt.going_on()
        fact.effect = self._said(EntryState.SENT, receipt=receipt)
        if adopted is not None:
            fact.event, fact.reason = "effect_deduplicated", adopted
            fact.sent_by = self._held().origin_job or FAR_SIDE
        return fact

    def _finished(self, state: EntryState | None, receipt: str | None = None, adopted: str | None = None) -> Fact:
        """The receipt is the step's output. `state`: what the entry becomes; None: it was known to be done."""
        entry = self._held()
        receipt = receipt or entry.receipt or "null"
        said = None
        if entry.state is not EntryState.CONFIRMED:
            said = EffectFact(entry.name, entry.key, EntryState.CONFIRMED, receipt=receipt)
        name = self.attempt.step.name if self.attempt.step is not None else None
        fact = self.attempt.completed(receipt, self._starts_next(self.attempt))
        fact.effect, fact.done_step = said, name
        from_elsewhere = adopted or entry.origin or ("it was done already" if state is None else None)
        fact.sent_by = entry.origin_job or (FAR_SIDE if adopted else None)
        if from_elsewhere:
            fact.event, fact.reason = "effect_deduplicated", from_elsewhere
        elif self.traits.has_confirm:  # else its receipt came with its checkpoint, which is a record of its own
            fact.event = "effect_confirmed"
        return fact

    def _waits(self, act: Act, entry: Entry | None = None) -> Fact:
        """The record leaves this run unconfirmed: until it is to be asked about again, or until a person decides."""
        current = self._held()
        if entry is None and current.state is EntryState.INTENDED:
            entry = replace(current, state=EntryState.UNKNOWN)
            entry.ask_at = max(act.until, self.unknown_until(entry, self._now()))
            act = replace(act, until=entry.ask_at)
        fact = self.attempt.unconfirmed(act.until, PERSON if act.what == "wait for a person" else None, act.reason)
        if entry is not None:
            fact.effect = self._said(entry.state, asks=entry.asks, ask_at=entry.ask_at)
        return fact

    def _said(self, state: EntryState, receipt: str | None = None, asks: int = 0, ask_at: float = 0.0) -> EffectFact:
        entry = self._held()
        deadline, settle = self.traits.deadline, self.traits.settle
        said = EffectFact(entry.name, entry.key, state, receipt=receipt, asks=asks, ask_at=ask_at)
        return replace(said, deadline=deadline, settle=settle) if state is EntryState.INTENDED else said

    def _held(self) -> Entry:
        assert self.attempt.entry is not None
        return self.attempt.entry

    def _failure(self, failure: Classified) -> Failure:
        step = self.attempt.step
        assert step is not None
        return Failure(
            step.name, step.version, failure.kind, failure.error_type, failure.message, self.attempt.attempts
        )


def _asked_to_wait(outcome: CallOutcome | None) -> float:
    """Seconds for which the far side asked to be left alone."""
    failure = outcome.failure if isinstance(outcome, Raised | Answered) else None
    return 0.0 if failure is None else failure.retry_after or 0.0


def _stopping(fact: Fact, stops: Fact) -> Fact:
    """The run stops for a reason that says nothing of the obligation: that stays as open as it was."""
    stops.state, stops.effect, stops.not_before, stops.hold = fact.state, fact.effect, fact.not_before, fact.hold
    stops.attempts = fact.attempts
    return stops


def _done_is_a_bug() -> Classified:
    return Classified(
        Kind.BUG, "Done", "an effect cannot end its record early; raise Done in a step before or after it"
    )
