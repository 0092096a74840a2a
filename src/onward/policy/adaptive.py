"""How many calls may be in progress at once: found by trying, as TCP finds how much a path carries.

Additive increase, multiplicative decrease (Chiu and Jain, 1989) with the slow start of Jacobson, "Congestion Avoidance
and Control" (1988): doubling until the far side throttles, or takes longer without answering more; then small steps.
"""

from __future__ import annotations

from dataclasses import dataclass

FIRST = 8
FEWEST_TO_JUDGE = 16
PATIENCE = 1.5
"""So many times the best latency may answers take before more calls have to bring more answers."""
GAIN_OF_DOUBLING = 1.2
GAIN_OF_A_STEP = 1.02
FULL = 0.75
STEPS = 16
NEAR = 0.9
SMOOTHING = 0.3
FORGETTING = 0.005
ROUNDS_TO_SETTLE = 2


@dataclass(slots=True)
class _Round:
    """As many answers as there were calls in progress when it began: about one round trip."""

    began: float
    due: int
    limit: int
    answers: int = 0
    seconds: float = 0.0
    in_progress: int = 0
    faults: int = 0

    @property
    def was_full(self) -> bool:
        """Whether the limit was what kept calls from beginning."""
        return self.in_progress >= FULL * min(self.limit, self.due) * self.answers


class Adaptive:
    """A limit between `least` and `most`. All times are seconds of one clock that is never set back.

    Throttling halves the limit, once for all calls that were in progress then. From there it grows by a sixteenth of
    what was too much in each round trip, and one by one when it comes near that. It stands still while it is not used
    up, while there are faults, and while answers take much longer than they did at best without coming more often.
    """

    def __init__(self, most: int, least: int = 1):
        if not 1 <= least <= most:
            raise ValueError("Adaptive needs 1 <= least <= most")
        self.least = least
        self.most = most
        self._limit = min(max(FIRST, least), most)
        self._doubling = True
        self._too_much: int | None = None
        self._cut_at = float("-inf")
        self._round: _Round | None = None
        self._latency: float | None = None
        self._best: float | None = None
        self._rate = 0.0
        self._to_settle = 0

    @property
    def limit(self) -> int:
        """Calls that may be in progress now."""
        return self._limit

    def answered(self, now: float, began: float, in_progress: int) -> None:
        """A call that began at `began` was answered; `in_progress` were, with it."""
        current = self._round or _Round(began, self._limit, self._limit)
        self._round = current
        current.answers += 1
        current.seconds += max(now - began, 0.0)
        current.in_progress += in_progress
        if current.answers >= current.due:
            self._round = _Round(now, self._limit, self._limit)
            if self._to_settle:
                self._to_settle -= 1
            elif current.was_full:
                self._judge(current, now - current.began)
                self._round.limit = self._limit

    def failed(self) -> None:
        """A call met a fault that is not its record's own (a lost connection, a 5xx): no growth in this round trip."""
        if self._round is not None:
            self._round.faults += 1

    def throttled(self, now: float, began: float) -> None:
        """The far side asked for fewer calls. Calls from before the last halving say nothing new."""
        if began < self._cut_at:
            return
        self._cut_at = now
        self._too_much = self._limit
        self._limit = max(self._limit // 2, self.least)
        self._round = _Round(now, self._limit, self._limit)
        self._start_steps()

    def _start_steps(self) -> None:
        """What was measured while the limit doubled is of no use for small steps."""
        self._doubling = False
        self._latency = self._best = None
        self._rate = 0.0

    def _judge(self, done: _Round, elapsed: float) -> None:
        """After a full round trip: grow, stand still, or leave a doubling that brought nothing."""
        latency = done.seconds / done.answers
        rate = done.answers / max(elapsed, 1e-9)
        if self._doubling:
            if self._doubled_in_vain(done, latency, rate):
                self._limit = min(max(int(rate * (self._best or latency)), self.least), self._limit)
                self._to_settle = ROUNDS_TO_SETTLE  # until what waits at the far side has been answered
                self._start_steps()
                return
            self._rate, self._best = rate, min(self._best or latency, latency)
            if done.limit == self.most:  # this round showed what the last doubling brought
                self._start_steps()
        elif self._is_strained(latency, rate):
            return
        if not done.faults:
            self._limit = min(self._limit + self._step(), self.most)

    def _doubled_in_vain(self, done: _Round, latency: float, rate: float) -> bool:
        if self._best is None or done.answers < FEWEST_TO_JUDGE:
            return False
        return latency > PATIENCE * self._best and rate < GAIN_OF_DOUBLING * self._rate

    def _is_strained(self, latency: float, rate: float) -> bool:
        """Whether answers take long and do not come more often for it; both smoothed, and old records forgotten."""
        known = latency if self._latency is None else self._latency
        self._latency = known + SMOOTHING * (latency - known)
        best = self._latency if self._best is None else self._best
        self._best = min(best + FORGETTING * (self._latency - best), self._latency)
        record = self._rate
        self._rate = max(record * (1 - FORGETTING), record + SMOOTHING * (rate - record) if record else rate)
        return self._latency > PATIENCE * self._best and self._rate < GAIN_OF_A_STEP * record

    def _step(self) -> int:
        if self._doubling:
            return self._limit
        if self._too_much is None or self._limit >= self._too_much:
            return max(self._limit // STEPS, 1)
        far = int(NEAR * self._too_much) - self._limit
        return min(max(self._too_much // STEPS, 1), far) if far > 0 else 1
