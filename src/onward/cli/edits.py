"""What has become of results whose prompt, model or code was edited since, and what making them anew would cost."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from onward.cli import amounts
from onward.cli.target import Target
from onward.cli.words import brief, have, records

if TYPE_CHECKING:
    from onward.engine.spending.bill import Again
    from onward.runner import Announcement

TRIED_FIRST = 50


class Edited(NamedTuple):
    """`stale`: how many stale records the lines speak of; 0 without any."""

    lines: Sequence[str]
    stale: int = 0


def of_models(told: Announcement, target: Target) -> Edited:
    """Of steps that ask models, in place of what is said of others."""
    from onward.engine.spending.bill import cost_of_again
    from onward.policy.versions import redone

    results, today = told.results, told.versions
    older = {step: versions for step, versions in results.older(today).items() if step in told.asks}
    if not older:
        return Edited(())
    kept = [_kept(told, step, versions) for step, versions in older.items()]
    again = cost_of_again(told.bill, today, told.asks, redone(results.groups, today))
    stale = results.stale(today)
    lines = [*kept[:-1], f"{kept[-1]}; re-running the {_which(stale, kept)} {price(again)}: "]
    lines[-1] += target.command("rerun", "--stale")
    if stale > TRIED_FIRST:
        first = target.sample_command(TRIED_FIRST)
        lines.append(f"to try the new one on {TRIED_FIRST} of them first, and see both side by side: {first}")
    return Edited(lines, stale)


def of_unfinished(removed: Mapping[str, int], passed_over: Mapping[str, int]) -> Iterator[str]:
    """Of steps that were removed or inserted under records that are not finished."""
    for step, number in removed.items():
        yield f"{number:,} unfinished {have(number)} outputs of {brief(step)}, which is no longer a step"
    for step, number in passed_over.items():
        yield (
            f"{number:,} unfinished {have(number)} yet to run {step}, which is new before steps that have run; "
            "the outputs of those stand"
        )


def _which(stale: int, kept: Sequence[str]) -> str:
    return "old ones" if len(kept) == 1 else f"{records(stale)} that are stale"


def _kept(told: Announcement, step: str, versions: Mapping[str, int]) -> str:
    """`40,112 kept from the older prompt, 59,888 to go with the new`."""
    what = part(told, step, versions)
    of_step = "" if len(told.asks) == 1 and what != "version" else f" of {step}"
    to_go = told.bill.to_go.get(step, 0)
    rest = f", {to_go:,} to go with the new" if to_go else ""
    return f"{sum(versions.values()):,} kept from the older {what}{of_step}{rest}"


def part(told: Announcement, step: str, versions: Mapping[str, int]) -> str:
    """What was edited, where that can be told: prompt, model, code, or several of them."""
    from onward.policy.versions import changed_parts

    now = told.parts.get((step, told.versions[step]), {})
    changed = changed_parts([told.parts.get((step, version), {}) for version in versions], now)
    return " and ".join(changed[::-1]) or "version"


def price(again: Again) -> str:
    range_ = again.cost.range
    if range_ is None:
        return f"costs what cannot be told yet ({again.cost.reason})"
    older = "versions cost, at their prices" if len(again.older) > 1 else "version cost, at its prices"
    how = f", by what the older {older}" if again.older else ""
    return f"would cost {amounts.about(range_.expected, range_.p10, range_.p90)}{how}"
