"""What a store keeps so that cost and time to come can be told."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True, slots=True)
class CostSums:
    """What records that are through with a step cost there, with attempts that failed: sums over `count` records of the
    first three powers, in microdollars. `unknown`: how many more have a cost that is not known. `earlier`: what the
    same records had cost at other steps before, the squares of that, and its product with what they cost here."""

    step: str
    version: str
    count: int
    unknown: int
    total: float
    squares: float
    cubes: float
    earlier: float
    earlier_squares: float
    crossed: float


@dataclass(frozen=True, slots=True)
class Pace:
    """How many records ended in each of `count` equal stretches of `seconds`: their sum and that of their squares."""

    seconds: float
    count: int
    total: float
    squares: float


@dataclass(frozen=True, slots=True)
class Bill:
    """`to_go`: by step, how many records have it still to come; `failed`: how many more would, once failed records are
    tried again. `reached`: by step, the share of finished records that had not ended before it."""

    sums: list[CostSums] = field(default_factory=list)
    to_go: Mapping[str, int] = field(default_factory=dict)
    failed: Mapping[str, int] = field(default_factory=dict)
    reached: Mapping[str, float] = field(default_factory=dict)
