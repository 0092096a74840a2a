"""Results and jobs go elsewhere."""

from __future__ import annotations

import contextlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from onward import runner
from onward.api.subject import (
    bind,
    name_of,
    open_desk,
    open_desk_at,
    stop_if_only_loaded,
    subject_of,
)
from onward.errors import ExportError, UsageError
from onward.job.job import Job
from onward.operate import moving, questions
from onward.operate.moving import Copied
from onward.ports.sink import Sink


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
    with open_desk(job, store) as desk:
        subject = subject_of(desk, job, params, instance)
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
    with open_desk(job, store) as desk:
        subject = subject_of(desk, job, params, instance)
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
        lacks = "--to needs --table NAME" if to is not None else "--table needs --to URL" if table is not None else None
        raise UsageError(lacks or "where is the export to go? Give --out FILE, or --to URL with --table NAME")
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
    stop_if_only_loaded()
    described = job if isinstance(job, Job) else None
    if source is None and described is None:
        raise UsageError("which store is it to leave? Give the job itself, or --from and the store's address")
    if described is not None and params is not None:
        instance = bind(described, params, instance).instance
    leaves = runner.store_url(described, source)
    runner.bring_up_to_date(leaves)
    with open_desk_at(leaves) as old:
        name = moving.only_job(old) if job is None else name_of(job)
        moving.chosen(old, name, instance)  # before a store is made that nothing goes to
        runner.make_store(to)
        with open_desk_at(to) as new:
            return moving.move(old, new, name, instance)


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
