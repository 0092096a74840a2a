"""Outages: when faults have a shared cause, and when one record is tried again to see whether it is over."""

from __future__ import annotations

from dataclasses import dataclass, field, replace

from onward.model import Kind
from onward.policy.failures import Classified

SHARED_BY = 5
SHARED_BY_CLEAR = 3
CLEAR_STATUS = frozenset({502, 503, 504})
FIRST_PAUSE = 1.0
LONGEST_PAUSE = 20.0
MOST_KNOWN = 1000
OUTLIVED_AT_MOST = 2


@dataclass(frozen=True, slots=True)
class Outage:
    """What is known of whom a group's calls go to. `streak`: the records that met a fault since the last success, the
    first of them in a call that `began` then.

    `since`: when the outage was noticed; None: there is none. `until`: when the next record is to be tried, after
    `tries` that failed. All times are monotonic seconds of this process, so that no clock that is set moves them.
    """

    streak: tuple[int, ...] = ()
    began: float = 0.0
    since: float | None = None
    until: float = 0.0
    tries: int = 0

    @property
    def is_on(self) -> bool:
        return self.since is not None

    @property
    def is_suspected(self) -> bool:
        return bool(self.streak)


NONE = Outage()


@dataclass(slots=True)
class Failing:
    """Records that meet faults at one gate. `now`: those of the outage that is on, or suspected; `outlived`: how many
    outages ended, by others' success, in which a record had failed."""

    now: list[int] = field(default_factory=list)
    outlived: dict[int, int] = field(default_factory=dict)

    @property
    def last(self) -> list[int]:
        """Whom all others come before when one is tried."""
        return [*self.outlived, *self.now]

    def met(self, record: int) -> None:
        if record in self.now:
            self.now.remove(record)
        self.now.append(record)
        del self.now[:-MOST_KNOWN]

    def others_passed(self, was_outage: bool) -> None:
        """Somebody was answered: what looked like an outage (`was_outage`) is over."""
        if was_outage:
            for record in self.now:
                self.outlived[record] = self.outlived.pop(record, 0) + 1
            for record in list(self.outlived)[:-MOST_KNOWN]:
                del self.outlived[record]
        self.now.clear()

    def is_its_own(self, record: int) -> bool:
        """Whether a further fault is the record's own: where the first of all always fail, one outage would follow the
        other."""
        return self.outlived.get(record, 0) >= OUTLIVED_AT_MOST


def is_evidence(failure: Classified, attempts: int) -> bool:
    """Whether a fault may be that of whom is called. A record that has failed before while others did not proves
    nothing: so one that always fails cannot look like an outage when only its like are left. Nor does a step that says
    itself when its record is to be tried again."""
    if failure.retry_after is not None and failure.status is None:
        return False
    return failure.kind is Kind.TRANSIENT and not failure.throttled and attempts <= 1


def after_fault(known: Outage, failure: Classified, record: int, now: float, began: float = 0.0) -> Outage:
    """A call failed that `is_evidence`, or any while an outage is on: those begun before it was noticed say no more."""
    if known.is_on:
        return known
    streak = known.streak if record in known.streak else (*known.streak, record)
    clear = failure.status in CLEAR_STATUS or failure.not_applied
    if len(streak) < (SHARED_BY_CLEAR if clear else SHARED_BY):
        return replace(known, streak=streak, began=known.began if known.streak else began)
    return Outage(since=now, until=now + FIRST_PAUSE)


def after_trial(known: Outage, now: float) -> Outage:
    """The record that was tried met a fault, too: the next one comes after a longer pause."""
    if not known.is_on:
        return known
    tries = known.tries + 1
    return replace(known, tries=tries, until=now + min(LONGEST_PAUSE, FIRST_PAUSE * 2.0 ** min(tries, 30)))


def after_success(known: Outage, began: float) -> Outage:
    """A call that began at `began` was answered. Only one that began after an outage was noticed counts, or after the
    call that met the first fault: whom is called may have taken in those before and none since."""
    if known.is_on:
        return known if known.since is not None and began < known.since else NONE
    return known if began < known.began else NONE


def is_given_up(known: Outage, limit: float, now: float) -> bool:
    """Whether it has lasted longer than a run stays for it."""
    return known.since is not None and now >= known.since + limit
