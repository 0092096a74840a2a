"""A worker with its journal on a real store, without the rest of a run: no source is read, nobody governs."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterable
from typing import Any

import onward
from onward.clock import SystemClock
from onward.codec import canonical_key, dumps
from onward.engine.calls import LocalCaller
from onward.engine.events import Events
from onward.engine.journal import Journal
from onward.engine.resources import Resources
from onward.engine.tally import Tally
from onward.engine.worker import Worker
from onward.model import FeedBlock, SourceRecord, StepVersion
from onward.ports.work import Batch, RunStart
from onward.store.sqlite.work import SqliteWorkStore


def job(**given: Any) -> onward.Job:
    """A job whose source is never read."""
    return onward.Job("job", source=onward.iterable(list, version="1"), **given)


class EngineBench:
    """Use it as an async context manager, inside the loop that the worker is to live on."""

    def __init__(
        self, job: onward.Job, keys: Iterable[Any] = (), concurrency: int = 8, store: SqliteWorkStore | None = None
    ):
        self.plan = job.plan(None)
        self.store = store or SqliteWorkStore(None, SystemClock())
        steps = tuple(StepVersion(step.name, step.version) for step in self.plan.steps)
        self.run = self.store.begin_run(RunStart("job", "", "host", "{}", "here", steps, self.plan.resume_cap)).run
        self.instance = self.store.instance_of(self.run)
        self.heard: list[tuple[str, dict[str, Any]]] = []
        self._fed: str | None = None
        self._concurrency = concurrency
        self.feed(*keys)

    def feed(self, *given: Any, again: bool = False) -> None:
        """One pass of keys or (key, value) pairs; the value of a key alone is the key."""
        pairs = [one if isinstance(one, tuple) else (one, one) for one in given]
        records = [SourceRecord(canonical_key(key), dumps(value), place) for place, (key, value) in enumerate(pairs)]
        if not records:
            return
        state = self.store.take_feed(self.run)
        assert state is not None
        self.store.begin_pass(self.run, again, "it changed" if again else "")
        after = None if again else state.cursor
        self.store.write(self.run, Batch(blocks=[FeedBlock(records, [], "end", complete=True, after=after)]))

    async def __aenter__(self) -> EngineBench:
        tally = Tally(self.store.counts(self.instance), time.time())
        self.resources = Resources(self.plan, None)
        self.local = LocalCaller(
            self.plan,
            self.resources,
            self.run,
            "",
            lambda attempt: attempt.claimed.value or "null",
            tally.has_succeeded,
        )
        events = Events({}, [(lambda event, fields: self.heard.append((event, dict(fields))), True)])
        self.worker = Worker(self.plan, self._concurrency, self.local, self.local, tally, events, lambda: 0.0)
        self.journal = Journal(self.store, self.run, SystemClock(), self.worker, 60.0)
        self.worker.journal = self.journal
        self.journal.start()
        return self

    async def __aexit__(self, *error: object) -> None:
        self.worker.slots.close()
        self.journal.close(10)
        await self.resources.close()
        self.local.threads.close()

    async def until(self, true: Callable[[], Any], seconds: float = 20.0) -> None:
        """Go on working until it is true."""
        end = time.monotonic() + seconds
        while not true():
            assert time.monotonic() < end, f"it never came true: {self.states()}, held {len(self.worker.held)}"
            if self.worker.error is not None:
                raise self.worker.error
            self.worker.slots.sweep()
            self.worker.dry = False
            self.worker.claim_more()
            await asyncio.sleep(0.005)

    async def work(self, seconds: float = 20.0) -> None:
        """Until nothing is left to do."""
        await self.until(self._is_over, seconds)

    def _is_over(self) -> bool:
        states = self.states()
        return not self.worker.held and not states.get("pending") and not states.get("in_progress")

    async def stop(self, seconds: float = 10.0) -> None:
        """As at a signal whose grace is over."""
        self.worker.stop()
        self.worker.slots.cut_all()
        await self.until(lambda: not self.worker.held, seconds)

    def states(self) -> dict[str, int]:
        return {str(state): n for state, n in self.ask(lambda: self.store.counts(self.instance)).states.items() if n}

    def ask(self, question: Callable[[], Any]) -> Any:
        """In the journal's thread, which owns the connection."""
        return self.journal.ask(lambda store: question()).result(10)

    def row(self, key: Any) -> dict[str, Any]:
        names = ("state", "step", "attempts", "started", "generation", "fence", "hold", "failed_runs")
        sql = f"SELECT {', '.join(names)}, id FROM records WHERE key = ?"

        def read() -> dict[str, Any]:
            row = self.store._connection.execute(sql, (canonical_key(key),)).fetchone()
            record = row[-1]
            failure = self.store._connection.execute(
                "SELECT kind, error_type, message, attempts FROM failures WHERE record = ?", (record,)
            ).fetchone()
            made = self.store._connection.execute(
                "SELECT generation, step, output FROM checkpoints WHERE record = ?", (record,)
            ).fetchall()
            return {
                **dict(zip(names, row, strict=False)),
                "failure": failure,
                "checkpoints": {(generation, step): output for generation, step, output in made},
            }

        found: dict[str, Any] = self.ask(read)
        return found

    def events(self, name: str) -> list[dict[str, Any]]:
        return [fields for event, fields in self.heard if event == name]


def work_through(bench: EngineBench, seconds: float = 20.0) -> None:
    """On a loop of its own, until nothing is left to do."""

    async def go() -> None:
        async with bench:
            await bench.work(seconds)

    asyncio.run(go())
