"""Wiring: the only file that names adapters. Opens stores, sources and sinks, begins a run and hands it on."""

from __future__ import annotations

import asyncio
import contextlib
import os
import platform
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from onward.clock import SystemClock
from onward.engine.loops import run_to_end
from onward.engine.options import Announcement as Announcement
from onward.engine.options import Options as Options
from onward.engine.processes.interpreter import tuned_interpreter
from onward.engine.session import Session
from onward.errors import SourceError, StoreMissing, UsageError, is_out_of_memory
from onward.job.instance import Binding
from onward.job.job import Job
from onward.job.models import caps_of, refuse_both_modes, refuse_namesakes
from onward.job.place import whole_path
from onward.job.plan import Plan
from onward.model import RunResult, StepVersion
from onward.ports.desk import Desk
from onward.ports.sink import Sink
from onward.ports.source import Source
from onward.ports.work import Batch, RunStart, WorkStore
from onward.sinks import formats
from onward.sources.given import BY_POSITION as BY_POSITION
from onward.sources.given import Given
from onward.store.postgres.address import is_postgres, parse
from onward.store.sqlite.connection import path_of
from onward.store.sqlite.desk import SqliteDesk
from onward.store.sqlite.in_memory import InMemoryStore
from onward.store.sqlite.telling import Hearer, TellingStore
from onward.store.sqlite.work import LEASE_SECONDS, SqliteWorkStore

if TYPE_CHECKING:
    from onward.sinks.table import TableSink

LAST_WAIT = 1.0
LONGEST_LEASE = 86400.0


def store_url(job: Job | None, given: str | None) -> str:
    """The store's address: as given (relative to the current folder), else beside the job file."""
    if given is not None:
        return os.fspath(given)  # a Path will do
    own_file = job is not None and job.reference.module is None and job.folder is not None
    folder = job.folder if own_file and job is not None else Path.cwd()
    assert folder is not None
    return str(folder / ".onward" / "onward.db")


def shown_place(url: str) -> str:
    """The store's address as people are shown it, passwords masked."""
    if is_postgres(url):
        return parse(url).shown
    file = _file_of(url)
    return str(file) if file else "sqlite:// (in memory)"


def is_in_memory(url: str | None) -> bool:
    """Whether a store is one that ends with its run; `url` as it was given, if it was."""
    return url is not None and not is_postgres(url) and path_of(url) is None


def is_shared(url: str) -> bool:
    """Whether runs on several machines can work on it."""
    return is_postgres(url)


def is_there(url: str) -> bool:
    """Whether there is a store that can be asked. Raises StoreError where its server does not answer."""
    if is_postgres(url):
        try:
            open_desk(url).close()
        except StoreMissing:
            return False
        return True
    file = _file_of(url)
    return file is not None and file.exists()


def settled(url: str) -> str:
    """The same store's address, whatever becomes of the current folder."""
    if is_postgres(url):
        return url
    file = _file_of(url)
    return str(file) if file else url


def _file_of(url: str) -> Path | None:
    """The store's file; None in memory."""
    path = path_of(url)
    return None if path is None else whole_path(path)


def is_of_store(out: Path, url: str) -> bool:
    """Whether a file is the store or lies beside it as a part of it."""
    if is_postgres(url):
        return False
    path = path_of(url)
    if path is None:
        return False
    place, names = path.resolve(), ("", "-wal", "-shm", "-runs", "-journal")
    return out.resolve() in [place.with_name(place.name + name) for name in names]


def open_work(url: str, create: bool, store_inputs: bool, waits: Callable[[str], None] | None = None) -> WorkStore:
    """Raises StoreError, and UsageError where what it takes is not installed."""
    if is_postgres(url):
        with _installed():
            from onward.store.postgres.work import PostgresWorkStore
        return PostgresWorkStore(parse(url), SystemClock(), _lease(), create, store_inputs, waits)
    return SqliteWorkStore(_file_of(url), SystemClock(), _lease(), create, store_inputs, waits)


@contextlib.contextmanager
def _installed() -> Iterator[None]:
    try:
        yield
    except ImportError as error:
        raise UsageError(
            f"a store at postgresql:// needs psycopg 3 ({error}): pip install 'onward[postgres]'"
        ) from error


def _lease() -> float:
    """How long a run keeps its records without a sign of life, in seconds. Raises UsageError."""
    given = os.environ.get("ONWARD_LEASE")
    if given is None:
        return LEASE_SECONDS
    with contextlib.suppress(ValueError):
        if 0 < (seconds := float(given)) <= LONGEST_LEASE:
            return seconds
    raise UsageError(f"ONWARD_LEASE is {given!r}; it takes seconds, more than 0 and at most a day, such as 30")


def open_desk(url: str) -> Desk:
    """Where people ask about what is in a store and decide. Raises StoreMissing."""
    if is_postgres(url):
        with _installed():
            from onward.store.postgres.desk import PostgresDesk
        return PostgresDesk(parse(url), SystemClock())
    file = _file_of(url)
    if file is None:
        raise UsageError("a store in memory ends with its run: there is nothing to ask about")
    return SqliteDesk(file, SystemClock())


def make_store(url: str) -> bool:
    """See to it that there is a store of today's schema; whether it is new. Raises StoreError, UsageError."""
    if is_in_memory(url):
        raise UsageError("a store in memory ends with its run: nothing can be kept there")
    store = open_work(url, True, True)
    store.close()
    return store.new


def bring_up_to_date(url: str) -> None:
    """Have a store that is there at today's schema, as a run would. Raises StoreMissing."""
    open_work(url, False, True).close()


def open_in_memory(store_inputs: bool, dies_after: Callable[[int, Batch], bool]) -> InMemoryStore:
    """A store for tests of a job."""
    return InMemoryStore(SystemClock(), store_inputs, dies_after)


def open_telling(file: Path, store_inputs: bool, hearer: Hearer) -> TellingStore:
    """A store in a file that tells of each commit."""
    return TellingStore(file, SystemClock(), store_inputs, hearer)


def open_sink(out: str | Path, format: str | None, flat: bool) -> Sink:
    """Where an export goes. Raises UsageError."""
    return formats.open_sink(out, format, flat)


def open_table(url: str, table: str, flat: bool) -> TableSink:
    """A table that an export goes to. Raises UsageError."""
    from onward.sinks.table import TableSink  # brings decimal

    return TableSink(url, table, flat)


def unknown_suffix(out: str) -> str:
    """What an export's name ends in where that says no format, so that it holds JSON Lines; else empty."""
    return formats.unknown_suffix(out)


def source_of(records: Sequence[Any], key: tuple[str, ...] | str | None) -> Source:
    """A source of records that are at hand; `key` as `sources.given.Given` has it."""
    return Given(records, key)


def run(job: Job, binding: Binding, options: Options) -> RunResult:
    """Run to an end in this thread, with an event loop of its own."""
    with tuned_interpreter(), _event_loop() as runner:
        try:
            return run_to_end(runner, run_async(job, binding, options))
        finally:
            _leave_behind(runner.get_loop())


@contextlib.contextmanager
def _event_loop() -> Iterator[asyncio.Runner]:
    runner = asyncio.Runner()
    try:
        yield runner
    finally:
        try:
            runner.close()
        except RuntimeError as error:  # to wait for threads asyncio starts another; the run has ended without that
            if not is_out_of_memory(error):
                raise


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
    plan = options.plan or job.plan(binding.params)
    if not plan.steps:
        raise UsageError(f"job '{job.name}' has no steps")
    refuse_both_modes((step.name, step.models) for step in plan.steps)
    refuse_namesakes(plan.models)
    caps = caps_of(plan.models, options.budget)
    source = options.source or job.open_source(binding.params)
    url = store_url(job, options.store)
    asks_only = options.asks_about is not None or options.only is not None
    if options.opened is None and not asks_only:
        _refuse_missing_input(source, url, job.name, binding.instance)
    store = options.opened or open_work(url, options.create, plan.store_inputs, options.waits)
    try:
        begun = store.begin_run(
            RunStart(
                job=job.name,
                instance=binding.instance,
                host=platform.node(),
                params=binding.params_json or "{}",
                location=None if asks_only else options.location or source.location,
                steps=tuple(StepVersion(step.name, step.version, step.parts) for step in plan.steps),
                resume_cap=plan.resume_cap,
                source_changed=options.source_changed,
                gates=plan.groups,
                effects=tuple((step.effect.name, step.effect.formerly) for step in plan.steps if step.effect),
                asks_only=asks_only,
                batch_models=tuple((one.name, one.place, one.path) for one in plan.models if one.batching is not None),
                deduped=_deduped(plan),
                ceilings=plan.has_ceilings,
                pid=os.getpid(),
                key_fields={step.effect.name: step.effect.fields for step in plan.steps if step.effect},
            )
        )
    except BaseException:
        store.close()
        raise
    parts = job, binding, options, plan, source, store, begun, shown_place(url), SystemClock(), caps
    return await Session(*parts).work()


def _deduped(plan: Plan) -> tuple[str, ...]:
    effects = [step.effect for step in plan.steps if step.effect]
    kept = [effect for effect in effects if effect.traits.keyed and effect.traits.expires is None]
    return tuple(name for effect in kept for name in (effect.name, *effect.formerly))


def _refuse_missing_input(source: Source, url: str, job: str, instance: str) -> None:
    """A mistyped param makes the name of a file that is not there: it must not leave an instance behind.

    Raises SourceError, unless the instance has records, which can be worked on all the same.
    """
    try:
        source.resume(None, False)
    except SourceError as error:
        if not _has_records(url, job, instance):
            raise SourceError(f"the source cannot be read: {error}") from error


def _has_records(url: str, job: str, instance: str) -> bool:
    try:
        with contextlib.closing(open_desk(url)) as desk:
            return any(one.counts.total for one in desk.instances(job) if one.name == instance)
    except (StoreMissing, UsageError):
        return False
