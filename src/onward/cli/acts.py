"""`onward retry`, `release` and `rerun`: they only mark; `onward run` works."""

from __future__ import annotations

from collections.abc import Callable
from typing import Annotated, Any

import typer

from onward.cli import streams
from onward.cli.options import Debug, Instance, JobName, Kind, Params, Store, Words
from onward.cli.target import find, split

FromFile = Annotated[
    str | None,
    typer.Option("--from", metavar="FILE", envvar="ONWARD_FROM", help="A file of keys, one a line; - is the input."),
]
Every = Annotated[bool, typer.Option("--all", envvar="ONWARD_ALL", help="Every record it is for.", show_default=False)]
AtStep = Annotated[
    str | None, typer.Option("--step", metavar="STEP", envvar="ONWARD_STEP", help="Those that failed at this step.")
]
FromStep = Annotated[
    str | None,
    typer.Option(
        "--step", metavar="STEP", envvar="ONWARD_STEP", help="From this step on; alone: all records that have it."
    ),
]
Stale = Annotated[
    bool,
    typer.Option(
        "--stale", envvar="ONWARD_STALE", help="Those that today's steps would make anew.", show_default=False
    ),
]
DryRun = Annotated[
    bool, typer.Option("--dry-run", envvar="ONWARD_DRY_RUN", help="Only count them.", show_default=False)
]


def retry(
    words: Words = None,
    from_file: FromFile = None,
    every: Every = False,
    kind: Kind = None,
    step: AtStep = None,
    stale: Stale = False,
    dry_run: DryRun = False,
    store: Store = None,
    job_name: JobName = None,
    instance: Instance = None,
    params: Params = None,
    debug: Debug = False,
) -> int:
    """Mark failed records to be tried again by the next run."""
    from onward import api

    chosen = _chosen(from_file, every, kind, step, stale, dry_run)
    return _mark(api.retry, words, chosen, store, job_name, instance, params)


def release(
    words: Words = None,
    from_file: FromFile = None,
    every: Every = False,
    kind: Kind = None,
    step: AtStep = None,
    stale: Stale = False,
    dry_run: DryRun = False,
    store: Store = None,
    job_name: JobName = None,
    instance: Instance = None,
    params: Params = None,
    debug: Debug = False,
) -> int:
    """Let quarantined records go on; --from FILE may bring corrected ones."""
    from onward import api

    chosen = _chosen(from_file, every, kind, step, stale, dry_run)
    return _mark(api.release, words, chosen, store, job_name, instance, params)


def rerun(
    words: Words = None,
    from_file: FromFile = None,
    every: Every = False,
    kind: Kind = None,
    step: FromStep = None,
    stale: Stale = False,
    dry_run: DryRun = False,
    store: Store = None,
    job_name: JobName = None,
    instance: Instance = None,
    params: Params = None,
    debug: Debug = False,
) -> int:
    """Mark finished records for a new generation; the old ones stay."""
    from onward import api

    chosen = _chosen(from_file, every, kind, step, stale, dry_run)
    return _mark(api.rerun, words, chosen, store, job_name, instance, params)


def _chosen(
    from_file: str | None, every: bool, kind: str | None, step: str | None, stale: bool, dry_run: bool
) -> dict[str, Any]:
    return {
        "from_file": from_file,
        "all": every,
        "kind": kind,
        "step": step,
        "stale": stale,
        "dry_run": dry_run,
    }


def _mark(
    act: Callable[..., Any],
    words: list[str] | None,
    chosen: dict[str, Any],
    store: str | None,
    job_name: str | None,
    instance: str | None,
    params: list[str] | None,
) -> int:
    from onward.operate.choices import Typed

    job, keys = split(words, job_name)
    target = find(job, store, job_name, instance, params)
    marked = act(target.job, *map(Typed, keys), **target.asked, **chosen)
    streams.out(str(marked))
    if marked.count and not marked.dry_run:
        streams.out(f"Next: {target.run_command}")
    return 0
