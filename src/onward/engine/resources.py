"""Resources: opened once a process, in the order of their declaration, and closed in the reverse order."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncGenerator, Generator
from typing import Any

from onward.errors import UsageError
from onward.job.plan import Plan, ResourcePlan

LONGEST_CLOSE = 60.0


class Resources:
    """The open resources of one process by name; `params` is offered beside them."""

    def __init__(self, plan: Plan, params: Any):
        self._plan = plan
        self.offered: dict[str, Any] = {"params": params}
        self._open: list[tuple[ResourcePlan, Any]] = []
        self.opened = False
        self._opening = asyncio.Lock()

    async def open(self) -> None:
        """Open all that some step uses. Raises UsageError naming the resource that failed; the others are closed."""
        async with self._opening:
            if not self.opened:
                await self._open_all()
                self.opened = True

    async def _open_all(self) -> None:
        for resource in self._plan.resources.values():
            given = {name: self.offered[name] for name in resource.parameters}
            try:
                self.offered[resource.name] = await self._enter(resource, given)
            except BaseException as error:
                await self.close()
                if isinstance(error, asyncio.CancelledError) and _cancels() > 0:
                    raise  # the call for which it was being opened was cut; the next one begins anew
                raise UsageError(f"the resource {resource.name} could not be opened: {_words(error)}") from error

    async def _enter(self, resource: ResourcePlan, given: dict[str, Any]) -> Any:
        made = resource.function(**given)
        if resource.kind == "generator":
            value = next(made)
            self._open.append((resource, made))
        elif resource.kind == "async generator":
            value = await anext(made)
            self._open.append((resource, made))
        elif resource.kind == "async value" or inspect.isawaitable(made):
            value = await made
        else:
            value = made
        return value

    async def close(self) -> list[str]:
        """Close all; what went wrong, a line each. A resource that fails to close keeps neither others open nor the run
        from its end, whatever it raises; one that does not return is cut where it awaits."""
        faults, cancels, cancelled = [], _cancels(), None
        while self._open:
            resource, made = self._open.pop()
            try:
                async with asyncio.timeout(LONGEST_CLOSE) as bound:
                    await _leave(made)
            except BaseException as error:
                why = f"it took longer than {LONGEST_CLOSE:g} seconds" if bound.expired() else _words(error)
                faults.append(f"the resource {resource.name} failed to close: {why}")
                if isinstance(error, asyncio.CancelledError) and _cancels() > cancels:
                    cancelled = error
        if cancelled is not None:
            raise cancelled
        return faults


def _cancels() -> int:
    task = asyncio.current_task()
    return task.cancelling() if task is not None else 0


def _words(error: BaseException) -> str:
    return str(error) if isinstance(error, Exception) and str(error) else type(error).__name__


async def _leave(made: AsyncGenerator[Any, None] | Generator[Any, None, None]) -> None:
    if isinstance(made, Generator):
        next(made, None)
        made.close()
    else:
        await anext(made, None)
        await made.aclose()
