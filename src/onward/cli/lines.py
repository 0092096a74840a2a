"""Progress as plain lines on the error output, for files and pipes: one now and then, and one for what is notable."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from onward.cli import spending, streams
from onward.cli.happenings import Happenings
from onward.cli.words import duration, held_elsewhere, key_text, left, printable, rates, records

if TYPE_CHECKING:
    from onward.engine.tally import Progress

EVERY = 10.0


class Lines:
    """`event` and `progress` are what a run calls."""

    def __init__(self) -> None:
        self.happenings = Happenings()
        self._next = time.monotonic() + EVERY

    def start(self) -> None:
        """The run has said what it found."""
        self.happenings.listening = True

    def stop(self) -> None:
        """The run has ended."""

    def event(self, event: str, fields: Mapping[str, Any]) -> None:
        for line in self.happenings.lines(event, fields):
            say(line)

    def progress(self, progress: Progress) -> None:
        now = time.monotonic()
        if now >= self._next:
            self._next = now + EVERY
            say(self.told(progress))

    def told(self, progress: Progress) -> str:
        return progress_line(progress)


def say(line: str) -> None:
    """A line with its time, to the error output."""
    streams.err(f"{time.strftime('%H:%M:%SZ', time.gmtime())} {line}")


def progress_line(progress: Progress) -> str:
    """`41,210 of 100,000 (41%), 214/s, about 5 min left, 32 calls, 8 failed`."""
    counts = progress.counts
    done = progress.done
    share = f" ({100 * done // progress.total}%)" if progress.total and progress.source_complete else ""
    parts = [f"{done:,} of {progress.total:,}{share if progress.source_complete else ' read so far'}"]
    parts.append(rates(progress.rate, progress.rate_of_all))
    if progress.waits_for_others:
        parts.append(held_elsewhere(progress.elsewhere))
    elif progress.eta is not None:
        parts.append(left(progress.eta, progress.time_left))
    parts.append(f"{progress.calls} {'call' if progress.calls == 1 else 'calls'}")
    if progress.money is not None:
        parts += spending.parts(progress.money, True, progress.source_complete)
        for model in progress.models:
            slow = spending.throttled(model, progress.now)
            parts.append(f"at most {model.most} at {printable(model.name)}" + (f" ({slow})" if slow else ""))
    parts += [f"{counts[state]:,} {state}" for state in counts if state in _WORTH_A_WORD and counts[state]]
    retrying = sum(progress.retrying.values())
    if retrying:
        causes = ", ".join(printable(cause) for cause in list(progress.retrying)[:2])
        parts.append(f"{records(retrying)} waiting for another try ({causes})")
    if progress.longest is not None and progress.longest[2] >= EVERY:
        key, step, age = progress.longest
        parts.append(f"longest: {key_text(key)} at {step} for {duration(age)}")
    return ", ".join(parts)


_WORTH_A_WORD = ("failed", "quarantined", "unconfirmed")
