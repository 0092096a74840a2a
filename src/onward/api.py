"""What `import onward` offers besides declaring: running a job, asking about it, deciding about its records.

`instances`, `causes`, `show`, `log`, `verify_log`, `bind`, `pause`, `resume`, `drain`, `concurrency` and `vacuum` serve
the command line alone and are not offered.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, TypeVar, overload

from onward import codec, runner
from onward.engine.govern import Bounds
from onward.engine.spending.bill import asking
from onward.engine.tally import Progress
from onward.errors import DeclarationError, ExportError, OutputError, UsageError
from onward.job import checks, registry
from onward.job.coding import record_validate
from onward.job.instance import Binding
from onward.job.job import Job
from onward.job.plan import FailureLimit, StepPlan
from onward.model import Result, RunResult
from onward.operate import (
    acts,
    choices,
    decisions,
    estimating,
    history,
    moving,
    orders,
    pausing,
    questions,
    reconciling,
    sampling,
    vacuuming,
)
from onward.operate.acts import Marked
from onward.operate.decisions import Decisions
from onward.operate.moving import Copied
from onward.operate.questions import Subject
from onward.operate.reconciling import Decision, Reconciled
from onward.operate.sampling import Compared
from onward.operate.vacuuming import Emptied
from onward.ports.desk import Desk
from onward.ports.facts import InstanceFacts
from onward.ports.sink import Sink
from onward.rehearsal.report import Announced, Report

T = TypeVar("T")
_NOT_GIVEN: Any = object()


def run(
    job: Job,
    *,
    store: str | None = None,
    params: Any = None,
    instance: str | None = None,
    concurrency: int | None = None,
    limit: int | None = None,
    max_failures: int | str | None = None,
    max_time: float | None = None,
    wait: float = 60.0,
    grace: float = 30.0,
    progress: Callable[[Progress], None] | None = None,
) -> RunResult:
    """Run or resume a job and return when it ends; times in seconds.

    SIGINT and SIGTERM stop it in good order when it is called in the main thread. Raises UsageError inside a running
    event loop: there, `await run_async(...)`.
    """
    _stop_if_only_loaded()
    _refuse_inside_loop()
    options = _options(job, store, concurrency, limit, max_failures, max_time, wait, grace, progress)
    return runner.run(job, bind(job, params, instance), options)


async def run_async(
    job: Job,
    *,
    store: str | None = None,
    params: Any = None,
    instance: str | None = None,
    concurrency: int | None = None,
    limit: int | None = None,
    max_failures: int | str | None = None,
    max_time: float | None = None,
    wait: float = 60.0,
    grace: float = 30.0,
    progress: Callable[[Progress], None] | None = None,
) -> RunResult:
    """`run` on the current event loop; signals stay with the caller, and cancelling stops the run."""
    _stop_if_only_loaded()
    options = _options(job, store, concurrency, limit, max_failures, max_time, wait, grace, progress)
    return await runner.run_async(job, bind(job, params, instance), replace(options, handle_signals=False))


def status(
    job: Job | str, *, store: str | None = None, params: Any = None, instance: str | None = None
) -> dict[str, Any]:
    """How an instance stands, as `onward status --json` has it. Without params and instance: the only one there is.

    `job` may be its name where only the store is at hand; its steps are then those of the newest run. Raises
    UsageError, StoreMissing.
    """
    with _desk(job, store) as desk:
        return questions.status(desk, _subject(desk, job, params, instance))


def estimate(
    job: Job,
    *,
    store: str | None = None,
    params: Any = None,
    instance: str | None = None,
    limit: int | None = None,
) -> dict[str, Any]:
    """What a run would work on, and what that is to cost and to take, as `onward run --estimate --json` has it.

    Nothing is asked and nothing changed; the source is read, to count it, where no run has read it to its end. `limit`:
    a run with this limit. Numbers are null while too little is known: at least five records have to be through with
    each step that asks a model. Raises UsageError, SourceError.
    """
    _stop_if_only_loaded()
    if not isinstance(job, Job):
        raise UsageError(f"an estimate needs the job itself, not {job!r}")
    binding = bind(job, params, instance)
    plan, source = job.plan(binding.params), job.open_source(binding.params)
    url = runner.store_url(job, store)
    with contextlib.ExitStack() as stack:
        desk = stack.enter_context(contextlib.closing(runner.open_desk(url))) if runner.is_there(url) else None
        if desk is not None and binding.instance in {one.name for one in desk.instances(job.name)}:
            subject = _subject(desk, job, params, binding.instance)
            return estimating.estimate(desk, subject, plan, source, limit)
    place = runner.shown_place(url)
    return estimating.before_the_first(job.name, binding.instance, place, plan, source, limit)


def instances(job: Job | str, *, store: str | None = None) -> list[dict[str, Any]]:
    """The job's instances, oldest first."""
    with _desk(job, store) as desk:
        return questions.instances(desk, _name(job))


def failures(
    job: Job | str,
    *,
    store: str | None = None,
    params: Any = None,
    instance: str | None = None,
    kind: str | None = None,
    state: str | None = None,
) -> Iterator[dict[str, Any]]:
    """Failed, quarantined and unconfirmed records in source order, as `onward failures --json` has them."""
    return _each(job, store, params, instance, lambda desk, subject: questions.failures(desk, subject, kind, state))


def causes(
    job: Job | str,
    *,
    store: str | None = None,
    params: Any = None,
    instance: str | None = None,
    kind: str | None = None,
    state: str | None = None,
) -> list[dict[str, Any]]:
    """The same records, those alike in step, kind and type of error put together, most frequent first."""
    with _desk(job, store) as desk:
        return questions.causes(desk, _subject(desk, job, params, instance), kind, state)


def show(
    job: Job | str,
    key: Any,
    *,
    store: str | None = None,
    params: Any = None,
    instance: str | None = None,
    payloads: bool = False,
) -> dict[str, Any]:
    """One record's whole history and the reasons. `payloads`: also what its effects send."""
    with _desk(job, store) as desk:
        subject = _subject(desk, job, params, instance)
        return questions.show(desk, subject, choices.one_record(desk, subject.number, key), payloads)


def log(
    job: Job | str,
    *,
    store: str | None = None,
    params: Any = None,
    instance: str | None = None,
    since: float | None = None,
    payloads: bool = False,
) -> Iterator[dict[str, Any]]:
    """Every decision about an instance and its reason, oldest first."""
    return _each(job, store, params, instance, lambda desk, subject: history.log(desk, subject, since, payloads))


def verify_log(
    job: Job | str | None,
    *,
    store: str | None = None,
    params: Any = None,
    instance: str | None = None,
    expected: str | None = None,
) -> dict[str, Any]:
    """Whether the history is what was written: an instance's, or that of all a job's, or of all the store's."""
    if job is None:
        with contextlib.closing(runner.open_desk(runner.store_url(None, store))) as desk:
            return history.verify(desk, None, None, expected)
    named = bind(job, params, instance).instance if isinstance(job, Job) and params is not None else instance
    with _desk(job, store) as desk:
        return history.verify(desk, _name(job), named, expected)


def retry(
    job: Job | str,
    *keys: Any,
    store: str | None = None,
    params: Any = None,
    instance: str | None = None,
    from_file: str | Path | None = None,
    all: bool = False,
    kind: str | None = None,
    step: str | None = None,
    stale: bool = False,
    dry_run: bool = False,
) -> Marked:
    """Mark failed records as pending, with fresh attempts; the next run goes on at the step where they failed.

    Keys are JSON values: 7 is not "7". What is given has to hold together: `kind` and `step` of the failure, `stale`
    (the step that failed has changed since), keys. Raises UsageError where nothing is chosen, or a key is unknown.
    """
    selection = choices.Selection(keys, from_file, all, kind, step, stale, dry_run)
    return _act("retry", job, store, params, instance, selection)


def release(
    job: Job | str,
    *keys: Any,
    store: str | None = None,
    params: Any = None,
    instance: str | None = None,
    from_file: str | Path | None = None,
    all: bool = False,
    kind: str | None = None,
    step: str | None = None,
    stale: bool = False,
    dry_run: bool = False,
) -> Marked:
    """Mark quarantined records as pending; chosen as in `retry`.

    A line of `from_file` with an `input`, as `export` writes it, corrects the record: it begins anew with that value,
    which outlives another reading of the source as long as the source presents what it presented before.
    """
    selection = choices.Selection(keys, from_file, all, kind, step, stale, dry_run)
    return _act("release", job, store, params, instance, selection)


@overload
def rerun(
    job: Job | str,
    *keys: Any,
    store: str | None = None,
    params: Any = None,
    instance: str | None = None,
    from_file: str | Path | None = None,
    all: bool = False,
    kind: str | None = None,
    step: str | None = None,
    stale: bool = False,
    sample: None = None,
    dry_run: bool = False,
) -> Marked: ...


@overload
def rerun(
    job: Job,
    *,
    store: str | None = None,
    params: Any = None,
    instance: str | None = None,
    step: str | None = None,
    stale: bool = False,
    sample: int,
    dry_run: bool = False,
) -> Compared: ...


def rerun(
    job: Job | str,
    *keys: Any,
    store: str | None = None,
    params: Any = None,
    instance: str | None = None,
    from_file: str | Path | None = None,
    all: bool = False,
    kind: str | None = None,
    step: str | None = None,
    stale: bool = False,
    sample: int | None = None,
    dry_run: bool = False,
) -> Marked | Compared:
    """Mark finished records, and those that wait with a stale checkpoint, for a new generation.

    It begins at `step`, else at the first stale step, else at the first; outputs of earlier steps are taken over,
    unless the input has changed. `step` alone chooses all records that have it. Old generations stay, and until the
    new one has succeeded exports have the old one.

    `sample`: so many stale ones (with `step`: ones that have it), spread evenly over the source's order, are made anew
    at once, and old and new results are laid side by side: then what comes back is `Compared`.
    """
    if sample is not None:
        if keys or from_file or all or kind:
            raise UsageError("sample chooses by itself, alone or with step")
        return rerun_sample(job, sample, step, dry_run, {}, store=store, params=params, instance=instance)
    selection = choices.Selection(keys, from_file, all, kind, step, stale, dry_run)
    return _act("rerun", job, store, params, instance, selection)


def rerun_sample(
    job: Job | str,
    number: int,
    step: str | None,
    dry_run: bool,
    watched: dict[str, Any],
    *,
    store: str | None,
    params: Any,
    instance: str | None,
) -> Compared:
    """`rerun(…, sample=number)`. `watched`: options of its run."""
    if isinstance(job, str):
        raise UsageError("a sample is made anew at once, and that needs the job's file")
    _stop_if_only_loaded()
    _refuse_inside_loop("rerun", "a thread: await asyncio.to_thread(onward.rerun, …)")
    try:
        number = checks.positive_int("sample", number)
    except DeclarationError as error:
        raise UsageError(str(error)) from None
    with _desk(job, store) as desk:
        subject = _subject(desk, job, params, instance)
        chosen = sampling.choose(desk, subject, number, step)
        if dry_run or not chosen.records:
            return Compared(chosen.keys, chosen.of, dry_run, step)
        binding, _ = _binding(desk, job, params, subject.instance)
        sampling.mark(desk, subject, chosen)
    ended = runner.run(job, binding, runner.Options(store, only=chosen.records, create=False, **watched))
    with _desk(job, store) as desk:
        return sampling.compared(desk, subject, chosen, ended)


def pause(
    job: Job | str,
    *,
    store: str | None = None,
    params: Any = None,
    instance: str | None = None,
    group: str | None = None,
    reason: str | None = None,
) -> str:
    """Let no call begin any more, in one group or in all of the instance, until `resume`; what came of it in words."""
    _check_group(job, group)
    with _desk(job, store) as desk:
        return pausing.pause(desk, _subject(desk, job, params, instance), group, reason)


def resume(
    job: Job | str,
    *,
    store: str | None = None,
    params: Any = None,
    instance: str | None = None,
    group: str | None = None,
    reason: str | None = None,
) -> str:
    """Let what was paused go on; what came of it in words."""
    with _desk(job, store) as desk:
        return pausing.resume(desk, _subject(desk, job, params, instance), group, reason)


def drain(
    job: Job | str,
    *,
    run: int | str | None = None,
    store: str | None = None,
    params: Any = None,
    instance: str | None = None,
    reason: str | None = None,
) -> str:
    """Have a run, or all that are at work, finish the calls in progress, begin no others and end (exit code 3); what
    came of it in words."""
    with _desk(job, store) as desk:
        return orders.drain(desk, _subject(desk, job, params, instance), _run_number(run), reason)


def _run_number(run: int | str | None) -> int | None:
    if run is None:
        return None
    if not str(run).isdecimal() or not 0 < int(run) < 1 << 63:
        raise UsageError(f"a run has a number, which onward status tells, not {run!r}")
    return int(run)


def concurrency(
    job: Job | str,
    number: int | None = None,
    *,
    default: bool = False,
    store: str | None = None,
    params: Any = None,
    instance: str | None = None,
    reason: str | None = None,
) -> str:
    """Let each run of the instance, those at work and those to come, have `number` calls in progress at most; with
    `default` as it was started or its job declares. Without either: what people have said. What came of it in words."""
    if number is not None:
        try:
            number = checks.positive_int("concurrency", number)
        except DeclarationError as error:
            raise UsageError(str(error)) from None
    if default and number is not None:
        raise UsageError("a number and default exclude each other")
    with _desk(job, store) as desk:
        subject = _subject(desk, job, params, instance)
        if number is None and not default:
            return orders.told_concurrency(desk, subject)
        return orders.concurrency(desk, subject, number, reason)


def vacuum(
    job: Job | str,
    older_than: float,
    *,
    dry_run: bool = False,
    store: str | None = None,
    params: Any = None,
    instance: str | None = None,
) -> Emptied:
    """Remove what nobody has needed for so many seconds: outputs and inputs that newer ones have replaced, and errors
    of records that have succeeded since; of all instances of the job, unless one is named. The ledger, the history and
    the newest result of each record stay. Then disk space is given back, as far as that holds up nobody."""
    try:
        seconds = checks.seconds_from_zero("older_than", older_than)
    except DeclarationError as error:
        raise UsageError(str(error)) from None
    named = bind(job, params, instance).instance if isinstance(job, Job) and params is not None else instance
    with _desk(job, store) as desk:
        return vacuuming.vacuum(desk, _name(job), named, seconds, dry_run)


def _check_group(job: Job | str, group: str | None) -> None:
    declared = not isinstance(job, Job) or job.group or any(step.options.group for step in job.steps)
    if group is not None and not declared:
        raise UsageError(f"job '{_name(job)}' has no groups: no step is declared with group=…")


def reconcile(
    job: Job | str,
    *keys: Any,
    sent: Any = _NOT_GIVEN,
    not_sent: bool = False,
    from_file: str | Path | None = None,
    all: bool = False,
    dry_run: bool = False,
    effect: str | None = None,
    reason: str | None = None,
    store: str | None = None,
    params: Any = None,
    instance: str | None = None,
) -> Decision | Decisions | Reconciled:
    """Settle what an effect left open.

    With a key, as a person says: it was `sent`, with this receipt (a JSON value that fits the effect's return
    annotation; a person's word needs no confirmation), or it was `not_sent`, and the next run sends it. `not_sent` may
    be said of several keys, or of `all` unconfirmed records whose receipt is not there; a file of JSON lines
    `{"key", "sent" or "not_sent", "reason"}` (`from_file`, "-" is standard input) says it of each. Without any of
    these: ask all open probes and confirmations again, now, each once; what is confirmed goes on with its later steps.
    `effect`: only this one, by its name in the ledger. `reason` is kept with the name of the system's user.

    A decision about one key is a Decision; about many, or with `dry_run`, Decisions, which has what was `refused`.
    Raises UsageError for an unknown key, a receipt or a line that does not fit, for one key also where the record is
    not unconfirmed or its call may still be sending in a run that is alive, and, where it asks, inside a running event
    loop.
    """
    says, many = sent is not _NOT_GIVEN, len(keys) > 1 or all or dry_run or from_file is not None
    _check_decision(keys, says, not_sent, from_file, all)
    if not (says or not_sent or from_file is not None):
        if dry_run:
            raise UsageError("a dry run is one of decisions: asking again decides nothing")
        return _ask_again(job, effect, reason, store, params, instance)
    receipt = _plain_receipt(sent) if says else None
    with _desk(job, store) as desk:
        subject = _subject(desk, job, params, instance)
        steps = _binding(desk, job, params, subject.instance)[1] if isinstance(job, Job) else None
        if not many:
            return reconciling.decide(desk, subject, keys[0], steps, receipt=receipt, effect=effect, reason=reason)
        if from_file is not None:
            said = decisions.from_file(desk, subject, from_file, reason)
        else:
            said = decisions.of_keys(desk, subject, None if all else keys, receipt, reason)
        return decisions.decide_all(desk, subject, said, steps, effect=effect, named=not all, dry_run=dry_run)


def _check_decision(keys: Sequence[Any], says: bool, not_sent: bool, from_file: str | Path | None, all: bool) -> None:
    if from_file is not None:
        if keys or says or not_sent or all:
            raise UsageError("a file says of each record what became of it: no keys, all, sent or not sent beside it")
        return
    if all and keys:
        raise UsageError("named keys and all exclude each other")
    if says and not_sent:
        raise UsageError("sent and not sent exclude each other")
    if says and (all or len(keys) > 1):
        raise UsageError("a receipt is that of one record; of many, a file says which has which (from)")
    if (says or not_sent) != bool(keys or all):
        raise UsageError("a decision is which records and what became of them: sent, with a receipt, or not sent")


def _ask_again(
    job: Job | str, effect: str | None, reason: str | None, store: str | None, params: Any, instance: str | None
) -> Reconciled:
    if isinstance(job, str):
        raise UsageError("asking again needs the job's file, which has the probes and confirmations")
    _stop_if_only_loaded()
    _refuse_inside_loop()
    with _desk(job, store) as desk:
        subject = _subject(desk, job, params, instance)
        binding, steps = _binding(desk, job, params, subject.instance)
        asked = reconciling.ask_again(desk, subject, steps, effect, reason)
        if not asked.records:
            return reconciling.reconciled(desk, subject, asked, None)
    ended = runner.run(job, binding, runner.Options(store, wait=0.0, asks_about=asked.records, create=False))
    with _desk(job, store) as desk:
        return reconciling.reconciled(desk, subject, asked, ended)


def _binding(desk: Desk, job: Job, params: Any, instance: str) -> tuple[Binding, Sequence[StepPlan]]:
    """The params of an instance, those of its newest run where none are given; and its steps."""
    facts = questions.choose_instance(desk, job.name, instance)
    binding = job.bind(params) if params is not None else job.bind_json(facts.params)
    return binding, job.plan(binding.params).steps


def _plain_receipt(sent: Any) -> str:
    try:
        return codec.dumps(sent)
    except OutputError as error:
        raise UsageError(f"a receipt is a plain JSON value: {error}") from None


def export(
    job: Job | str,
    out: str | Path | None = None,
    *,
    to: str | None = None,
    table: str | None = None,
    store: str | None = None,
    params: Any = None,
    instance: str | None = None,
    format: str | None = None,
    state: str = "succeeded",
    flat: bool = False,
    generation: str = "last",
    steps: Sequence[str] = (),
) -> int:
    """Write results to a file that appears whole or not at all, or into a table; the number of rows.

    `out` is relative to the current folder. `to` and `table` instead: a database (`postgresql://…`, `sqlite:///…` or a
    path) and its table, made if it is missing; rows are upserted by key in one transaction (`sinks.table` says which
    columns it has). `steps`: only these steps' outputs; all without. See `operate.questions.rows` for what is in it.
    Raises UsageError, ExportError.
    """
    sink = _sink(job, out, to, table, store, params, format, flat, generation)
    with _desk(job, store) as desk:
        subject = _subject(desk, job, params, instance)
        return sink.write(questions.rows(desk, subject, state, generation, steps))


def export_into(
    job: Job | str,
    to: str,
    table: str,
    *,
    store: str | None = None,
    params: Any = None,
    instance: str | None = None,
    state: str = "succeeded",
    flat: bool = False,
    generation: str = "last",
    steps: Sequence[str] = (),
) -> tuple[int, int]:
    """The same into a table: the number of rows, and how many of them were made or changed there."""
    _check_table(generation)
    sink = runner.open_table(to, table, flat)
    with _desk(job, store) as desk:
        subject = _subject(desk, job, params, instance)
        return sink.write(questions.rows(desk, subject, state, generation, steps)), sink.changed


def _sink(
    job: Job | str,
    out: str | Path | None,
    to: str | None,
    table: str | None,
    store: str | None,
    params: Any,
    format: str | None,
    flat: bool,
    generation: str,
) -> Sink:
    """Where an export goes. Raises UsageError."""
    if out is not None:
        if to is not None or table is not None:
            raise UsageError("an export goes to a file (--out) or into a table (--to and --table), not to both")
        _refuse_own_files(job, store, params, Path(out))
        return runner.open_sink(out, format, flat)
    if to is None or table is None:
        raise UsageError("where is the export to go? Give --out FILE, or --to URL with --table NAME")
    if format is not None:
        raise UsageError("a table has no format; leave out --format")
    _check_table(generation)
    return runner.open_table(to, table, flat)


def _check_table(generation: str) -> None:
    if generation == "all":
        raise UsageError("a table has one row a record, and so one generation; leave out --generation")


def copy(
    job: Job | str | None,
    *,
    to: str,
    source: str | None = None,
    params: Any = None,
    instance: str | None = None,
) -> Copied:
    """Move a job, or one instance of it, to the store `to`, where it goes on.

    `source`: the store that it leaves, else the job's own; `job` None: the only one there. The old store keeps its
    copy, which can be looked at and no longer be worked on. Raises UsageError where a run is alive in either store, and
    where the job, or an obligation of its ledger, is in the new one already: nothing is moved then.
    """
    _stop_if_only_loaded()
    described = job if isinstance(job, Job) else None
    if source is None and described is None:
        raise UsageError("which store is it to leave? Give the job itself, or --from and the store's address")
    if described is not None and params is not None:
        instance = bind(described, params, instance).instance
    leaves = runner.store_url(described, source)
    runner.bring_up_to_date(leaves)
    with _desk_at(leaves) as old:
        name = moving.only_job(old) if job is None else _name(job)
        moving.chosen(old, name, instance)  # before a store is made that nothing goes to
        runner.make_store(to)
        with _desk_at(to) as new:
            return moving.move(old, new, name, instance)


@contextlib.contextmanager
def _desk_at(url: str) -> Iterator[Desk]:
    desk = runner.open_desk(url)
    try:
        yield desk
    finally:
        desk.close()


def results(
    job: Job | str,
    *,
    store: str | None = None,
    params: Any = None,
    instance: str | None = None,
    state: str = "succeeded",
) -> Iterator[Result]:
    """Results in source order, from one snapshot, in constant memory."""
    return _each(job, store, params, instance, lambda desk, subject: questions.results(desk, subject, state))


def rehearse(
    job: Job,
    *,
    records: int = 3,
    params: Any = None,
    instance: str | None = None,
    wait: float = 120.0,
    announce: Callable[[Announced], None] | None = None,
    progress: Callable[[int, int], None] | None = None,
) -> Report:
    """Crash-test a job: run its first `records` records, killed at every commit and before and after every call of an
    effect, and resumed each time, on stores that are thrown away. The job's own store is not touched.

    Effects are really called, at whatever endpoint the job and its `params` name, under idempotency keys that begin
    with `rehearsal-`. `announce` is told which, before anything is called; what it raises ends the rehearsal there.
    `wait`: seconds to stay for what is unconfirmed after a kill. `progress` hears how many of how many kills are over.

    Raises UsageError, also for a job in a notebook, and inside a running event loop.
    """
    _stop_if_only_loaded()
    _refuse_inside_loop("rehearse", "a thread: await asyncio.to_thread(onward.rehearse, …)")
    if not isinstance(job, Job):
        raise UsageError(f"what is to be rehearsed must be a Job, not {job!r}")
    try:
        number, seconds = checks.positive_int("records", records), checks.seconds_from_zero("wait", wait)
    except DeclarationError as error:
        raise UsageError(str(error)) from None
    from onward.rehearsal import rehearse as rehearsing

    binding = bind(job, params, instance)
    return rehearsing.rehearse(job, binding, number, seconds, announce or _unheard, progress or _unheard)


def _unheard(*told: Any) -> None:
    """Nobody listens."""


def _refuse_own_files(job: Job | str, store: str | None, params: Any, out: Path) -> None:
    """An export replaces what stands under its name: never the store, the job's file or its input."""
    described = job if isinstance(job, Job) else None
    if (described or store) and runner.is_of_store(out, runner.store_url(described, store)):
        raise UsageError(f"{out} belongs to the job's store; give the export another name")
    if described is None:
        return
    own = described.reference.file
    if own is not None and _is_same(out, own):
        raise UsageError(f"{out} is the job's own file; give the export another name")
    with contextlib.suppress(UsageError):  # params that the input's place depends on were not given
        if _is_same(out, Path(described.open_source(described.bind(params).params).location)):
            raise ExportError(f"{out} is the job's input; give the export another name")


def _is_same(out: Path, other: Path) -> bool:
    try:
        return out.is_file() and out.samefile(other)
    except OSError:
        return False


@contextlib.contextmanager
def _desk(job: Job | str, store: str | None) -> Iterator[Desk]:
    _stop_if_only_loaded()
    if isinstance(job, str) and store is None:
        raise UsageError(f"where is the store of job '{job}'? A name alone needs store=…")
    desk = runner.open_desk(runner.store_url(None if isinstance(job, str) else job, store))
    try:
        yield desk
    finally:
        desk.close()


def _each(
    job: Job | str,
    store: str | None,
    params: Any,
    instance: str | None,
    ask: Callable[[Desk, Subject], Iterator[T]],
) -> Iterator[T]:
    """The answers to a question with many; what is wrong with it is said at once, the store let go at the end."""
    with contextlib.ExitStack() as stack:
        desk = stack.enter_context(_desk(job, store))
        answers = ask(desk, _subject(desk, job, params, instance))
        held = stack.pop_all()

    def each() -> Iterator[T]:
        with held:
            yield from answers

    return each()


def _name(job: Job | str) -> str:
    return job if isinstance(job, str) else job.name


def _subject(desk: Desk, job: Job | str, params: Any, instance: str | None) -> Subject:
    binding = bind(job, params, instance) if isinstance(job, Job) and params is not None else None
    facts = questions.choose_instance(desk, _name(job), binding.instance if binding else instance)
    steps = _steps_now(job, binding, facts)
    if steps is None:
        today = {step.name: step.version for step in facts.versions}
        parts = desk.version_parts(facts.number)
        asks = {step: True for step, version in today.items() if "model" in parts.get((step, version), {})}
        return Subject(_name(job), facts.name, facts.number, today, asks)
    today = {step.name: step.version for step in steps}
    return Subject(_name(job), facts.name, facts.number, today, asking(steps))


def _steps_now(job: Job | str, binding: Binding | None, facts: InstanceFacts) -> Sequence[StepPlan] | None:
    """The steps of the job as it is now, for these params or those of the newest run; None where they cannot be had."""
    if isinstance(job, Job):
        with contextlib.suppress(UsageError):  # params that no longer fit: what the newest run had
            return job.plan((binding or job.bind_json(facts.params)).params).steps
    return None


def _act(
    act: acts.Act,
    job: Job | str,
    store: str | None,
    params: Any,
    instance: str | None,
    selection: choices.Selection,
) -> Marked:
    validate = None
    if isinstance(job, Job) and selection.from_file is not None:
        shape = job.record_shape()
        validate = None if shape is None else record_validate(shape)
    with _desk(job, store) as desk:
        return acts.mark(desk, _subject(desk, job, params, instance), act, selection, validate)


def bind(job: Job, params: Any, instance: str | None) -> Binding:
    """The params and the instance of a start; `instance` must be the one that the params make."""
    binding = job.bind(params)
    if instance is not None and instance != binding.instance:
        raise UsageError(f"these params make the instance {binding.instance!r}, not {instance!r}")
    return binding


def _options(
    job: Job,
    store: str | None,
    concurrency: int | None,
    limit: int | None,
    max_failures: int | str | None,
    max_time: float | None,
    wait: float,
    grace: float,
    progress: Callable[[Progress], None] | None,
) -> runner.Options:
    """How to run a job, from what was given for it. Raises UsageError."""
    if not isinstance(job, Job):
        raise UsageError(f"what is to be run must be a Job, not {job!r}")
    if progress is not None and not callable(progress):
        raise UsageError(f"progress must be a function, not {progress!r}")
    try:
        ceiling = FailureLimit.parse(max_failures) if max_failures is not None else job.max_failures
        bounds = Bounds(
            limit=None if limit is None else checks.positive_int("limit", limit),
            max_failures=ceiling.count if ceiling else None,
            max_failures_percent=ceiling.percent if ceiling else None,
            max_time=None if max_time is None else checks.seconds_from_zero("max_time", max_time),
            grace=checks.seconds_from_zero("grace", grace),
        )
        most = None if concurrency is None else checks.positive_int("concurrency", concurrency)
        return runner.Options(
            store, most, bounds=bounds, wait=checks.seconds_from_zero("wait", wait), progress=progress
        )
    except DeclarationError as error:
        raise UsageError(str(error)) from None


def _stop_if_only_loaded() -> None:
    if registry.loading():
        raise registry.StopLoading


def _refuse_inside_loop(what: str = "run", instead: str = "await onward.run_async(…)") -> None:
    import asyncio

    try:
        asyncio.get_running_loop()
    except RuntimeError:
        return
    raise UsageError(f"onward.{what} was called inside a running event loop; use: {instead}")
