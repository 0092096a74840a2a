"""A made-up source: a row of keys and values that somebody edits while runs read it."""

from __future__ import annotations

import random

from onward.codec import canonical_key
from onward.model import SourceRecord

BAD_VALUE = '"misfit"'
EDITS = ["change", "remove", "remove", "add", "add", "move", "change all"]


class Source:
    def __init__(self, draw: random.Random):
        self._random = draw
        self.lines = [self._line(f"k{number}") for number in range(draw.randint(2, 7))]

    def _line(self, key: str) -> tuple[str, str]:
        drawn = self._random.random()
        value = BAD_VALUE if drawn < 0.04 else str(self._random.randint(0, 9))
        return key, value if drawn < 0.9 else '"' + "x" * 60 + '"'

    def edit(self) -> str:
        """One edit; what it was."""
        what = self._random.choice(EDITS)
        lines = self.lines
        if what == "add" or not lines:
            key = f"k{self._random.randint(0, 9)}"
            if key not in dict(lines):
                lines.insert(self._random.randint(0, len(lines)), self._line(key))
        elif what == "remove":
            lines.pop(self._random.randrange(len(lines)))
        elif what == "move":
            self._random.shuffle(lines)
        else:
            for number, (key, _) in enumerate(lines):
                if what == "change all" or self._random.random() < 0.3:
                    lines[number] = self._line(key)
        return what

    def read(self) -> list[SourceRecord]:
        """It as it is now."""
        return [
            SourceRecord(canonical_key(key), value, place, "does not fit" if value == BAD_VALUE else None)
            for place, (key, value) in enumerate(self.lines)
        ]
