"""Wiring: the only file that names adapters. Opens a store, begins a run, joins journal, feed, worker and governor."""

from __future__ import annotations

import asyncio
import contextlib
import os
import platform
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from onward.clock import SystemClock
from onward.engine.calls import LocalCaller
from onward.engine.children import Assignment, Processes
from onward.engine.events import Events, Listener
from onward.engine.feed import Feed, FeedReport
from onward.engine.govern import Bounds, Governor, longest_call
from onward.engine.inputs import Inputs
from onward.engine.journal import Journal
from onward.engine.resources import Resources
from onward.engine.suspects import Inquest
from onward.engine.tally import Progress, Tally
from onward.engine.worker import Worker
from onward.errors import OnwardError, UsageError
from onward.job.instance import Binding
from onward.job.job import Job
from onward.job.plan import Plan
from onward.model import Counts, RunResult, State, StepVersion
from onward.policy.endings import OK, ONWARD_FAULT, SOME_FAILED, STOPPED_EARLY, Ending, NextAct, Remains, exit_code
from onward.policy.versions import ResultVersions
from onward.ports import Batch, Desk, RunBegun, RunStart, Sink, Source
from onward.sinks import formats
from onward.sources.given import BY_POSITION as BY_POSITION
from onward.sources.given import Given
from onward.store.sqlite.connection import path_of
from onward.store.sqlite.desk import SqliteDesk
from onward.store.sqlite.in_memory import InMemoryStore
from onward.store.sqlite.work import LEASE_SECONDS, SqliteWorkStore

SWITCH_INTERVAL = 0.0005
LAST_WAIT = 1.0


@dataclass(frozen=True, slots=True)
class Options:
    """How a job is run. Times in seconds.

    `listeners`: (listener, whether it wants every record's events); they are called from several threads.
    `before_exit` is called before a second signal ends the process. For tests: `source` stands in for the job's own,
    `opened` is a store that is open already, and with `in_process` steps that are for worker processes run here.
    """

    store: str | None = None
    concurrency: int | None = None
    bounds: Bounds = field(default_factory=Bounds)
    wait: float = 60.0
    source_changed: bool = False
    create: bool = True
    progress: Callable[[Progress], None] | None = None
    listeners: list[tuple[Listener, bool]] = field(default_factory=list)
    announce: Callable[[Announcement], None] | None = None
    handle_signals: bool = True
    before_exit: Callable[[], None] | None = None
    switch_interval: bool = True
    source: Source | None = None
    opened: SqliteWorkStore | None = None
    in_process: bool = False


@dataclass(frozen=True, slots=True)
class Announcement:
    """What a run says before it works. `versions`: today's, in step order; `results`: those of what is finished."""

    job: str
    instance: str
    store: str
    new_store: bool
    begun: RunBegun
    counts: Counts
    results: ResultVersions
    versions: dict[str, str]


def store_url(job: Job | None, given: str | None) -> str:
    """The store's address: as given (relative to the current folder), else beside the job file."""
    if given is not None:
        return given
    own_file = job is not None and job.reference.module is None and job.folder is not None
    folder = job.folder if own_file and job is not None else Path.cwd()
    assert folder is not None
    return str(folder / ".onward" / "onward.db")


def shown_place(url: str) -> str:
    """The store's address as people are shown it."""
    path = path_of(url)
    return str(path.absolute()) if path else "sqlite:// (in memory)"


def open_work(url: str, create: bool, store_inputs: bool) -> SqliteWorkStore:
    lease = float(os.environ.get("ONWARD_LEASE", LEASE_SECONDS))
    path = path_of(url)
    return SqliteWorkStore(path.absolute() if path else None, SystemClock(), lease, create, store_inputs)


def open_desk(url: str) -> Desk:
    """Where people ask about what is in a store and decide. Raises StoreMissing."""
    path = path_of(url)
    if path is None:
        raise UsageError("a store in memory ends with its run: there is nothing to ask about")
    return SqliteDesk(path.absolute(), SystemClock())


def open_in_memory(store_inputs: bool, dies_after: Callable[[int, Batch], bool]) -> InMemoryStore:
    """A store for tests of a job."""
    return InMemoryStore(SystemClock(), store_inputs, dies_after)


def open_sink(out: str | Path, format: str | None, flat: bool) -> Sink:
    """Where an export goes. Raises UsageError."""
    return formats.open_sink(out, format, flat)


def source_of(records: Sequence[Any], key: tuple[str, ...] | str | None) -> Source:
    """A source of records that are at hand; `key` as `sources.given.Given` has it."""
    return Given(records, key)


def run(job: Job, binding: Binding, options: Options) -> RunResult:
    """Run to an end in this thread, with an event loop of its own."""
    with contextlib.ExitStack() as stack:
        if options.switch_interval:
            stack.enter_context(_quick_switching())
        runner = stack.enter_context(asyncio.Runner())
        try:
            return runner.run(run_async(job, binding, options))
        finally:
            _leave_behind(runner.get_loop())


_left_behind: list[asyncio.Task[Any]] = []


def _leave_behind(loop: asyncio.AbstractEventLoop) -> None:
    """Cancel what is still going on; whatever does not end then, closing the loop must not wait for."""
    tasks = asyncio.all_tasks(loop)
    for task in tasks:
        task.cancel()
    if tasks:
        loop.run_until_complete(asyncio.wait(tasks, timeout=LAST_WAIT))
    for task in tasks:
        if not task.done():
            task._log_destroy_pending = False  # type: ignore[attr-defined]
            asyncio.tasks._unregister_task(task)
            _left_behind.append(task)  # kept, since its end would only be a complaint


async def run_async(job: Job, binding: Binding, options: Options) -> RunResult:
    """Run to an end on the current event loop."""
    plan = job.plan(binding.params)
    if not plan.steps:
        raise UsageError(f"job '{job.name}' has no steps")
    source = options.source or job.open_source(binding.params)
    url = store_url(job, options.store)
    store = options.opened or open_work(url, options.create, plan.store_inputs)
    try:
        begun = store.begin_run(
            RunStart(
                job=job.name,
                instance=binding.instance,
                host=platform.node(),
                params=binding.params_json or "{}",
                location=source.location,
                steps=tuple(StepVersion(step.name, step.version) for step in plan.steps),
                resume_cap=plan.resume_cap,
                source_changed=options.source_changed,
            )
        )
    except BaseException:
        store.close()
        raise
    return await _Session(job, binding, options, plan, source, store, begun, url).work()


class _Session:
    """One run's parts, joined."""

    def __init__(
        self,
        job: Job,
        binding: Binding,
        options: Options,
        plan: Plan,
        source: Any,
        store: SqliteWorkStore,
        begun: RunBegun,
        url: str,
    ):
        self._job, self._binding, self._options, self._plan = job, binding, options, plan
        self._store, self._begun, self._url = store, begun, url
        self._began = time.time()
        self._counts = store.counts(begun.instance)
        concurrency = options.concurrency or plan.concurrency
        common = {"job": job.name, "instance": binding.instance, "run": str(begun.run)}
        self._events = Events(common, options.listeners)
        self._tally = Tally(self._counts, self._began)
        self._resources = Resources(plan, binding.params)
        inputs = Inputs(source, plan)
        self._local = LocalCaller(
            plan, self._resources, begun.run, binding.instance, inputs.value_of, self._tally.has_succeeded
        )
        assignment = _assignment(job, binding, plan, begun.run)
        self._processes = Processes(assignment, inputs.value_of)
        processes = self._local if options.in_process else self._processes
        self._worker = Worker(plan, concurrency, self._local, processes, self._tally, self._events)
        self._journal = Journal(store, begun.run, SystemClock(), self._worker, store.lease / 4)
        self._worker.journal = self._journal
        self._worker.limit_left = options.bounds.limit
        self._feed = Feed(
            source, self._journal, begun.run, plan.record_validate, plan.on_bad, self._events, self._feed_moved
        )
        self._inquest = Inquest(self._worker, assignment, inputs.value_of)
        self._governor = Governor(
            begun.run,
            self._worker,
            self._feed,
            self._journal,
            self._inquest,
            self._events,
            options.bounds,
            self._progress,
            options.progress,
        )
        self._loop = asyncio.get_running_loop()

    async def work(self) -> RunResult:
        self._announce()
        self._journal.log_warning = lambda size: self._events.emit(
            "log_grows", reason=f"another program keeps the store's write-ahead log open: {size >> 20} MiB"
        )
        self._journal.start()
        self._feed.start()
        with self._signals():
            try:
                ending = await self._governed()
            except BaseException as error:
                await self._close()
                with contextlib.suppress(OnwardError):
                    self._store.end_run(self._begun.run, ONWARD_FAULT, type(error).__name__)
                self._store.close()
                raise
            await self._close()
            return self._result(ending)

    async def _governed(self) -> Ending | None:
        try:
            return await self._governor.govern() or self._governor.feed_ending()
        except asyncio.CancelledError:
            await self._cancelled()
            raise
        except OnwardError as error:
            return Ending(error.exit_code, "the run cannot go on", str(error))

    async def _cancelled(self) -> None:
        """The caller's task was cancelled: stop as at a signal, without grace."""
        with contextlib.suppress(OnwardError):
            await self._governor.told_to_stop("cancelled")
            self._worker.slots.cut_all()

    async def _close(self) -> None:
        self._feed.stop()
        self._worker.slots.close()
        self._inquest.kill()
        self._processes.close()
        await asyncio.to_thread(self._journal.close)
        self._feed.join(1.0)
        for fault in await self._resources.close():
            self._events.emit("resource_failed", reason=fault)
        self._local.threads.close()

    def _result(self, ending: Ending | None) -> RunResult:
        counts, lost = self._counts, False
        with contextlib.suppress(OnwardError):
            counts = self._store.counts(self._begun.instance)
        code = exit_code(self._remains(counts), ending)
        held = counts.held.get("stale", 0)
        if ending is None:
            more = code == OK and counts.of(State.PENDING) + counts.of(State.IN_PROGRESS) > 0
            reason = "as many as the limit allows are done" if more else _reason(code)
            ending = Ending(code, reason, next_act=_next_act(code, held))
        elif code > ending.exit_code:
            ending = replace(ending, next_act=_next_act(code, held))
        try:
            self._store.end_run(self._begun.run, code, ending.text)
            counts = self._store.counts(self._begun.instance)
            self._store.tidy()
        except OnwardError as error:
            lost = True  # the store cannot be written: the next run finds this one dead
            if code < STOPPED_EARLY:
                code = STOPPED_EARLY
                ending = Ending(code, "the end of the run could not be recorded", str(error), "run")
        self._store.close()
        seconds = time.time() - self._began
        plain = {str(state): n for state, n in counts.states.items()}
        self._events.emit(
            "run_finished",
            exit_code=code,
            reason=ending.reason,
            counts=plain,
            total=counts.total,
            vanished=counts.vanished,
            source_complete=counts.source_complete,
            held=counts.held,
            seconds=round(seconds, 3),
            recorded=not lost,
            next_act=ending.next_act,
        )
        return RunResult(code, ending.text, str(self._begun.run), plain, counts.total, seconds)

    def _remains(self, counts: Counts) -> Remains:
        failed = counts.of(State.FAILED) + counts.of(State.QUARANTINED) + counts.of(State.UNCONFIRMED)
        unfinished = counts.of(State.PENDING) + counts.of(State.IN_PROGRESS)
        stale = counts.held.get("stale", 0)
        worker = self._worker
        if worker.limit_left is not None:
            done_all = worker.limit_left == 0 or not unfinished
            failed = worker.tally.left_failed if done_all and unfinished else failed
            unfinished = len(worker.waiting_again) if done_all else unfinished
            stale = min(stale, unfinished)
        return Remains(unfinished, failed, stale)

    def _announce(self) -> None:
        results = self._store.results_by_version(self._begun.instance)
        versions = {step.name: step.version for step in self._plan.steps}
        counts = self._counts
        self._events.emit(
            "run_started",
            done=counts.of(State.SUCCEEDED),
            to_go=counts.of(State.PENDING) + counts.of(State.IN_PROGRESS),
            reset=self._begun.reset_failed + sum(dead.put_back for dead in self._begun.dead_runs),
            stale=results.stale(versions),
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
                    shown_place(self._url),
                    self._store.new,
                    self._begun,
                    counts,
                    results,
                    versions,
                )
            )

    @property
    def feed_report(self) -> FeedReport:
        return self._feed.report

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
        tally = self._tally
        return Progress(
            job=self._job.name,
            instance=self._binding.instance,
            counts=tally.counts.states,
            total=sum(tally.counts.states.values()),
            source_complete=tally.counts.source_complete,
            started=self._began,
            now=now,
            rate=tally.rate(now),
            eta=tally.eta(now, self._options.bounds.limit),
            calls=self._worker.slots.calls,
            retrying=tally.retrying(now),
            ended_here=tally.ended,
            longest=longest_call(self._worker),
            held=tally.counts.held,
            next_try=tally.next_try(),
            target=self._options.bounds.limit,
        )

    @contextlib.contextmanager
    def _signals(self) -> Iterator[None]:
        """First signal: stop in good order. Second: end at once, as a crash that was announced."""
        before_exit = self._options.before_exit
        if not self._options.handle_signals or threading.current_thread() is not threading.main_thread():
            yield
            return
        seen: list[int] = []

        def hear(number: int, frame: object) -> None:
            if seen and number == _HANGUP:
                return  # a closed terminal may be told of twice
            if seen:
                if before_exit is not None:
                    before_exit()
                os._exit(128 + number)
            seen.append(number)
            self._loop.call_soon_threadsafe(self._stop_by_signal, number)

        before = {number: signal.signal(number, hear) for number in _stop_signals()}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)

    def _stop_by_signal(self, number: int) -> None:
        self._stopping = self._loop.create_task(self._governor.told_to_stop(signal.Signals(number).name))


_HANGUP: int | None = getattr(signal, "SIGHUP", None)


def _stop_signals() -> list[int]:
    """A terminal that goes away stops a run in good order, too, unless it was started to outlive it (nohup)."""
    stops: list[int] = [signal.SIGINT, signal.SIGTERM]
    if _HANGUP is not None and signal.getsignal(_HANGUP) == signal.SIG_DFL:
        stops.append(_HANGUP)
    return stops


def _reason(code: int) -> str:
    return {0: "all done", 1: "finished, but some records need a look", 4: "records wait for a person"}.get(
        code, "unfinished records are left"
    )


def _next_act(code: int, held: int) -> NextAct:
    if held:
        return "rerun"
    return "failures" if code == SOME_FAILED else "run"


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
    )


@contextlib.contextmanager
def _quick_switching() -> Iterator[None]:
    """Let threads take turns more often: the journal must not wait five milliseconds for the event loop's thread."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH_INTERVAL)
    try:
        yield
    finally:
        sys.setswitchinterval(before)
