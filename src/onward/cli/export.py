"""`onward export`."""

from __future__ import annotations

from typing import Annotated

import typer

from onward.cli import streams
from onward.cli.options import Debug, Instance, JobName, JobWord, Params, Store
from onward.cli.target import find


def export(
    out: Annotated[
        str, typer.Option("--out", metavar="FILE", envvar="ONWARD_OUT", help="The file to write; - is standard output.")
    ],
    job: JobWord = None,
    form: Annotated[
        str | None,
        typer.Option(
            "--format", metavar="FORMAT", envvar="ONWARD_FORMAT", help="jsonl, csv or parquet; else as the suffix says."
        ),
    ] = None,
    state: Annotated[
        str, typer.Option("--state", metavar="STATE", envvar="ONWARD_STATE", help="Records in this state.")
    ] = "succeeded",
    flat: Annotated[
        bool,
        typer.Option("--flat", envvar="ONWARD_FLAT", help="Record fields and outputs as columns.", show_default=False),
    ] = False,
    generation: Annotated[
        str, typer.Option("--generation", metavar="last|all", envvar="ONWARD_GENERATION", help="Older results, too.")
    ] = "last",
    store: Store = None,
    job_name: JobName = None,
    instance: Instance = None,
    params: Params = None,
    debug: Debug = False,
) -> int:
    """Write results to a file: in source order, of one moment, whole or not at all."""
    from onward import api

    target = find(job, store, job_name, instance, params)
    rows = api.export(target.job, out, **target.asked, format=form, state=state, flat=flat, generation=generation)
    if out != "-":
        streams.out(f"{rows:,} {'row' if rows == 1 else 'rows'} written to {out}")
    return 0
