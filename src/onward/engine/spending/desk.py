"""Models and money in a run: what calls of steps may spend, and what they tell of it. See `ports.models.ModelDesk`."""

from __future__ import annotations

import asyncio
import time
from collections import Counter, defaultdict
from collections.abc import Awaitable, Callable, Mapping
from decimal import Decimal

from onward.engine.attempt import Attempt
from onward.engine.journal import Journal
from onward.engine.spending.purse import Spender
from onward.errors import BudgetReached
from onward.job.models import PICO, Cap
from onward.model import BatchRequest, Spending, Spent
from onward.policy.endings import NEEDS_A_PERSON, Ending
from onward.ports.batches import KnownAnswer, NoAnswer
from onward.ports.models import Deferred
from onward.ports.work import Reservation, Reserved

MOST_STRAYS = 5
"""So often a step may not come back to what it had waited for: of things that go on side by side not all need get so
far before the first of them has to wait."""
Make = Callable[[], Awaitable[str]]
Fits = Callable[[str], bool]
USED_UP = " is used up"
CENTS, PLACES = 2, len(str(PICO)) - 1


class Budgets:
    """The caps of a run's models, by name, and answers that its records share."""

    def __init__(self, caps: Mapping[str, Cap]):
        self.shared = 0
        self.spent: dict[str, Spent] = {}
        self._caps = caps
        self._under_way: Counter[str] = Counter()
        self._settled = asyncio.Event()
        self._asking: set[asyncio.Future[Reserved]] = set()
        self._owed: dict[int, tuple[Spending, Attempt]] = {}
        self._lines: defaultdict[str, asyncio.Lock] = defaultdict(asyncio.Lock)
        self._making: dict[str, asyncio.Future[str | None]] = {}
        self._telling: set[str] = set()

    def join(
        self,
        journal: Callable[[], Journal],
        flush: Callable[[], None],
        heard: Callable[[Attempt, str, Mapping[str, str]], None],
    ) -> None:
        """`flush` has what was asked for committed soon, `heard` is told of providers' limits."""
        self._journal, self._flush, self.heard = journal, flush, heard

    async def reserve(self, model: str, most: Spent) -> bool:
        """Set aside the most that a request can cost; wait for others' ends where it may fit then. False: no cap.

        Raises BudgetReached.
        """
        cap = self._caps.get(model)
        if cap is None:
            return False
        if (await self._asked(model, cap, most)).granted:
            return True
        async with self._lines[model]:  # those for whom there was no room ask again one after the other
            while True:
                self._commit_settled(model)
                settled = self._settled
                answer = await self._asked(model, cap, most)
                if answer.granted:
                    return True
                if not self._under_way[model] and not settled.is_set():
                    raise BudgetReached(why_reached(model, cap, answer, most, tokens_of(most)))
                await settled.wait()

    async def _asked(self, model: str, cap: Cap, most: Spent) -> Reserved:
        asked = Reservation(model, most.picodollars, tokens_of(most), cap.picodollars, cap.tokens)
        reserving = asyncio.wrap_future(self._journal().reserve(asked))
        self._flush()
        self._asking.add(reserving)
        try:
            answer = await asyncio.shield(reserving)
        except asyncio.CancelledError:
            reserving.add_done_callback(lambda done: self._give_back(done, most))
            raise
        except BaseException:
            self._asking.discard(reserving)
            raise
        self._asking.discard(reserving)
        if answer.granted:
            self._under_way[model] += 1
        return answer

    def _give_back(self, reserving: asyncio.Future[Reserved], most: Spent) -> None:
        """Nobody waits any more for what is granted here."""
        self._asking.discard(reserving)
        if not reserving.cancelled() and reserving.exception() is None and reserving.result().granted:
            self._under_way[most.model] += 1
            self.unused(most)

    async def quiet(self, seconds: float) -> None:
        """Return once nothing is being set aside any more, or after so long: what nobody waits for is given back."""
        until = time.monotonic() + seconds
        while self._asking and time.monotonic() < until:
            await asyncio.sleep(0.002)

    def unused(self, most: Spent) -> None:
        """The request for which this was set aside is not made."""
        self.loose(Spending(Spent(most.model), most.picodollars, tokens_of(most)))

    def owe(self, attempt: Attempt, spending: Spending) -> None:
        """A request has ended for which something was set aside. Its attempt's next fact says what it came to; where
        others wait for room, or will before that, it is counted on its own."""
        attempt.spending.append(spending)
        self._owed[id(spending)] = spending, attempt
        if self._lines[spending.spent.model].locked():
            self._commit_alone(spending, attempt)

    def _commit_settled(self, model: str) -> None:
        for spending, attempt in tuple(self._owed.values()):
            if spending.spent.model == model:
                self._commit_alone(spending, attempt)

    def _commit_alone(self, spending: Spending, attempt: Attempt) -> None:
        """Unless a fact has taken it that is about to be committed."""
        for place, one in enumerate(attempt.spending):
            if one is spending:
                attempt.spending[place] = Spending(spending.spent, counted=True)
                self.loose(spending)
                return

    def cap_of(self, model: str) -> Cap:
        """The most that may be spent on a model."""
        return self._caps.get(model, Cap())

    def committed(self, spending: Spending) -> None:
        """What a request came to has become durable: what was set aside for it is free again."""
        if spending.counted:
            return
        self._owed.pop(id(spending), None)
        if spending.batched is not None:
            self._telling.discard(spending.batched)
        self._add(spending)
        if spending.freed_picodollars or spending.freed_tokens:
            self._under_way[spending.spent.model] -= 1
            self._settled.set()
            self._settled = asyncio.Event()

    def _add(self, spending: Spending) -> None:
        """What this run has spent; of a request that may be charged without an answer, the most that it can be."""
        spent = spending.spent
        total = self.spent.setdefault(spent.model, Spent(spent.model))
        total.add(spent)
        if spent.lost or spent.uncounted:
            total.picodollars += spending.freed_picodollars

    def loose(self, spending: Spending) -> None:
        """A request has ended after its call had."""
        self._journal().spent(spending)
        self.committed(spending)
        self._flush()

    async def known(self, fingerprint: str) -> str | None:
        run = self._journal().run
        return await asyncio.wrap_future(self._journal().ask(lambda store: store.shared_answer(run, fingerprint)))

    async def batch_answer(self, record: int, version: str, fingerprint: str) -> KnownAnswer | NoAnswer:
        """What came of a request in a batch. What it cost is told to one record."""
        run, journal = self._journal().run, self._journal()
        asking = journal.ask(lambda store: store.batches.answer(run, record, version, fingerprint))
        known = await asyncio.wrap_future(asking)
        if isinstance(known, NoAnswer) or known.spent is None:
            return known
        if fingerprint in self._telling:
            return KnownAnswer(known.text, None)
        self._telling.add(fingerprint)
        return known

    async def answer(self, fingerprint: str, make: Make, fits: Fits, keep: Callable[[str], None]) -> str:
        """An answer that is made once: by the first who asks, and by another where that one fails, or where what it
        brought does not fit any more."""
        while (making := self._making.get(fingerprint)) is not None:
            if (text := await asyncio.shield(making)) is not None and fits(text):
                self.shared += 1
                return text
        future = self._making[fingerprint] = asyncio.get_running_loop().create_future()
        made: str | None = None
        try:
            known = await self.known(fingerprint)
            if known is not None and fits(known):
                made = known
                self.shared += 1
                return made
            made = await make()
            keep(made)
            return made
        finally:
            del self._making[fingerprint]
            future.set_result(made)


class CallDesk:
    """What one call may use. What it spends goes with the fact that its attempt states next."""

    def __init__(self, budgets: Spender, attempt: Attempt):
        self._budgets = budgets
        self._attempt = attempt
        self._reserved: set[int] = set()
        self._is_over = False
        self._known: dict[str, None] = {}
        self._deferred: dict[str, BatchRequest] = {}
        self._looking = 0
        self._looked = asyncio.Event()

    async def reserve(self, model: str, most: Spent) -> None:
        if await self._budgets.reserve(model, most):
            self._reserved.add(id(most))

    def settle(self, spent: Spent, most: Spent) -> None:
        spending = Spending(spent)
        if id(most) in self._reserved:
            self._reserved.discard(id(most))
            spending.freed_picodollars, spending.freed_tokens = most.picodollars, tokens_of(most)
        if self._is_over:
            self._budgets.loose(spending)
        elif spending.freed_tokens:
            self._budgets.owe(self._attempt, spending)
        else:
            self._attempt.spending.append(spending)

    def unused(self, most: Spent) -> None:
        """Nobody makes the request for which this may have been set aside."""
        if id(most) in self._reserved:
            self._reserved.discard(id(most))
            self._budgets.unused(most)

    def heard(self, model: str, headers: Mapping[str, str]) -> None:
        self._budgets.heard(self._attempt, model, headers)

    async def batched(self, request: BatchRequest) -> str:
        step = self._attempt.step
        if self._attempt.phase != "step" or step is None or step.effect is not None:
            raise RuntimeError(  # of an effect that is being sent it is not known what has become
                f"model {request.model} has mode='batch', whose answers come later: ask it in a step, not in an effect"
            )
        self._looking += 1
        try:
            known = await self._budgets.batch_answer(self._attempt.claimed.id, step.version, request.fingerprint)
        finally:
            self._looking -= 1
            if not self._looking:
                self._looked.set()
        if isinstance(known, KnownAnswer):
            self._known[request.fingerprint] = None
            if known.spent is not None:
                self._attempt.spending.append(Spending(known.spent, batched=request.fingerprint))
            return known.text
        if known.strays >= MOST_STRAYS:
            raise RuntimeError(
                f"step {step.name} asks model {request.model} something else each time that it is called: with "
                "mode='batch' nothing that differs from call to call (a time, a random number) may go into a prompt"
            )
        self._deferred[request.fingerprint] = request
        while self._looking:  # what the step asks beside this goes into the same round
            self._looked.clear()
            await self._looked.wait()
        raise Deferred

    def deferred(self) -> Deferred | None:
        """What the call has to wait for, whatever its step has made of that."""
        return Deferred(tuple(self._deferred.values()), tuple(self._known)) if self._deferred else None

    async def shared(self, fingerprint: str, make: Make, fits: Fits) -> str:
        return await self._budgets.answer(
            fingerprint, make, fits, lambda text: self._attempt.answers.append((fingerprint, text))
        )

    def close(self) -> None:
        """The call has ended: what comes of its requests from now on, nobody states."""
        self._is_over = True


def tokens_of(most: Spent) -> int:
    return most.tokens_in + most.tokens_out


def why_reached(model: str, cap: Cap, answer: Reserved, most: Spent, tokens: int) -> str:
    parts = []
    if cap.picodollars is not None:
        spent, dearest = _dollars(answer.picodollars, most.picodollars)
        parts.append(f"{_exact(cap.picodollars)} ({spent} is spent, one more request could cost {dearest})")
    if cap.tokens is not None:
        parts.append(f"{cap.tokens:,} tokens ({answer.tokens:,} are spent, one more request could take {tokens:,})")
    return f"the budget of model {model}{USED_UP}: {' and '.join(parts)}; raise it, with --budget too, and run again"


def _dollars(*picodollars: int) -> list[str]:
    """Amounts to the same places: cents at least, and two digits of the smallest that is not nothing."""
    smallest = min((amount for amount in picodollars if amount), default=PICO)
    places = max(CENTS, min(PLACES, PLACES - len(str(smallest)) + 2))
    return [_amount(amount, places) for amount in picodollars]


def _exact(picodollars: int) -> str:
    zeros = len(str(picodollars)) - len(str(picodollars).rstrip("0"))
    return _amount(picodollars, max(CENTS, PLACES - zeros))


def _amount(picodollars: int, places: int) -> str:
    return f"${Decimal(picodollars).scaleb(-PLACES):,.{places}f}"


def used_up(why: str) -> Ending:
    """What `why_reached` says, as the end of a run."""
    whose, sign, amounts = why.partition(USED_UP)
    told = (f"{whose}{USED_UP}", amounts.removeprefix(": ")) if sign else ("the budget is used up", whose)
    return Ending(NEEDS_A_PERSON, *told, next_act="raise")
