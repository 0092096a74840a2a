"""What an annotation means where it was written, also in files with `from __future__ import annotations`."""

from __future__ import annotations

import inspect
import typing
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any, NamedTuple

MISSING: Any = inspect.Parameter.empty


class Names(NamedTuple):
    """The names that annotations may use: a module's, and those of the function in which something was declared."""

    globals: Mapping[str, Any] = MappingProxyType({})
    locals: Mapping[str, Any] = MappingProxyType({})

    def merged(self) -> dict[str, Any]:
        return {**self.globals, **self.locals}


def names_of(function: Callable[..., Any], surroundings: Mapping[str, Any]) -> Names:
    """The names that `function`'s annotations may use, declared amid the local names `surroundings`."""
    inner = inspect.unwrap(function)
    return Names(getattr(inner, "__globals__", {}), {**surroundings, **closure(inner)})


def closure(function: Callable[..., Any]) -> dict[str, Any]:
    """The variables that `function` holds from around it, by name; those not bound yet are left out."""
    code = getattr(function, "__code__", None)
    cells = getattr(function, "__closure__", None) or ()
    held = {}
    for name, cell in zip(code.co_freevars if code else (), cells, strict=True):
        try:
            held[name] = cell.cell_contents
        except ValueError:
            continue
    return held


class _Holder:
    def __init__(self, annotation: Any):
        self.__annotations__ = {"it": annotation}


def resolve(annotation: Any, names: Names) -> Any:
    """The type that `annotation` stands for; MISSING stays. Raises NameError where a name is not bound (yet)."""
    if annotation is MISSING or annotation is Any:
        return annotation
    hints = typing.get_type_hints(_Holder(annotation), dict(names.globals), dict(names.locals), include_extras=True)
    return hints["it"]
