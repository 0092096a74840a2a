"""Columns of Arrow arrays as plain values. Times are read as the integers that they are, so that nothing is rounded."""

from __future__ import annotations

import datetime
import math
from collections.abc import Callable
from functools import partial
from typing import Any

import pyarrow as pa

from onward.sources.plain import length_text, plain

_DIGITS = {"s": 0, "ms": 3, "us": 6, "ns": 9}
_EPOCH = datetime.datetime(1970, 1, 1)

Convert = Callable[[Any], Any]


def plain_values(column: pa.Array) -> list[Any]:
    """A column's values; NaN, which is how pandas writes a missing number, becomes null. Raises what Arrow raises,
    and OverflowError for a date beyond the year 9999."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        column, kind = column.dictionary_decode(), kind.value_type
    counted = _counted(kind)
    values: list[Any] = (column if counted == kind else column.cast(counted)).to_pylist()
    convert = _converter(kind)
    return values if convert is None else [None if value is None else convert(value) for value in values]


def has_floats(kind: pa.DataType) -> bool:
    """Whether a type holds floating-point numbers, which may be infinite."""
    if pa.types.is_dictionary(kind):
        return has_floats(kind.value_type)
    children = [kind.field(index).type for index in range(kind.num_fields)]
    return pa.types.is_floating(kind) or any(has_floats(child) for child in children)


def _counted(kind: pa.DataType) -> pa.DataType:
    """The type with times, at any depth, as integers."""
    if pa.types.is_timestamp(kind) or pa.types.is_duration(kind) or pa.types.is_time64(kind):
        return pa.int64()
    if pa.types.is_time32(kind):
        return pa.int32()
    if pa.types.is_map(kind):
        return pa.map_(_counted(kind.key_type), _counted(kind.item_type))
    if pa.types.is_struct(kind):
        return pa.struct([field.with_type(_counted(field.type)) for field in kind])
    if pa.types.is_large_list(kind):
        return pa.large_list(kind.value_field.with_type(_counted(kind.value_type)))
    if pa.types.is_fixed_size_list(kind):
        return pa.list_(kind.value_field.with_type(_counted(kind.value_type)), kind.list_size)
    if pa.types.is_list(kind):
        return pa.list_(kind.value_field.with_type(_counted(kind.value_type)))
    return kind


def _converter(kind: pa.DataType) -> Convert | None:
    """What makes a value of this type plain; None where it already is."""
    types = pa.types
    if types.is_integer(kind) or types.is_boolean(kind) or types.is_string(kind) or types.is_large_string(kind):
        return None
    if types.is_floating(kind):
        return lambda value: None if math.isnan(value) else value
    if types.is_timestamp(kind):
        return partial(_timestamp, digits=_DIGITS[kind.unit], zone="Z" if kind.tz else "")
    if types.is_time(kind):
        return partial(_time, digits=_DIGITS[kind.unit])
    if types.is_duration(kind):
        return partial(length_text, digits=_DIGITS[kind.unit])
    if types.is_map(kind):
        key, item = _sure(kind.key_type), _sure(kind.item_type)
        return lambda pairs: [[key(name), item(value)] for name, value in pairs]
    if types.is_struct(kind):
        parts = {field.name: _sure(field.type) for field in kind}
        return lambda value: {name: parts[name](part) for name, part in value.items()}
    if types.is_list(kind) or types.is_large_list(kind) or types.is_fixed_size_list(kind):
        each = _sure(kind.value_type)
        return lambda values: [each(value) for value in values]
    return plain


def _sure(kind: pa.DataType) -> Convert:
    convert = _converter(kind) or (lambda value: value)
    return lambda value: None if value is None else convert(value)


def _timestamp(count: int, digits: int, zone: str) -> str:
    seconds, part = divmod(count, 10**digits)
    return (_EPOCH + datetime.timedelta(seconds=seconds)).isoformat() + _fraction(part, digits) + zone


def _time(count: int, digits: int) -> str:
    seconds, part = divmod(count, 10**digits)
    return (_EPOCH + datetime.timedelta(seconds=seconds)).time().isoformat() + _fraction(part, digits)


def _fraction(part: int, digits: int) -> str:
    """As Python writes it: nothing or six digits, nine where there is more to say."""
    if not part:
        return ""
    nine = f"{part * 10 ** (9 - digits):09d}"
    return "." + (nine[:6] if nine.endswith("000") else nine)
