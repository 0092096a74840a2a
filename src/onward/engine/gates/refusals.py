"""A first refusal of access: whether it is meant for one record or for all is told by the calls beside it.

A 403 stops the run unless its step has succeeded for another record. At the beginning nothing has succeeded yet, and a
refusal is often quicker than an answer: so the first few are held back while others are on their way.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from onward.policy.failures import Classified

HELD_BACK = 60.0
MOST_HELD_BACK = 10
FORBIDDEN = 403


@dataclass(slots=True)
class Refusals:
    """`others_at`: whether other calls of a step may still tell; `has_succeeded`: whether the step has, for some
    record; `most`: with how many refusals, and nothing else, it is clear that they are meant for all."""

    others_at: Callable[[str], bool]
    has_succeeded: Callable[[str], bool]
    most: int
    _open: list[tuple[str, Callable[[], None]]] = field(default_factory=list)

    def holds_back(self, step: str, failure: Classified, end: Callable[[], None]) -> bool:
        """Whether `end` is called later, once it is known what the refusal means."""
        if failure.status != FORBIDDEN or self.has_succeeded(step):
            return False
        if len(self._open) + 1 >= min(self.most, MOST_HELD_BACK) or not self.others_at(step):
            return False
        self._open.append((step, end))
        return True

    def look_around(self, at_last: bool = False) -> None:
        """Conclude what the other calls have told by now; `at_last`: whatever they have."""
        if not self._open:
            return
        decided = [one for one in self._open if at_last or self.has_succeeded(one[0]) or not self.others_at(one[0])]
        self._open = [one for one in self._open if one not in decided]
        for _, end in decided:
            end()
