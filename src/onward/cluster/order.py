"""What the process that speaks with a cluster is told."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field


@dataclass(frozen=True, slots=True)
class Order:
    """`address`, `needs` as in `place.Place`; `folder`: what travels; `assignment`: its text; `grace` in seconds."""

    address: str | None
    needs: Mapping[str, float]
    workers: int
    folder: str | None
    grace: float
    assignment: str = field(repr=False)

    def text(self) -> str:
        return json.dumps(asdict(self))

    @classmethod
    def parse(cls, text: str | bytes) -> Order:
        return cls(**json.loads(text))
