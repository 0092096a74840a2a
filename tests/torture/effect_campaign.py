"""Effects against a registry that misbehaves, by processes that die around each commit: all is judged from its log.

    python tests/torture/effect_campaign.py --effects 51000 --records 100 --seed 0 [--ledger FILE] [--store postgresql]

Every seed has a habit of the registry, a moment of death and an effect's declaration of its own; the first
`PAIRS` seeds go through all pairs of the first two. In later ones there may be a second run beside
the first, and a process may be put to sleep, overtaken and woken again. The ledger has a line of JSON for each seed;
one with findings is followed by lines of the same seed after their cause was mended.
"""

from __future__ import annotations

import argparse
import contextlib
import io
import json
import os
import re
import shutil
import signal
import sys
import tempfile
import time
import uuid
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TextIO

import psycopg

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))

from helpers import postgres
from onward import api
from onward.cli.main import call
from torture import forked, looking
from torture.effect_scenes import (
    DEADLINE,
    HABITS,
    LANDING,
    RECORDS,
    SETTLE,
    Scene,
    close_registry,
    forget_registry,
    make_scene,
    make_sleeper,
    the_registry,
    write_down,
)
from torture.forked import finish
from torture.registry import Verdict
from victims.crashes import Blow, install

MOST_RUNS = 12
SLEEPS = 1000
SLEEPERS_AT_ONCE, CALLS_AT_ONCE = 5, 2


@dataclass
class Report:
    """One seed's story. `points`: where it was to die; `landed`: how many of these deaths came about.

    `beyond`: applied twice, and longer after it was sent than deadline and settle allow, as by a process that slept in
    between: only the receiver could have stopped that; `requests`: to submit; `found`: what is wrong.
    """

    seed: int
    habit: str
    flavour: str
    points: list[str]
    effects: int = 0
    landed: int = 0
    runs: int = 0
    requests: int = 0
    most_requests: int = 0
    applied: int = 0
    twice: int = 0
    beyond: int = 0
    unconfirmed: int = 0
    seconds: float = 0.0
    exit_code: int | None = None
    found: list[str] = field(default_factory=list)


def try_seed(seed: int, keep: Path | None = None, records: int = RECORDS, server: str = "") -> Report:
    """File, die, resume and judge. `server`: of PostgreSQL, where the store is to lie there."""
    folder = Path(tempfile.mkdtemp(prefix="onward-effects-"))
    with schema_at(server) as url:
        return play(make_scene(seed, folder, the_registry(), records, url), list(HABITS)[seed % len(HABITS)], keep)


@contextlib.contextmanager
def schema_at(server: str) -> Iterator[str]:
    """The address of a schema of its own, which goes again; none without a server."""
    if not server:
        yield ""
        return
    schema = f"onward_{uuid.uuid4().hex[:12]}"
    try:
        yield f"{server}{'&' if '?' in server else '?'}schema={schema}"
    finally:
        with psycopg.connect(server, autocommit=True) as own:
            own.execute(f"DROP SCHEMA IF EXISTS {schema} CASCADE".encode())


def try_sleeper(point: str, keep: Path | None = None, records: int = RECORDS, server: str = "") -> Report:
    """File, sleep at this point past the lease, be overtaken, wake, and judge."""
    folder = Path(tempfile.mkdtemp(prefix="onward-effects-"))
    with schema_at(server) as url:
        return play(make_sleeper(point, folder, the_registry(), records, url), "sleeps", keep)


def play(scene: Scene, name: str, keep: Path | None) -> Report:
    began, folder = time.monotonic(), scene.folder
    points = [f"{blow.point} ({blow.how})" for blow in scene.blows]
    report = Report(scene.seed, name, scene.spec.flavour, points, scene.records)
    write_down(scene)
    scene.registry.switch(**scene.switches)
    try:
        run_all(scene, report)
        if "late_landing" in scene.switches:
            time.sleep(LANDING)
        report.found += weigh(scene, report)
    except Exception as error:
        report.found.append(f"{type(error).__name__}: {error}")
    report.seconds = round(time.monotonic() - began, 2)
    if report.found and keep is not None:
        kept = keep / folder.name
        shutil.copytree(folder, kept, dirs_exist_ok=True)
        scene.registry.also()
        with contextlib.suppress(OSError):
            shutil.copyfile(scene.registry.book, kept / "registry.db")
            shutil.copyfile(f"{scene.registry.book}-wal", kept / "registry.db-wal")
    shutil.rmtree(folder, ignore_errors=True)
    return report


def run_all(scene: Scene, report: Report) -> None:
    """Run until nothing is left to do, suffering each blow once. What a process that sleeps may be sending is left
    alone beside it: that is for a run after its end."""
    blows = list(scene.blows)
    while report.runs < MOST_RUNS:
        blow = blows.pop(0) if blows else None
        report.exit_code, struck = run_once(scene, report, blow)
        report.landed += struck
        if report.exit_code is None:
            report.found.append(f"run {report.runs} hangs")
            return
        if report.exit_code in (0, 1) and not (struck and blow is not None and blow.how in ("term", "stop")):
            return
        if not struck and report.exit_code != 3:
            report.found.append(f"run {report.runs} ended with {report.exit_code}")
            return
    report.found.append(f"not done after {report.runs} runs")


def run_once(scene: Scene, report: Report, blow: Blow | None) -> tuple[int | None, bool]:
    """A run that suffers the blow, and one beside or after it where the scene wants that; the exit code of the one that
    was not struck, and whether the blow came about."""
    if scene.habit.each_run:
        scene.registry.also(**scene.habit.switches)
    struck = begin(scene, report, blow)
    spared = begin(scene, report) if scene.beside else None
    if blow is not None and blow.how == "stop":
        if (code := until_it_sleeps(struck, Path(blow.mark))) != SLEEPS:
            return code, False
        code = finish(begin(scene, report), scene.patience)
        os.kill(struck, signal.SIGCONT)
        return (None if finish(struck, scene.patience) is None else code), True
    code = finish(struck, scene.patience)
    if spared is not None:
        other = finish(spared, scene.patience)
        code = None if code is None or other is None else other
    return code, blow is not None and Path(blow.mark).exists()


def begin(scene: Scene, report: Report, blow: Blow | None = None) -> int:
    report.runs += 1
    return forked.start(scene.victim, lambda: install(blow))


def until_it_sleeps(pid: int, mark: Path) -> int | None:
    """SLEEPS, or the exit code of a process that ended before; None where it hangs."""
    until = time.monotonic() + forked.PATIENCE
    while time.monotonic() < until:
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            return os.waitstatus_to_exitcode(status)
        if mark.exists():
            return SLEEPS
        time.sleep(0.01)
    return finish(pid, 0.0)


def weigh(scene: Scene, report: Report) -> list[str]:
    """What the registry's log says, and whether the store tells the same."""
    verdicts = {one.obligation: one for one in scene.registry.verdicts(scene.entities)}
    report.requests = sum(one.requests for one in verdicts.values())
    report.most_requests = max((one.requests for one in verdicts.values()), default=0)
    report.applied = sum(one.applied > 0 for one in verdicts.values())
    found = [*twice(scene, report, verdicts), *told_wrongly(scene, report, verdicts)]
    found += looking.contradictions(scene.victim.address)
    said = re.sub(r"calls went on failing \([\w.]+\)", "an outage", scene.victim.said)
    if "Traceback" in said or "Error" in said:
        found.append(f"a run said: {said[-1500:]}")
    return found


def twice(scene: Scene, report: Report, verdicts: dict[str, Verdict]) -> list[str]:
    found = []
    for one in verdicts.values():
        if one.keys > 1:
            found.append(f"{one.obligation} was sent under {one.keys} keys")
        if one.applied > 1 and one.latest > DEADLINE + SETTLE and "keyed" not in scene.spec.flavour:
            report.beyond += 1
        elif one.applied > 1:
            report.twice += 1
            found.append(f"{one.obligation} was applied {one.applied} times ({one.requests} requests)")
    return found


def told_wrongly(scene: Scene, report: Report, verdicts: dict[str, Verdict]) -> list[str]:
    """Where what the store says differs from what the registry has on file."""
    found = []
    status = status_of(scene)
    counts = {state: number for state, number in status["counts"].items() if number}
    done = {"|".join(map(str, one.key)): one.outputs for one in api.results("filings", store=scene.victim.address)}
    report.unconfirmed = counts.get("unconfirmed", 0)
    if counts.get("succeeded", 0) + report.unconfirmed != scene.records:
        found.append(f"counts {counts} of {scene.records} records: {failures_of(scene)}")
    if report.unconfirmed and not scene.may_hold:
        found.append(f"{report.unconfirmed} left unconfirmed: {failures_of(scene)}")
    if report.exit_code != (1 if report.unconfirmed else 0):
        found.append(f"exit code {report.exit_code} with {counts}")
    for obligation, outputs in done.items():
        verdict = verdicts.get(obligation)
        if verdict is None or not verdict.applied:
            found.append(f"{obligation} counts as done and was never applied")
        elif "confirm" in scene.spec.flavour and not verdict.acknowledged:
            found.append(f"{obligation} counts as done and was never acknowledged as it should be")
        elif outputs["submit"]["number"] not in verdict.numbers:
            found.append(f"{obligation} has the receipt {outputs['submit']}, on file is {verdict.numbers}")
    return found


def status_of(scene: Scene) -> dict[str, Any]:
    """What `onward status --json` says."""
    told = io.StringIO()
    with contextlib.redirect_stdout(told):
        code = call(["status", "--store", scene.victim.address, "--job", "filings", "--json"])
    if code:
        raise AssertionError(f"status ended with {code}")
    found: dict[str, Any] = json.loads(told.getvalue())
    return found


def failures_of(scene: Scene) -> str:
    found = list(api.failures("filings", store=scene.victim.address))
    return json.dumps(found, default=str)[:600]


def campaign(
    effects: int,
    seed: int,
    workers: int,
    keep: Path | None,
    ledger: TextIO | None,
    tell: Callable[[Report], None] = lambda report: None,
    records: int = RECORDS,
    server: str = "",
) -> list[Report]:
    """Seeds from `seed` on until so many effects have been filed. Most of the time is waiting: workers may be many."""
    reports: list[Report] = []
    started = 0
    with ProcessPoolExecutor(workers) as pool:
        waiting: set[Future[Report]] = set()
        while started < effects or waiting:
            while started < effects and len(waiting) < workers:
                waiting.add(pool.submit(try_seed, seed, keep, records, server))
                seed, started = seed + 1, started + records
            done, waiting = wait(waiting, return_when=FIRST_COMPLETED)
            for future in done:
                reports.append(future.result())
                tell(reports[-1])
                if ledger is not None:
                    ledger.write(json.dumps(asdict(reports[-1])) + "\n")
                    ledger.flush()
        for _ in range(workers):
            pool.submit(close_registry)
    return reports


def sleepers(points: Sequence[str], server: str, keep: Path | None = None, records: int = 6) -> list[Report]:
    """A scene for each point of an effect's course, some at once: most of the time is waiting."""
    with ProcessPoolExecutor(SLEEPERS_AT_ONCE, initializer=forget_registry) as pool:
        playing = [pool.submit(try_sleeper, point, keep, records, server) for point in points]
        reports = [one.result() for one in playing]
        for _ in range(SLEEPERS_AT_ONCE):
            pool.submit(close_registry)
    return reports


def verdict(reports: list[Report]) -> list[str]:
    """Everything found, and whether the campaign as a whole is worth anything."""
    found = [
        f"seed {one.seed} ({one.habit}, {one.flavour}, {one.points}): {what}" for one in reports for what in one.found
    ]
    landed = sum(one.landed > 0 for one in reports)
    if landed < 0.9 * len(reports):
        found.append(f"only {landed} of {len(reports)} first deaths came about")
    return found


def summary(reports: list[Report], seconds: float) -> str:
    effects = sum(one.effects for one in reports)
    requests = sum(one.requests for one in reports)
    most = Counter(one.most_requests for one in reports)
    return (
        f"{effects} effects in {len(reports)} scenes, {sum(one.landed for one in reports)} deaths: "
        f"{sum(one.applied for one in reports)} applied, {sum(one.twice for one in reports)} twice "
        f"({sum(one.beyond for one in reports)} beyond deadline and settle), "
        f"{sum(one.unconfirmed for one in reports)} left to a person; "
        f"{requests / max(effects, 1):.2f} requests an effect (most: {max(most, default=0)}); "
        f"{sum(bool(one.found) for one in reports)} scenes with findings, {seconds:.0f} s"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--effects", type=int, default=3000)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--records", type=int, default=RECORDS, help="in each scene")
    parser.add_argument("--workers", type=int, default=5 * (os.cpu_count() or 2))
    parser.add_argument("--ledger", type=Path)
    parser.add_argument("--keep", type=Path, help="where folders of scenes with findings are kept")
    parser.add_argument("--only", type=int, help="this one seed")
    parser.add_argument("--store", choices=["sqlite", "postgresql"], default="sqlite")
    options = parser.parse_args()
    with postgres.database() if options.store == "postgresql" else contextlib.nullcontext("") as server:
        return _tried(options, server)


def _tried(options: argparse.Namespace, server: str) -> int:
    began = time.monotonic()
    if options.only is not None:
        reports = [try_seed(options.only, options.keep, options.records, server)]
        print(json.dumps(asdict(reports[0]), indent=1))
        close_registry()
    else:
        ledger = options.ledger.open("a") if options.ledger else None
        reports = campaign(
            options.effects, options.seed, options.workers, options.keep, ledger, records=options.records, server=server
        )
    print(summary(reports, time.monotonic() - began))
    found = verdict(reports) if options.only is None else reports[0].found
    for what in found:
        print(what)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
