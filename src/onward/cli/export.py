"""`onward export`."""

from __future__ import annotations

from typing import Unpack

from onward.cli import streams
from onward.cli.target import About, find


def export(
    out: str | None,
    to: str | None,
    table: str | None,
    job: str | None,
    form: str | None,
    state: str,
    flat: bool,
    generation: str,
    steps: list[str] | None,
    **about: Unpack[About],
) -> int:
    """Write results to a file, in source order, or into a table: of one moment, whole or not at all."""
    from onward import api, runner

    target = find(job, **about)
    if out is None and to is not None and table is not None and form is None:
        rows, changed = api.export_into(
            target.job, to, table, **target.asked, state=state, flat=flat, generation=generation, steps=steps or ()
        )
        streams.answer(f"{_rows(rows)} exported, {changed:,} of them new or changed in the table {table}")
        return 0
    strange = "" if form or out is None else runner.unknown_suffix(out)
    if strange:
        streams.err(f"onward: {strange} is no format (jsonl, csv, parquet; or say --format): {out} gets JSON Lines")
    where = {"to": to, "table": table, **target.asked}
    rows = api.export(
        target.job, out, **where, format=form, state=state, flat=flat, generation=generation, steps=steps or ()
    )
    if out != "-":
        streams.answer(f"{_rows(rows)} written to {out}")
    return 0


def _rows(number: int) -> str:
    return f"{number:,} {'row' if number == 1 else 'rows'}"
