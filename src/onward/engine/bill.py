"""The cost to come of one instance, from what its store keeps."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

from onward.job.plan import StepPlan
from onward.policy.bill import Outlook, Part, Sample, correlation, outlook, scaled
from onward.policy.forecast import Moments
from onward.ports.bill import Bill, CostSums

MICRO = 1e-6


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


def sample(sums: CostSums) -> Sample:
    """What the sums say, in microdollars."""
    here, before = (sums.total, sums.squares), (sums.earlier, sums.earlier_squares)
    together = correlation(sums.count, before, here, sums.crossed)
    return Sample(Moments(sums.count, sums.total, sums.squares, sums.cubes), sums.unknown, together)
