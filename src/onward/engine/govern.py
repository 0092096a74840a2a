"""When a run ends, and why: signals, limits, rules, and the moment when nothing is left to do."""

from __future__ import annotations

import asyncio
import contextlib
import math
import time
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass

from onward.codec import loads
from onward.engine.attempt import Attempt
from onward.engine.batches.making import Batches
from onward.engine.concurrency import Concurrency
from onward.engine.events import Events
from onward.engine.feed import Feed
from onward.engine.journal import Journal
from onward.engine.spending.desk import used_up
from onward.engine.standings import Standings
from onward.engine.suspects import Inquest
from onward.engine.tally import Progress
from onward.engine.worker import Worker
from onward.errors import BudgetReached, OnwardError
from onward.model import Counts, Fact, State
from onward.policy.effects import UNDECODABLE
from onward.policy.endings import (
    NEEDS_A_PERSON,
    NOT_STARTED,
    ONWARD_FAULT,
    STOPPED_EARLY,
    EndedCounts,
    Ending,
    NextAct,
    first_fifty,
    too_many_failures,
)
from onward.policy.failures import Classified
from onward.ports.bill import Bill
from onward.ports.work import Orders, Work, WorkStore

TICK = 0.1
REFRESH = 1.0
NOTE_WORK = 5.0
RESPONSIVE_WITHIN = 60.0
SOON = 5.0


@dataclass(frozen=True, slots=True)
class Bounds:
    """What bounds a run. Times in seconds; `max_failures` and `max_failures_percent` exclude each other."""

    limit: int | None = None
    max_failures: int | None = None
    max_failures_percent: float | None = None
    max_time: float | None = None
    grace: float = 30.0
    wait: float = 60.0


class Governor:
    """Watches a run until it has to end. `tell` hears of progress a few times a second."""

    def __init__(
        self,
        run: int,
        worker: Worker,
        feed: Feed,
        journal: Journal,
        inquest: Inquest,
        events: Events,
        bounds: Bounds,
        progress: Callable[[], Progress],
        tell: Callable[[Progress], None] | None,
        concurrency: Concurrency,
        batches: Batches | None = None,
    ):
        self.ending: Ending | None = None
        self.standings = Standings(run, worker, journal, events)
        self._parting: Ending | None = None
        self._reset_first = False
        self._told = False
        self._run = run
        self._worker = worker
        self._feed = feed
        self._journal = journal
        self._inquest = inquest
        self._batches = batches
        self._events = events
        self._bounds = bounds
        self._progress = progress
        self._tell = tell
        self._began = time.monotonic()
        self._refreshed = 0.0
        self._concurrency = concurrency
        self._noted: Work | None = None
        self._note_due = 0.0
        self._cut_at = 0.0
        self._done_at: float | None = None
        self._longest_timeout = max((step.timeout for step in worker.plan.steps), default=0.0)
        worker.endings.on_fatal = self._fatal
        worker.on_left = self._left
        if batches is not None:
            batches.stop = self.stop

    def stop(self, ending: Ending, in_peace: bool = False) -> None:
        """End the run early; the first reason stands. `in_peace`: calls in progress go on for as long as they take."""
        if self.ending is None:
            self.ending = ending
            self._cut_at = math.inf if in_peace else time.monotonic() + self._bounds.grace
            grace = None if in_peace else self._bounds.grace
            self._events.emit("run_paused", reason=ending.reason, calls=self._worker.slots.calls, grace=grace)
            self._worker.stop()
            self._feed.stop()

    async def told_to_stop(self, reason: str, in_peace: bool = False) -> None:
        """A person or the system asked: durably noted before anything is given back, so that nobody is suspected; also
        where the run is stopping already, for what may follow is its process being killed."""
        if not in_peace:  # a signal ends the patience of a drain
            self._cut_at = min(self._cut_at, time.monotonic() + self._bounds.grace)
        if not self._told:
            self._told = True
            noted = self._journal.ask(lambda store: store.note_stop(self._run, reason))
            self.stop(Ending(STOPPED_EARLY, reason), in_peace)
            await asyncio.wrap_future(noted)

    async def govern(self) -> Ending | None:
        """Return once nothing is left to do (None, or why what is left is not stayed for), or the run has ended early
        and holds nothing any more."""
        while self.ending is None and self._worker.error is None:
            if await self._is_finished():
                return self.feed_ending() or self._parting
            await self._wait(TICK)
            await self._look_around()
        if self._worker.error is None:
            await self._drain()
        if self._worker.error is not None:
            raise self._worker.error
        return self.ending

    def look_soon(self) -> None:
        """The store's counters have moved: do not wait a whole second to read them."""
        self._refreshed = min(self._refreshed, time.monotonic() - REFRESH + TICK)

    async def _wait(self, seconds: float) -> None:
        try:
            async with asyncio.timeout(seconds):
                await self._worker.changed.wait()
        except TimeoutError:
            pass
        self._worker.changed.clear()

    async def _look_around(self) -> None:
        now = time.monotonic()
        self._note_responsive()
        self._worker.slots.sweep()
        self._worker.hand_back_idle()
        self.standings.look_around()
        if self._feed.state == "broken" and not self._worker.may_claim():
            self.stop(self._feed_broke())
        if now - self._refreshed >= REFRESH:
            self._refreshed = now
            await self._refresh()
        if self._bounds.max_time is not None and now - self._began >= self._bounds.max_time:
            await self.told_to_stop(f"--max-time of {self._bounds.max_time:g} seconds is over")
        if self._tell is not None:
            self._tell(self._progress())

    def _note_responsive(self) -> None:
        """The loop does not hang: the lease may go on being renewed."""
        self._journal.alive_until = self._journal.steady() + self._longest_timeout + RESPONSIVE_WITHIN

    async def _refresh(self) -> None:
        """Once a second: bury dead runs, read the counters that others move, look for due records."""
        for dead in await asyncio.wrap_future(self._journal.ask(lambda store: store.take_over(self._run))):
            self._events.emit("records_reset", reason=f"run {dead.run} died", count=dead.put_back)
        counts, orders, bill = await asyncio.wrap_future(self._journal.ask(self._news))
        tally = self._worker.tally
        tally.refresh(counts)
        tally.bill = bill
        tally.mark(time.time(), not self._worker.admission.is_at_rest(self._worker.slots.calls))
        await self._obey(orders)
        await self._note_work()
        await self.standings.note()
        if counts.held.get("suspect"):
            self._inquest.begin()
        if self._batches is not None and self.ending is None:
            await self._batches.look(is_quiet=False)
        self._worker.dry = False
        self._worker.claim_more()

    async def _obey(self, orders: Orders) -> None:
        """What people have said to this run, or to all of the instance."""
        self.standings.hear(orders.pauses)
        self._worker.admission.shares.hear(orders.others)
        if self._concurrency.hear(orders):
            self._events.emit("concurrency_changed", reason=str(self._concurrency), concurrency=self._concurrency.now)
            self._worker.resize(self._concurrency.now)
            self._note_due = 0.0
        if orders.drain is not None:
            await self.told_to_stop(orders.drain, in_peace=True)

    def _news(self, store: WorkStore) -> tuple[Counts, Orders, Bill]:
        instance, steps = store.instance_of(self._run), self._worker.plan.steps
        bill = store.bill(instance, [step.name for step in steps]) if self._worker.plan.models else Bill()
        return store.counts(instance), store.orders(self._run), bill

    async def _note_work(self) -> None:
        """Now and then, so that `status` can tell what the run does, and the time to finish, also when it has died."""
        now, tally = time.monotonic(), self._worker.tally
        if now < self._note_due:
            return
        work = Work(tally.ended, round(tally.lately(time.time()), 3), self._concurrency.now, tally.pace())
        if work != self._noted:
            self._noted, self._note_due = work, now + NOTE_WORK
            await asyncio.wrap_future(self._journal.ask(lambda store: store.note_work(self._run, work)))

    async def _is_finished(self) -> bool:
        worker = self._worker
        if worker.next_due is not None and worker.next_due <= time.time() and worker.dry:
            worker.dry = False
        worker.claim_more()
        if worker.held or worker.is_claiming or self._inquest.is_busy:
            return False
        if self._batches is not None and (await self._batches.look(self._is_quiet()) or self.ending is not None):
            self._done_at = None
            return False
        if worker.share.is_begun:
            if worker.share.is_done:
                return True
            if worker.share.waits_for_answers_alone:
                return self._waited_long_enough(await self._answers_due(worker.tally.counts, worker.share.unanswered))
            return await self._not_stayed_for(worker.share.waiting_again)
        if not worker.dry and worker.admission.pause is None:
            return False
        if not self._feed.brings_nothing(worker.tally.counts.source_complete):
            return False
        counts = await self._count()
        worker.tally.refresh(counts)
        if worker.held or not self._feed.brings_nothing(counts.source_complete):
            return False
        if counts.held.get("suspect"):
            self._inquest.begin()
            if self._inquest.is_busy:
                return False
        if counts.of(State.IN_PROGRESS):
            self._done_at = self._parting = None
            return False
        if counts.held.get("batch") and await self._answers_come(counts.held["batch"]):
            self._done_at = self._parting = None
            return False
        if counts.of(State.PENDING) - counts.held.get("stale", 0) > 0:
            return await self._not_stayed_for(None, await self._answers_due(counts))
        self._parting = None
        return self._waited_long_enough(await self._answers_due(counts))

    async def _answers_come(self, waiting: int) -> bool:
        """Whether records, `waiting` of them as was just counted, wait for answers that will come: another run may have
        put them off, or sent for them, since the batches were looked at."""
        if self._batches is None:
            return False
        self._batches.look_again()
        if await self._batches.look(self._is_quiet()):
            return True
        counts = await self._count()
        self._worker.dry = counts.held.get("batch", 0) == waiting
        return not self._worker.dry

    async def _count(self) -> Counts:
        return await asyncio.wrap_future(self._journal.ask(lambda store: store.counts(store.instance_of(self._run))))

    def _is_quiet(self) -> bool:
        """Whether nothing can be worked on before requests that wait are answered."""
        worker = self._worker
        if worker.share.is_done or worker.share.waits_for_answers_alone:
            return True
        comes_soon = worker.next_due is not None and worker.next_due < time.time() + SOON
        brings_nothing = worker.share.is_begun or self._feed.brings_nothing(worker.tally.counts.source_complete)
        return worker.dry and brings_nothing and not comes_soon

    async def _answers_due(self, counts: Counts, only: tuple[int, ...] | None = None) -> float | None:
        """When what is unconfirmed is asked about again; None where nothing is that is stayed for."""
        waits_for_a_person = counts.held.get("person", 0) + counts.held.get(UNDECODABLE, 0)
        if counts.of(State.UNCONFIRMED) + counts.vanished_open <= waits_for_a_person:
            return None
        due, stays = await self.standings.answers_due(self._wait_ends, only)
        if stays:
            self._done_at = None
        return due

    async def _not_stayed_for(self, only: tuple[int, ...] | None, answers_due: float | None = None) -> bool:
        """Whether all that is left waits at gates that stay shut for longer than this run stays."""
        if not await self.standings.keep_all(only) or self._worker.held:
            self._done_at = self._parting = None
            return False
        reason = self.standings.reason  # none where nothing waits at a gate
        paused = self.standings.paused
        act: NextAct = "resume" if paused else "run"
        self._parting = Ending(STOPPED_EARLY, reason, next_act=act, paused=paused) if reason else None
        wait_ends = self._wait_ends
        due = [
            self.standings.until,
            answers_due,
            max(wait_ends, time.time()) if self.standings.is_paused and time.time() < wait_ends else None,
        ]
        return self._waited_long_enough(min((one for one in due if one is not None), default=None))

    @property
    def _wait_ends(self) -> float:
        return (self._done_at or time.time()) + self._bounds.wait

    def _waited_long_enough(self, due: float | None) -> bool:
        """All other work is done: whether what is due then (UTC seconds) is still to be waited for."""
        if due is None:
            return True
        self._done_at = self._done_at or time.time()
        return due > self._done_at + self._bounds.wait

    def feed_ending(self) -> Ending | None:
        """What an input that was not read to its end means for the exit code, once the work is done."""
        if self._feed.state == "broken":
            return self._feed_broke()
        bad = self._feed.bad_line
        if bad is not None:
            nothing = self._worker.tally.counts.total == 0
            return Ending(NOT_STARTED if nothing else NEEDS_A_PERSON, f"a bad line at {bad.where}", bad.reason)
        if self._feed.state == "stopped" and not self._worker.tally.counts.source_complete:
            return Ending(NEEDS_A_PERSON, "the input was not read to its end")
        return None

    def _feed_broke(self) -> Ending:
        error = self._feed.error
        code = error.exit_code if isinstance(error, OnwardError) else ONWARD_FAULT
        if code == NOT_STARTED and self._worker.tally.counts.total:
            code = NEEDS_A_PERSON
        return Ending(code, "the source cannot be read", str(error))

    def _fatal(self, attempt: Attempt, failure: Classified) -> None:
        step = attempt.step.name if attempt.step else "?"
        if failure.error_type == BudgetReached.__name__:
            self.stop(used_up(failure.message))
            return
        reason = f"nothing can go on after what step {step} raised"
        self.stop(Ending(NEEDS_A_PERSON, reason, f"{failure.error_type}: {failure.message}"))

    def _left(self, attempt: Attempt, fact: Fact) -> None:
        """A record has left this run: the rules that count failures look at it."""
        if fact.state not in (State.FAILED, State.QUARANTINED) or self.ending is not None:
            return
        bounds, worker = self._bounds, self._worker
        if too_many_failures(
            bounds.max_failures, bounds.max_failures_percent, worker.tally.left_failed, worker.tally.ended
        ):
            reason = f"{worker.tally.left_failed} records failed, more than max-failures allows"
            self.stop(Ending(NEEDS_A_PERSON, reason, next_act="failures"))
            return
        counts = worker.tally.counts
        causes = {cause: n for cause, n in counts.failures.items() if cause[0] is not None}
        common = first_fifty(EndedCounts(counts.of(State.SUCCEEDED), causes))
        if common is not None:
            self._journal.ask(lambda store: store.reset_first_ended(self._run))
            step, kind = common
            last = fact.failure.message if fact.failure else ""
            self._reset_first = True
            reason = f"the first {sum(causes.values())} records all failed at step {step} ({kind})"
            self.stop(Ending(NEEDS_A_PERSON, reason, last))

    async def _drain(self) -> None:
        """Give calls in progress their time, then cancel them; return when nothing is held."""
        cut = False
        while (self._worker.held or self._inquest.is_busy) and self._worker.error is None:
            if not cut and time.monotonic() >= self._cut_at:
                cut = True
                self._worker.slots.cut_all()
                self._inquest.kill()
            await self._wait(0.05)
            self._note_responsive()
            self._worker.slots.sweep()
            self._look_for_others()
            if self._tell is not None:
                self._tell(self._progress())
        if self._reset_first:
            await asyncio.wrap_future(self._journal.ask(lambda store: store.reset_first_ended(self._run)))

    def _look_for_others(self) -> None:
        """Once a second, while the last calls go on: who begins now has a part of the ceilings. The store's answer is
        not waited for."""
        shares, now = self._worker.admission.shares, time.monotonic()
        if not shares.is_alone or now - self._refreshed < REFRESH:
            return
        self._refreshed = now
        loop = asyncio.get_running_loop()

        def heard(orders: Future[Orders]) -> None:
            if not orders.cancelled() and orders.exception() is None:
                with contextlib.suppress(RuntimeError):  # the loop is gone
                    loop.call_soon_threadsafe(shares.hear, orders.result().others)

        self._journal.ask(lambda store: store.orders(self._run)).add_done_callback(heard)


def longest_call(worker: Worker) -> tuple[str, str, float] | None:
    """Key, step and age in seconds of the call that has been in progress the longest."""
    found = worker.slots.longest()
    if found is None or found[0].step is None:
        return None
    attempt, began = found
    return str(loads(attempt.claimed.key)), found[0].step.name, time.monotonic() - began
