"""Wiring: the only file that names adapters. Opens stores, sources and sinks, begins a run and hands it on."""

from __future__ import annotations

import asyncio
import contextlib
import os
import platform
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

from onward.clock import SystemClock
from onward.engine.session import Announcement as Announcement
from onward.engine.session import Options as Options
from onward.engine.session import Session
from onward.errors import UsageError
from onward.job.instance import Binding
from onward.job.job import Job
from onward.model import RunResult, StepVersion
from onward.ports import Batch, Desk, RunStart, Sink, Source
from onward.sinks import formats
from onward.sources.given import BY_POSITION as BY_POSITION
from onward.sources.given import Given
from onward.store.sqlite.connection import path_of
from onward.store.sqlite.desk import SqliteDesk
from onward.store.sqlite.in_memory import InMemoryStore
from onward.store.sqlite.work import LEASE_SECONDS, SqliteWorkStore

SWITCH_INTERVAL = 0.0005
LAST_WAIT = 1.0


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


def settled(url: str) -> str:
    """The same store's address, whatever becomes of the current folder."""
    path = path_of(url)
    return str(path.absolute()) if path else url


def is_of_store(out: Path, url: str) -> bool:
    """Whether a file is the store or lies beside it as a part of it."""
    path = path_of(url)
    if path is None:
        return False
    place, names = path.resolve(), ("", "-wal", "-shm", "-runs", "-journal")
    return out.resolve() in [place.with_name(place.name + name) for name in names]


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
    return await Session(job, binding, options, plan, source, store, begun, shown_place(url), SystemClock()).work()


@contextlib.contextmanager
def _quick_switching() -> Iterator[None]:
    """Let threads take turns more often: the journal must not wait five milliseconds for the event loop's thread."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH_INTERVAL)
    try:
        yield
    finally:
        sys.setswitchinterval(before)
