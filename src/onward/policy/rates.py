from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Rates:
    wait: float = 0.0


def rates_of(headers, now):
    return None
