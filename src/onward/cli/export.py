"""`onward export`."""

from __future__ import annotations

from typing import Unpack

from onward.cli import streams
from onward.cli.target import About, Target, find
from onward.cli.words import have, records


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
    has_all = (state, generation) == ("succeeded", "last")
    if out is None and to is not None and table is not None and form is None:
        rows, changed = api.export_into(
            target.job, to, table, **target.asked, state=state, flat=flat, generation=generation, steps=steps or ()
        )
        streams.answer(f"{_rows(rows)} exported, {changed:,} of them new or changed in the table {table}")
        _say_what_is_missing(target, rows if has_all else None)
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
    _say_what_is_missing(target, rows if has_all else None)
    return 0


def _say_what_is_missing(target: Target, rows: int | None) -> None:
    """An export of a job that is not done, or goes on elsewhere, looks like any other. `rows`: None where there is not
    to be one for each record."""
    from onward import api

    found = api.status(target.job, **target.asked)
    if rows is not None and (missing := found["total"] - rows) > 0:
        what = (
            f"{missing:,} of {records(found['total'])} {have(missing)} no result, and {'is' if missing == 1 else 'are'}"
        )
        streams.err(f"onward: {what} not in it")
    if (moved := found["moved"]) is not None and moved["whole"]:
        streams.err(f"onward: the job goes on in {moved['store']}; what is done there is not in it")


def _rows(number: int) -> str:
    return f"{number:,} {'row' if number == 1 else 'rows'}"
