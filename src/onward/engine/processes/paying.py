"""The parent's side of a child's purse: what is set aside for the requests of its calls. See `spending.purse`."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from dataclasses import asdict
from typing import Any

from onward.engine.attempt import Attempt
from onward.engine.loops import spawn
from onward.engine.processes import messages
from onward.engine.spending.desk import Budgets, tokens_of
from onward.errors import OnwardError
from onward.model import Spending, Spent


class Payer:
    """`of` gives the attempt of a call that is under way, by its number; `put` sends the child a message."""

    def __init__(
        self, budgets: Budgets | None, of: Callable[[int], Attempt | None], put: Callable[[dict[str, Any]], None]
    ):
        self._budgets = budgets or Budgets({})
        self._of = of
        self._put = put
        self._reserved: dict[int, list[Spent]] = {}
        self._asking: dict[int, asyncio.Task[None]] = {}

    def heard(self, message: dict[str, Any]) -> bool:
        """Whether the message was about money, or about an answer of a batch."""
        if "reserve" in message:
            number = message["asked"]
            asking = self._asking[number] = spawn(self._reserve(message["call"], number, Spent(**message["reserve"])))
            asking.add_done_callback(lambda _: self._asking.pop(number, None))
        elif "forgone" in message:
            self._forgo(message["call"], message["forgone"], Spent(**message["most"]))
        elif "settled" in message:
            self._settled(message["call"], *messages.spending_from_message([message["settled"]]))
        elif "batched" in message:
            spawn(self._batch_answer(message["asked"], *message["batched"]))
        else:
            return False
        return True

    def lose(self, number: int) -> None:
        """What was set aside for requests of which the call did not tell the end may be charged."""
        for most in self._reserved.pop(number, ()):
            lost = Spent(most.model, requests=1, lost=1)
            self._budgets.loose(Spending(lost, most.picodollars, tokens_of(most)))

    async def _reserve(self, number: int, asked: int, most: Spent) -> None:
        """The call is about to ask a model: the run's budget says whether it may."""
        told: dict[str, Any] = {"asked": asked, "capped": False}
        try:
            if await self._budgets.reserve(most.model, most):
                told["capped"] = True
                if self._of(number) is not None:
                    self._reserved.setdefault(number, []).append(most)
                else:  # the call is over, and was never told that it may ask
                    self._budgets.unused(most)
        except Exception as error:
            told["refused"] = str(error)
        self._put(told)

    def _take_back(self, number: int, most: Spent) -> bool:
        """Whether this is set aside for the call; from now on it is not."""
        held = self._reserved.get(number, [])
        if most not in held:
            return False  # it was counted as lost when the call was given up
        held.remove(most)
        return True

    def _forgo(self, number: int, asked: int | None, most: Spent) -> None:
        """The call does not make the request for which it has asked to have this set aside."""
        asking = None if asked is None else self._asking.get(asked)
        if asking is not None and not asking.done():
            asking.cancel()
        elif self._take_back(number, most):
            self._budgets.unused(most)

    def _settled(self, number: int, spending: Spending) -> None:
        """A request of the call has ended, which may itself go on for long."""
        attempt, held = self._of(number), self._reserved.get(number, [])
        freed = spending.spent.model, spending.freed_picodollars, spending.freed_tokens
        most = next((one for one in held if (one.model, one.picodollars, tokens_of(one)) == freed), None)
        if attempt is not None and most is not None and self._take_back(number, most):
            self._budgets.owe(attempt, spending)

    async def _batch_answer(self, asked: int, record: int, version: str, fingerprint: str) -> None:
        """The call wants to know what came of a request in a batch."""
        with contextlib.suppress(OnwardError):  # the run ends, and this call with it
            known = await self._budgets.batch_answer(record, version, fingerprint)
            self._put({"asked": asked, **asdict(known)})
