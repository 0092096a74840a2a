"""`onward export`."""

from __future__ import annotations

from typing import Unpack

from onward.cli import streams
from onward.cli.target import About, find


def export(
    out: str,
    job: str | None,
    form: str | None,
    state: str,
    flat: bool,
    generation: str,
    steps: list[str] | None,
    **about: Unpack[About],
) -> int:
    """Write results to a file: in source order, of one moment, whole or not at all."""
    from onward import api, runner

    target = find(job, **about)
    strange = "" if form else runner.unknown_suffix(out)
    if strange:
        streams.err(f"onward: {strange} is no format (jsonl, csv, parquet; or say --format): {out} gets JSON Lines")
    rows = api.export(
        target.job, out, **target.asked, format=form, state=state, flat=flat, generation=generation, steps=steps or ()
    )
    if out != "-":
        streams.answer(f"{rows:,} {'row' if rows == 1 else 'rows'} written to {out}")
    return 0
