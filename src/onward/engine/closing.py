"""The last of a run: with which code it ends and why, its end recorded, and what the store holds then told."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from onward.engine.events import Events
from onward.engine.options import Options
from onward.engine.spending.bill import cost
from onward.engine.tally import Tally
from onward.engine.worker import Worker
from onward.errors import OnwardError
from onward.model import Counts, RunResult, State
from onward.policy.effects import UNDECODABLE
from onward.policy.endings import (
    NEEDS_A_PERSON,
    OK,
    SOME_FAILED,
    STOPPED_EARLY,
    Ending,
    NextAct,
    Remains,
    exit_code,
)
from onward.policy.versions import ResultVersions
from onward.ports.work import RunBegun, Work, WorkStore

_REASONS = {
    OK: "all done",
    SOME_FAILED: "finished, but some records need a look",
    NEEDS_A_PERSON: "records wait for a person",
}


@dataclass(frozen=True, slots=True)
class _Left:
    """What the store holds once the run's end is recorded. `older`: unfinished records with older outputs."""

    counts: Counts
    stale: int = 0
    older: int = 0
    head: str | None = None


class Closing:
    """`asks`: whether the job asks models; `began`: when the run did, in monotonic seconds."""

    def __init__(
        self,
        job: str,
        options: Options,
        store: WorkStore,
        begun: RunBegun,
        worker: Worker,
        events: Events,
        asks: bool,
        began: float,
    ):
        self._job, self._options = job, options
        self._store, self._begun = store, begun
        self._worker, self._events = worker, events
        self._asks, self._began = asks, began

    def result(self, ending: Ending | None, concurrency: int) -> RunResult:
        """End the run in the store, which is closed then, and tell of it. `ending`: why it ended early, if it did."""
        counts = self._counts_now()
        ended = self._concluded(ending, counts)
        try:
            left, recorded = self._recorded(ended, concurrency), True
        except OnwardError as error:  # the store cannot be written: the next run finds this one dead
            left, recorded = _Left(counts), False
            if ended.exit_code < STOPPED_EARLY:
                ended = Ending(STOPPED_EARLY, "the end of the run could not be recorded", str(error), "run")
        self._store.close()
        seconds = time.monotonic() - self._began
        self._tell(ended, left, recorded, seconds)
        plain = {str(state): n for state, n in left.counts.states.items()}
        return RunResult(ended.exit_code, ended.text, str(self._begun.run), plain, left.counts.total, seconds)

    def _counts_now(self) -> Counts:
        """Those that the run has kept itself where the store cannot be asked."""
        with contextlib.suppress(OnwardError):
            self._store.reopen()
            return self._store.counts(self._begun.instance)
        return self._tally.counts

    def _concluded(self, ending: Ending | None, counts: Counts) -> Ending:
        """How it ends, by all that applies."""
        remains = self._remains(counts)
        code, held = exit_code(remains, ending), counts.held.get("stale", 0)
        if ending is None:
            return Ending(code, self._reason(code, counts), next_act=_next_act(code, held, counts))
        if code > ending.exit_code:
            return replace(ending, exit_code=code, next_act=_next_act(code, held, counts))
        if code == STOPPED_EARLY and not remains.unfinished and counts.source_complete:  # others have done it
            return replace(ending, next_act="failures" if remains.failed else "export")
        return ending

    def _reason(self, code: int, counts: Counts) -> str:
        """Of an end that is no early one."""
        options = self._options
        if options.asks_about is not None or options.only is not None:
            return "what was asked about is done" if options.only is None else "the sample is done"
        left = counts.of(State.PENDING) + counts.of(State.IN_PROGRESS)
        if code == OK and (left > 0 or not counts.source_complete):
            return "as many as the limit allows are done"
        return _REASONS.get(code, "unfinished records are left")

    def _remains(self, counts: Counts) -> Remains:
        failed = counts.of(State.FAILED) + counts.of(State.QUARANTINED) + counts.of(State.UNCONFIRMED)
        failed += counts.vanished_open  # what they owe is owed, whether or not the source still has them
        unfinished = counts.of(State.PENDING) + counts.of(State.IN_PROGRESS)
        stale = counts.held.get("stale", 0) + counts.held.get(UNDECODABLE, 0)
        share, tally = self._worker.share, self._tally
        if share.left is not None:
            done_all = share.is_begun or not unfinished
            left = tally.left_failed + len(tally.unconfirmed)
            failed = left if done_all and unfinished else failed
            unfinished = len(share.waiting_again) if done_all else unfinished
            stale = min(counts.held.get("stale", 0), unfinished) + min(counts.held.get(UNDECODABLE, 0), left)
        return Remains(unfinished, failed, stale)

    def _recorded(self, ended: Ending, concurrency: int) -> _Left:
        """Raises OnwardError where the store cannot be written."""
        store, run, instance, tally = self._store, self._begun.run, self._begun.instance, self._tally
        if (pace := tally.pace()) is not None:
            store.note_work(run, Work(tally.ended, round(tally.lately(time.time()), 3), concurrency, pace))
        head = store.end_run(run, ended.exit_code, ended.reason, ended.detail)
        versions = {step.name: step.version for step in self._worker.plan.steps}
        stale = ResultVersions(store.results_by_version(instance)).stale(versions)
        left = _Left(store.counts(instance), stale, store.older_outputs(instance, versions).records, head)
        store.tidy()
        return left

    def _tell(self, ended: Ending, left: _Left, recorded: bool, seconds: float) -> None:
        counts = left.counts
        self._events.emit(
            "run_finished",
            exit_code=ended.exit_code,
            reason=ended.reason,
            counts={str(state): n for state, n in counts.states.items()},
            total=counts.total,
            vanished=counts.vanished,
            vanished_open=counts.vanished_open,
            source_complete=counts.source_complete,
            held=counts.held,
            stale=left.stale,
            unfinished_older=left.older,
            adopted=self._adopted(),
            seconds=round(seconds, 3),
            recorded=recorded,
            head=left.head,
            next_act=ended.next_act,
            **({"paused": list(ended.paused)} if ended.next_act == "resume" else {}),
            **self._costs(counts),
        )

    def _costs(self, counts: Counts) -> Mapping[str, Any]:
        """What asking models has cost: in all, and in this run."""
        if not self._asks and not counts.spent:
            return {}
        budgets = self._worker.budgets
        return {
            "cost": cost(counts.spent.values()),
            "cost_here": cost(budgets.spent.values()),
            "shared": budgets.shared,
        }

    def _adopted(self) -> dict[str, int]:
        """Obligations that were done already, by the job that had them done; empty: the far side said so."""
        found = dict[str, int]()
        for job, number in self._tally.adopted.items():
            name = self._job if job is None else job
            found[name] = found.get(name, 0) + number
        return found

    @property
    def _tally(self) -> Tally:
        return self._worker.tally


def _next_act(code: int, held: int, counts: Counts) -> NextAct:
    if held:
        return "rerun"
    if code != SOME_FAILED:
        return "run"
    return "failures" if counts.of(State.FAILED) or counts.of(State.QUARANTINED) else "reconcile"
