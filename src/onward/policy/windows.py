"""How quickly records end, as the spread of it in equal stretches of time, from which the time left is told."""

from __future__ import annotations

from onward.policy.forecast import Moments

MOST = 20
SHORTEST = 1.0
ENOUGH = 4.0
"""So many records a window on average say enough: until then windows grow."""


class Windows:
    """The last twenty windows, each one second long, or, while fewer than four records end in one, twice as long, and
    so on: a job whose calls take minutes is looked back on for longer than one whose calls take moments.

    Time in which nothing was meant to happen (a pause, an outage, closed hours) is in no window. Times in seconds.
    """

    def __init__(self, now: float, ended: int):
        self.seconds = SHORTEST
        self._counts: list[float] = []
        self._last = now, ended
        self._open = 0.0, 0.0

    def mark(self, now: float, ended: int, at_work: bool) -> None:
        """A moment, and how many had ended by then."""
        then, before = self._last
        self._last = now, ended
        passed, more = max(now - then, 0.0), max(ended - before, 0)
        if not at_work and not more:
            return
        length, count = self._open[0] + passed, self._open[1] + more
        if length < self.seconds:
            self._open = length, count
            return
        self._open = 0.0, 0.0
        self._counts.append(count * self.seconds / length)
        if len(self._counts) > MOST:
            self._make_room()

    def _make_room(self) -> None:
        if sum(self._counts) >= ENOUGH * len(self._counts):
            del self._counts[0]
            return
        newest = self._counts[len(self._counts) % 2 :]
        self._counts = [newest[n] + newest[n + 1] for n in range(0, len(newest), 2)]
        self.seconds *= 2

    @property
    def moments(self) -> Moments:
        """Over how many ended in each window."""
        found = Moments()
        for count in self._counts:
            found = found.add(count)
        return found
