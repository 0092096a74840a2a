"""What a cell's JSON text is, as far as typed columns care."""

from __future__ import annotations

import re
from decimal import Decimal, InvalidOperation

_WHOLE = re.compile(r"-?\d+")


def kind(cell: str) -> str:
    """`small` integers are exact as floats too; `exact` numbers fit neither int64 nor float64."""
    first = cell[0]
    if first == '"':
        return "text"
    if first in "[{":
        return "nested"
    if first in "tf":
        return "bool"
    if _WHOLE.fullmatch(cell):
        if len(cell) <= 15:
            return "small"
        return "int" if len(cell) <= 20 and -(2**63) <= int(cell) < 2**63 else "exact"
    return "float" if _fits_float(cell) else "exact"


def _fits_float(cell: str) -> bool:
    """Whether float64 gives the same number back; `1.10` does, 20 digits do not."""
    written = repr(float(cell))
    if written == cell:
        return True
    try:
        return Decimal(cell) == Decimal(written)
    except InvalidOperation:  # an exponent beyond even Decimal
        return False
