"""When faults have a shared cause, and when one record is tried again."""

from __future__ import annotations

import pytest

from onward.model import Kind
from onward.policy import outage
from onward.policy.failures import Classified
from onward.policy.outage import LONGEST_PAUSE, NONE, Outage
from onward.policy.pace import Bucket

TIMEOUT = Classified(Kind.TRANSIENT, "TimeoutError", "no answer")
UNAVAILABLE = Classified(Kind.TRANSIENT, "HTTPStatusError", "503", status=503)
REFUSED = Classified(Kind.TRANSIENT, "ConnectError", "refused", not_applied=True)
THROTTLED = Classified(Kind.TRANSIENT, "HTTPStatusError", "429", status=429, throttled=True)


def after(failure: Classified, *records: int) -> Outage:
    known = NONE
    for record in records:
        known = outage.after_fault(known, failure, record, 100.0)
    return known


@pytest.mark.parametrize(
    ("failure", "records", "is_on"),
    [
        (TIMEOUT, (1, 2, 3, 4), False),
        (TIMEOUT, (1, 2, 3, 4, 5), True),
        (TIMEOUT, (1, 1, 1, 1, 1, 1), False),  # one record's own fault, however often
        (UNAVAILABLE, (1, 2), False),
        (UNAVAILABLE, (1, 2, 3), True),
        (REFUSED, (1, 2, 3), True),
    ],
)
def test_several_records_in_a_row_make_an_outage(failure: Classified, records: tuple[int, ...], is_on: bool) -> None:
    assert after(failure, *records).is_on is is_on


@pytest.mark.parametrize(
    ("failure", "attempts", "counts"),
    [
        (TIMEOUT, 1, True),
        (TIMEOUT, 2, False),  # it failed before, while others did not
        (THROTTLED, 1, False),
        (Classified(Kind.TRANSIENT, "Transient", "closed", retry_after=3000.0), 1, False),  # the step's own word
        (Classified(Kind.REJECTED, "HTTPStatusError", "404", status=404), 1, False),
        (Classified(Kind.BUG, "KeyError", "x"), 1, False),
    ],
)
def test_what_is_evidence(failure: Classified, attempts: int, counts: bool) -> None:
    assert outage.is_evidence(failure, attempts) is counts


def test_a_success_between_says_that_the_faults_were_the_records_own() -> None:
    known = outage.after_success(after(UNAVAILABLE, 1, 2), began=99.0)
    assert known == NONE


def test_an_answer_to_a_call_from_before_ends_no_outage() -> None:
    known = after(UNAVAILABLE, 1, 2, 3)
    assert outage.after_success(known, began=99.0).is_on
    assert not outage.after_success(known, began=100.5).is_on


def test_pauses_grow_to_a_ceiling_and_stragglers_do_not_lengthen_them() -> None:
    known, now, pauses = after(UNAVAILABLE, 1, 2, 3), 100.0, []
    while now < 190.0:
        pauses.append(known.until - now)
        now = known.until
        known = outage.after_fault(known, UNAVAILABLE, 9, now)
        known = outage.after_trial(known, now)
    assert pauses[:5] == [1.0, 2.0, 4.0, 8.0, 16.0]
    assert max(pauses) == LONGEST_PAUSE
    assert len(pauses) <= 9  # calls in an outage of a minute and a half


def test_a_run_stays_for_so_long_and_no_longer() -> None:
    known = after(UNAVAILABLE, 1, 2, 3)
    assert not outage.is_given_up(known, 60.0, 159.0)
    assert outage.is_given_up(known, 60.0, 160.0)
    assert not outage.is_given_up(NONE, 60.0, 1e9)


@pytest.mark.parametrize("per_minute", [6, 60, 3000, 90_000])
@pytest.mark.parametrize("step", [0.001, 0.1, 0.7])
def test_no_minute_has_more_calls_than_allowed_and_little_is_left_unused(per_minute: int, step: float) -> None:
    bucket, begun, now = Bucket(per_minute), [], 0.0
    while now < 180.0:
        for _ in range(bucket.available(now)):
            bucket.take()
            begun.append(now)
        now = round(now + step, 6)
    windows = [sum(1 for at in begun if start <= at < start + 60.0) for start in range(0, 120, 7)]
    assert max(windows) <= per_minute * 1.0034 + 1
    if step <= 0.1:
        assert len(begun) >= per_minute * 3 * 0.98


def test_a_bucket_tells_when_the_next_call_may_begin() -> None:
    bucket = Bucket(6)
    assert bucket.next_at(0.0) == 0.0
    bucket.take()
    assert bucket.next_at(0.0) == pytest.approx(10.0)
    assert bucket.available(9.0) == 0
    assert bucket.available(10.0) == 1
