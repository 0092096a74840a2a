"""How many calls a run may have in progress: as it was started, as people say, or as its job declares."""

from __future__ import annotations

from onward.ports.work import Orders


class Concurrency:
    """The newest word counts: what a run was started with (`own`) holds until people say something after that. What
    they take back leaves what the run was started with, else what its job declares."""

    def __init__(self, own: int | None, declared: int, orders: Orders):
        self.own, self.declared = own, declared
        self.said = orders.concurrency
        self._heard = orders.said
        self.now = own or orders.concurrency or declared

    def hear(self, orders: Orders) -> bool:
        """Whether people have said something else meanwhile, so that another number holds."""
        if orders.said == self._heard:
            return False
        self._heard, self.said = orders.said, orders.concurrency
        before, self.now = self.now, self.said or self.own or self.declared
        return self.now != before

    def __str__(self) -> str:
        """The number and where it comes from."""
        if self.now == self.said:
            return f"{self.now}, as onward concurrency says (the job declares {self.declared})"
        if self.now == self.own:
            beside = f"; onward concurrency says {self.said}" if self.said else ""
            return f"{self.now}, with which the run was started{beside}"
        return f"{self.now}, as the job declares"
