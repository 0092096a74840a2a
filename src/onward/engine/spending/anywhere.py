"""A call's desk for whatever event loop its step asks on: a sync step may run one of its own, in its thread."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Any, TypeVar

from onward.engine.spending.desk import CallDesk
from onward.errors import OnwardError, UsageError
from onward.model import BatchRequest, Spent

T = TypeVar("T")


class DeskAnywhere:
    """Made on the run's event loop, on which all that the desk does is done. See `ports.models.ModelDesk`."""

    def __init__(self, desk: CallDesk):
        self._desk = desk
        self._loop = asyncio.get_running_loop()

    def is_at_home(self) -> bool:
        try:
            return asyncio.get_running_loop() is self._loop
        except RuntimeError:  # a coroutine that is thrown away
            return False

    async def reserve(self, model: str, most: Spent) -> None:
        if self.is_at_home():
            await self._desk.reserve(model, most)
            return
        is_gone = threading.Event()
        try:
            await self._sent_home(self._reserve_for(is_gone, model, most))
        except asyncio.CancelledError:
            is_gone.set()
            self._tell(self._desk.unused, most)  # where the grant and the cancelling have crossed
            raise

    async def _reserve_for(self, is_gone: threading.Event, model: str, most: Spent) -> None:
        if is_gone.is_set():
            return
        await self._desk.reserve(model, most)
        if is_gone.is_set():
            self._desk.unused(most)

    def settle(self, spent: Spent, most: Spent) -> None:
        if self.is_at_home():
            self._desk.settle(spent, most)
        else:
            self._tell(self._desk.settle, spent, most)

    def heard(self, model: str, headers: Mapping[str, str]) -> None:
        if self.is_at_home():
            self._desk.heard(model, headers)
        else:
            self._tell(self._desk.heard, model, headers)

    async def batched(self, request: BatchRequest) -> str:
        if not self.is_at_home():
            raise UsageError(
                f"model {request.model} has mode='batch', whose answers come later: it is awaited in steps that are "
                "coroutines; where a step runs an event loop of its own, ask a model with mode='online'"
            )
        return await self._desk.batched(request)

    async def shared(self, fingerprint: str, make: Callable[[], Awaitable[str]], fits: Callable[[str], bool]) -> str:
        if self.is_at_home():
            return await self._desk.shared(fingerprint, make, fits)
        return await self._sent_home(self._desk.shared(fingerprint, make, fits))

    async def _sent_home(self, what: Coroutine[Any, Any, T]) -> T:
        try:
            done = asyncio.run_coroutine_threadsafe(what, self._loop)
        except RuntimeError:
            what.close()
            raise OnwardError("the run has ended") from None
        return await asyncio.wrap_future(done)

    def _tell(self, what: Callable[..., None], *arguments: Any) -> None:
        """What is told in a row is heard in that order, and before the end of a step that waited for it."""
        with contextlib.suppress(RuntimeError):  # the run has ended: what was set aside counts as spent
            self._loop.call_soon_threadsafe(what, *arguments)
