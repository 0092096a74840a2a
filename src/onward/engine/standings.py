"""What keeps gates shut, as people hear of it: pauses, hours and outages; and whether a run stays for what is left."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence

from onward.engine.events import Events
from onward.engine.gates.gates import Gate, Shut
from onward.engine.journal import Journal
from onward.engine.worker import Worker
from onward.ports.work import GateStanding, Pause

MOST_NAMED = 3
ASK_AGAIN = 0.5


class Standings:
    """Watches the gates of one run."""

    def __init__(self, run: int, worker: Worker, journal: Journal, events: Events):
        self._run = run
        self._worker = worker
        self._journal = journal
        self._events = events
        self._noted: list[GateStanding] = []
        self._told: list[tuple[str, str]] = []
        self._by_people: set[Gate] = set()
        self._unspoken: set[Gate] = set()
        self._not_before = 0.0
        self.until: float | None = None
        self.is_paused = False
        self.reason = ""
        self.paused: tuple[str | None, ...] = ()

    def look_around(self) -> None:
        """A few times a second: gates that open or shut by themselves, faults that nothing has explained."""
        self._worker.causes.look_around()
        for gate, shut in self._worker.admission.look_around():
            if gate.asked_until and shut is not None and not shut.lasting and not gate.outage.is_on:
                self._unspoken.add(gate)  # that is waited out without a word
            elif gate in self._unspoken:
                self._unspoken.discard(gate)
            else:
                self._tell(gate, shut)

    def _tell(self, gate: Gate, shut: Shut | None) -> None:
        event = "run_resumed" if shut is None else "run_paused"
        reason = f"{gate.title} is open" if shut is None else shut.reason
        where = {"group": gate.group} if gate.group is not None else {}
        self._events.emit(event, reason=reason, until=None if shut is None else shut.until, **where)
        if shut is not None and gate.pause is not None:
            self._by_people.add(gate)  # what a person said is in the history already
        elif gate in self._by_people:
            self._by_people.discard(gate)
        else:
            self._told.append((event, reason))

    def hear(self, pauses: Sequence[Pause]) -> None:
        """What people have paused by now."""
        admission = self._worker.admission
        whole = next((pause for pause in pauses if pause.group is None), None)
        admission.gates.paused({pause.group: pause for pause in pauses if pause.group is not None})
        if (whole is None) == (admission.pause is None):
            return
        admission.pause = whole
        if whole is None:
            self._events.emit("run_resumed", reason="the job goes on")
            self._worker.dry = False
            self._worker.claim_more()
        else:
            self._events.emit("run_paused", reason=str(whole))
            self._worker.give_back_uncalled("the job is paused")

    async def note(self) -> None:
        """Say in the store what is shut, where that has changed."""
        standings = self._worker.admission.standings()
        if standings == self._noted and not self._told:
            return
        self._noted, told, self._told = standings, self._told, []
        await asyncio.wrap_future(self._journal.ask(lambda store: store.note_gates(self._run, standings, told)))

    async def keep_all(self, only: Sequence[int] | None = None) -> bool:
        """Whether all that is left waits at gates that this run does not stay for; `until` and `is_paused` then say for
        how long, `reason` why, `paused` which pauses it is, where it is nothing else."""
        admission = self._worker.admission
        if time.monotonic() < self._not_before:
            return False
        waiting = await asyncio.wrap_future(self._journal.ask(lambda store: store.waiting_by_gate(self._run, only)))
        self.until, self.is_paused, self.reason, self.paused = None, admission.pause is not None, "", ()
        if admission.pause is not None:
            self.reason, self.paused = str(admission.pause), (None,)
            return True
        lasting = admission.lasting()
        if any(gate is not None for gate in waiting):
            admission.at_gates = True  # be it another run that has put them there
        kept = [lasting[gate] for gate in waiting if gate in lasting]
        if len(kept) < len(waiting):
            self._not_before = time.monotonic() + ASK_AGAIN
            if admission.at_gates:
                self._worker.dry = False
            return False
        self.until = min((shut.until for shut in kept if shut.until is not None), default=None)
        self.is_paused = any(shut.may_end for shut in kept)
        if all(shut.may_end for shut in kept):
            gates = (admission.gates.by_key.get(key) for key in waiting if key is not None)
            self.paused = tuple(sorted({gate.group for gate in gates if gate is not None and gate.group is not None}))
        reasons = sorted({_said(shut) for shut in kept})
        more = f", and {len(reasons) - MOST_NAMED} more" if len(reasons) > MOST_NAMED else ""
        self.reason = "; ".join(reasons[:MOST_NAMED]) + more
        return True

    async def answers_due(self, wait_ends: float, only: Sequence[int] | None = None) -> tuple[float | None, bool]:
        """When the first of what is unconfirmed may be asked about (UTC seconds), be it that its gate has to open
        before; None where nothing is stayed for. And whether an outage is in the way, which is always waited for.

        `wait_ends`: until when what may go on at any time is waited for.
        """
        by_gate = await asyncio.wrap_future(self._journal.ask(lambda store: store.answers_by_gate(self._run, only)))
        admission, now = self._worker.admission, time.time()
        while_paused = now if now < wait_ends else None
        if admission.pause is not None:
            return (while_paused if by_gate else None), False
        found: list[float | None] = []
        in_outage = False
        for key, due in by_gate.items():
            gate = None if key is None else admission.gates.by_key.get(key)
            shut = None if gate is None else gate.shut(now)
            if shut is None:
                found.append(due)
            elif shut.lasting:
                found.append(while_paused if shut.may_end else shut.until and max(shut.until, due))
            else:
                in_outage = True
                found.append(now)
        return min((one for one in found if one is not None), default=None), in_outage


def _said(shut: Shut) -> str:
    if shut.until is None:
        return shut.reason
    return f"{shut.reason} until {time.strftime('%Y-%m-%d %H:%M', time.gmtime(shut.until))} UTC"
