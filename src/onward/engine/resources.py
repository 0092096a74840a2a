"""Resources: opened once a process, in the order of their declaration, and closed in the reverse order."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import AsyncGenerator, Generator
from typing import Any

from onward.errors import UsageError
from onward.job.plan import Plan, ResourcePlan


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
            except Exception as error:
                await self.close()
                raise UsageError(
                    f"the resource {resource.name} could not be opened: {error or type(error).__name__}"
                ) from error

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
        """Close all; what went wrong, a line each. A resource that fails to close does not keep others open."""
        faults = []
        while self._open:
            resource, made = self._open.pop()
            try:
                await _leave(made)
            except Exception as error:
                faults.append(f"the resource {resource.name} failed to close: {error or type(error).__name__}")
        return faults


async def _leave(made: AsyncGenerator[Any, None] | Generator[Any, None, None]) -> None:
    if isinstance(made, Generator):
        next(made, None)
        made.close()
    else:
        await anext(made, None)
        await made.aclose()
