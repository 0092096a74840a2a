"""The callables that a plan hands out, each built once: decode an input, decode an output, check, encode."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

from onward import codec
from onward.errors import MisfitRecord, OutputError, StaleCheckpoint
from onward.job.values import PLAIN, Misfit, Shape
from onward.ports.source import Validate

_MOST_BYTES_A_CHARACTER = 4
_UNITS = ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))


def record_decoder(shape: Shape) -> Callable[[str], Any]:
    """JSON text of a record's input to its value; raises MisfitRecord."""
    if shape is PLAIN:
        return codec.loads

    def decode(text: str) -> Any:
        try:
            return shape.decode_input(text)
        except Misfit as misfit:
            raise MisfitRecord(str(misfit)) from None

    return decode


def output_decoder(shape: Shape, step: str) -> Callable[[str], Any]:
    """JSON text of an output of `step` to its value; raises StaleCheckpoint."""
    if shape is PLAIN:
        return codec.loads

    def decode(text: str) -> Any:
        try:
            return shape.decode(text)
        except Misfit as misfit:
            raise StaleCheckpoint(step, f"the stored output of step '{step}' no longer fits: {misfit}") from None

    return decode


def record_validate(shape: Shape) -> Validate:
    """A source's plain value to the record type; raises MisfitRecord."""

    def validate(plain: Any) -> Any:
        try:
            return shape.check(plain)
        except Misfit as misfit:
            raise MisfitRecord(str(misfit)) from None

    return validate


def encoder(shape: Shape, max_output: int) -> Callable[[Any], str]:
    """A returned value to JSON text of at most `max_output` bytes; raises OutputError."""
    write = codec.dumps if shape is PLAIN else shape.encode
    surely_short = max_output // _MOST_BYTES_A_CHARACTER

    def encode(value: Any) -> str:
        try:
            text = write(value)
        except RecursionError:
            raise OutputError("the output is nested too deeply for JSON, or contains itself") from None
        except OutputError:
            if not inspect.iscoroutine(value):
                raise
            value.close()  # nobody will await it
            raise OutputError("the step returned a coroutine: is an await missing?") from None
        if len(text) > surely_short:
            _check_size(text, max_output)
        return text

    return encode


def _check_size(text: str, max_output: int) -> None:
    size = len(text.encode())
    if size > max_output:
        raise OutputError(f"the output is {_bytes(size)}, the limit is {_bytes(max_output)} (max_output)")


def _bytes(number: int) -> str:
    for unit, name in _UNITS:
        if number >= unit:
            exact = number / unit
            return f"{exact:.0f} {name}" if number % unit == 0 else f"{exact:.1f} {name}"
    return f"{number} bytes"
