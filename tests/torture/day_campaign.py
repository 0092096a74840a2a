"""Bad days of a PostgreSQL server, and of the runs on it, while effects are under way: judged from the far side's log.

    python tests/torture/day_campaign.py --scenes 200 --seed 0 [--ledger FILE] [--only SEED] [--away 60]

A seed has a kind of day, runs that share a job, a declaration of its effect and habits of the registry. Whatever
happens, each filing is applied once; runs go on, or end as the contract says and in plain words; the next run finishes.
The ledger has a line of JSON for each scene; one with findings is followed by one of the same seed after their cause
was mended.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TextIO

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))

from helpers import postgres
from torture import effect_campaign, forked
from torture.day_events import DAYS, MEMORY, Day, Runs
from torture.effect_scenes import DEADLINE, SETTLE, Scene, close_registry, the_registry, write_down
from victims.filings import Spec

MOST_RUNS = 12
PATIENCE = 150.0
FLAVOURS = ("keyed confirm", "probe confirm", "probe", "keyed")
HABITS: dict[str, dict[str, Any]] = {
    "none": {},
    "reset after apply": {"reset_after_apply": [0.3, 1]},
    "slow reply": {"slow_reply": [0.3, 1], "reply_after": 0.8},
    "429": {"throttle": [0.3, 1], "retry_after": 1},
}


@dataclass
class Report(effect_campaign.Report):
    """`acts`: faults that were inflicted; `busy`: those of them that met a run at work."""

    workers: int = 1
    acts: int = 0
    busy: int = 0


def make_scene(seed: int, folder: Path, server: postgres.Server, records: int, away: float | None) -> tuple[Scene, Day]:
    draw = random.Random(seed)
    kind = list(DAYS)[seed % len(DAYS)]
    day = DAYS[kind](draw, server, folder, away)
    flavour = "keyed probe confirm" if kind == "clock" else draw.choice(FLAVOURS)
    habit = "reset after apply" if kind == "clock" else draw.choice(list(HABITS))
    memory = MEMORY if kind == "clock" else 3600.0
    records = records or 16 + 12 * day.runs
    registry = the_registry()
    spec = Spec(
        registry=registry.url,
        client="onward",
        input=str(folder / "due.jsonl"),
        flavour=flavour,
        concurrency=2,
        pace=draw.choice((0.2, 0.3)),
        deadline=DEADLINE,
        settle=SETTLE,
        expires=MEMORY - DEADLINE - SETTLE if kind == "clock" else None,
        confirm_within=3600.0,
    )
    switches = {**HABITS[habit], "seed": seed, "dedupe_window": memory if "keyed" in flavour else 0.0}
    url = f"{day.url}?schema=onward_day_{seed}_{os.getpid()}"
    scene = Scene(seed, folder, registry, spec, _NO_HABIT, switches, (), records, False, url)
    return scene, day


_NO_HABIT = effect_campaign.HABITS["slow reply"]._replace(switches={}, for_a_person=())


def try_seed(
    seed: int, server: postgres.Server, keep: Path | None = None, records: int = 0, away: float | None = None
) -> Report:
    """One day, to its end and judged; `records` 0: as many as give its runs something to do for some seconds."""
    began = time.monotonic()
    folder = Path(tempfile.mkdtemp(prefix="onward-days-"))
    scene, day = make_scene(seed, folder, server, records, away)
    report = Report(seed, list(DAYS)[seed % len(DAYS)], scene.spec.flavour, [], scene.records, workers=day.runs)
    write_down(scene)
    scene.registry.switch(**scene.switches)
    try:
        day.prepare(scene.url)
        live_through(scene, day, report)
        report.found += effect_campaign.weigh(scene, report)
        report.found += day.verdict()
    except Exception as error:
        report.found.append(f"{type(error).__name__}: {error}")
    finally:
        day.close()
        report.acts, report.busy = day.acts, day.busy
    report.seconds = round(time.monotonic() - began, 2)
    if report.found and keep is not None:
        shutil.copytree(folder, keep / str(seed), dirs_exist_ok=True)
    shutil.rmtree(folder, ignore_errors=True)
    with contextlib.suppress(Exception):
        server.execute(f'DROP SCHEMA IF EXISTS "{scene.url.partition("schema=")[2]}" CASCADE')
    return report


def live_through(scene: Scene, day: Day, report: Report) -> None:
    """All runs of the day and what happens to them, then runs alone until all is done."""
    runs = Runs(scene.victim, day.before)
    for number in range(day.runs):
        runs.start(number)
    until = time.monotonic() + PATIENCE + day.longest_pause
    events, due = day.happen(runs), time.monotonic()
    with contextlib.closing(events):
        while (runs.any_lives() or day.goes_on) and time.monotonic() < until:
            if time.monotonic() >= due:
                due = time.monotonic() + next(events, PATIENCE)
            time.sleep(0.01)
    report.acts, report.busy = day.acts, day.busy
    if runs.any_lives():
        runs.end_all()
        report.found.append("runs hang")
        return
    report.found += [f"a run ended with {code}" for code in runs.codes if code not in day.ends]
    report.exit_code = None
    while runs.started < day.runs + day.more + MOST_RUNS:
        report.exit_code = forked.finish(runs.start_alone(), PATIENCE)
        if report.exit_code in (0, 1, None):
            break
        if report.exit_code != 3:
            report.found.append(f"the run afterwards ended with {report.exit_code}")
            break
    report.runs = runs.started
    report.landed = int(day.acts > 0)


def campaign(
    scenes: int,
    seed: int,
    keep: Path | None = None,
    ledger: TextIO | None = None,
    away: float | None = None,
    until: float | None = None,
) -> list[Report]:
    """Scenes from `seed` on, one after the other, on a server of their own. Raises NoServer."""
    reports: list[Report] = []
    with postgres.server(("deadlock_timeout=20ms",)) as server:
        for number in range(seed, seed + scenes):
            if until is not None and time.time() > until:
                break
            reports.append(try_seed(number, server, keep, away=away))
            if ledger is not None:
                ledger.write(json.dumps(asdict(reports[-1])) + "\n")
                ledger.flush()
    close_registry()
    return reports


def verdict(reports: list[Report]) -> list[str]:
    """Everything found, and whether the campaign as a whole is worth anything."""
    found = [f"seed {one.seed} ({one.habit}, {one.flavour}): {what}" for one in reports for what in one.found]
    acts, busy = sum(one.acts for one in reports), sum(one.busy for one in reports)
    if busy < 0.9 * acts:
        found.append(f"only {busy} of {acts} faults met a run at work")
    found += [f"seed {one.seed} ({one.habit}): nothing happened" for one in reports if not one.acts]
    return found


def summary(reports: list[Report], seconds: float) -> str:
    kinds = Counter(one.habit for one in reports)
    requests = sum(one.requests for one in reports)
    effects = sum(one.effects for one in reports)
    return (
        f"{len(reports)} days ({', '.join(f'{kind} {n}' for kind, n in kinds.items())}), "
        f"{sum(one.acts for one in reports)} faults, {sum(one.runs for one in reports)} runs: {effects} effects, "
        f"{sum(one.applied for one in reports)} applied, {sum(one.twice for one in reports)} twice "
        f"({sum(one.beyond for one in reports)} beyond deadline and settle), {requests / max(effects, 1):.2f} requests "
        f"an effect; {sum(bool(one.found) for one in reports)} days with findings, {seconds:.0f} s"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--scenes", type=int, default=len(DAYS))
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--ledger", type=Path)
    parser.add_argument("--keep", type=Path, help="where folders of scenes with findings are kept")
    parser.add_argument("--only", type=int, help="this one seed")
    parser.add_argument("--away", type=float, help="seconds for which the server is gone")
    parser.add_argument("--seconds", type=float, help="begin no scene after so long")
    options = parser.parse_args()
    began = time.monotonic()
    ledger = options.ledger.open("a") if options.ledger else None
    first, number = (options.seed, options.scenes) if options.only is None else (options.only, 1)
    until = None if options.seconds is None else time.time() + options.seconds
    reports = campaign(number, first, options.keep, ledger, options.away, until)
    if options.only is not None:
        print(json.dumps(asdict(reports[0]), indent=1))
    print(summary(reports, time.monotonic() - began))
    found = verdict(reports)
    for what in found:
        print(what)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
