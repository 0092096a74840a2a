"""A child's side of the run's budgets: it asks its parent, who alone knows the store."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import asdict
from itertools import count
from typing import Any, Protocol

from onward.engine.attempt import Attempt
from onward.errors import BudgetReached
from onward.model import Spending, Spent
from onward.ports.batches import KnownAnswer, NoAnswer


class Spender(Protocol):
    """What a call's desk needs of a run, be it in the run's own process or in a child."""

    async def reserve(self, model: str, most: Spent) -> bool: ...

    def owe(self, attempt: Attempt, spending: Spending) -> None: ...

    def unused(self, most: Spent) -> None: ...

    def loose(self, spending: Spending) -> None: ...

    def heard(self, attempt: Attempt, model: str, headers: Mapping[str, str]) -> None: ...

    async def batch_answer(self, record: int, version: str, fingerprint: str) -> KnownAnswer | NoAnswer: ...

    async def answer(
        self,
        fingerprint: str,
        make: Callable[[], Awaitable[str]],
        fits: Callable[[str], bool],
        keep: Callable[[str], None],
    ) -> str: ...


class Purse:
    """`put` sends a message to the parent; `told` is called with its answers. Calls are known by their numbers."""

    def __init__(self, put: Callable[[dict[str, Any]], None]):
        self._put = put
        self._numbers = count()
        self._asked: dict[int, asyncio.Future[dict[str, Any]]] = {}

    def of(self, call: int) -> Spender:
        """What the call with this number spends from."""
        return _OfCall(self, call)

    def told(self, message: dict[str, Any]) -> None:
        waiting = self._asked.pop(message["asked"], None)
        if waiting is not None and not waiting.done():
            waiting.set_result(message)

    async def reserve(self, call: int, most: Spent) -> bool:
        number = next(self._numbers)
        try:
            answer = await self._answer(call, number, reserve=asdict(most))
        except asyncio.CancelledError:
            self._put({"call": call, "forgone": number, "most": asdict(most)})
            raise
        if "refused" in answer:
            raise BudgetReached(answer["refused"])
        return bool(answer["capped"])

    def unused(self, call: int, most: Spent) -> None:
        self._put({"call": call, "forgone": None, "most": asdict(most)})

    def owe(self, call: int, spending: Spending) -> None:
        self._put({"call": call, "settled": asdict(spending)})

    async def batch_answer(self, call: int, *request: Any) -> KnownAnswer | NoAnswer:
        answer = await self._answer(call, next(self._numbers), batched=request)
        if "strays" in answer:
            return NoAnswer(answer["strays"])
        return KnownAnswer(answer["text"], None if answer["spent"] is None else Spent(**answer["spent"]))

    async def _answer(self, call: int, number: int, **question: Any) -> dict[str, Any]:
        self._asked[number] = asyncio.get_running_loop().create_future()
        self._put({"call": call, "asked": number, **question})
        try:
            return await self._asked[number]
        finally:
            self._asked.pop(number, None)


class _OfCall:
    def __init__(self, purse: Purse, call: int):
        self._purse = purse
        self._call = call

    async def reserve(self, model: str, most: Spent) -> bool:
        return await self._purse.reserve(self._call, most)

    async def batch_answer(self, record: int, version: str, fingerprint: str) -> KnownAnswer | NoAnswer:
        return await self._purse.batch_answer(self._call, record, version, fingerprint)

    def owe(self, attempt: Attempt, spending: Spending) -> None:
        self._purse.owe(self._call, spending)

    def unused(self, most: Spent) -> None:
        self._purse.unused(self._call, most)

    def loose(self, spending: Spending) -> None:
        """The parent has counted it as lost when the call ended."""

    def heard(self, attempt: Attempt, model: str, headers: Mapping[str, str]) -> None:
        """What a provider says of its limits comes with what it refuses, too."""

    async def answer(
        self,
        fingerprint: str,
        make: Callable[[], Awaitable[str]],
        fits: Callable[[str], bool],
        keep: Callable[[str], None],
    ) -> str:
        return await make()
