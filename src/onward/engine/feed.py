"""The feed: source → store, in a thread of its own; the cursor is never ahead of the records."""

from __future__ import annotations

import threading
import time
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass, field, replace
from typing import Literal

from onward.codec import canonical_key, dumps
from onward.engine.events import Events
from onward.engine.journal import Journal
from onward.model import BadLine, FeedBlock, FeedOutcome, SourceRecord, State
from onward.ports.source import Source, Validate
from onward.ports.work import FeedState, WorkStore

BLOCKS_UNDER_WAY = 4
ASK_AGAIN = 0.5


@dataclass(slots=True)
class FeedReport:
    """What a pass brought, for people. `bad` are the first bad places; `bad_count` all of them."""

    added: int = 0
    changed_unfinished: int = 0
    changed_finished: int = 0
    changed_kept: int = 0
    vanished: int = 0
    returned: int = 0
    misfits: int = 0
    done_again: int = 0
    bad_count: int = 0
    bad: list[tuple[str, str]] = field(default_factory=list)
    again: str = ""


class Feed:
    """Reads the source as long as no other run does.

    `state`: `starting`, `waiting` (another run feeds), `reading`, `done` (all is in the store), `stopped` (a bad line,
    or told to), `broken` (`error` says why). `has_judged`: what the store knows of the source's places is true again;
    before that, a changed source may hold other records there. `place` gives a record its rank and its gate.
    """

    def __init__(
        self,
        source: Source,
        journal: Journal,
        run: int,
        validate: Validate | None,
        on_bad: Literal["stop", "quarantine"],
        events: Events,
        changed: Callable[[], None],
        place: Callable[[SourceRecord], None] | None = None,
    ):
        self.state: Literal["starting", "waiting", "reading", "done", "stopped", "broken"] = "starting"
        self.error: BaseException | None = None
        self.bad_line: BadLine | None = None
        self.report = FeedReport()
        self._source = source
        self._journal = journal
        self._run = run
        self._validate = validate
        self._on_bad = on_bad
        self._events = events
        self._changed = changed
        self._place = place
        self._under_way: deque[tuple[FeedBlock, Future[FeedOutcome]]] = deque()
        self._told_to_stop = threading.Event()
        self.has_judged = False
        self._cursor: str | None = None
        self._thread = threading.Thread(target=self._work, name="onward-feed", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._told_to_stop.set()

    def join(self, seconds: float) -> None:
        self._thread.join(seconds)

    @property
    def is_over(self) -> bool:
        return self.state in ("done", "stopped", "broken")

    def brings_nothing(self, source_complete: bool) -> bool:
        """Whether no more records can come. Before this run has looked at the source, its having been read to the end
        says nothing: it may have changed since."""
        return self.is_over or (self.state == "waiting" and source_complete)

    def _work(self) -> None:
        try:
            taken = self._wait_for_turn()
            if taken is not None:
                self._read(taken)
            else:
                self.state = "stopped"
            self.has_judged = True
        except BaseException as error:
            self.error = error
            self.state = "broken"
        self._changed()

    def _wait_for_turn(self) -> FeedState | None:
        """Become the run that feeds; None when told to stop, or when another run has fed all meanwhile."""
        waited = False
        while not self._told_to_stop.is_set():
            taken = self._journal.ask(lambda store: store.take_feed(self._run)).result()
            if taken is not None:
                return None if waited and taken.complete else taken
            waited, self.state, self.has_judged = True, "waiting", True
            self._told_to_stop.wait(ASK_AGAIN)
        return None

    def _read(self, taken: FeedState) -> None:
        self.state = "reading"
        resume = self._source.resume(taken.cursor, taken.complete)
        if resume.how == "done":
            self.state = "done"
            return
        again = resume.how == "again" and taken.cursor is not None
        if again and resume.why:
            self.report.again = resume.why
            self._events.emit("source_changed", reason=resume.why)
        self._journal.ask(lambda store: store.begin_pass(self._run, again, resume.why if again else "")).result()
        self._cursor = None if again else taken.cursor
        self.has_judged = not again
        for block in self._source.read(resume.cursor if resume.how == "continue" else None, self._validate):
            if self._told_to_stop.is_set() or not self._feed(block):
                break
            self._keep_back()
            if self._told_to_stop.is_set():
                break
        self._settle_all()
        if self.state == "reading":
            complete = self._journal.ask(_feed_is_complete(self._run)).result()
            self.state = "done" if complete else "stopped"
        self._tell_report()

    def _feed(self, block: FeedBlock) -> bool:
        """Hand a block over; False where reading has to end."""
        if block.bad:
            self._note_bad(block.bad)
            if self._on_bad == "stop":
                self._settle_all()
                if self.state == "reading":
                    self._stop_at(block, block.bad[0])
                return False
            block = self._with_bad_set_aside(block)
        self._hand_over(replace(block, after=self._cursor))
        if len(self._under_way) < BLOCKS_UNDER_WAY:
            return True
        return self._settle()

    def _hand_over(self, block: FeedBlock) -> None:
        if not block.partial:
            self._cursor = block.cursor
        self._under_way.append((block, self._send(block)))

    def _send(self, block: FeedBlock) -> Future[FeedOutcome]:
        if self._place is not None:
            for record in block.records:
                if record.invalid is None and not record.bad:
                    self._place(record)
        return self._journal.feed(block)

    def _stop_at(self, block: FeedBlock, bad: BadLine) -> None:
        """Keep the records before the bad place, but no cursor that has passed it."""
        before = [record for record in block.records if record.position < bad.position]
        cut = replace(block, records=before, bad=[], partial=True, complete=False, after=self._cursor)
        outcome = _in_turn(self._send(cut).result())
        if outcome.duplicates:
            self._stop_at(cut, self._as_bad(outcome)[0])
            return
        self._count(outcome)
        self.bad_line = bad
        self.state = "stopped"

    def _with_bad_set_aside(self, block: FeedBlock) -> FeedBlock:
        """Bad lines as records. Damage is none: it has to be mended, and there is nothing to set aside."""
        self.bad_line = self.bad_line or next((bad for bad in block.bad if bad.damage), None)
        aside = [
            SourceRecord(canonical_key(bad.where), dumps({"line": bad.raw}), bad.position, bad.reason, bad=True)
            for bad in block.bad
            if not bad.damage
        ]
        records = sorted([*block.records, *aside], key=lambda record: record.position)
        return replace(block, records=records, bad=[])

    def _note_bad(self, bad: list[BadLine]) -> None:
        self.report.bad_count += len(bad)
        for one in bad:
            if len(self.report.bad) < 20:
                self.report.bad.append((one.where, one.reason))
            self._events.emit("bad_line", where=one.where, reason=one.reason)

    def _settle(self) -> bool:
        """Wait for the oldest block; False where it had duplicate keys and the job stops at those."""
        block, future = self._under_way.popleft()
        outcome = _in_turn(future.result())
        if not outcome.duplicates:
            self._count(outcome)
            self._changed()
            return True
        # The store refused this block, and with it those behind it, which continue from its cursor.
        behind = [later for later, _ in self._under_way]
        while self._under_way:
            self._under_way.popleft()[1].result()
        self._cursor = block.after
        # One that was set aside already, and whose place is another record's key, is left at having been told.
        aside = {record.position for record in block.records if record.bad}
        doubles = self._as_bad(outcome)
        bad = [one for one in doubles if one.position not in aside]
        self._note_bad(bad)
        if self._on_bad == "stop":
            self._stop_at(block, bad[0])
            return False
        positions = {one.position for one in doubles}
        rest = [record for record in block.records if record.position not in positions]
        self._hand_over(self._with_bad_set_aside(replace(block, records=rest, bad=bad)))
        for later in behind:
            self._hand_over(replace(later, after=self._cursor))
        return True

    def _settle_all(self) -> None:
        while self._under_way:
            if not self._settle():
                return

    def _as_bad(self, outcome: FeedOutcome) -> list[BadLine]:
        """Duplicate keys as bad places, in source order."""
        bad = []
        for key, first, second in outcome.duplicates:
            reason = f"the key {key} stands already at {self._source.where(first)}"
            bad.append(BadLine(self._source.where(second), reason, second))
        return sorted(bad, key=lambda one: one.position)

    def _count(self, outcome: FeedOutcome) -> None:
        report = self.report
        report.added += outcome.added
        report.changed_unfinished += outcome.changed_unfinished
        report.changed_finished += outcome.changed_finished
        report.changed_kept += outcome.changed_kept
        report.vanished += outcome.vanished
        report.returned += outcome.returned
        report.misfits += outcome.misfits
        report.done_again += len(outcome.done_again)
        if self._events.frequent:
            for key in outcome.done_again:
                self._events.emit("record_skipped", key=key, reason="done already")

    def _tell_report(self) -> None:
        report = self.report
        self._events.emit(
            "source_read",
            source=self._source.title,
            complete=self.state == "done",
            new=report.added,
            changed=report.changed_unfinished,
            changed_finished=report.changed_finished,
            changed_kept=report.changed_kept,
            vanished=report.vanished,
            returned=report.returned,
            misfits=report.misfits,
            done_again=report.done_again,
            bad=report.bad_count,
        )

    def _keep_back(self) -> None:
        """A source with a bound is never read further ahead of the work than that."""
        ahead = self._source.max_ahead
        if ahead is None or not self.has_judged:
            return
        self._settle_all()
        while not self._told_to_stop.is_set():
            if self._journal.ask(_unfinished_of(self._run)).result() < ahead:
                return
            time.sleep(0.02)


def _in_turn(outcome: FeedOutcome) -> FeedOutcome:
    """A block is refused out of turn only behind one that was refused itself. Raises RuntimeError, a fault of onward:
    records would be missing, and nobody could tell which."""
    if outcome.out_of_turn:
        raise RuntimeError("a block of the source was refused: the store's cursor is not where this run left it")
    return outcome


def _unfinished_of(run: int) -> Callable[[WorkStore], int]:
    """Records to be worked on by runs; those that wait for a person would hold the feed back for ever."""

    def ask(store: WorkStore) -> int:
        counts = store.counts(store.instance_of(run))
        return counts.of(State.PENDING) + counts.of(State.IN_PROGRESS) - counts.held.get("stale", 0)

    return ask


def _feed_is_complete(run: int) -> Callable[[WorkStore], bool]:
    return lambda store: store.counts(store.instance_of(run)).source_complete
