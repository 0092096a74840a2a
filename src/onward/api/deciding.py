"""Deciding about records: to try them again, to make them anew, and what became of an effect."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, overload

from onward import codec, runner
from onward.api.subject import (
    open_desk,
    refuse_inside_loop,
    stop_if_only_loaded,
    subject_of,
)
from onward.errors import DeclarationError, OutputError, UsageError
from onward.job import checks
from onward.job.coding import record_validate
from onward.job.instance import Binding
from onward.job.job import Job
from onward.job.plan import StepPlan
from onward.operate import acts, choices, decisions, questions, reconciling, sampling
from onward.operate.acts import Marked
from onward.operate.decisions import Decisions
from onward.operate.reconciling import Decision, Reconciled
from onward.operate.sampling import Compared
from onward.ports.desk import Desk

_NOT_GIVEN: Any = object()


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
    stop_if_only_loaded()
    refuse_inside_loop("rerun", "a thread: await asyncio.to_thread(onward.rerun, …)")
    try:
        number = checks.positive_int("sample", number)
    except DeclarationError as error:
        raise UsageError(str(error)) from None
    with open_desk(job, store) as desk:
        subject = subject_of(desk, job, params, instance)
        chosen = sampling.choose(desk, subject, number, step)
        if dry_run or not chosen.records:
            return Compared(chosen.keys, chosen.of, dry_run, step)
        binding, _ = _binding(desk, job, params, subject.instance)
        sampling.mark(desk, subject, chosen)
    ended = runner.run(job, binding, runner.Options(store, only=chosen.records, create=False, **watched))
    with open_desk(job, store) as desk:
        return sampling.compared(desk, subject, chosen, ended)


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
    with open_desk(job, store) as desk:
        subject = subject_of(desk, job, params, instance)
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
    stop_if_only_loaded()
    refuse_inside_loop()
    with open_desk(job, store) as desk:
        subject = subject_of(desk, job, params, instance)
        binding, steps = _binding(desk, job, params, subject.instance)
        asked = reconciling.ask_again(desk, subject, steps, effect, reason)
        if not asked.records:
            return reconciling.reconciled(desk, subject, asked, None)
    ended = runner.run(job, binding, runner.Options(store, wait=0.0, asks_about=asked.records, create=False))
    with open_desk(job, store) as desk:
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
    with open_desk(job, store) as desk:
        return acts.mark(desk, subject_of(desk, job, params, instance), act, selection, validate)
