"""Money: what requests to models came to, what is set aside for those under way, and answers that are shared.

What was spent is spent, whether its record is still held or not. What was set aside by a run that ended without saying
what became of it counts as spent.
"""

from __future__ import annotations

from collections.abc import Sequence

from onward.model import Fact, Spending, Spent, State
from onward.ports.work import Reservation, Reserved
from onward.store.sql.change import Change

COUNTED = (
    "requests",
    "tokens_in",
    "tokens_out",
    "cached_tokens",
    "picodollars",
    "unpriced",
    "uncounted",
    "lost",
    "repairs",
)


def settle(change: Change, facts: Sequence[Fact], loose: Sequence[Spending]) -> None:
    """Count what the facts say was spent, and what nobody's fact says any more."""
    told = [fact for fact in facts if fact.spending is not None]
    all_spending = [one for fact in told for one in fact.spending or ()] + list(loose)
    for spending in all_spending:
        if spending.batched is None and not spending.counted:
            _count(change, spending)
    if heard := [one.batched for one in all_spending if one.batched is not None]:
        change.execute("batched_is_told", heard)
    if usage := [_usage_row(fact, one) for fact in told for one in fact.spending or ()]:
        change.execute("add_usage", usage)
    if through := [row for row in map(_through, told) if row is not None]:
        change.execute("add_costs", through)
    if answers := dict(answer for fact in facts for answer in fact.answers or ()):
        change.execute("add_answers", [[fingerprint, text] for fingerprint, text in answers.items()])


def reserve(change: Change, asked: Reservation) -> Reserved:
    """Set aside the most that a request can cost, if the model's budget has that much left."""
    change.flush()  # what was spent in this change is no longer set aside
    spent, tokens, held, held_tokens = change.rows("spent_and_reserved", model=asked.model)[0]
    by_cost = asked.most_picodollars is None or spent + held + asked.picodollars <= asked.most_picodollars
    by_tokens = asked.most_tokens is None or tokens + held_tokens + asked.tokens <= asked.most_tokens
    if by_cost and by_tokens:
        change.execute("reserve", model=asked.model, requests=1, picodollars=asked.picodollars, tokens=asked.tokens)
    return Reserved(by_cost and by_tokens, spent, tokens)


def book(change: Change, spent: Spent, lost_picodollars: int, lost_tokens: int) -> None:
    """Count what requests of a batch came to, and the most that those of them may cost whose end nobody tells."""
    for name in COUNTED:
        change.count(f"spent {name}", spent.model, getattr(spent, name))
    change.count("lost picodollars", spent.model, lost_picodollars)
    change.count("lost tokens", spent.model, lost_tokens)


def bury(change: Change, run: int) -> None:
    """The run has ended: requests whose end it did not tell may be charged."""
    for model, requests, picodollars, tokens in change.rows("reserved_by", run=run):
        change.count("spent lost", model, requests)
        change.count("lost picodollars", model, picodollars)
        change.count("lost tokens", model, tokens)
    change.execute("forget_reserved", run=run)


def _count(change: Change, spending: Spending) -> None:
    spent = spending.spent
    for name in COUNTED:
        change.count(f"spent {name}", spent.model, getattr(spent, name))
    if not spending.freed_picodollars and not spending.freed_tokens:
        return
    requests = spent.requests or 1  # for one that was never made something had been set aside, too
    freed = -spending.freed_picodollars, -spending.freed_tokens
    change.execute("reserve", model=spent.model, requests=-requests, picodollars=freed[0], tokens=freed[1])
    if spent.lost or spent.uncounted:
        change.count("lost picodollars", spent.model, spending.freed_picodollars)
        change.count("lost tokens", spent.model, spending.freed_tokens)


def _usage_row(fact: Fact, spending: Spending) -> list[object]:
    spent, step = spending.spent, fact.done_step or fact.step
    failed = fact.failure.version if fact.failure is not None else ""
    counted = [getattr(spent, name) for name in COUNTED]
    return [fact.record, fact.generation, step, spent.model, fact.version or failed, *counted, spent.seconds]


def _through(fact: Fact) -> list[object] | None:
    """Record, generation, step and version where the record is through with a step that asks models."""
    if fact.checkpoint is not None:
        place = fact.done_step, fact.version
    elif fact.state is State.SUCCEEDED and fact.skipped is not None:
        place = fact.skipped, dict(fact.lineage or ()).get(fact.skipped)
    elif fact.state is State.QUARANTINED and fact.failure is not None:
        place = fact.failure.step, fact.failure.version
    else:
        return None
    return [fact.record, fact.generation, *place]
