"""The inquest: records that had started at two deaths run in children, until the guilty one is alone.

A child's death separates those whose calls it was making, in halves; the others stay suspects together. Three deaths
alone convict. Whatever returns from a child, be it with an error, is cleared.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable

from onward.engine.attempt import Attempt
from onward.engine.loops import spawn
from onward.engine.outcomes import CallOutcome, Died
from onward.engine.processes.children import Assignment, Child, Starts, end_all
from onward.engine.worker import Worker
from onward.model import Claimed, Failure
from onward.policy.suspects import halves, is_suspect
from onward.ports.work import Batch, ClaimWish

AT_ONCE = 1000
GROUPS_OF_OPEN = 8
CLAIM_BYTES = 64 << 20


class Group:
    """Suspects that share a child. The child is started with the first call and closed after the last.

    `is_part`: of those who were beside a death, so that its members stay together when they come back.
    """

    def __init__(self, records: tuple[int, ...], inquest: Inquest, starts: Starts, is_part: bool = False):
        self.is_part = is_part
        self.records = records
        self.members = set(records)
        self.alone = len(records) == 1
        self._inquest = inquest
        self.starts = starts
        self._child: Child | None = None

    @property
    def child(self) -> Child | None:
        """The living one."""
        return self._child if self._child is not None and not self._child.dead else None

    async def up(self) -> None:
        """Start the child: what is decided before a call is not to grow old while it loads."""
        if self.child is None:
            await self.starts.pause()
        self._child = self.child or self.starts.make()
        await self._child.up()

    async def call(self, attempt: Attempt) -> CallOutcome:
        if self.child is None:
            await self.starts.pause()
        child = self._child = self.child or self.starts.make()
        outcome = self.starts.judge(child, await child.call(attempt, self._inquest.value_of(attempt)))
        if isinstance(outcome, Died) or attempt.phase in ("prepare", "probe"):  # the send is still to be survived
            return outcome
        self.leave(attempt.claimed.id)
        return outcome

    def leave(self, record: int) -> None:
        self.members.discard(record)
        if not self.members and self._child is not None:
            self._child.close()

    def kill(self) -> None:
        if self._child is not None:
            self._child.kill()


class Inquest:
    """Claims suspects and runs them in groups, in the worker's slots like all other records."""

    def __init__(self, worker: Worker, assignment: Assignment | None, value_of: Callable[[Attempt], str]):
        self.starts = Starts(assignment, worker.budgets) if assignment is not None else None
        self.value_of = value_of
        self._worker = worker
        self._groups: set[Group] = set()
        self._task: asyncio.Task[None] | None = None
        worker.endings.on_died = self.died
        worker.on_suspects = self._take_in

    @property
    def is_busy(self) -> bool:
        return self._task is not None and not self._task.done()

    def begin(self) -> None:
        """Take up waiting suspects, unless that is under way."""
        if (
            not self.is_busy
            and not self._worker.stopping
            and not self._worker.share.is_begun
            and self._worker.may_claim()
        ):
            self._task = spawn(self._claim())
            self._task.add_done_callback(self._claimed)

    def _claimed(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and (error := task.exception()) is not None:
            self._worker.fault(error)

    async def _claim(self) -> None:
        journal = self._worker.journal
        assert journal is not None
        wish = ClaimWish(
            AT_ONCE,
            CLAIM_BYTES,
            start=False,
            suspects=True,
            effects=self._worker.has_effects,
            gates=self._worker.admission.wish(AT_ONCE),
        )
        asked = journal.ask(lambda store: store.write(journal.run, Batch(wishes=[wish])))
        outcome = await asyncio.wrap_future(asked)
        claimed: list[Claimed] = outcome.claimed[0]
        self._worker.tally.claimed(len(claimed))
        attempts = [Attempt(self._worker.plan, one, started=False) for one in claimed]
        if self.starts is None:
            await self._one_by_one(attempts)
            return
        self._give_homes(attempts)
        for attempt in attempts:
            self._worker.adopt(attempt)

    def _take_in(self, attempts: list[Attempt]) -> None:
        """Suspects that were claimed among others, since what became of their effects is open. To try one costs the
        time that its send may take to land, so that a run may not get to the end of halving: they begin in several
        groups, of which one has the guilty. In a notebook they have no child to go to."""
        if self.starts is None:
            return
        new = []
        for attempt in attempts:
            record = attempt.claimed.id
            attempt.home = next((one for one in self._groups if one.is_part and record in one.members), None)
            if attempt.home is None:
                new.append(attempt)
        self._give_homes(new, GROUPS_OF_OPEN)

    def _give_homes(self, attempts: list[Attempt], groups: int = 1) -> None:
        """Those of which a death alone is known are alone again, the others together, in so many groups at most."""
        together = [attempt for attempt in attempts if not attempt.claimed.solo_deaths]
        size = max(-(-len(together) // groups), 1)
        parts = [together[start : start + size] for start in range(0, len(together), size)]
        for part in [[attempt] for attempt in attempts if attempt.claimed.solo_deaths] + parts:
            self._form(part)

    async def _one_by_one(self, attempts: list[Attempt]) -> None:
        """A job in a notebook cannot be loaded by a child: its suspects run here, one at a time."""
        for attempt in attempts:
            hold = attempt.claimed.id, attempt.claimed.fence
            self._worker.adopt(attempt)
            while hold in self._worker.held and self._worker.error is None:
                await asyncio.sleep(0.02)

    def _form(self, attempts: list[Attempt]) -> None:
        assert self.starts is not None
        group = Group(tuple(attempt.claimed.id for attempt in attempts), self, self.starts)
        self._groups.add(group)
        for attempt in attempts:
            attempt.home = group

    def died(self, attempt: Attempt, died: Died) -> bool:
        """A call ended with its process. True: the inquest goes on with the record."""
        group = attempt.home
        if not isinstance(group, Group):
            return died.survived and self._ran_short(attempt, died)
        record = attempt.claimed.id
        if group.alone:
            self._worker.endings.died_alone(attempt, died)
            return True
        group.leave(record)
        for half in halves(died.beside):
            if record in half:
                attempt.home = self._half(tuple(half), group)
        self._worker.submit(attempt.not_started_after_all())
        return True

    def _ran_short(self, attempt: Attempt, died: Died) -> bool:
        """Memory ran out in this process, maybe for the sake of others: the record goes back as after a death, and is
        a suspect after the second. False where it was alone: in a process of its own, or as a suspect in a notebook."""
        step, claimed = attempt.step, attempt.claimed
        assert step is not None
        if step.process or is_suspect(claimed.deaths, claimed.solo_deaths):
            return False
        claimed.deaths += 1
        fact = attempt.given_back("out of memory")
        failure = died.failure()
        fact.failure = Failure(
            step.name, step.version, failure.kind, failure.error_type, failure.message, attempt.attempts
        )
        if fact.hold is None:
            fact.not_before = time.time() + step.retry.base
        self._worker.submit(fact)
        return True

    def _half(self, records: tuple[int, ...], beside: Group) -> Group:
        """The group of these records, made when the first of them arrives."""
        for group in self._groups:
            if group.records == records and group is not beside:
                return group
        group = Group(records, self, beside.starts, is_part=True)
        self._groups.add(group)
        return group

    def kill(self) -> None:
        for group in self._groups:
            group.kill()

    async def close(self) -> None:
        """End the children that are left."""
        await end_all([group.child for group in self._groups if group.child is not None])
