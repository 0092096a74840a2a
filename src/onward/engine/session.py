"""One run's parts, joined: journal, feed, worker, inquest and governor, from the first record to the last commit."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import time
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from onward.engine.attempt import Attempt
from onward.engine.batches.making import Batches
from onward.engine.calls import LocalCaller, OwnCalls
from onward.engine.closing import Closing
from onward.engine.concurrency import Concurrency
from onward.engine.events import Events
from onward.engine.feed import Feed
from onward.engine.gates.gates import place_of
from onward.engine.govern import Governor, longest_call
from onward.engine.inputs import Inputs
from onward.engine.journal import Journal
from onward.engine.loops import is_ours, spawn
from onward.engine.options import Announcement, Options
from onward.engine.processes.children import Assignment, Processes
from onward.engine.resources import Resources
from onward.engine.signals import stop_signals
from onward.engine.spending.bill import Money, asking, cost, cost_to_come
from onward.engine.spending.desk import Budgets, CallDesk
from onward.engine.suspects import Inquest
from onward.engine.tally import Progress, Tally
from onward.engine.worker import Worker
from onward.errors import OnwardError, OutOfMemory, is_out_of_memory
from onward.job.instance import Binding
from onward.job.job import Job
from onward.job.models import Cap
from onward.job.plan import Plan, effect_names
from onward.model import RunResult, State
from onward.policy.endings import (
    CANNOT_GO_ON,
    NEEDS_A_PERSON,
    NO_MEMORY,
    ONWARD_FAULT,
    STOPPED_EARLY,
    Ending,
)
from onward.policy.versions import ResultVersions
from onward.ports.clock import Clock
from onward.ports.models import close_all
from onward.ports.source import Source
from onward.ports.work import RunBegun, WorkStore

JOURNAL_ENDS_WITHIN = 60.0


class Session:
    """One run's parts, joined."""

    def __init__(
        self,
        job: Job,
        binding: Binding,
        options: Options,
        plan: Plan,
        source: Source,
        store: WorkStore,
        begun: RunBegun,
        place: str,
        clock: Clock,
        caps: Mapping[str, Cap] | None = None,
    ):
        self._job, self._binding, self._options, self._plan = job, binding, options, plan
        self._store, self._begun, self._place = store, begun, place
        self._began, self._began_steady = time.time(), time.monotonic()
        self._asks = asking(plan.steps)
        self._counts, self._orders = store.counts(begun.instance), store.orders(begun.run)
        self._concurrency = Concurrency(options.concurrency, plan.concurrency, self._orders)
        common = {"job": job.name, "instance": binding.instance, "run": str(begun.run)}
        self._events = Events(common, options.listeners)
        self._tally = Tally(self._counts, self._began)
        self._resources = Resources(plan, binding.params)
        inputs = Inputs(source, plan)
        self._local = LocalCaller(
            plan,
            self._resources,
            begun.run,
            binding.instance,
            inputs.value_of,
            self._tally.has_succeeded,
            self._desk_of,
        )
        assignment = _assignment(job, binding, plan, begun.run)
        budgets = Budgets(caps or {})
        self._processes = Processes(assignment, inputs.value_of, budgets)
        local: OwnCalls = self._local if options.around is None else options.around(self._local, inputs.value_of)
        processes = local if options.in_process else self._processes
        self._worker = Worker(
            plan,
            self._concurrency.now,
            local,
            processes,
            self._tally,
            self._events,
            value_of=inputs.value_of,
            patient=options.patient,
            budgets=budgets,
        )
        self._journal = Journal(store, begun.run, clock, self._worker, store.lease / 4)
        self._worker.journal = self._journal
        self._worker.share.left = options.bounds.limit
        self._share_ceilings()
        self._feed = self._make_feed(source)
        self._feeds = options.asks_about is None and options.only is None
        if options.asks_about is not None:
            self._worker.ask_about(options.asks_about)
        elif options.only is not None:
            self._worker.share.ask_about(options.only)
        elif not plan.store_inputs:
            self._worker.may_claim = lambda: self._feed.has_judged
        self._inquest = Inquest(self._worker, None if options.in_process else assignment, inputs.value_of)
        self._batches = None if options.asks_about is not None else self._make_batches(budgets)
        self._governor = self._make_governor()
        ended = job.name, options, store, begun, self._worker, self._events
        self._closing = Closing(*ended, asks=bool(self._asks), began=self._began_steady)
        self._loop = asyncio.get_running_loop()
        self._disturbed = False
        self._heard_early = False  # asyncio's own handler of SIGINT, which cancels, was there before ours

    def _share_ceilings(self) -> None:
        """With the instance's other runs, from now on where there are some, else as soon as there are."""
        shares, journal, run = self._worker.admission.shares, self._journal, self._begun.run
        shares.ask = lambda offers: journal.ask(lambda store: store.share(run, offers))
        if not self._begun.alone:
            shares.begin()

    def _make_governor(self) -> Governor:
        options = self._options
        return Governor(
            self._begun.run,
            self._worker,
            self._feed,
            self._journal,
            self._inquest,
            self._events,
            replace(options.bounds, wait=options.wait),
            self._progress,
            options.progress,
            self._concurrency,
            self._batches,
        )

    def _desk_of(self, attempt: Attempt) -> CallDesk:
        return CallDesk(self._worker.budgets, attempt)

    def _make_batches(self, budgets: Budgets) -> Batches | None:
        providers = {
            (model.name, model.place): model.batching() for model in self._plan.models if model.batching is not None
        }
        if not providers:
            return None
        return Batches(providers, self._worker, self._journal, budgets, self._events, self._plan.outage_limit)

    def _make_feed(self, source: Source) -> Feed:
        plan, run = self._plan, self._begun.run
        judged = plan.record_validate, plan.on_bad
        return Feed(source, self._journal, run, *judged, self._events, self._feed_moved, place_of(plan))

    async def work(self) -> RunResult:
        task = asyncio.current_task()
        assert task is not None
        self._worker.performing.is_cancelled = lambda: self._disturbed or task.cancelling() > 0
        try:
            self._announce()
        except BaseException as error:
            self._give_up(error)
            raise
        self._journal.log_warning = lambda size: self._events.emit(
            "log_grows", reason=f"another program keeps the store's write-ahead log open: {size >> 20} MiB"
        )
        self._journal.start()
        self._governor.standings.hear(self._orders.pauses)  # before anything is claimed
        if self._feeds:
            self._feed.start()
        with self._signals():
            is_own = self._options.handle_signals and is_ours(self._loop)
            self._heard_early = is_own and task.cancelling() > 0
            try:
                ending = await self._governed(task if is_own else None)
            except BaseException as error:
                await self._close()
                self._give_up(error)
                raise
            await self._close()
            try:
                return self._closing.result(ending, self._concurrency.now)
            finally:
                self._outlive_sends()

    def _give_up(self, error: BaseException) -> None:
        with contextlib.suppress(OnwardError):
            self._store.reopen()
            if isinstance(error, asyncio.CancelledError):
                self._store.end_run(self._begun.run, STOPPED_EARLY, "cancelled")
            elif is_out_of_memory(error):
                self._store.end_run(self._begun.run, STOPPED_EARLY, NO_MEMORY)
            else:
                self._store.end_run(self._begun.run, ONWARD_FAULT, type(error).__name__)
        self._store.close()
        self._outlive_sends()

    def _outlive_sends(self) -> None:
        """The run's sign of life goes when its last send has returned, be it long after its end."""
        if not self._worker.performing.sends_on:
            store, run = self._store, self._begun.run
            self._local.threads.when_sent(lambda: store.sends_ended(run))

    async def _governed(self, own: asyncio.Task[Any] | None) -> Ending | None:
        """`own`: this run's own task, where nobody but a step can have cancelled it, or an early signal."""
        try:
            ending = await self._governor.govern()
            return ending or (self._governor.feed_ending() if self._feeds else None)
        except asyncio.CancelledError:
            if own is None:
                await self._cancelled()
                raise
            own.uncancel()
            if self._heard_early:
                self._heard_early = False
                self._stop_by_signal(signal.SIGINT)
            else:
                self._end_disturbed()
            return await self._governed(own)
        except OnwardError as error:
            return Ending(error.exit_code, CANNOT_GO_ON, str(error))
        except Exception as error:
            if is_out_of_memory(error):
                return Ending(OutOfMemory.exit_code, NO_MEMORY, str(error))
            raise

    async def _cancelled(self) -> None:
        """The caller's task was cancelled: stop as at a signal, without grace."""
        await self._told_to_stop("cancelled")
        self._worker.slots.cut_all()

    def _end_disturbed(self) -> None:
        self._disturbed = True
        self._governor.stop(
            Ending(
                NEEDS_A_PERSON,
                "a step cancelled tasks that are not its own",
                "asyncio.all_tasks() has those of the run, too; cancel none but those that the step has made",
            )
        )
        self._worker.slots.cut_all()

    async def _close(self) -> None:
        self._feed.stop()
        self._worker.slots.close()
        if self._batches is not None:
            await self._batches.close()
        await asyncio.gather(spawn(self._inquest.close()), spawn(self._processes.close()))
        self._worker.admission.shares.close()
        await self._worker.budgets.quiet(JOURNAL_ENDS_WITHIN)
        await self._journal_ends()
        if self._feeds:
            self._feed.join(1.0)
        for fault in await self._resources.close():
            self._events.emit("resource_failed", reason=fault)
        await close_all()
        self._local.threads.close()

    async def _journal_ends(self) -> None:
        """Looked for now and then: another thread, to wait for it, may be more than memory has room for."""
        self._journal.finish()
        until = time.monotonic() + JOURNAL_ENDS_WITHIN
        while not self._journal.has_ended and time.monotonic() < until:
            await asyncio.sleep(0.002)

    def _versions(self) -> dict[str, str]:
        return {step.name: step.version for step in self._plan.steps}

    def _announce(self) -> None:
        results = ResultVersions(self._store.results_by_version(self._begun.instance))
        versions = self._versions()
        older = self._store.older_outputs(self._begun.instance, versions)
        counts = self._counts
        self._events.emit(
            "run_started",
            done=counts.of(State.SUCCEEDED),
            to_go=counts.of(State.PENDING) + counts.of(State.IN_PROGRESS),
            reset=self._begun.reset_failed + sum(dead.put_back for dead in self._begun.dead_runs),
            stale=results.stale(versions),
            unfinished_older=older.records,
        )
        for dead in self._begun.dead_runs:
            reason = "was told to stop" if dead.told_to_stop else "died"
            self._events.emit("records_reset", reason=f"run {dead.run} {reason}", count=dead.put_back)
        if self._begun.reset_failed:
            self._events.emit(
                "records_reset", reason="failed in an earlier run: tried again", count=self._begun.reset_failed
            )
        if self._options.announce is not None:
            self._options.announce(
                Announcement(
                    self._job.name,
                    self._binding.instance,
                    self._place,
                    self._store.new,
                    self._begun,
                    counts,
                    results,
                    older,
                    versions,
                    str(self._concurrency) if self._concurrency.said else None,
                    effect_names(self._plan.steps),
                    **self._of_models(),
                )
            )

    def _of_models(self) -> dict[str, Any]:
        if not self._asks:
            return {}
        instance, steps = self._begun.instance, list(self._versions())
        parts, bill = self._store.version_parts(instance), self._store.bill(instance, steps)
        return {"asks": self._asks, "bill": bill, "parts": parts}

    def _feed_moved(self) -> None:
        """Blocks have become durable (told in the feed's thread): there may be records to claim."""

        def look() -> None:
            self._worker.dry = False
            self._worker.claim_more()
            self._governor.look_soon()
            self._worker.changed.set()

        with contextlib.suppress(RuntimeError):
            self._loop.call_soon_threadsafe(look)

    def _progress(self) -> Progress:
        now = time.time()
        tally, limit = self._tally, self._target
        left = tally.time_left(limit)
        return Progress(
            job=self._job.name,
            instance=self._binding.instance,
            counts=tally.counts.states,
            total=sum(tally.counts.states.values()),
            source_complete=tally.counts.source_complete,
            started=self._began,
            now=now,
            rate=tally.rate(now),
            rate_of_all=tally.rate_of_all(now),
            eta=tally.eta(now, limit) if left is None else left.expected,
            time_left=left,
            money=self._money(),
            models=self._worker.admission.at_models(),
            calls=self._worker.slots.calls,
            retrying=tally.retrying(now),
            ended_here=tally.ended,
            longest=longest_call(self._worker),
            held=tally.counts.held,
            next_try=tally.next_try(),
            target=limit,
            elsewhere=max(tally.counts.of(State.IN_PROGRESS) - len(self._worker.held), 0),
        )

    @property
    def _target(self) -> int | None:
        """How many records this run is to work on; None: all."""
        only = self._options.only
        return self._options.bounds.limit if only is None else len(only)

    def _money(self) -> Money | None:
        if not self._asks:
            return None
        tally, limit = self._tally, self._target
        left = None if limit is None else max(limit - tally.ended, 0)
        to_come = cost_to_come(tally.bill, self._versions(), self._asks, most=left)
        return Money(cost(tally.counts.spent.values()), cost(self._worker.budgets.spent.values()), to_come)

    def _stop_by_signal(self, number: int) -> None:
        self._stopping = spawn(self._told_to_stop(signal.Signals(number).name))

    async def _told_to_stop(self, reason: str) -> None:
        with contextlib.suppress(OnwardError):  # it has ended, or its store is gone: that is told elsewhere
            await self._governor.told_to_stop(reason)

    def _signals(self) -> contextlib.AbstractContextManager[None]:
        if not self._options.handle_signals:
            return contextlib.nullcontext()
        return stop_signals(self._loop, self._stop_by_signal, self._options.before_exit)


def _assignment(job: Job, binding: Binding, plan: Plan, run: int) -> Assignment | None:
    """What a child process needs to find the job again; None in a notebook, where it cannot."""
    reference = job.reference
    if reference.file is None and reference.module is None:
        return None
    return Assignment(
        str(reference.file) if reference.file else None,
        reference.module,
        reference.name,
        binding.params_json,
        run,
        binding.instance,
        {step.name: step.version for step in plan.steps},
        reference.recipe,
    )
