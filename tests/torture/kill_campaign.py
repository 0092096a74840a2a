"""Random SIGKILLs: jobs of every shape are killed at random moments, run to their end and judged.

    python tests/torture/kill_campaign.py --kills 300 --seed 1 [--ledger FILE]

The same seed makes the same job and the same plan of kills; moments depend on the machine. The ledger has a line of
JSON for each job: its shape, its kills and what was found (nothing, when all is well).
"""

from __future__ import annotations

import argparse
import gzip
import json
import os
import random
import re
import shutil
import signal
import sys
import tempfile
import time
from collections import Counter
from concurrent.futures import FIRST_COMPLETED, Future, ProcessPoolExecutor, wait
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, TextIO

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))

from judge import steplog
from judge.judge import Limits, judge, judge_campaign
from onward import api
from torture import forked, looking
from torture.forked import PATIENCE, finish, read_acks
from victims.campaign import Spec

MAY_WAIT = 1000
"""How many records may wait for their commit, beyond the calls in progress."""


@dataclass
class Report:
    """One job's story. `faults`: (process, moment) of each kill; `found`: what the judge has to say."""

    seed: int
    shape: dict[str, Any]
    kills: int = 0
    busy: float = 1.0
    rework: int = 0
    seconds: float = 0.0
    exit_code: int | None = None
    faults: list[tuple[int, float]] = field(default_factory=list)
    found: list[str] = field(default_factory=list)


@dataclass(frozen=True)
class Blow:
    """One kill: after so many more lines in the step log, and `delay` seconds later. `how`: kill, group or term.

    `beside`: a second run works on the job at the same time and is, or is not (`spare`), the one that is killed.
    """

    after: int
    delay: float
    how: str
    beside: bool = False
    spare: bool = False


def make_spec(seed: int, folder: Path) -> tuple[Spec, list[Blow]]:
    """The job and the kills of a seed."""
    draw = random.Random(seed)
    steps = draw.randint(1, 4)
    how = tuple(draw.choices(("async", "sync"), (3, 2))[0] for _ in range(steps))
    with_processes = draw.random() < 0.04
    if with_processes:
        how = (*how[:-1], "process")
    longest = draw.choice((0.0, 1.0, 5.0, 20.0))
    source = draw.choice(("jsonl", "jsonl", "csv", "iterable", "jsonl.gz"))
    records = draw.randint(30, 80) if with_processes or longest > 5 else draw.randint(40, 240)
    spec = Spec(
        seed=seed,
        records=records,
        source=source,
        how=how,
        waits=tuple(longest * draw.random() for _ in range(steps)),
        concurrency=draw.choice((1, 2, 4, 8, 16, 32, 64)),
        block=draw.choice((2, 5, 20, 1000)),
        input=str(folder / f"input.{source}"),
        log=str(folder / "steps.log"),
    )
    count = draw.randint(2, 8)
    share = records * steps * 2 / (count + 1)
    blows, two_runs = [], draw.random() < 0.15
    for _ in range(count):
        after = 0 if draw.random() < 0.03 else draw.randint(1, max(1, int(share)))
        delay = draw.random() * (0.03 if not after else 0.004)
        how = draw.choices(("kill", "group", "term"), (8, 1, 1))[0]
        blows.append(Blow(after, delay, how, two_runs, draw.random() < 0.5))
    return spec, blows


def write_input(spec: Spec) -> None:
    rows = [{"id": key, "text": f"record {key}"} for key in spec.all_keys()]
    if spec.source == "csv":
        Path(spec.input).write_text("id,text\n" + "".join(f"{row['id']},{row['text']}\n" for row in rows))
        return
    text = "".join(json.dumps(row) + "\n" for row in rows).encode()
    if spec.source == "jsonl.gz":
        text = gzip.compress(text)
    if spec.source != "iterable":
        Path(spec.input).write_bytes(text)


def start(spec: Spec, folder: Path) -> int:
    described = folder / "spec.json"
    if not described.exists():  # a run beside this one may be reading it
        described.write_text(json.dumps(asdict(spec)))
    return forked.start(_victim(folder))


def _victim(folder: Path) -> forked.Victim:
    environment = {"VICTIM_SPEC": str(folder / "spec.json")}
    return forked.Victim(forked.VICTIMS / "campaign.py", "campaign", folder, environment)


class Log:
    """The step log, followed while it grows."""

    def __init__(self, path: str):
        self._path = Path(path)
        self._lines: Counter[int] = Counter()
        self._at = 0

    def lines_of(self, pid: int) -> int:
        """How many lines a run has written so far."""
        try:
            with self._path.open("rb") as file:
                file.seek(self._at)
                new = file.read()
        except FileNotFoundError:
            return 0
        self._at += len(new)
        self._lines.update(int(found) for found in re.findall(rb'"pid":(\d+),', new))
        return self._lines[pid]


def strike(pid: int, blow: Blow, log: Log) -> tuple[float | None, int | None]:
    """Wait for the moment and kill; the moment, or None and the exit code where the run had ended before it."""
    before, until = log.lines_of(pid), time.monotonic() + PATIENCE
    while log.lines_of(pid) < before + blow.after:
        ended, status = os.waitpid(pid, os.WNOHANG)
        if ended:
            return None, os.waitstatus_to_exitcode(status)
        if time.monotonic() > until:
            os.kill(pid, signal.SIGABRT)
            break
        time.sleep(0.0005)
    time.sleep(blow.delay)
    moment = steplog.now()
    if blow.how == "term":
        os.kill(pid, signal.SIGTERM)
        time.sleep(blow.delay)
    (os.killpg if blow.how == "group" else os.kill)(pid, signal.SIGKILL)
    _, status = os.waitpid(pid, 0)
    code = os.waitstatus_to_exitcode(status)
    killed = code == -signal.SIGKILL or (blow.how == "term" and code == -signal.SIGTERM)  # not listening yet
    return (moment, None) if killed else (None, code)


def try_seed(seed: int, keep: Path | None = None) -> Report:
    """Run, kill, resume and judge the job of a seed."""
    began = time.monotonic()
    folder = Path(tempfile.mkdtemp(prefix=f"onward-kill-{seed}-"))
    spec, blows = make_spec(seed, folder)
    shape = {
        "records": spec.records,
        "source": spec.source,
        "how": spec.how,
        "concurrency": spec.concurrency,
        "runs": 2 if blows[0].beside else 1,
    }
    report = Report(seed, shape)
    write_input(spec)
    store, log = folder / "store.db", Log(spec.log)
    code = strike_all(spec, folder, blows, log, report)
    report.kills = len(report.faults)
    last = report.faults[-1][1] if report.faults else steplog.now()
    if code is None or code in (3, 143):
        code = finish(start(spec, folder))
    report.exit_code = code
    finished = None if code is None else steplog.now()
    report.found = weigh(spec, folder, store, report, last, finished)
    report.seconds = round(time.monotonic() - began, 2)
    if report.found and keep is not None:
        shutil.copytree(folder, keep / str(seed), dirs_exist_ok=True)
    shutil.rmtree(folder)
    return report


def strike_all(spec: Spec, folder: Path, blows: list[Blow], log: Log, report: Report) -> int | None:
    """Start and kill, blow by blow; the exit code of a run that ended before its blow, if one did."""
    beside: int | None = None
    code: int | None = None
    for blow in blows:
        if blow.beside and beside is None:
            beside = start(spec, folder)
        pid = start(spec, folder)
        if beside is not None and not blow.spare:
            pid, beside = beside, pid
        moment, code = strike(pid, blow, log)
        if moment is None:
            break
        report.faults.append((pid, moment))
    if beside is not None:
        code = finish(beside) if code is None else max(code, finish(beside) or 0)
    return code


def weigh(spec: Spec, folder: Path, store: Path, report: Report, last: float, finished: float | None) -> list[str]:
    """What the judge says, and what else must hold."""
    entries, faults = steplog.read(spec.log), report.faults
    report.busy = steplog.busy_share(entries, faults)
    undisturbed = undisturbed_lines(spec, folder)
    if report.exit_code not in (0, 1):
        return [f"the last run ended with {report.exit_code}: {_victim(folder).said[-2000:]}"]
    # A run beside another begins after it where it waits for the store until then.
    planned = planned_starts(spec, runs=len(faults) + report.shape["runs"])
    starts = [(entry.key, entry.step) for entry in entries if entry.what == "start"]
    known = {(steplog.key_text(key), step): number for (key, step), number in planned.items()}
    report.rework = len(starts) - sum(min(starts.count(pair), known.get(pair, 1)) for pair in set(starts))
    limits = Limits(
        in_flight=spec.concurrency + MAY_WAIT,
        seconds=PATIENCE,
        finished=finished,
        last_fault=last,
        deaths=len(faults),
        attempts=planned,
        steps=spec.steps,
    )
    found = judge(
        spec.all_keys(),
        entries,
        exported(store, folder),
        undisturbed,
        api.status("campaign", store=str(store)),
        report.exit_code,
        read_acks(_victim(folder).acks),
        limits,
    )
    return [*found, *looking.contradictions(store), *wrongly_ended(spec, store), *unclean(folder)]


def planned_starts(spec: Spec, runs: int) -> dict[tuple[Any, str], int]:
    """Starts that the job itself asks for: flaky steps are tried again, buggy ones in every run."""
    planned = {}
    for key in spec.all_keys():
        for step in spec.steps:
            fate = spec.fate(key, step)
            if fate == "flaky":
                planned[key, step] = spec.failures(key, step) + 1
            elif fate == "bug":
                planned[key, step] = runs
    return planned


def wrongly_ended(spec: Spec, store: Path) -> list[str]:
    """Records that did not end as their steps made them end: above all the innocents in quarantine."""
    fates = {json.dumps(key, ensure_ascii=False): spec.end(key) for key in spec.all_keys()}
    found = []
    for key in looking.keys_in(store, "quarantined"):
        if fates[key] not in ("rejected", "bug"):
            found.append(f"{key} is quarantined and innocent ({fates[key]})")
    for key in looking.keys_in(store, "failed"):
        if fates[key] != "bug":
            found.append(f"{key} failed though its fate is {fates[key]}")
    good = {key for key, fate in fates.items() if fate in ("fine", "done")}
    if missing := good - looking.keys_in(store, "succeeded"):
        found.append(f"{len(missing)} records did not succeed: {sorted(missing)[:5]}")
    return found


def unclean(folder: Path) -> list[str]:
    said = _victim(folder).said
    return [f"a run said: {said[-2000:]}"] if "Traceback" in said or "Error" in said else []


def undisturbed_lines(spec: Spec, folder: Path) -> list[bytes]:
    """What the same job exports when nothing disturbs it."""
    alone = folder / "undisturbed"
    alone.mkdir()
    quick = Spec(
        **{
            **asdict(spec),
            "waits": (0.0,) * len(spec.how),
            "how": tuple("async" if how == "process" else how for how in spec.how),
            "log": str(alone / "steps.log"),
        }
    )
    code = finish(start(quick, alone))
    if code not in (0, 1):
        raise AssertionError(f"seed {spec.seed}: the undisturbed run ended with {code}")
    return exported(alone / "store.db", alone)


def exported(store: Path, folder: Path) -> list[bytes]:
    """The lines of an export."""
    out = folder / "exported.jsonl"
    api.export("campaign", out, store=str(store))
    return out.read_bytes().splitlines()


def campaign(kills: int, seed: int, workers: int, keep: Path | None, ledger: TextIO | None) -> list[Report]:
    """Jobs from `seed` on until so many kills have struck."""
    reports: list[Report] = []
    with ProcessPoolExecutor(workers) as pool:
        waiting: set[Future[Report]] = set()
        while sum(report.kills for report in reports) < kills:
            while len(waiting) < workers:
                waiting.add(pool.submit(try_seed, seed, keep))
                seed += 1
            done, waiting = wait(waiting, return_when=FIRST_COMPLETED)
            reports += [note(future.result(), ledger) for future in done]
        reports += [note(future.result(), ledger) for future in waiting]
    return reports


def note(report: Report, ledger: TextIO | None) -> Report:
    if ledger is not None:
        line = asdict(report)
        del line["faults"]
        ledger.write(json.dumps(line, ensure_ascii=False) + "\n")
        ledger.flush()
    return report


def verdict(reports: list[Report]) -> list[str]:
    """Everything found, and whether the campaign as a whole is worth anything."""
    found = [f"seed {report.seed}: {what}" for report in reports for what in report.found]
    kills = sum(report.kills for report in reports)
    busy = sum(report.busy * report.kills for report in reports) / max(kills, 1)
    return found + judge_campaign(busy, {})


def summary(reports: list[Report], seconds: float) -> str:
    kills = sum(report.kills for report in reports)
    busy = sum(report.busy * report.kills for report in reports) / max(kills, 1)
    rework = sum(report.rework for report in reports)
    return (
        f"{len(reports)} jobs, {kills} kills ({busy:.1%} struck a busy run), {rework} steps made anew, "
        f"{sum(bool(report.found) for report in reports)} jobs with findings, {seconds:.0f} s"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--kills", type=int, default=300)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 2)
    parser.add_argument("--ledger", type=Path)
    parser.add_argument("--keep", type=Path, help="where folders of jobs with findings are kept")
    parser.add_argument("--only", type=int, help="this one seed")
    options = parser.parse_args()
    began = time.monotonic()
    if options.only is not None:
        reports = [try_seed(options.only, options.keep)]
    else:
        ledger = options.ledger.open("a") if options.ledger else None
        reports = campaign(options.kills, options.seed, options.workers, options.keep, ledger)
    print(summary(reports, time.monotonic() - began))
    found = verdict(reports) if options.only is None else reports[0].found
    for what in found:
        print(what)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
