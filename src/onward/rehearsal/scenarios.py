"""The processes of a rehearsal: one run that nobody disturbs, and for each of its boundaries one that dies there and is
resumed to its end, each scenario on a store of its own."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path

from onward.rehearsal.assignment import SAID, STORE, TRACE, Assignment
from onward.rehearsal.processes import Processes
from onward.rehearsal.trace import Event, read

MOST_KILLS = 250
SHORT_WAIT = 1.0
LONGEST_RUN = 300.0
END_WITHIN = 30.0
LAST_WORDS = 500


@dataclass(slots=True)
class Scenario:
    """One store and what happened on it. `at`: the point to die at, in the words of `death`; `place`: in words for
    people. `broke`: how a process ended that was neither killed on purpose nor came to its end; `hangs`: it had to be
    ended."""

    number: int
    at: str | None
    place: str = ""
    runs: int = 0
    broke: str | None = None
    hangs: bool = False
    events: list[Event] = field(default_factory=list)

    @property
    def killed(self) -> bool:
        return any(event["what"] == "killed" for event in self.events)

    @property
    def ended(self) -> Event | None:
        """What the last run said at its end; None where it did not come to it."""
        last = self.events[-1] if self.events else None
        return last if last is not None and last["what"] == "ended" else None


class Stage:
    """Where scenarios are played. `told` hears how many of how many are over. Times in seconds."""

    def __init__(self, processes: Processes, common: Assignment, told: Callable[[int, int], None]):
        self._processes = processes
        self._common = common
        self._told = told
        self._over = 0

    async def undisturbed(self) -> Scenario:
        """The first run."""
        scenario = Scenario(0, None)
        await self._process(scenario, self._common.wait)
        return scenario

    async def killed(self, points: list[tuple[str, str]]) -> list[Scenario]:
        """A scenario for each point and its place in words."""
        scenarios = [Scenario(number, at, place) for number, (at, place) in enumerate(points, 1)]
        async with asyncio.TaskGroup() as group:
            for scenario in scenarios:
                group.create_task(self._play(scenario, len(scenarios)))
        return scenarios

    async def _play(self, scenario: Scenario, number: int) -> None:
        await self._process(scenario, self._common.wait)
        until = time.time() + self._common.wait
        while scenario.broke is None:
            due = 0.0 if scenario.ended is None else _due(scenario.ended)
            if due is None or due > until:
                break
            await asyncio.sleep(max(due - time.time(), 0.0))
            await self._process(scenario, SHORT_WAIT)
        for file in self._folder(scenario).glob(f"{STORE}*"):
            file.unlink()
        self._over += 1
        self._told(self._over, number)

    def _folder(self, scenario: Scenario) -> Path:
        return Path(self._common.folder) / str(scenario.number)

    async def _process(self, scenario: Scenario, wait: float) -> None:
        """One run of the scenario, to its end or to its death."""
        folder = self._folder(scenario)
        folder.mkdir(mode=0o700, exist_ok=True)
        assignment = replace(
            self._common,
            folder=str(folder),
            key_prefix=f"{self._common.key_prefix}{scenario.number}-",
            at=None if scenario.killed else scenario.at,
            wait=wait,
            longest=LONGEST_RUN + wait,
        )
        code = await self._processes.run(assignment, folder / SAID, assignment.longest + END_WITHIN)
        scenario.runs += 1
        before = len(scenario.events)
        scenario.events = read(folder / TRACE)
        last = scenario.events[-1]["what"] if len(scenario.events) > before else None
        if last not in ("ended", "killed"):
            scenario.hangs = code is None
            scenario.broke = "it did not end" if code is None else f"{_how(code)}{_last_words(folder / SAID)}"


def _due(ended: Event) -> float | None:
    """When the first record is asked about again (UTC seconds); None where nothing more comes by itself."""
    waits = [one["until"] for one in ended.get("open", []) if one["state"] == "unconfirmed" and one["until"]]
    return min(waits, default=None)


def _how(code: int) -> str:
    return f"it was ended by signal {-code}" if code < 0 else f"it ended with exit code {code}"


def _last_words(said: Path) -> str:
    words = said.read_text("utf-8", "replace")[-LAST_WORDS:].strip() if said.exists() else ""
    return f" ({words.splitlines()[-1]})" if words else ""


def points_of(events: list[Event]) -> list[tuple[str, str]]:
    """Where a run can be killed, in the order in which it came there: after each commit, before that of a pure step's
    checkpoint, and before and after each call of an effect; with the place in words."""
    found = []
    for event in events:
        if event["what"] in ("coming", "commit"):
            side = "before" if event["what"] == "coming" else "after"
            found.append((event["points"][0], f"{side} the commit of {event['of']}"))
        elif event["what"] in ("call", "back") and event["point"]:
            side = "before" if event["what"] == "call" else "after"
            call = "was sent" if event["phase"] == "send" else f"asked its {event['phase']}"
            found.append((f"{side} {event['point']}", f"{side} {event['step']} {call}"))
    return found
