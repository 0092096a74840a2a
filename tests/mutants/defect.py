"""What a planted defect is."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Defect:
    """`changes`: (old, new) in `file` below `src/onward`; every `old` is changed, and there has to be one.

    `killers`: words for pytest. `environment`: settings for them.
    """

    name: str
    breaks: str
    file: str
    changes: tuple[tuple[str, str], ...]
    killers: tuple[str, ...]
    environment: tuple[tuple[str, str], ...] = ()
