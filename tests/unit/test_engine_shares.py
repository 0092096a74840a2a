"""Ceilings that runs share, as each run keeps them: whatever is late on the way, no two use the same."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field

import pytest

from clocks import HandClock
from onward.engine.gates.ceiling import Ceiling
from onward.engine.gates.model_ceiling import ModelCeiling
from onward.engine.gates.parts import BRIEFLY, LATELY, Part, parts_of
from onward.engine.gates.shares import Shares
from onward.job.models import ModelTraits
from onward.model import Spent
from onward.ports.work import Offer, Portion, RunStart, Shared
from onward.store.sqlite.work import SqliteWorkStore

SIZE = 4


@pytest.fixture
def store() -> Iterator[SqliteWorkStore]:
    made = SqliteWorkStore(None, HandClock())
    yield made
    made.close()


def joined(store: SqliteWorkStore) -> int:
    return store.begin_run(RunStart("job", "", "here", "{}", "in", (), 3, ceilings=True)).run


@dataclass
class Run:
    """One quantity as a run has it, with an exchange under way that is made, and answered, some time later."""

    number: int
    ceiling: Ceiling
    part: Part
    asked: Offer | None = None
    answer: Shared | None = None

    def offers(self, now: float) -> None:
        if self.asked is None:
            self.asked = self.part.offer(now, stopping=False)

    def is_made(self, store: SqliteWorkStore) -> None:
        if self.asked is not None and self.answer is None:
            self.answer = store.share(self.number, [self.asked])

    def hears(self, now: float) -> None:
        if self.answer is not None:
            self.part.hear(self.answer.portions[self.part.name], now)
            self.asked = self.answer = None

    def calls(self, now: float) -> None:
        if self.ceiling.is_free(now):
            self.ceiling.take(now)
        else:
            self.part.block(now)

    def ends_one(self) -> None:
        if self.ceiling.taken:
            self.ceiling.give_back()


def runs_of(store: SqliteWorkStore, concurrency: int | None, per_minute: float | None) -> list[Run]:
    """The first one has all, as one that was alone; all have said so much."""
    runs = []
    for number in [joined(store) for _ in range(4)]:
        ceiling = Ceiling(concurrency, per_minute)
        (part,) = parts_of(ceiling, "a gate")
        part.begin(0.0 if runs else part.size, 0.0)
        runs.append(Run(number, ceiling, part))
    runs[0].offers(0.0)
    runs[0].is_made(store)
    runs[0].hears(0.0)
    return runs


@pytest.mark.parametrize("seed", range(6))
def test_calls_never_exceed_their_ceiling_however_late_answers_are(store: SqliteWorkStore, seed: int) -> None:
    draw, now = random.Random(seed), 0.0
    runs = runs_of(store, SIZE, None)
    most = 0
    for _ in range(1500):
        one = draw.choice(runs)
        act = draw.randrange(7)
        if act < 3:
            one.calls(now)
        elif act == 3:
            one.ends_one()
        elif act == 4:
            one.offers(now)
        elif act == 5:
            one.is_made(store)
        else:
            one.hears(now)
        now += draw.choice([0.0, 0.01, 0.3])
        most = max(most, sum(run.ceiling.taken for run in runs))
        assert most <= SIZE
        assert sum(run.part.held for run in runs if run.asked is None) <= SIZE
    assert most == SIZE


@pytest.mark.parametrize("seed", range(3))
def test_rates_never_exceed_their_ceiling_however_late_answers_are(store: SqliteWorkStore, seed: int) -> None:
    draw, now = random.Random(seed), 0.0
    runs = runs_of(store, None, 600.0)
    begun = 0
    for _ in range(1500):
        one = draw.choice(runs)
        act = draw.randrange(6)
        if act < 3:
            before = one.ceiling.begun
            one.calls(now)
            begun += one.ceiling.begun - before
            one.ends_one()
        elif act == 3:
            one.offers(now)
        elif act == 4:
            one.is_made(store)
        else:
            one.hears(now)
        now += draw.choice([0.0, 0.01, 0.05])
        rates = [run.ceiling.bucket.per_minute for run in runs if run.ceiling.bucket is not None]
        assert sum(rates) <= 600.0 * (1 + 1e-9)
    assert begun <= now * 10 + 4 * 2 + 1  # what each bucket holds


def test_what_is_offered_is_not_used_while_the_answer_is_on_its_way() -> None:
    ceiling = Ceiling(SIZE)
    (part,) = parts_of(ceiling, "a gate")
    part.begin(4.0, 0.0)
    ceiling.take(0.0)
    part.hear(Portion(4.0, 2.0), 0.0)
    assert ceiling.room == 1
    assert part.offer(0.1, stopping=False).keep == 2.0
    assert (part.held, ceiling.room) == (2.0, 1)


def test_what_is_of_no_use_is_given_back_after_a_moment() -> None:
    ceiling = Ceiling(SIZE)
    (part,) = parts_of(ceiling, "a gate")
    part.begin(4.0, 0.0)
    ceiling.take(0.0)
    assert part.offer(0.0, stopping=False).keep == 4.0
    ceiling.give_back()
    part.offer(0.1, stopping=False)
    offer = part.offer(0.2, stopping=False)
    assert (offer.keep, offer.want) == (4.0, 1.0)
    offer = part.offer(0.2 + LATELY, stopping=False)
    assert (offer.keep, offer.want, ceiling.room) == (0.0, 0.0, 0)


def test_a_run_that_is_stopping_keeps_what_its_calls_use() -> None:
    ceiling = Ceiling(SIZE)
    (part,) = parts_of(ceiling, "a gate")
    part.begin(4.0, 0.0)
    ceiling.take(0.0)
    part.block(0.0)
    assert part.offer(0.0, stopping=True) == Offer("calls at a gate", SIZE, 1.0, 1.0, True)


def test_a_rate_that_is_met_while_runs_share_begins_with_nothing() -> None:
    shares, ceiling = Shares(True, _nothing, _nothing, lambda: False), Ceiling(None, 600.0)
    shares.begin()
    shares.add(ceiling, "a limit")
    assert not ceiling.is_free(time.monotonic())
    assert ceiling.free_at(time.monotonic()) is None


def _nothing() -> None:
    """Nobody listens."""


@dataclass
class Asked:
    """Who is asked, and answers when the test says so."""

    offers: list[dict[str, Offer]] = field(default_factory=list)
    waiting: list[Future[Shared]] = field(default_factory=list)

    def ask(self, offers: Sequence[Offer]) -> Future[Shared]:
        self.offers.append({one.ceiling: one for one in offers})
        self.waiting.append(Future())
        return self.waiting[-1]

    async def asked(self, times: int) -> dict[str, Offer]:
        while len(self.offers) < times:
            await asyncio.sleep(0.005)
        return self.offers[times - 1]

    async def answers(self, **portions: Portion) -> None:
        named = {f"calls at {name}": one for name, one in portions.items()}
        self.waiting.pop().set_result(Shared(False, {name: named.get(name, Portion(0, 0)) for name in self.offers[-1]}))
        await asyncio.sleep(0.01)


def a_share(asked: Asked, *names: str) -> tuple[Shares, list[Ceiling]]:
    shares = Shares(True, _nothing, _nothing, lambda: False)
    shares.ask = asked.ask
    ceilings = [Ceiling(1) for _ in names]
    for ceiling, name in zip(ceilings, names, strict=True):
        shares.add(ceiling, name)
    return shares, ceilings


def test_one_ceiling_after_the_other_is_asked_for() -> None:
    """So that no run has one and waits for another, whose holder waits for the first."""

    async def scene() -> None:
        asked = Asked()
        shares, ceilings = a_share(asked, "b", "a")
        shares.begin()
        shares.blocked(ceilings, time.monotonic())
        assert set(await asked.asked(1)) == {"calls at a"}
        await asked.answers(a=Portion(1, 1))
        shares.blocked(ceilings, time.monotonic())
        offers = await asked.asked(2)
        assert (offers["calls at a"].keep, offers["calls at b"].want) == (1, 1)
        shares.close()

    asyncio.run(scene())


def test_who_was_alone_says_what_it_keeps_before_others_have_any() -> None:
    async def scene() -> None:
        asked = Asked()
        shares, (used, idle) = a_share(asked, "a", "b")
        shares.hear(others=False)
        assert (used.room, asked.offers) == (1, [])
        used.take(time.monotonic())
        shares.hear(others=True)
        assert await asked.asked(1) == {"calls at a": Offer("calls at a", 1, 1, 1, True)}
        assert (used.room, idle.room) == (0, 0)
        asked.waiting.pop().set_result(Shared(True))
        await asyncio.sleep(0.02)
        assert (shares.is_on, used.room, idle.room) == (False, 0, 1)  # the other has ended meanwhile
        shares.close()

    asyncio.run(scene())


def test_what_others_want_is_given_back_as_soon_as_its_call_ends() -> None:
    async def scene() -> None:
        asked = Asked()
        shares, (ceiling,) = a_share(asked, "a")
        shares.begin()
        shares.blocked([ceiling], time.monotonic())
        await asked.asked(1)
        await asked.answers(a=Portion(1, 1))
        ceiling.take(time.monotonic())
        shares.blocked([ceiling], time.monotonic())
        await asked.asked(2)
        await asked.answers(a=Portion(1, 0))  # its turn is over
        assert len(asked.offers) == 2
        ceiling.give_back()
        assert ceiling.room == 0
        shares.left([ceiling])
        assert (await asked.asked(3))["calls at a"].keep == 0
        shares.close()

    asyncio.run(scene())


def test_who_was_alone_says_so_even_before_it_has_met_a_ceiling() -> None:
    async def scene() -> None:
        asked = Asked()
        shares = Shares(True, _nothing, _nothing, lambda: False)
        shares.ask = asked.ask
        shares.hear(others=True)
        assert await asked.asked(1) == {}
        shares.close()

    asyncio.run(scene())


def test_a_job_without_ceilings_shares_nothing() -> None:
    asked = Asked()
    shares = Shares(False, _nothing, _nothing, lambda: False)
    shares.ask = asked.ask
    shares.hear(others=True)
    assert (asked.offers, shares.is_on) == ([], False)


def test_what_others_want_is_given_back_sooner_than_what_nobody_wants() -> None:
    ceiling = Ceiling(SIZE)
    (part,) = parts_of(ceiling, "a gate")
    part.begin(1.0, 0.0)
    ceiling.take(0.0)
    part.note(0.0)
    ceiling.give_back()
    part.note(0.01)
    part.hear(Portion(1.0, 1.0), 0.02)  # of four: others want the rest
    assert not part.returns(0.1)
    assert part.returns(0.1 + BRIEFLY)
    assert part.offer(0.1 + BRIEFLY, stopping=False).keep == 0


def test_tokens_of_a_model_are_a_part_and_what_is_owed_of_them_is_paid_before_it_is_given_back() -> None:
    now = time.monotonic()
    ceiling = ModelCeiling(ModelTraits("m", "m", tokens_per_minute=60_000.0), 8, patient=True)
    (part,) = parts_of(ceiling, "m")
    assert (part.name, part.size, part.whole) == ("tokens of m", 60_000.0, False)
    part.begin(0.0, now)
    assert not ceiling.is_free(now)
    part.hear(Portion(30_000.0, 30_000.0), now)
    assert ceiling.is_free(now + 1.0)
    ceiling.take(now + 1.0)
    ceiling.heard([Spent("m", requests=1, tokens_in=9_000)], None, now + 1.1)
    ceiling.give_back()
    owed = part.offer(now + 5.0, stopping=False)
    assert owed.keep == 30_000.0
    assert 0 < owed.want < 30_000.0
    paid = part.offer(now + 60.0, stopping=False)
    assert (paid.keep, paid.want) == (0.0, 0.0)
