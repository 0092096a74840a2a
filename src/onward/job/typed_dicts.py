"""`typing.TypedDict` for pydantic, which before Python 3.12 takes only that of `typing_extensions`."""

from __future__ import annotations

import sys
import types
import typing
from typing import Any, NotRequired, Required, get_args, get_origin

from onward.job.annotations import Names


def for_pydantic(annotation: Any, names: Names) -> Any:
    """`annotation` with each TypedDict in it (itself, in its arguments, in other TypedDicts) as pydantic takes it."""
    if sys.version_info >= (3, 12):
        return annotation
    return _convert(annotation, names, {})


def _convert(annotation: Any, names: Names, known: dict[type, Any]) -> Any:
    if typing.is_typeddict(annotation) and type(annotation).__module__ == "typing":
        return _typed_dict(annotation, names, known)
    arguments = get_args(annotation)
    converted = tuple(_convert(argument, names, known) for argument in arguments)
    if all(new is old for new, old in zip(converted, arguments, strict=True)):
        return annotation
    if isinstance(annotation, types.UnionType):
        return typing.Union[converted]  # noqa: UP007 - built from values
    if get_origin(annotation) is typing.Annotated:
        return typing.Annotated[(converted[0], *annotation.__metadata__)]
    return annotation.copy_with(converted) if hasattr(annotation, "copy_with") else get_origin(annotation)[converted]


def _typed_dict(shape: Any, names: Names, known: dict[type, Any]) -> Any:
    from typing_extensions import TypedDict

    if shape in known:
        return known[shape]
    known[shape] = shape  # one that contains itself is left as it is: pydantic will say so
    module = sys.modules.get(shape.__module__)
    local_names = {**names.merged(), **vars(module)} if module else names.merged()
    hints = typing.get_type_hints(shape, local_names, dict(names.locals), include_extras=True)
    fields = {name: _field(shape, name, _convert(hint, names, known)) for name, hint in hints.items()}
    known[shape] = made = TypedDict(shape.__name__, fields)  # type: ignore[operator]
    made.__module__ = shape.__module__
    if hasattr(shape, "__pydantic_config__"):
        made.__pydantic_config__ = shape.__pydantic_config__
    return made


def _field(shape: Any, name: str, hint: Any) -> Any:
    if get_origin(hint) in (Required, NotRequired) or name in shape.__required_keys__:
        return hint
    return NotRequired[hint]
