"""What plain containers become in JSON: a step returns a tuple, and the next one is given a list."""

from __future__ import annotations

from typing import Any


def changed(before: Any, after: Any, path: str = "the output") -> str | None:
    """The first part that comes back from JSON as another kind of container, in words without its value; None: none.

    Anything but dicts, lists and tuples has its type's own word for it, which was heard when it was written.
    """
    if isinstance(before, list | tuple) and isinstance(after, list | tuple):
        if isinstance(before, tuple) != isinstance(after, tuple):
            return f"{path} is a {type(before).__name__}, which comes back from JSON as a {type(after).__name__}"
        parts = [
            (f"{path}[{index}]", one, other) for index, (one, other) in enumerate(zip(before, after, strict=False))
        ]
    elif isinstance(before, dict) and isinstance(after, dict):
        parts = [(f"{path}.{name}", value, after.get(name)) for name, value in before.items()]
    else:
        return None
    return next((found for here, one, other in parts if (found := changed(one, other, here)) is not None), None)


def first_difference(one: Any, other: Any, path: str = "") -> str:
    """The path of the first part in which two plain JSON values differ; empty for the whole."""
    if isinstance(one, dict) and isinstance(other, dict) and one.keys() == other.keys():
        parts = [(f"{path}.{name}" if path else name, one[name], other[name]) for name in one]
    elif isinstance(one, list) and isinstance(other, list) and len(one) == len(other):
        parts = [(f"{path}[{index}]", *pair) for index, pair in enumerate(zip(one, other, strict=True))]
    else:
        return path
    return next((first_difference(left, right, here) for here, left, right in parts if left != right), path)
