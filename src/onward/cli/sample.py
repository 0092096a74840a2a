"""`onward rerun --sample`: old and new results side by side."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any

from rich.console import RenderableType
from rich.text import Text

from onward.cli import amounts, streams
from onward.cli.grid import table
from onward.cli.target import Target
from onward.cli.words import brief, key_text, printable, records

if TYPE_CHECKING:
    from onward.operate.sampling import Compared

KEYS_SHOWN = 20


def sample(target: Target, number: int, step: str | None, dry_run: bool, as_json: bool) -> int:
    from onward import api
    from onward.cli.run import watching

    with streams.kept_clean(), watching() as watched:  # what the job prints is no part of the answer
        found = api.rerun_sample(target.job, number, step, dry_run, watched, **target.asked)
    code = found.exit_code if found.exit_code is not None and found.exit_code > 1 else 0
    if as_json:
        from onward.codec import dumps

        streams.answer(dumps(found.plain()))
        return code
    from onward.cli import tables

    if not found.keys:
        streams.answer(f"nothing matches: no finished record {f'has {step}' if step else 'is stale'}")
        return 0
    tables.show(_dry(found) if dry_run else told(found, target))
    return code


def _dry(found: Compared) -> Iterator[RenderableType]:
    yield Text(f"{records(len(found.keys))} of {found.of:,} would be made anew:")
    for key in found.keys:
        yield Text(f"  {key_text(key)}")


def told(found: Compared, target: Target) -> Iterator[RenderableType]:
    yield Text(f"{records(len(found.keys))} of {found.of:,}, made anew; both results are kept", style="bold")
    if found.exit_code is not None and found.exit_code > 1:
        yield Text(f"the run stopped: {brief(found.reason or '')}", style="yellow")
    if found.under_way:
        yield Text(f"{records(found.under_way)} of them not yet at an end; the next run goes on: {target.run_command}")
    if found.newer["records"]:
        yield from table("", "older:", "newer:", rows=[*_rows(found)])
        yield from _examples(found)
    yield Text(_rest(found, target))


def _rows(found: Compared) -> Iterator[tuple[str, str, str]]:
    def row(name: str, say: Callable[[Mapping[str, Any]], str]) -> tuple[str, str, str]:
        return name, say(found.older), say(found.newer)

    yield row("records", lambda side: f"{side['records']:,}")
    yield row("succeeded", lambda side: f"{side['succeeded']:,}")
    for state in ("failed", "quarantined"):
        if found.newer[state]:
            yield row(state, lambda side, state=state: f"{side[state]:,}")  # type: ignore[misc]
    for reason in found.newer["invalid"]:
        yield row(f"  {reason}", lambda side, reason=reason: f"{side['invalid'].get(reason, 0):,}")  # type: ignore[misc]
    if found.asked:
        yield row("did not fit at first, repaired or not", lambda side: f"{side['repaired']:,}")
    yield row("output, characters a record", lambda side: _number(side["characters"], "{:,.0f}"))
    if found.asked:
        yield row("cost a record", lambda side: amounts.dollars(side["usd"]))
        yield row("seconds a record", lambda side: _number(side["seconds"], "{:.2f}"))


def _number(value: float | None, form: str) -> str:
    return "none" if value is None else form.format(value)


def _examples(found: Compared) -> Iterator[RenderableType]:
    from onward.operate.sampling import shown

    for one in found.examples:
        yield ""
        yield Text(key_text(one["key"]), style="bold")
        for side in ("older", "newer"):
            for step, output in one[side].items() or ((None, None),):
                where = f" {step}" if step is not None and len(one[side]) > 1 else ""
                said = shown(output) if step is not None else f"{one['state']}: {one['error'] or 'nothing yet'}"
                yield Text(f"  {side}{where}  {printable(said)}", overflow="ellipsis", no_wrap=True)
    yield ""


def _rest(found: Compared, target: Target) -> str:
    rest = found.rest
    if not rest["records"]:
        return f"Nothing else is stale. Next: {target.export_command}"
    how = ("--step", found.step) if found.step is not None else ("--stale",)
    which = (
        f"all {rest['records']:,} that have {found.step}"
        if found.step is not None
        else f"the other {rest['records']:,}"
    )
    price = ""
    if found.asked:
        price = f" costs what cannot be told: {rest['why']}"
        if rest["usd"] is not None:
            price = f" would cost {amounts.about(rest['usd'], rest['p10'], rest['p90'])}"
    return f"Making {which} anew{price}. Next: {target.command('rerun', *how)}, then {target.run_command}"
