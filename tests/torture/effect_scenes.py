"""The scenes of the effect campaign: a habit of the registry, moments of death and an effect's declaration, by seed."""

from __future__ import annotations

import asyncio
import json
import random
import shutil
import tempfile
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, NamedTuple

import httpx
from pydantic import TypeAdapter

from torture import forked
from torture.registry import Registry
from victims.crashes import CALLS, Blow
from victims.filings import IDENTITY, Filing, Receipt, Spec

RECORDS = 20
DEADLINE, SETTLE = 1.5, 1.0
LANDING = 1.4
PLACES = ("US-CA", "US-DE", "US-NV", "US-NY", "US-TX")
ALWAYS = 1000
SHORT_LEASE, SHORTER_LEASE = "4", "2"


class Habit(NamedTuple):
    """What the registry does wrong, and to which declarations. `each_run`: switched on again when a run starts.

    `for_a_person`: flavours of which some effects may end unconfirmed.
    """

    switches: dict[str, Any]
    flavours: tuple[str, ...]
    for_a_person: tuple[str, ...] = ("confirm",)
    each_run: bool = False


ASKABLE = ("probe confirm", "probe", "keyed confirm", "keyed", "keyed probe confirm")
ALL = (*ASKABLE, "confirm")
PROBED = ("probe confirm", "probe")
KEYED = ("keyed confirm", "keyed", "keyed probe confirm")
HABITS = {
    "late landing": Habit({"late_landing": [0.5, 1], "landing_after": LANDING}, ASKABLE),
    "slow reply": Habit({"slow_reply": [0.4, 1], "reply_after": 2.2}, ALL),
    "reset after apply": Habit({"reset_after_apply": [0.4, 2]}, ALL),
    "reset before apply": Habit({"reset_before_apply": [0.4, 2]}, ALL),
    "500 after apply": Habit({"error_after_apply": [0.4, 2]}, ALL),
    "truncated reply": Habit({"truncated_reply": [0.4, 2]}, ALL),
    "409 on re-send": Habit({"reset_after_apply": [0.4, 1], "conflict_on_resend": [1.0, 1]}, KEYED),
    "409 for ever": Habit({"reset_after_apply": [0.4, 1], "conflict_on_resend": [1.0, ALWAYS]}, KEYED, KEYED),
    "429 in seconds": Habit({"throttle": [0.5, 2], "retry_after": 1}, ALL),
    "429 as a date": Habit({"throttle": [0.5, 1], "retry_after": 1, "retry_after_form": "date"}, ALL),
    "lookup lags": Habit({"lookup_lag": 0.8, "reset_after_apply": [0.4, 1]}, PROBED),
    "lookup errors": Habit({"lookup_error": [0.6, 1], "reset_after_apply": [0.4, 1]}, PROBED),
    "wrong fee": Habit(
        {"wrong_fee": [0.2, ALWAYS]}, ("probe confirm", "keyed confirm"), ("probe confirm", "keyed confirm")
    ),
    "slow acknowledgement": Habit({"acknowledged_after": 1.5}, ("probe confirm", "keyed confirm", "confirm")),
    "outage": Habit({"outage": 2.5}, ASKABLE, each_run=True),
    "closed hours": Habit({"closed": {"US-CA": 4, "US-NY": 2}}, ASKABLE),
    "short memory": Habit({"reset_after_apply": [0.6, 3]}, KEYED, ("keyed confirm", "keyed")),
}
POINTS = (
    *(
        f"{side} {commit}"
        for commit in ("intent", "receipt", "confirmation", "unknown")
        for side in ("before", "after")
    ),
    "sending",
    "answered",
)
PAIRS = len(HABITS) * len(POINTS)
OTHER_POINTS = tuple(f"{side} {commit}" for commit in ("absent", "intent again") for side in ("before", "after"))


@dataclass(frozen=True)
class Scene:
    """A seed's folder, job, registry habits and blows."""

    seed: int
    folder: Path
    registry: Registry
    spec: Spec
    habit: Habit
    switches: dict[str, Any]
    blows: tuple[Blow, ...]
    records: int
    beside: bool
    url: str = ""
    """Of a store on PostgreSQL; elsewhere it is a file in the folder."""

    @property
    def victim(self) -> forked.Victim:
        environment = {"VICTIM_SPEC": str(self.folder / "spec.json")}
        if self.url:  # only its lease tells that a run has died
            environment["ONWARD_LEASE"] = SHORTER_LEASE
        elif any(blow.how == "stop" for blow in self.blows):
            environment["ONWARD_LEASE"] = SHORT_LEASE
        return forked.Victim(forked.VICTIMS / "filings.py", "filings", self.folder, environment, url=self.url)

    @property
    def entities(self) -> str:
        return f"seed{self.seed}-{self.folder.name}-"

    @property
    def patience(self) -> float:
        """Seconds after which a run hangs: slow replies come one after the other where few calls are made at once."""
        return forked.PATIENCE + 1.5 * self.records

    @property
    def may_hold(self) -> bool:
        """Whether effects may be left to a person."""
        return self.spec.flavour in self.habit.for_a_person or self.spec.flavour == "confirm"


def make_scene(seed: int, folder: Path, registry: Registry, records: int = RECORDS, url: str = "") -> Scene:
    """What a seed stands for. `url`: of a store on PostgreSQL."""
    draw = random.Random(seed)
    name = list(HABITS)[seed % len(HABITS)]
    habit, point = HABITS[name], POINTS[seed // len(HABITS) % len(POINTS)]
    flavour = draw.choice(habit.flavours)
    switches = {**habit.switches, "seed": seed, "dedupe_window": 3600.0 if "keyed" in flavour else 0.0}
    expires = None
    if name == "short memory":
        switches["dedupe_window"] = 6.0
        expires = 6.0 - DEADLINE - SETTLE
    if point.endswith("unknown") and not any(where in switches for where in ("late_landing", "slow_reply", "outage")):
        switches.setdefault("reset_after_apply", [0.4, 1])
    points = [point]
    while draw.random() < 0.3 and len(points) < 3:
        points.append(draw.choice((*POINTS, *OTHER_POINTS)))
    beside = seed >= PAIRS and draw.random() < 0.2
    ways = ("kill", "exit", "term", "stop") if seed >= PAIRS and not beside else ("kill", "exit", "term")
    blows = tuple(
        Blow(
            point,
            nth=draw.choice((1, 1, 2, 3)) if " " in point else draw.randint(1, records // 3),
            how=draw.choices(ways, (5, 5, 1, 3)[: len(ways)])[0],
            mark=str(folder / f"struck-{number}"),
        )
        for number, point in enumerate(points)
    )
    pace = draw.choice((0.0, 0.0, 0.3))
    spec = Spec(
        registry=registry.url,
        client=draw.choice(("onward", "httpx")),
        input=str(folder / "due.jsonl"),
        flavour=flavour,
        concurrency=draw.choice((2, 4)) if pace else draw.choice((2, 4, 8, 16)),
        pace=pace,
        deadline=DEADLINE,
        settle=SETTLE,
        expires=expires,
        confirm_within=6.0 if name == "409 for ever" else 3600.0,
    )
    if not url:
        # Elsewhere the journal's thread might be in the middle of a commit: asleep, it would keep a file to itself.
        is_apt = [blow.point not in CALLS or blow.how != "stop" for blow in blows]
        blows = tuple(blow if apt else replace(blow, how="kill") for blow, apt in zip(blows, is_apt, strict=True))
    return Scene(seed, folder, registry, spec, habit, switches, blows, records, beside, url)


HABIT_FOR = {
    "unknown": ("reset after apply", {"reset_after_apply": [1.0, 1]}),
    "absent": ("429 in seconds", {"throttle": [1.0, 1]}),
    "intent again": ("reset before apply", {"reset_before_apply": [1.0, 1]}),
}
"""Habits that surely bring a course to such a point."""


def make_sleeper(point: str, folder: Path, registry: Registry, records: int = RECORDS, url: str = "") -> Scene:
    """One that sleeps at the point past its lease, is overtaken, and wakes."""
    name, surely = HABIT_FOR.get(point.partition(" ")[2], ("slow acknowledgement", {}))
    seed = list(HABITS).index(name)
    scene = make_scene(seed, folder, registry, records, url)
    flavour = "probe confirm" if "probe confirm" in scene.habit.flavours else "probe"
    blow = Blow(point, nth=1, how="stop", mark=str(folder / "struck-0"))
    switches = {**scene.switches, **surely, "dedupe_window": 0.0}
    spec = replace(scene.spec, flavour=flavour, concurrency=2, pace=0.0)
    return replace(scene, spec=spec, switches=switches, blows=(blow,), beside=False)


def write_down(scene: Scene) -> None:
    (scene.folder / "spec.json").write_text(json.dumps(asdict(scene.spec)))
    with (scene.folder / "due.jsonl").open("w") as lines:
        for number in range(scene.records):
            place = PLACES[number % len(PLACES)]
            values = (f"{scene.entities}{number}", place, "annual-report", 2025)
            lines.write(json.dumps({**dict(zip(IDENTITY, values, strict=True)), "fee": 20 + number}) + "\n")


_registry: list[Registry] = []


def the_registry() -> Registry:
    """This process's own; it stays for all seeds that are tried here."""
    if not _registry:
        folder = Path(tempfile.mkdtemp(prefix="onward-registry-"))
        _registry.append(Registry(folder / "registry.db"))
        asyncio.run(_warm(_registry[0].url))
    return _registry[0]


async def _warm(url: str) -> None:
    """Load what every forked victim would load otherwise."""
    TypeAdapter(Filing), TypeAdapter(Receipt)
    async with httpx.AsyncClient(base_url=url) as client:
        await client.get("/switches")


def forget_registry() -> None:
    """In a process that was just forked: that of its parent is not its own."""
    _registry.clear()


def close_registry() -> None:
    while _registry:
        registry = _registry.pop()
        registry.close()
        shutil.rmtree(registry.book.parent, ignore_errors=True)
