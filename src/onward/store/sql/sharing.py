"""What each run of an instance may use of the ceilings that all of them are under."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from onward.policy.sharing import STALE, Claimant, fair, in_order
from onward.ports.work import Offer, Portion, Shared
from onward.store.sql.change import Change

ALONE = 0
SHARES = 1
"""How a run stands to the ceilings that it is under: it has all of each, or what its rows say."""


@dataclass(frozen=True, slots=True)
class _Row:
    held: float
    wanted: float
    since: float
    asked: float


def begin(change: Change) -> bool:
    """A run begins that is under ceilings, and those that died are buried: whether it has all of each."""
    alone = not _others(change)
    change.execute("set_sharing", sharing=ALONE if alone else SHARES)
    return alone


def share(change: Change, offers: Sequence[Offer]) -> Shared:
    """Nobody else shares, begins or ends meanwhile: what all hold together is never more than there is."""
    others = _others(change)
    if not others:
        if change.one("sharing_of") == SHARES:
            change.execute("set_sharing", sharing=ALONE)
            change.execute("drop_shares")
        return Shared(True)
    change.execute("set_sharing", sharing=SHARES)
    one_has_all = ALONE in others.values()
    rows: dict[str, dict[int, _Row]] = {offer.ceiling: {} for offer in offers}
    for ceiling, run, *numbers in change.rows("shares_of", list(rows)) if rows else []:
        rows[ceiling][run] = _Row(*numbers)
    portions, kept, gone = {}, [], []
    for offer in offers:
        mine = rows[offer.ceiling].pop(change.run_number or 0, None)
        since = mine.since if mine is not None else change.now
        was_some = mine is not None and mine.held > 0
        if was_some != (offer.keep > 0):
            since, was_some = change.now, offer.keep > 0
        portion = _portion(change, offer, rows[offer.ceiling], since, one_has_all)
        portions[offer.ceiling] = portion
        if was_some != (portion.held > 0):
            since = change.now
        if portion.held > 0 or offer.want > 0:
            kept.append([offer.ceiling, portion.held, offer.want, since])
        elif mine is not None:
            gone.append(offer.ceiling)
    if kept:
        change.send("put_shares", kept)
    if gone:
        change.send("drop_shares_of", gone)
    return Shared(False, portions)


def _others(change: Change) -> dict[int, int]:
    """How the other runs that have not ended stand to ceilings, by their numbers."""
    return {run: sharing for run, sharing in change.rows("sharing_runs") if run != change.run_number}


def _portion(change: Change, offer: Offer, others: dict[int, _Row], since: float, one_has_all: bool) -> Portion:
    if one_has_all:
        return Portion(offer.keep, offer.size if offer.want else 0.0)
    claimants = [Claimant(change.run_number or 0, offer.keep, offer.want, since)]
    for run, row in others.items():
        heard = change.now - row.asked < STALE
        claimants.append(Claimant(run, row.held, row.wanted if heard else row.held, row.since))
    target = fair(offer.size, in_order(claimants, change.now), offer.whole)[change.run_number or 0]
    free = max(offer.size - offer.keep - sum(row.held for row in others.values()), 0.0)
    more = min(max(target - offer.keep, 0.0), math.floor(free) if offer.whole else free)
    return Portion(offer.keep + more, target)
