"""All workers of one command: who is at work, when the others have to stop, and when nobody is waited for any more."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Protocol

from onward.cluster.endings import ENDS_ALL, FINISHED, joint
from onward.cluster.hand import Ended
from onward.policy.endings import STOPPED_EARLY

WAIT = 0.25
SILENT = 15.0
AFTER_GRACE = 45.0
SAY_AGAIN = 5.0
GONE = "it did not answer any more"
STOP_OF_OTHERS = signal.SIGTERM


@dataclass(frozen=True, slots=True)
class Heard:
    """What came from a worker: a `look` at it, or that it `ended`."""

    worker: int
    look: Mapping[str, Any] | None = None
    ended: Ended | None = None


class Cluster(Protocol):
    """What begins workers, numbered from 1, and begins one anew, elsewhere if need be, when it dies."""

    def hear(self, seconds: float) -> Iterable[Heard]:
        """What has come from workers within this time."""

    def stop(self, worker: int, number: int) -> None:
        """Have a worker end in good order, as by this signal; returns at once."""

    def end(self, worker: int) -> None:
        """End a worker at once, for good."""


@dataclass(slots=True)
class Member:
    """`heard`: when it last said something, None until it has for the first time; `told`: when it was told to stop."""

    heard: float | None = None
    told: float | None = None
    ended: Ended | None = None


class Crew:
    """`tell` hears of each look and each end; `to_stop` is asked now and then for a signal's number."""

    def __init__(
        self,
        cluster: Cluster,
        workers: int,
        grace: float,
        tell: Callable[[Heard], None],
        to_stop: Callable[[], int | None],
        now: Callable[[], float] = time.monotonic,
    ):
        self._cluster, self._tell, self._to_stop, self._now = cluster, tell, to_stop, now
        self._members = {number: Member() for number in range(1, workers + 1)}
        self._ends: list[Ended] = []
        self._grace = grace
        self._stopping: tuple[int, float] | None = None
        self._finished: float | None = None

    def work(self) -> Ended:
        """Until all have ended, or none is waited for: the end of all."""
        while self._left():
            for heard in self._cluster.hear(WAIT):
                self._hear(heard)
            number = self._to_stop()
            if number is not None:
                self._stop(number)
            self._see_to_the_rest()
        return joint(self._ends)

    def _left(self) -> dict[int, Member]:
        return {number: member for number, member in self._members.items() if member.ended is None}

    def _hear(self, heard: Heard) -> None:
        member, now = self._members[heard.worker], self._now()
        if member.ended is not None:
            return
        member.heard = now
        self._tell(heard)
        if heard.ended is None:
            return
        member.ended = heard.ended
        self._ends.append(heard.ended)
        if heard.ended.code in FINISHED:
            self._finished = self._finished or now
        elif heard.ended.code in ENDS_ALL:
            self._stop(STOP_OF_OTHERS)

    def _stop(self, number: int) -> None:
        if self._stopping is None:
            self._stopping = number, self._now()

    def _see_to_the_rest(self) -> None:
        now = self._now()
        for number, member in self._left().items():
            if self._stopping is not None:
                self._have_stopped(number, member, self._stopping, now)
            elif self._finished is not None and now - max(self._finished, member.heard or 0.0) > SILENT:
                self._give_up(number, member)

    def _have_stopped(self, number: int, member: Member, stopping: tuple[int, float], now: float) -> None:
        """Tell it, again and again, since it may be one that was begun anew; give up on those that are not there."""
        signal_number, since = stopping
        silent = member.heard is None or now - max(member.heard, since) > SILENT
        if silent or now - since > self._grace + AFTER_GRACE:
            self._give_up(number, member)
        elif member.told is None or now - member.told >= SAY_AGAIN:
            member.told = now
            self._cluster.stop(number, signal_number)

    def _give_up(self, number: int, member: Member) -> None:
        """Nobody waits for it: the work is done, or is not to go on."""
        self._cluster.end(number)
        member.ended = Ended(STOPPED_EARLY, GONE)
        self._ends.insert(0, member.ended)
        self._tell(Heard(number, ended=member.ended))
