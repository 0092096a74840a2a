"""Admission to steps that bound their own concurrency: a record starts such a step only when there is room."""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable

from onward.engine.attempt import Attempt
from onward.job.plan import Plan, StepPlan


def _room_of(step: StepPlan) -> int | None:
    """How many calls of a step may be in progress; steps for worker processes get one a processor."""
    if step.concurrency is None and step.process:
        return os.cpu_count() or 1
    return step.concurrency


class Admission:
    """Waiting rooms, one a step. `begin` is called with each attempt that is let in.

    Where no step bounds its concurrency a claimed record starts with its claim (`start_with_claim`), in one commit.
    """

    def __init__(self, plan: Plan, begin: Callable[[Attempt], None]):
        self._begin = begin
        self._room = {step.name: room for step in plan.steps if (room := _room_of(step)) is not None}
        self._waiting: dict[str, deque[Attempt]] = {step.name: deque() for step in plan.steps}
        self.start_with_claim = not self._room

    @property
    def waiting(self) -> int:
        return sum(len(queue) for queue in self._waiting.values())

    def limits(self, step: StepPlan) -> bool:
        return step.name in self._room

    def add(self, attempt: Attempt) -> None:
        """An attempt that has not started yet: it starts now, or waits for room."""
        assert attempt.step is not None
        name = attempt.step.name
        if name not in self._room:
            self._begin(attempt)
            return
        self._waiting[name].append(attempt)
        self._admit(name)

    def release(self, step: StepPlan) -> None:
        """A call of the step has ended."""
        if step.name in self._room:
            self._room[step.name] += 1
            self._admit(step.name)

    def _admit(self, name: str) -> None:
        queue = self._waiting[name]
        while queue and self._room[name] > 0:
            self._room[name] -= 1
            self._begin(queue.popleft())

    def clear(self) -> list[Attempt]:
        """Empty the waiting rooms."""
        left = [attempt for queue in self._waiting.values() for attempt in queue]
        for queue in self._waiting.values():
            queue.clear()
        return left
