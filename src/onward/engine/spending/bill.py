"""What asking models has cost, and what it is to cost, of one instance."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from onward.job.models import PICO
from onward.job.plan import StepPlan
from onward.model import Spent
from onward.policy.bill import Outlook, Part, Sample, correlation, outlook, scaled
from onward.policy.forecast import FEWEST, Moments
from onward.ports.bill import Bill, CostSums

MICRO = 1e-6


@dataclass(frozen=True, slots=True)
class Money:
    """`spent` by the instance, and `here` by this run, as `cost` has it; and what is to come, in US dollars."""

    spent: Mapping[str, Any]
    here: Mapping[str, Any]
    to_come: Outlook


@dataclass(frozen=True, slots=True)
class Again:
    """What making results anew would cost, in US dollars; for steps in `older` by what their older versions cost."""

    cost: Outlook
    older: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class AtModel:
    """How many calls are at a model now, and how many may be; when it throttled the last time (UTC seconds)."""

    name: str
    calls: int
    most: int
    throttled: float | None


def cost(parts: Iterable[Spent]) -> dict[str, Any]:
    """What requests to models came to: null for what is not known, zero where nothing was asked."""
    total = Spent("")
    for one in parts:
        total.add(one)
    tokens = {
        "tokens_in": total.tokens_in,
        "tokens_out": total.tokens_out,
        "cached_tokens": total.cached_tokens,
    }
    is_known = not total.unpriced and not total.uncounted
    return {
        "spent_usd": total.picodollars / PICO if is_known else None,
        **(dict.fromkeys(tokens) if total.uncounted else tokens),
        "requests": total.requests,
        "lost": total.lost,
    }


def asking(steps: Iterable[StepPlan]) -> dict[str, bool]:
    """The steps that ask models, and whether the prices of all of these are known."""
    return {step.name: all(model.priced for model in step.models) for step in steps if step.models}


def cost_to_come(
    bill: Bill, today: Mapping[str, str], asks: Mapping[str, bool], unread: int = 0, most: int | None = None
) -> Outlook:
    """In US dollars. `today`: versions by step, in order; `asks` as `asking` has it; `unread`: so many records more
    are still to be fed; `most`: no more than so many are to be worked on."""
    samples = {(one.step, one.version): sample(one) for one in bill.sums}
    known = {one.step for one in bill.sums}
    parts = []
    for step, version in today.items():
        if step in asks or step in known:
            to_go = bill.to_go.get(step, 0) + bill.failed.get(step, 0) + unread
            to_go = to_go if most is None else min(to_go, most)
            to_go = round(to_go * bill.reached.get(step, 1.0))
            parts.append(Part(step, samples.get((step, version)), to_go, asks.get(step, True)))
    return scaled(outlook(parts), MICRO)


def cost_of_again(bill: Bill, today: Mapping[str, str], asks: Mapping[str, bool], again: Mapping[str, int]) -> Again:
    """What it would cost to make so many results anew, by step."""
    by_place = {(one.step, one.version): one for one in bill.sums}
    parts, older = [], []
    for step, version in today.items():
        number = again.get(step, 0)
        if not number or (step not in asks and not any(one.step == step for one in bill.sums)):
            continue
        sums = by_place.get((step, version))
        if sums is None or sums.count + sums.unknown < FEWEST:
            others = [one for one in bill.sums if one.step == step and one.version != version]
            sums = max(others, key=lambda one: one.count + one.unknown, default=None)
            older.append(step)
        parts.append(Part(step, None if sums is None else sample(sums), number, asks.get(step, True)))
    return Again(scaled(outlook(parts), MICRO), tuple(older))


def sample(sums: CostSums) -> Sample:
    """What the sums say, in microdollars."""
    here, before = (sums.total, sums.squares), (sums.earlier, sums.earlier_squares)
    together = correlation(sums.count, before, here, sums.crossed)
    return Sample(Moments(sums.count, sums.total, sums.squares, sums.cubes), sums.unknown, together)
