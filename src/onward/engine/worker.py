"""The worker: claim → attempt → commit, for as many records at a time as the job allows."""

from __future__ import annotations

import asyncio
import random
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace

from onward.engine.attempt import Attempt
from onward.engine.calls import Caller, OwnCalls
from onward.engine.endings import Endings
from onward.engine.events import Events
from onward.engine.gates.admission import Admission
from onward.engine.gates.causes import Causes
from onward.engine.gates.outages import Outages
from onward.engine.gates.refusals import Refusals
from onward.engine.journal import Journal, size_of
from onward.engine.pacer import Pacer
from onward.engine.performing import Performing
from onward.engine.share import Share
from onward.engine.slots import Slots
from onward.engine.spending.desk import Budgets
from onward.engine.tally import Tally
from onward.job.plan import Plan
from onward.model import Claimed, EntryState, Fact, Met, State
from onward.policy.pace import MOST_AHEAD
from onward.policy.suspects import is_suspect
from onward.ports.work import ClaimWish, Outcome

MOST_WAITING = 4000
MOST_WAITING_SIZE = 64 << 20
CLAIM_BYTES = 32 << 20
LINGER = 0.003
MOST_IDLE = 0.1


class Worker:
    """Holds claimed records, makes their calls and hands facts to the journal.

    `held` is by record and fence: a record whose input changed may be claimed again while its old call goes on.

    It lives on the event loop and never touches the store: commits arrive through `committed`, which the journal
    calls in its own thread. `endings` states what calls came to. `on_suspects` hears of suspects that were claimed
    among others, since what became of their effects is open, `on_put_off` of requests that wait to be sent with others.
    `patient`: False where no rate, no hours and no outage is waited for.
    """

    def __init__(
        self,
        plan: Plan,
        concurrency: int,
        caller: OwnCalls,
        processes: Caller,
        tally: Tally,
        events: Events,
        draw: Callable[[], float] = random.random,
        value_of: Callable[[Attempt], str] = lambda attempt: attempt.claimed.value or "null",
        patient: bool = True,
        budgets: Budgets | None = None,
    ):
        self.held: dict[tuple[int, int], Attempt] = {}
        self.stopping = False
        self.changed = asyncio.Event()
        self.next_due: float | None = None
        self.dry = False
        self.is_claiming = False
        self.share = Share()
        self.error: BaseException | None = None
        self.may_claim: Callable[[], bool] = lambda: True
        self.on_suspects: Callable[[list[Attempt]], None] = lambda attempts: None
        self.on_put_off: Callable[[], None] = lambda: None
        self.on_left: Callable[[Attempt, Fact], None] = lambda attempt, fact: None
        self.journal: Journal | None = None
        hands = self._begin, self.put_back, self._freed, value_of
        self.admission = Admission(plan, *hands, patient, concurrency, lambda: self.stopping)
        self.causes = Causes(
            self.admission,
            Outages(self._calls_to_come, plan.outage_limit, patient),
            Refusals(self._others_at, tally.has_succeeded, concurrency),
            self.flush_if_idle,
        )
        self.tally = tally
        self.plan = plan
        self.budgets = budgets or Budgets({})
        self.budgets.join(self._own_journal, lambda: self.plan_flush(not self.slots.ready), self.admission.heard_rates)
        self._caller = caller
        self._events = events
        self.has_effects = any(step.effect is not None for step in plan.steps)
        self.endings = Endings(plan, self, self.admission, self.causes, tally, draw)
        self.performing = Performing(self, caller, processes, self.admission, self.causes, self.endings, events)
        self.slots = Slots(concurrency, self.performing.perform, self.performing.given_up, self.fault)
        self._loop = asyncio.get_running_loop()
        self._commits: deque[tuple[list[Fact], Outcome]] = deque()
        self._waiting = 0
        self._waiting_size = 0
        self._flush_planned = False
        self._pacer = Pacer()

    def ask_about(self, records: Sequence[int]) -> None:
        """A person asks about the effects of these records now: nothing else is taken up."""
        self.share.ask_about(records)
        self.endings.effects.asks_now = True

    # What the journal tells, in its own thread.

    def committed(self, facts: list[Fact], outcome: Outcome) -> None:
        self._commits.append((facts, outcome))
        self._loop.call_soon_threadsafe(self._deliver)

    def broken(self, error: BaseException) -> None:
        self._loop.call_soon_threadsafe(self.fault, error)

    def fault(self, error: BaseException) -> None:
        """The run cannot go on, be it by a fault of onward itself: it ends, and does not wait for what never comes."""
        if self.error is None:
            self.error = error
        self.changed.set()

    def _own_journal(self) -> Journal:
        assert self.journal is not None
        return self.journal

    def may_send(self) -> bool:
        """Whether the lease is young enough for something to be sent under it."""
        return self.journal is None or self.journal.may_send()

    # Commits.

    def _deliver(self) -> None:
        try:
            self._take_in()
        except Exception as error:
            self.fault(error)

    def _take_in(self) -> None:
        while self._commits:
            facts, outcome = self._commits.popleft()
            self._waiting -= len(facts)
            self._waiting_size -= sum(map(size_of, facts))
            for fact in facts:
                for spending in fact.spending or ():
                    self.budgets.committed(spending)
                hold = fact.record, fact.fence
                attempt = self.held[hold]
                if hold in outcome.lost:
                    self._lost(attempt, fact)
                elif hold in outcome.renewed:
                    self._renewed(attempt, fact)
                else:
                    self._settled(attempt, fact, outcome.met.get(hold))
            for claimed in outcome.claimed:
                self._take(claimed)
            if outcome.claimed:
                self.next_due = outcome.next_due
        if self.slots.paused and not self._too_much_waits():
            self.slots.unpause()
        self.causes.look_at_refusals()
        self.claim_more()
        if not self.held or self.dry:
            self.changed.set()

    def _settled(self, attempt: Attempt, fact: Fact, met: Met | None) -> None:
        """A fact has become durable: only now does the record move on."""
        self.tally.add(fact)
        if fact.effect is not None and (instead := self.endings.effects.settled(attempt, fact, met)) is not None:
            self.endings.state(attempt, instead)
            return
        if fact.checkpoint is not None and self._events.frequent:
            self._events.of(attempt, "checkpoint_committed", step=fact.done_step)
        if fact.event is not None:
            self._events.of(attempt, fact.event, fact)
        elif fact.effect is not None and fact.effect.state is EntryState.CONFIRMED:
            self._events.of(attempt, "effect_confirmed", fact)
        if fact.state is not State.IN_PROGRESS:
            self._leave(attempt, fact)
        elif fact.started:
            self._put(attempt, first=fact.checkpoint is not None)
        elif self.stopping:
            self.give_back(attempt)
        else:
            self.admission.add(attempt)

    def _leave(self, attempt: Attempt, fact: Fact) -> None:
        del self.held[fact.record, fact.fence]
        if fact.deferral is not None:
            self.share.leave(fact)
            self.on_put_off()
        elif fact.state in (State.PENDING, State.UNCONFIRMED) and fact.hold is None:
            self.share.leave(fact)
            if fact.not_before:
                self.next_due = min(fact.not_before, self.next_due or fact.not_before)
            else:
                self.dry = False
        self.on_left(attempt, fact)

    def _lost(self, attempt: Attempt, fact: Fact) -> None:
        """The record is no longer ours: its input changed, a person decided, or another run took over."""
        del self.held[fact.record, fact.fence]
        self.tally.counts.states[State.IN_PROGRESS] -= 1
        if fact.state is State.IN_PROGRESS and fact.started and attempt.step is not None:
            self.admission.release(attempt)
        self._events.of(
            attempt, "lease_lost", reason="the record vanished from the input, was changed or taken over meanwhile"
        )
        self.on_left(attempt, fact)

    def _renewed(self, attempt: Attempt, fact: Fact) -> None:
        """The record has taken the changed input that waited: it is to be claimed again, whatever the fact says."""
        if fact.state is State.IN_PROGRESS and attempt.step is not None:
            self.admission.release(attempt)
        fact = replace(fact, state=State.PENDING, hold=None, not_before=0.0, failure=None, checkpoint=None)
        self.tally.add(fact)
        self._events.of(attempt, "record_reset", reason="it takes its changed input, for the effect is settled")
        self._leave(attempt, fact)

    # Claims.

    def claim_more(self) -> None:
        """Ask for records so that no slot idles, and not for more."""
        if self.is_claiming or self.stopping or self.dry or self.journal is None or not self.may_claim():
            return
        if self.admission.pause is not None:
            return
        wish = self._wish()
        if wish is not None:
            self.is_claiming = True
            self._pacer.claim_begins()
            self.journal.wish(wish)
            self.plan_flush(self.slots.free > 0)

    def _wish(self) -> ClaimWish | None:
        coming = len(self.slots.ready) + self.admission.waiting
        target = self.slots.limit + self._pacer.ahead(self.tally.calls_done)
        want = min(target - coming - self.slots.calls, self.slots.limit + MOST_AHEAD + MOST_WAITING - len(self.held))
        want, only = self.share.due(want, self.slots.free)
        if want < 1 or (want < target // 4 and coming > self.slots.limit):
            return None
        gates = self.admission.wish(want)
        first = self.admission.gates.first
        if first is not None and first.outage.is_on:
            want = 1
        return ClaimWish(
            want,
            CLAIM_BYTES,
            start=self.admission.start_with_claim,
            only=only,
            effects=self.has_effects,
            ranked=self.plan.rank_of is not None,
            gates=gates,
            asked=self.share.is_asked_about,
        )

    def _take(self, claimed: list[Claimed]) -> None:
        """Claimed records arrive: their starts, if they started, are durable already."""
        if self.is_claiming:
            self.is_claiming = False
            self._pacer.claim_ends()
        self.dry = not claimed and not self.share.came_for(found=bool(claimed))
        self.tally.claimed(len(claimed))
        attempts = [Attempt(self.plan, one, self.admission.start_with_claim) for one in claimed]
        if suspects := [one for one in attempts if is_suspect(one.claimed.deaths, one.claimed.solo_deaths)]:
            self.on_suspects(suspects)
        for attempt in attempts:
            self.adopt(attempt)

    def adopt(self, attempt: Attempt) -> None:
        """Take a claimed record into work."""
        self.held[attempt.claimed.id, attempt.claimed.fence] = attempt
        self.share.take(attempt.claimed.id)
        if attempt.outputs and self._events.frequent:
            self._events.of(attempt, "record_resumed", step=attempt.step.name if attempt.step else None)
        if attempt.step is None:
            self.submit(attempt.nothing_left())
        elif self.stopping:
            self.give_back(attempt)
        elif attempt.started:
            self._put(attempt)
        else:
            self.admission.add(attempt)

    def _put(self, attempt: Attempt, first: bool = False) -> None:
        """An attempt whose start is durable. An intent that no function has to be called for needs no slot."""
        prepared = None
        if attempt.is_unprepared and not self.stopping and not self.admission.may_be_shut(attempt):
            prepared = self._caller.prepared(attempt)
        if prepared is None:
            self.slots.put(attempt, first)
        else:
            attempt.phase = "prepare"
            self.endings.state(attempt, self.endings.effects.ended(attempt, prepared))

    def hand_back_idle(self) -> None:
        """Give back what was claimed ahead when the calls before it turn out slow: it has not really started.

        Claims reach ahead while calls are quick. Without this, a death would charge records that nobody was working on.
        """
        if self.stopping or not self.slots.is_stuck(MOST_IDLE):
            return
        self._pacer.calls_are_slow()
        ready, kept = self.slots.ready, []
        while ready:
            attempt = ready.popleft()
            if attempt.home is None and attempt.step is not None:
                fact = attempt.given_back("claimed ahead")
                fact.event = None
                self.admission.release(attempt)
                self.submit(fact)
            else:
                kept.append(attempt)
        ready.extend(kept)

    def _begin(self, attempt: Attempt) -> None:
        """An attempt was admitted to its step: its start is made durable before the call."""
        if self.stopping:
            self.give_back(attempt)
        else:
            self.submit(attempt.begin())

    def give_back(self, attempt: Attempt) -> None:
        """The run is stopping, and the attempt is at no call: whoever waits for its room goes, too."""
        self.admission.release(attempt)
        self.submit(attempt.given_back("the run is stopping"))

    def put_back(self, attempt: Attempt, reason: str) -> None:
        """The attempt is to wait in the store: it has not really started."""
        self.admission.at_gates = True
        fact = attempt.given_back(reason)
        fact.event = None
        self.submit(fact)

    def _freed(self) -> None:
        """Records that wait in the store may be let in now."""
        self.dry = False
        self.claim_more()

    def _calls_to_come(self) -> bool:
        return bool(self.slots.ready) or self.is_claiming or self._waiting > 0

    # What others ask.

    def starts_next(self, attempt: Attempt) -> bool:
        """Whether the step after this one may start with the commit of this one's checkpoint."""
        assert attempt.step is not None
        if self.stopping or self.admission.pause is not None:
            return False
        following = attempt.following
        return self.admission.start_with_claim if following is None else not self.admission.limits(following)

    def _others_at(self, step: str) -> bool:
        """Whether other calls of a step may still tell something."""
        return not self.stopping and (self._waiting > 0 or bool(self.slots.ready) or self.slots.others_at(step))

    # Facts.

    def submit(self, fact: Fact) -> None:
        assert self.journal is not None
        if fact.state not in (State.IN_PROGRESS, State.SUCCEEDED):
            attempt = self.held[fact.record, fact.fence]
            if self.admission.at_gates or (attempt.gate is not None and attempt.gate.outage.is_on):
                fact.gate = self.admission.key_of(attempt)
        self._waiting += 1
        self._waiting_size += size_of(fact)
        if self._too_much_waits():
            self.slots.paused = True
        self.journal.state(fact)
        self.plan_flush(self.slots.paused)

    def _too_much_waits(self) -> bool:
        """Whether the store is so far behind that no new call may begin: outputs are bounded by their size, too."""
        return self._waiting >= MOST_WAITING or self._waiting_size >= MOST_WAITING_SIZE

    def plan_flush(self, at_once: bool) -> None:
        """Commit at once when nothing else can be done meanwhile; else let a batch gather for a moment."""
        assert self.journal is not None
        if at_once:
            self.journal.flush()
        elif not self._flush_planned:
            self._flush_planned = True
            self._loop.call_later(LINGER, self._flush)

    def flush_if_idle(self) -> None:
        if not self.slots.ready:
            self.plan_flush(True)

    def _flush(self) -> None:
        self._flush_planned = False
        if self.journal is not None:
            self.journal.flush()

    def resize(self, concurrency: int) -> None:
        """Have so many calls in progress at most from now on; those that are go on to their end."""
        self.slots.resize(concurrency)
        self.dry = False
        self.claim_more()

    # Stopping.

    def stop(self) -> None:
        """No new calls: what had not been called is given back."""
        self.stopping = True
        self.causes.conclude_all()
        self.give_back_uncalled("the run stopped before the step was called")
        self.changed.set()

    def give_back_uncalled(self, reason: str) -> None:
        while self.slots.ready:
            attempt = self.slots.ready.popleft()
            self.admission.release(attempt)
            self.submit(attempt.given_back(reason))
        for attempt in self.admission.clear():
            self.submit(attempt.given_back(reason))
        self.plan_flush(True)
