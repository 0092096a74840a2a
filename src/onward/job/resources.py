"""Resources as they are declared: opened once a process, injected by name, closed on stop."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from onward.errors import DeclarationError
from onward.job.place import where
from onward.job.plan import ResourceKind, ResourcePlan
from onward.job.signature import Choices, resource_parameters


def declare_resource(function: Callable[..., Any], name: str, choices: Choices) -> ResourcePlan:
    """The plan of a resource. Raises DeclarationError where a parameter is not `params` or an earlier resource."""
    return ResourcePlan(name, function, _kind(function, name), resource_parameters(function, name, choices))


def _kind(function: Callable[..., Any], name: str) -> ResourceKind:
    if inspect.isasyncgenfunction(function):
        return "async generator"
    if inspect.isgeneratorfunction(function):
        return "generator"
    if inspect.iscoroutinefunction(function):
        return "async value"
    wrapped = inspect.unwrap(function)
    if inspect.isgeneratorfunction(wrapped) or inspect.isasyncgenfunction(wrapped):
        raise DeclarationError(
            f"{where(function)}: resource '{name}': leave out @contextmanager or @asynccontextmanager; a function that "
            "yields once is all that is needed"
        )
    return "value"
