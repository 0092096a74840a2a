"""What follows a failed attempt: (failure, history) → retry, fail, quarantine or stop."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from onward.model import Kind, Retry
from onward.policy.failures import Classified


@dataclass(frozen=True, slots=True)
class History:
    """What is known of a record when an attempt fails. `attempts` includes the failed one."""

    attempts: int
    failed_runs: int
    resume_cap: int


@dataclass(frozen=True, slots=True)
class Decision:
    """`wait` in seconds belongs to `retry`; `counted` says whether the attempt is used up; `failed_runs`: in how many
    runs in a row the record has failed by now."""

    verdict: Literal["retry", "fail", "quarantine", "stop"]
    reason: str
    wait: float = 0.0
    counted: bool = True
    failed_runs: int = 0


def decide(failure: Classified, history: History, retry: Retry, draw: float) -> Decision:
    """Decide what to do; `draw` is a random number in [0, 1) for the jitter."""
    runs = history.failed_runs
    if failure.kind is Kind.FATAL:
        return Decision("stop", "nothing can go on", counted=False, failed_runs=runs)
    if failure.kind in (Kind.REJECTED, Kind.INVALID, Kind.CONFLICT):
        return Decision("quarantine", "final", failed_runs=runs)
    if failure.kind is Kind.TRANSIENT and (failure.throttled or history.attempts < retry.attempts):
        wait = wait_before_retry(failure, history.attempts, retry, draw)
        return Decision("retry", "transient", wait, not failure.throttled, runs)
    return _failed(failure, history)


def _failed(failure: Classified, history: History) -> Decision:
    runs = history.failed_runs + 1
    if runs >= history.resume_cap:
        return Decision("quarantine", f"failed in {runs} runs in a row", failed_runs=runs)
    used_up = failure.kind is Kind.TRANSIENT
    return Decision("fail", "attempts used up" if used_up else str(failure.kind), failed_runs=runs)


def wait_before_retry(failure: Classified, attempts: int, retry: Retry, draw: float) -> float:
    """Full jitter under a growing ceiling, never sooner than the far side asked."""
    try:
        ceiling = min(retry.cap, retry.base * retry.factor ** max(attempts - 1, 0))
    except OverflowError:
        ceiling = retry.cap if retry.base else 0.0
    asked = failure.retry_after or 0.0
    return asked + draw * (ceiling if not asked else min(ceiling, 1.0))
