"""An effect's course without I/O: each outcome of each call, for each kind of declaration, becomes a fact."""

from __future__ import annotations

from typing import Any

import pytest
from job_files import EmptySource

from onward.engine.attempt import Attempt
from onward.engine.effects.course import PERSON, WAIT_FOR_OTHER, Course
from onward.engine.outcomes import Answered, CallOutcome, EndedEarly, Prepared, Raised, Returned, TooLate
from onward.job.job import Job
from onward.model import Claimed, EffectFact, Entry, EntryState, Fact, Kind, Met, Retry, State, StoredOutput
from onward.policy.attempts import History, decide
from onward.policy.failures import Classified

NOW = 1_700_000_000.0
FENCE = 5
INTENDED, UNKNOWN, SENT = EntryState.INTENDED, EntryState.UNKNOWN, EntryState.SENT
ABSENT, CONFIRMED = EntryState.ABSENT, EntryState.CONFIRMED

TIMEOUT = Raised(Classified(Kind.TRANSIENT, "TimeoutError", "late"))
RESET = Raised(Classified(Kind.TRANSIENT, "ConnectionResetError", "reset"))
CONFLICT_409 = Raised(Classified(Kind.REJECTED, "HTTPStatusError", "409", status=409))
BUSY_503 = Raised(Classified(Kind.TRANSIENT, "HTTPStatusError", "503", retry_after=77.0, status=503))
BUG = Raised(Classified(Kind.BUG, "ValueError", "7 is odd"))
TOO_BIG = Raised(Classified(Kind.BUG, "OutputError", "a receipt that cannot be stored"))
REFUSED = Raised(Classified(Kind.TRANSIENT, "ConnectError", "refused", not_applied=True))
THROTTLED = Raised(Classified(Kind.TRANSIENT, "HTTPStatusError", "429", 9.0, True, 429, not_applied=True))
REJECTED = Raised(Classified(Kind.REJECTED, "Rejected", "fee missing", not_applied=True))
INVALID = Raised(Classified(Kind.INVALID, "Invalid", "no such entity", not_applied=True))
FATAL = Raised(Classified(Kind.FATAL, "Fatal", "revoked", not_applied=True))
WITHOUT_ANSWER = [TIMEOUT, RESET, CONFLICT_409, BUSY_503, BUG, TOO_BIG, EndedEarly("done"), None]


def name_of(outcome: Any) -> str:
    failure = getattr(outcome, "failure", None)
    return type(outcome).__name__ if failure is None else f"{failure.error_type} {failure.message}"


def make(probe: bool = False, confirm: bool = False, payload: bool = True, later: bool = False, **traits: Any) -> Job:
    job = Job("filings", EmptySource())

    @job.step
    def validate(record: Any) -> Any: ...

    @job.effect("annual-report", key="id", retry=Retry(attempts=3, base=10.0), **traits)
    def submit(payload: Any, idempotency_key: Any) -> Any: ...

    if payload:
        submit.payload(lambda record, validate: {})
    if probe:
        submit.probe(lambda idempotency_key: None)
    if confirm:
        submit.confirm(lambda idempotency_key, submit: True)
    if later:

        @job.step
        def reconcile(record: Any, submit: Any) -> Any: ...

    return job


class Bench:
    """An attempt at the effect of a record whose first step is done, held under `FENCE`."""

    def __init__(self, entry: Entry | None = None, started: bool = True, **declared: Any):
        self.now = NOW
        self.plan = make(**declared).plan()
        stored = {"validate": StoredOutput("1", "{}")}
        claimed = Claimed(1, FENCE, 0, '"a"', 0, '{"id":"a"}', "submit", int(started), 0, 0, 0, stored)
        if entry is not None:
            claimed.entries = {entry.name: entry}
        self.attempt = Attempt(self.plan, claimed, started)
        self.course = Course(self.attempt, lambda attempt: True, lambda: self.now)

    def begin(self, expected: str | None) -> Fact | None:
        """The turn has come: `expected` is the call that is to be made; None: a fact instead."""
        fact = self.course.begin()
        assert (self.attempt.phase if fact is None else None) == expected
        self.attempt.sending = self.attempt.begun = expected == "send"
        return fact

    def end(self, outcome: CallOutcome | None) -> Fact:
        return self.course.ended(outcome, self.fail)

    def call(self, phase: str, outcome: CallOutcome | None) -> Fact:
        self.begin(phase)
        fact = self.end(outcome)
        assert not self.attempt.sending
        return fact

    def fail(self, attempt: Attempt, failure: Classified) -> Fact:
        assert self.attempt is attempt and attempt.step is not None
        history = History(attempt.attempts, 0, 3)
        return attempt.failed(failure, decide(failure, history, attempt.step.retry, 1.0), self.now)

    def intend(self) -> None:
        """The payload is built and the intent durable."""
        fact = self.call("prepare", Prepared("ow1-x", '{"fee":50}'))
        assert fact.effect is not None
        assert fact.effect.payload is not None
        self.attempt.learn(fact.effect, lambda: self.now)
        assert self.course.met(Met("go", entry(INTENDED, payload_hash=fact.effect.payload_hash))) is None

    def become_durable(self, fact: Fact) -> None:
        assert fact.effect is not None
        self.attempt.learn(fact.effect, lambda: self.now)


def entry(state: EntryState, age: float = 0.0, fence: int = FENCE, **given: Any) -> Entry:
    made: dict[str, Any] = {
        "payload": '{"fee":50}',
        "payload_hash": "hash",
        "receipt": '{"no":7}' if state in (SENT, CONFIRMED) else None,
        "sent_at": NOW - age if state in (SENT, CONFIRMED) else None,
        **given,
    }
    return Entry("annual-report", "ow1-x", state, **{
        "record": 1, "generation": 0, "fence": fence, "first_at": NOW - age, "intended_at": NOW - age, **made,
    })  # fmt: skip


def said(fact: Fact) -> tuple[str, str | None]:
    """What the record and its entry become."""
    return str(fact.state), None if fact.effect is None else str(fact.effect.state)


# The way without trouble.


def test_the_payload_is_built_then_intended_then_sent() -> None:
    bench = Bench()
    fact = bench.call("prepare", Prepared("ow1-x", '{"fee":50}', (("old", "ow1-y"),)))
    assert said(fact) == ("in_progress", "intended")
    assert (fact.started, fact.attempts, fact.checkpoint) == (True, 1, None)
    assert fact.effect is not None
    assert (fact.effect.name, fact.effect.key) == ("annual-report", "ow1-x")
    assert (fact.effect.payload, fact.effect.former) == ('{"fee":50}', (("old", "ow1-y"),))
    bench.become_durable(fact)
    assert bench.attempt.entry is None, "an intent is answered with what it came upon"
    assert bench.course.met(Met("go", entry(INTENDED))) is None
    bench.begin("send")


def test_payloads_that_say_the_same_have_one_hash() -> None:
    hashes = []
    for text in ('{"a":1,"b":[2]}', '{"b":[2],"a":1}', '{"a":1,"b":[3]}'):
        fact = Bench().call("prepare", Prepared("k", text))
        assert fact.effect is not None
        hashes.append(fact.effect.payload_hash)
    assert hashes[0] == hashes[1] != hashes[2]


@pytest.mark.parametrize("later", [False, True])
def test_without_confirmation_receipt_and_checkpoint_are_one_fact(later: bool) -> None:
    bench = Bench(later=later)
    bench.intend()
    fact = bench.call("send", Returned('{"no":7}'))
    assert said(fact) == ("in_progress" if later else "succeeded", "confirmed")
    assert (fact.done_step, fact.checkpoint) == ("submit", '{"no":7}')
    assert fact.effect and fact.effect.receipt == '{"no":7}'
    assert fact.event is None, "a plain checkpoint, which is a record of its own"
    assert fact.step == ("reconcile" if later else None)


def test_with_one_the_receipt_comes_first_and_the_checkpoint_with_the_confirmation() -> None:
    bench = Bench(confirm=True, later=True)
    bench.intend()
    receipt = bench.call("send", Returned('{"no":7}'))
    assert said(receipt) == ("in_progress", "sent")
    assert (receipt.checkpoint, receipt.step, receipt.effect and receipt.effect.receipt) == (None, "submit", '{"no":7}')
    bench.become_durable(receipt)
    fact = bench.call("confirm", Answered("confirmed"))
    assert said(fact) == ("in_progress", "confirmed")
    assert (fact.done_step, fact.checkpoint, fact.step) == ("submit", '{"no":7}', "reconcile")
    assert fact.event == "effect_confirmed"


def test_a_receipt_that_is_null_is_one() -> None:
    bench = Bench()
    bench.intend()
    assert bench.call("send", Returned("null")).checkpoint == "null"


def test_a_probe_comes_before_the_first_send_and_absent_leads_to_it() -> None:
    bench = Bench(probe=True)
    bench.intend()
    fact = bench.call("probe", Answered("absent"))
    assert said(fact) == ("in_progress", "intended")
    bench.become_durable(fact)
    bench.begin("send")


@pytest.mark.parametrize("confirm", [False, True])
def test_what_a_probe_finds_is_adopted_and_not_sent(confirm: bool) -> None:
    bench = Bench(probe=True, confirm=confirm)
    bench.intend()
    fact = bench.call("probe", Answered("found", '{"no":7}'))
    assert said(fact) == (("in_progress", "sent") if confirm else ("succeeded", "confirmed"))
    assert (fact.event, fact.effect and fact.effect.receipt) == ("effect_deduplicated", '{"no":7}')
    if confirm:
        bench.become_durable(fact)
        bench.begin("confirm")


# A payload that cannot be built: nothing was sent, and it is a failure like any step's.


@pytest.mark.parametrize(
    ("outcome", "state"),
    [
        (TIMEOUT, "pending"),
        (INVALID, "quarantined"),
        (BUG, "failed"),
        (EndedEarly("done"), "failed"),
        (None, "pending"),
    ],
    ids=name_of,
)
def test_a_payload_that_fails(outcome: CallOutcome | None, state: str) -> None:
    fact = Bench().call("prepare", outcome)
    assert said(fact) == (state, None)


# A send without an answer.

DECLARED: dict[str, dict[str, Any]] = {
    "unkeyed": {},
    "keyed": {"keyed": True},
    "probed": {"probe": True},
    "resent": {"on_unknown": "resend"},
    "keyed and confirmed": {"keyed": True, "confirm": True},
}


@pytest.mark.parametrize("outcome", WITHOUT_ANSWER, ids=name_of)
@pytest.mark.parametrize(
    ("declared", "until", "hold"),
    [
        ("unkeyed", 0.0, PERSON),
        ("keyed", NOW + 2.0, None),
        ("keyed and confirmed", NOW + 2.0, None),
        ("probed", NOW + 95.0, None),
        ("resent", NOW + 2.0, None),
    ],
)
def test_a_send_without_an_answer_is_unknown_and_uses_up_no_attempt(
    declared: str, until: float, hold: str | None, outcome: CallOutcome | None
) -> None:
    bench = Bench(probe_first=False, **DECLARED[declared])
    bench.intend()
    fact = bench.call("send", outcome)
    assert said(fact) == ("unconfirmed", "unknown")
    assert (fact.attempts, fact.hold, fact.event, fact.checkpoint) == (0, hold, "effect_unconfirmed", None)
    if outcome is BUSY_503 and hold is None:
        until = max(until, NOW + 77.0)
    assert fact.not_before == until
    assert fact.effect is not None
    assert fact.effect.receipt is None
    assert fact.failure is not None
    assert (fact.failure.kind is Kind.TRANSIENT) or outcome is not None


def test_a_send_that_ended_late_may_land_for_as_long_after_its_end() -> None:
    bench = Bench(probe=True, probe_first=False, deadline=60, settle=30)
    bench.intend()
    bench.begin("send")
    bench.now += 500  # a thread that could not be cut
    fact = bench.end(TIMEOUT)
    assert (fact.not_before, fact.effect and fact.effect.ask_at) == (NOW + 530, NOW + 530)


def test_a_send_that_never_returns_is_a_persons() -> None:
    for declared in DECLARED.values():
        bench = Bench(probe_first=False, **declared)
        bench.intend()
        bench.begin("send")
        fact = bench.course.never_returned()
        assert said(fact) == ("unconfirmed", "intended")  # nothing has ended yet
        assert fact.failure is not None
        assert (fact.failure.kind, fact.failure.error_type) == (Kind.TRANSIENT, "TimeoutError")
        assert fact.hold == PERSON
        assert "may still be sending" in (fact.reason or "")


# A send that is known as not applied: a failure like any step's, whose obligation may be superseded.


@pytest.mark.parametrize("declared", DECLARED.values(), ids=DECLARED)
@pytest.mark.parametrize(
    ("outcome", "state", "attempts", "wait"),
    [
        (REFUSED, "pending", 1, 10.0),
        (THROTTLED, "pending", 0, 9.0),
        (REJECTED, "quarantined", 1, None),
        (INVALID, "quarantined", 1, None),
        (FATAL, "pending", None, None),
    ],
    ids=name_of,
)
def test_a_send_that_was_not_applied(
    declared: dict[str, Any], outcome: Raised, state: str, attempts: int | None, wait: float | None
) -> None:
    bench = Bench(probe_first=False, **declared)
    bench.intend()
    fact = bench.call("send", outcome)
    assert said(fact) == (state, "absent")
    assert fact.failure is not None
    assert fact.failure.kind is outcome.failure.kind
    if attempts is not None:
        assert fact.attempts == attempts
    if wait is not None:
        assert fact.not_before == pytest.approx(NOW + wait, abs=1.0)
    bench.become_durable(fact)
    bench.begin("prepare")


# Sent again after an unknown outcome: what a refusal says of this send it does not say of the first.

OPEN = [entry(UNKNOWN, 60.0, FENCE - 1, asks=1), entry(INTENDED, 60.0, FENCE - 1)]
OPEN_IDS = ["unknown", "left by a dead run"]


@pytest.mark.parametrize("open_entry", OPEN, ids=OPEN_IDS)
@pytest.mark.parametrize("outcome", [REFUSED, THROTTLED, INVALID, TIMEOUT, BUG], ids=name_of)
@pytest.mark.parametrize("declared", [{"keyed": True}, {"on_unknown": "resend"}], ids=str)
def test_a_second_send_that_does_not_get_through_leaves_the_first_unknown(
    open_entry: Entry, outcome: Raised, declared: dict[str, Any]
) -> None:
    fact = Bench(open_entry, **declared).call("send", outcome)
    assert said(fact) == ("unconfirmed", "unknown")
    assert (fact.attempts, fact.hold) == (0, None)
    assert fact.not_before > NOW


@pytest.mark.parametrize("open_entry", OPEN, ids=OPEN_IDS)
def test_who_dedupes_by_key_and_refuses_it_has_not_applied_it(open_entry: Entry) -> None:
    assert said(Bench(open_entry, keyed=True).call("send", REJECTED)) == ("quarantined", "absent")
    assert said(Bench(open_entry, on_unknown="resend").call("send", REJECTED)) == ("unconfirmed", "unknown")


@pytest.mark.parametrize("open_entry", OPEN, ids=OPEN_IDS)
def test_a_fatal_failure_of_a_second_send_stops_the_run_and_leaves_the_first_unknown(open_entry: Entry) -> None:
    bench = Bench(open_entry, keyed=True)
    heard: list[Classified] = []

    def fail(attempt: Attempt, failure: Classified) -> Fact:
        heard.append(failure)
        return bench.fail(attempt, failure)

    bench.begin("send")
    fact = bench.course.ended(FATAL, fail)
    assert heard == [FATAL.failure]
    assert said(fact) == ("unconfirmed", "unknown")
    assert fact.failure is not None
    assert fact.failure.kind is Kind.FATAL


@pytest.mark.parametrize("open_entry", OPEN, ids=OPEN_IDS)
@pytest.mark.parametrize("declared", [{"keyed": True}, {"on_unknown": "resend"}], ids=str)
def test_a_second_send_that_is_answered_is_done(open_entry: Entry, declared: dict[str, Any]) -> None:
    fact = Bench(open_entry, **declared).call("send", Returned('{"no":7}'))
    assert said(fact) == ("succeeded", "confirmed")


@pytest.mark.parametrize("open_entry", OPEN, ids=OPEN_IDS)
def test_a_second_send_that_begins_too_late_leaves_the_first_unknown(open_entry: Entry) -> None:
    """Its resources opened slowly: the far side may have forgotten the key meanwhile."""
    bench = Bench(open_entry, keyed=True, expires=3600)
    bench.begin("send")
    assert bench.attempt.begin_by is not None
    fact = bench.end(TooLate())
    assert fact.state is State.UNCONFIRMED
    assert fact.effect is None or fact.effect.state is UNKNOWN
    assert not bench.attempt.sending


def test_a_first_send_that_begins_too_late_is_intended_anew() -> None:
    bench = Bench()
    bench.intend()
    bench.begin("send")
    fact = bench.end(TooLate())
    assert said(fact) == ("in_progress", "intended")


# Taken up by another holder.


@pytest.mark.parametrize("known", OPEN, ids=OPEN_IDS)
def test_what_a_new_holder_does_about_an_open_entry(known: Entry) -> None:
    Bench(known, keyed=True).begin("send")
    Bench(known, on_unknown="resend").begin("send")
    wait = Bench(known, probe=True).begin(None)
    assert wait is not None
    assert said(wait)[0] == "unconfirmed"
    assert (wait.not_before, wait.hold, wait.attempts) == (max(NOW + 30, wait.not_before), None, 0)
    person = Bench(known).begin(None)
    assert person is not None
    assert said(person)[0] == "unconfirmed"
    assert person.hold == PERSON


def test_an_intent_that_a_dead_run_left_becomes_unknown_when_it_is_waited_for() -> None:
    fact = Bench(entry(INTENDED, 60.0, FENCE - 1), probe=True).begin(None)
    assert fact is not None
    assert said(fact) == ("unconfirmed", "unknown")
    assert fact.not_before >= NOW + 30


def test_its_probe_decides_when_nothing_can_land_any_more() -> None:
    known = entry(INTENDED, 1000.0, FENCE - 1)
    assert said(Bench(known, probe=True).call("probe", Answered("found", "7"))) == ("succeeded", "confirmed")
    again = Bench(known, probe=True)
    fact = again.call("probe", Answered("absent"))
    assert said(fact) == ("in_progress", "intended")
    again.become_durable(fact)
    assert again.attempt.entry is not None
    assert (again.attempt.entry.fence, again.attempt.entry.payload) == (FENCE, '{"fee":50}')
    again.begin("send")
    assert said(again.end(REFUSED)) == ("pending", "absent"), "the probe has settled what was before"


@pytest.mark.parametrize("outcome", [Answered("unknown", reason="no idea"), TIMEOUT, BUG, None], ids=name_of)
def test_a_probe_without_an_answer_is_asked_again_with_growing_pauses(outcome: CallOutcome | None) -> None:
    for asks, pause in ((0, 2.0), (3, 16.0), (20, 300.0)):
        fact = Bench(entry(UNKNOWN, 1000.0, asks=asks), probe=True).call("probe", outcome)
        assert said(fact) == ("unconfirmed", "unknown")
        assert fact.effect is not None
        assert (fact.not_before, fact.effect.ask_at, fact.effect.asks) == (NOW + pause, NOW + pause, asks + 1)
        assert (fact.hold, fact.attempts) == (None, 0)


@pytest.mark.parametrize("fence", [FENCE, FENCE - 1])
def test_a_receipt_is_only_confirmed(fence: int) -> None:
    Bench(entry(SENT, 1e6, fence), keyed=True, confirm=True).begin("confirm")
    Bench(entry(SENT, 1e6, fence), probe=True, confirm=True).begin("confirm")
    fact = Bench(entry(SENT, 1e6, fence), keyed=True).begin(None)
    assert fact is not None
    assert said(fact) == ("succeeded", "confirmed")
    assert fact.checkpoint == '{"no":7}'


def test_what_is_confirmed_already_gives_its_receipt() -> None:
    fact = Bench(entry(CONFIRMED, 1e6, 1, origin="record b of other"), keyed=True, confirm=True).begin(None)
    assert fact is not None
    assert said(fact) == ("succeeded", None)
    assert (fact.checkpoint, fact.event, fact.reason) == ('{"no":7}', "effect_deduplicated", "record b of other")


# Confirmation.


@pytest.mark.parametrize("outcome", [Answered("unknown"), TIMEOUT, BUG, None], ids=name_of)
def test_what_is_not_confirmed_yet_is_asked_again(outcome: CallOutcome | None) -> None:
    fact = Bench(entry(SENT, 100.0, asks=2), confirm=True).call("confirm", outcome)
    assert said(fact) == ("unconfirmed", "sent")
    assert (fact.not_before, fact.hold, fact.attempts) == (NOW + 8, None, 0)


def test_a_mismatch_is_a_persons() -> None:
    fact = Bench(entry(SENT), confirm=True).call("confirm", Answered("mismatch", reason="fee 40, 50 due"))
    assert said(fact) == ("unconfirmed", "sent")
    assert fact.hold == PERSON
    assert "fee 40, 50 due" in (fact.reason or "")


@pytest.mark.parametrize(
    ("known", "declared", "phase", "outcome"),
    [
        (entry(SENT, 500.0), {"confirm": True}, "confirm", Answered("unknown")),
        (entry(UNKNOWN, 500.0), {"probe": True}, "probe", Answered("unknown")),
        (entry(UNKNOWN, 500.0), {"keyed": True}, "send", TIMEOUT),
        (entry(UNKNOWN, 500.0), {"on_unknown": "resend"}, "send", REFUSED),
    ],
)
def test_past_its_time_it_is_asked_once_more_and_then_a_person_looks(
    known: Entry, declared: dict[str, Any], phase: str, outcome: CallOutcome
) -> None:
    """However long nobody was at work; and after a person had it asked again."""
    for _ in range(2):
        fact = Bench(known, confirm_within=400, **declared).call(phase, outcome)
        assert (fact.state, fact.hold) == (State.UNCONFIRMED, PERSON)
        assert "400 s" in (fact.reason or "")


def test_a_first_send_that_ends_late_is_still_asked_about() -> None:
    bench = Bench(probe=True, probe_first=False, confirm_within=10, deadline=60)
    bench.intend()
    bench.begin("send")
    bench.now += 60
    fact = bench.end(TIMEOUT)
    assert (fact.hold, fact.not_before) == (None, NOW + 95)


# Meetings.


@pytest.mark.parametrize("meeting", ["go on", "adopt"])
@pytest.mark.parametrize(
    ("known", "declared", "expected"),
    [
        (entry(SENT, 1.0, 1, origin="record b of other"), {"confirm": True}, "confirm"),
        (entry(UNKNOWN, 1000.0, 1, origin="record b of other"), {"probe": True}, "probe"),
        (entry(UNKNOWN, 1000.0, 1, origin="record b of other"), {"keyed": True}, "send"),
        (entry(UNKNOWN, 1000.0, 1, origin="record b of other"), {}, None),
        (entry(CONFIRMED, 1000.0, 1, origin="record b of other"), {}, None),
    ],
)
def test_what_is_come_upon_is_gone_on_with(meeting: Any, known: Entry, declared: Any, expected: str | None) -> None:
    bench = Bench(**declared)
    bench.call("prepare", Prepared("ow1-x", '{"fee":50}'))
    assert bench.course.met(Met(meeting, known)) is None
    bench.begin(expected)


@pytest.mark.parametrize("declared", [{"probe": True}, {"keyed": True}])
def test_who_sends_what_it_has_taken_over_is_the_sender(declared: Any) -> None:
    bench = Bench(**declared)
    bench.call("prepare", Prepared("ow1-x", '{"fee":50}'))
    theirs = entry(UNKNOWN, 1000.0, 1, origin="record b of other", origin_job="other")
    assert bench.course.met(Met("adopt", theirs)) is None
    if "probe" in declared:
        bench.become_durable(bench.call("probe", Answered("absent")))
    fact = bench.call("send", Returned('{"no":7}'))
    assert (said(fact), fact.event, fact.sent_by) == (("succeeded", "confirmed"), None, None)


@pytest.mark.parametrize(("origin", "job", "expected"), [("record b of other", "other", "other"), (None, None, None)])
def test_what_was_done_already_is_told_as_its_senders(origin: Any, job: Any, expected: str | None) -> None:
    bench = Bench()
    bench.call("prepare", Prepared("ow1-x", '{"fee":50}'))
    bench.course.met(Met("adopt" if origin else "go on", entry(CONFIRMED, origin=origin, origin_job=job)))
    fact = bench.begin(None)
    assert fact is not None
    assert (fact.event, fact.sent_by) == ("effect_deduplicated", expected)


def test_a_living_record_with_the_same_obligation_is_waited_for() -> None:
    bench = Bench()
    bench.call("prepare", Prepared("ow1-x", "{}"))
    fact = bench.course.met(Met("wait", entry(INTENDED, origin="record b of other")))
    assert fact is not None
    assert said(fact) == ("pending", None)
    assert (fact.not_before, fact.attempts) == (NOW + WAIT_FOR_OTHER, 0)
    assert "record b of other" in (fact.reason or "")


def test_one_that_meets_a_call_that_may_still_be_sending_leaves_its_run_and_is_not_stayed_for() -> None:
    bench = Bench(probe=True)
    bench.begin("prepare")
    fact = bench.course.met(Met("wait", entry(INTENDED, origin="record b of other"), sending=True))
    assert fact is not None
    assert (str(fact.state), fact.hold, fact.effect) == ("unconfirmed", None, None)
    assert fact.not_before > NOW
    assert "record b of other, whose call with the same obligation may still be sending" in (fact.reason or "")


@pytest.mark.parametrize("state", [INTENDED, UNKNOWN, SENT, CONFIRMED])
def test_another_payload_under_the_key_is_a_conflict_and_nothing_is_sent(state: EntryState) -> None:
    bench = Bench()
    bench.call("prepare", Prepared("ow1-x", "{}"))
    fact = bench.course.met(Met("conflict", entry(state)))
    assert fact is not None
    assert said(fact) == ("quarantined", None)
    assert fact.failure is not None
    assert fact.failure.kind is Kind.CONFLICT
    assert "ow1-x" in fact.failure.message


# What the machine states by itself while an entry is open.


@pytest.mark.parametrize(
    ("sending", "state", "expected"),
    [(True, "unconfirmed", "unknown"), (False, "pending", "absent")],
)
def test_an_intent_that_is_given_back(sending: bool, state: str, expected: str) -> None:
    """Before its send nothing has left; afterwards it may have."""
    bench = Bench(keyed=True)
    bench.intend()
    if sending:
        bench.begin("send")
    assert said(bench.attempt.given_back("the run stops")) == (state, expected)


@pytest.mark.parametrize("known", [entry(UNKNOWN, 9.0, 1), entry(SENT, 9.0, 1)], ids=["unknown", "sent"])
def test_what_may_have_been_sent_is_given_back_as_unconfirmed(known: Entry) -> None:
    assert said(Bench(known, keyed=True, confirm=True).attempt.given_back("the run stops"))[0] == "unconfirmed"


def test_an_intent_of_a_dead_run_is_given_back_as_what_may_have_been_sent() -> None:
    assert said(Bench(entry(INTENDED, 9.0, 1), keyed=True).attempt.given_back("the run stops"))[0] == "unconfirmed"


@pytest.mark.parametrize(("begun", "expected"), [(True, ("unconfirmed", "unknown")), (False, ("pending", "absent"))])
def test_a_send_whose_process_died(begun: bool, expected: tuple[str, str]) -> None:
    bench = Bench(keyed=True)
    bench.intend()
    bench.begin("send")
    bench.attempt.call_lost(begun)
    assert said(bench.attempt.given_back("the process died")) == expected


def test_a_fact_about_another_entry_teaches_nothing() -> None:
    bench = Bench()
    bench.intend()
    before = bench.attempt.entry
    bench.attempt.learn(EffectFact("annual-report", "ow1-other", SENT, receipt="1"), lambda: NOW)
    assert bench.attempt.entry == before


def test_a_send_is_made_of_what_was_frozen() -> None:
    """Not of what the record has become."""
    bench = Bench(entry(UNKNOWN, 60.0, 1, payload='{"fee":40}'), keyed=True)
    bench.begin("send")
    step = bench.attempt.step
    assert step is not None
    first, others = bench.attempt.arguments(step.arguments, '{"id":"a","fee":99}', {})
    assert (first, others) == ([{"fee": 40}], {"idempotency_key": "ow1-x"})


def test_without_a_payload_of_its_own_its_inputs_are_frozen() -> None:
    job = Job("filings", EmptySource())

    @job.step
    def validate(record: Any) -> Any: ...

    @job.effect("annual-report", key="id", keyed=True)
    def submit(record: Any, validate: Any, idempotency_key: Any) -> Any: ...

    frozen = entry(UNKNOWN, 60.0, 1, payload='{"record":{"id":"a","fee":40},"validate":{"ok":1}}')
    stored = {"validate": StoredOutput("1", '{"ok":2}')}
    claimed = Claimed(1, FENCE, 0, '"a"', 0, "{}", "submit", 1, 0, 0, 0, stored, {frozen.name: frozen})
    attempt = Attempt(job.plan(), claimed, True)
    assert Course(attempt, lambda one: True, lambda: NOW).begin() is None
    assert attempt.step is not None
    first, others = attempt.arguments(attempt.step.arguments, '{"id":"a","fee":99}', {})
    assert first == [{"id": "a", "fee": 40}]
    assert others == {"validate": {"ok": 1}, "idempotency_key": "ow1-x"}
