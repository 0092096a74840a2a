"""What asking a model needs of a run: leave to spend, and somebody who hears what came of it."""

from __future__ import annotations

import asyncio
import contextlib
import threading
from collections import Counter
from collections.abc import Awaitable, Callable, Iterable, Iterator, Mapping
from contextvars import ContextVar
from typing import Protocol
from weakref import WeakKeyDictionary

from onward.model import BatchRequest, Spent


class Deferred(BaseException):
    """Leaves a step whose `requests` are to be sent with others; the step is called again once they are answered. It is
    no Exception, so that no step takes it for a fault of its own."""

    def __init__(self, requests: tuple[BatchRequest, ...] = (), known: tuple[str, ...] = ()):
        super().__init__("the answer comes later")
        self.requests = requests
        self.known = known


class ModelDesk(Protocol):
    """What one call of a step may use while it asks models, known to it by `traits.name`."""

    async def reserve(self, model: str, most: Spent) -> None:
        """Return once the most that a request can cost is set aside, durably. Raises BudgetReached."""

    def settle(self, spent: Spent, most: Spent) -> None:
        """A request has ended: what it cost, of what had been reserved for it."""

    def heard(self, model: str, headers: Mapping[str, str]) -> None:
        """The headers of an answer, which may tell of the provider's limits."""

    async def batched(self, request: BatchRequest) -> str:
        """What was answered to a request that is sent with others, in the words of `ports.batches.Said.text`. Raises
        Deferred where nothing was yet."""

    async def shared(self, fingerprint: str, make: Callable[[], Awaitable[str]], fits: Callable[[str], bool]) -> str:
        """The answer to a request that others of the job ask, too: made once, and anew where it does not fit."""

    def is_at_home(self) -> bool:
        """Whether this is the run's own event loop, and not one that a thread of the step runs."""


CURRENT: ContextVar[ModelDesk | None] = ContextVar("onward_model_desk", default=None)
"""The desk of the step's call that is under way; None outside a run."""

_UNDER_WAY: Counter[int] = Counter()
"""How many calls are under way in this process whose steps name these models, by the identity of `traits`."""


@contextlib.contextmanager
def asking_of(desk: ModelDesk, models: Iterable[object]) -> Iterator[None]:
    """A step's call that names the models is under way, and asks at the desk."""
    token, known = CURRENT.set(desk), [id(model) for model in models]
    _UNDER_WAY.update(known)
    try:
        yield
    finally:
        _UNDER_WAY.subtract(known)
        CURRENT.reset(token)


def has_lost_its_desk(model: object) -> bool:
    """Whether this is a thread that a step which asks the model has started, and which does not know its desk."""
    if CURRENT.get() is not None or _UNDER_WAY[id(model)] <= 0:
        return False
    thread = threading.current_thread()
    return thread is not threading.main_thread() and not thread.name.startswith("onward-")


_TO_CLOSE: WeakKeyDictionary[asyncio.AbstractEventLoop, list[Callable[[], Awaitable[None]]]] = WeakKeyDictionary()


def close_at_end(close: Callable[[], Awaitable[None]]) -> None:
    """Have what was opened for calls on this event loop closed when its run ends."""
    _TO_CLOSE.setdefault(asyncio.get_running_loop(), []).append(close)


async def close_all() -> None:
    """The run on this event loop ends."""
    for close in _TO_CLOSE.pop(asyncio.get_running_loop(), []):
        with contextlib.suppress(Exception):  # whatever it is, nothing is asked any more
            await close()
