"""Poison among innocent neighbours: records that fail, hang, or take their process with them, run until all is done.

    python -m tests.torture.poison_campaign --runs 500 --seed 1 [--ledger FILE]

Each seed is a job with one or two guilty records, started again as a shell loop would until nothing is left that
another start could change. Judged from outside: what the store says of each record, which steps began when, what was
applied. The ledger has a line of JSON for each seed: its shape, what became of the guilty, and what was found.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Collection
from concurrent.futures import ProcessPoolExecutor
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import TextIO

if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))


from judge import steplog
from onward import api
from torture import forked, looking
from torture.forked import finish, read_acks
from victims.poison import AFTER, BEFORE, POISONED, Spec, before_sending

LETHAL = ("segfault", "bad_pointer", "exits", "aborts", "killed")
EXPECTED = {
    **dict.fromkeys(("raises", "recursion", "sysexit"), "bug"),
    **dict.fromkeys(("transient", "hangs"), "transient"),
    **dict.fromkeys(("memory_error", "memory", *LETHAL), "system"),
    "rejected": "rejected",
    "invalid": "invalid",
}
"""What each deed is, in a step."""
OPEN_IN_AN_EFFECT = ("raises", "transient", "recursion", "sysexit", "memory_error", "memory", "hangs")
"""Deeds after which nobody knows whether it was sent."""
FORMS = ("async", "sync", "process", "effect")
FULL_RUNS = 3
"""Runs that fail until a record that always fails is set aside."""
TIMEOUT, DEADLINE = 2.0, 1.0
STAY = 5.0
"""For longer than several tries of an effect take to land, so that what can be found out is."""


@dataclass
class Report:
    """One seed's story. `starts` of the job, `deaths` of its process; `guilty`: state and kind of each at the end."""

    seed: int
    form: str
    concurrency: int
    records: int
    poison: dict[str, str]
    starts: int = 0
    deaths: int = 0
    exit_code: int | None = None
    guilty: dict[str, str] = field(default_factory=dict)
    seconds: float = 0.0
    found: list[str] = field(default_factory=list)


def make_spec(seed: int, folder: Path) -> Spec:
    """The job of a seed; deeds and forms take turns, so that any 56 seeds in a row have each deed in each form."""
    draw = random.Random(seed)
    form, deeds = FORMS[seed % len(FORMS)], list(EXPECTED)
    records = draw.randint(20, 40)
    first = deeds[seed // len(FORMS) % len(deeds)]
    second = draw.choice(deeds) if draw.random() < 0.3 else None
    guilty = draw.sample([f"r{number:02}" for number in range(records)], 2)
    poison = {key: deed for key, deed in zip(guilty, (first, second), strict=True) if deed is not None}
    return Spec(
        seed=seed,
        records=records,
        form=form,
        poison=poison,
        concurrency=draw.choice((8, 12, 16)),
        timeout=DEADLINE if form == "effect" else TIMEOUT,
        longest=draw.choice((0.0, 0.02, 0.1)),
        keyed=draw.random() < 0.5,
        folder=str(folder),
    )


def write_down(spec: Spec, folder: Path) -> None:
    (folder / "spec.json").write_text(json.dumps(asdict(spec)))
    (folder / "in.jsonl").write_text("".join(json.dumps({"id": key}) + "\n" for key in spec.keys))
    (folder / "applied").mkdir()


def most_deaths(spec: Spec) -> int:
    """Of the process that the run is: each guilty record may take it along twice before it is a suspect."""
    if spec.form == "process":
        return 0
    return 2 * sum(deed in LETHAL for deed in spec.poison.values())


def try_seed(seed: int, keep: Path | None = None) -> Report:
    """Start again and again until nothing is left to do, and judge."""
    began = time.monotonic()
    folder = Path(tempfile.mkdtemp(prefix=f"onward-poison-{seed}-"))
    spec = make_spec(seed, folder)
    report = Report(seed, spec.form, spec.concurrency, spec.records, spec.poison)
    write_down(spec, folder)
    environment = {"VICTIM_SPEC": str(folder / "spec.json")}
    victim = forked.Victim(forked.VICTIMS / "poison.py", "poison", folder, environment, stay=STAY)
    try:
        start_until_done(spec, victim, report)
        report.found += judge(spec, victim, report)
    except Exception as error:
        report.found.append(f"{type(error).__name__}: {error}")
    report.seconds = round(time.monotonic() - began, 2)
    if report.found and keep is not None:
        shutil.copytree(folder, keep / str(seed), dirs_exist_ok=True)
    shutil.rmtree(folder, ignore_errors=True)
    return report


def start_until_done(spec: Spec, victim: forked.Victim, report: Report) -> None:
    """Until a run ends by itself and has left nothing failed: what always fails is set aside by the third such run."""
    short = 2 * sum("memory" in deed for deed in spec.poison.values())
    most = most_deaths(spec) + FULL_RUNS + short + (FULL_RUNS if spec.form == "effect" else 0)
    while report.starts < most:
        report.starts += 1
        code = report.exit_code = finish(forked.start(victim))
        if code is None:
            report.found.append(f"start {report.starts} hangs")
            return
        if code in (0, 1):
            waits = {"unconfirmed"} if spec.form == "effect" else set()  # longer than the run stayed
            report.found += convicted(spec, victim, f"after start {report.starts}", waits)
            if not looking.keys_in(victim.store, "failed") and not asked_again(spec, victim):
                return
        elif code < 0 or code == 7:
            report.deaths += 1
        elif code != 3 or not short:
            report.found.append(f"start {report.starts} ended with {code}")
    report.found.append(f"not done after {report.starts} starts")


def asked_again(spec: Spec, victim: forked.Victim) -> bool:
    """Whether an effect that takes its process along, or its memory, is still to be tried, or one that was beside it:
    each try waits for the one before to have landed, for longer than a run stays."""
    states = states_of(victim)
    if any(states.get(key) == "unconfirmed" for key in spec.innocent):
        return True
    return any(EXPECTED[deed] == "system" and states[key] == "unconfirmed" for key, deed in spec.poison.items())


def states_of(victim: forked.Victim) -> dict[str, str]:
    connection = looking.connect(victim.store)
    found = {json.loads(key): state for key, state in connection.execute("SELECT key, state FROM records")}
    connection.close()
    return found


def convicted(spec: Spec, victim: forked.Victim, when: str, waits: Collection[str] = frozenset[str]()) -> list[str]:
    """Innocent records that a run which ended by itself has left in another state than succeeded, or one in `waits`."""
    states = states_of(victim)
    return [
        f"{key} is {states.get(key)} {when}" for key in spec.innocent if states.get(key) not in {"succeeded", *waits}
    ]


def judge(spec: Spec, victim: forked.Victim, report: Report) -> list[str]:
    found = convicted(spec, victim, "at the end")
    found += guilty(spec, victim, report)
    found += checkpoints(spec, victim)
    found += begun_again(victim)
    found += looking.contradictions(victim.store)
    if spec.form == "effect":
        found += applied(spec, victim)
    if report.deaths > most_deaths(spec):
        found.append(f"{report.deaths} deaths for {spec.poison}")
    if report.exit_code != int(any(not told.startswith("succeeded") for told in report.guilty.values())):
        found.append(f"exit code {report.exit_code} with {spec.poison}")
    if "Traceback" in victim.said:
        found.append(f"a run said: {victim.said[-1500:]}")
    return found


def guilty(spec: Spec, victim: forked.Victim, report: Report) -> list[str]:
    """What became of the guilty, and whether it is what they deserve."""
    failures = {one["key"]: one for one in api.failures("poison", store=str(victim.store))}
    states = states_of(victim)
    found = []
    for key, deed in spec.poison.items():
        kind = failures.get(key, {}).get("kind")
        report.guilty[key] = f"{states[key]} {kind}"
        if report.guilty[key] not in deserved(spec, key, deed):
            found.append(f"{key}, which {deed}, is {report.guilty[key]}: {failures.get(key)}")
    if strangers := set(failures) - set(spec.poison):
        found.append(f"failures name {sorted(strangers)}")
    return found


def deserved(spec: Spec, key: str, deed: str) -> set[str]:
    """State and kind at the end. An effect whose send ended without an answer is settled by its probe, left to a
    person, or, where it goes on to take its process along, set aside."""
    kind = EXPECTED[deed]
    if spec.form != "effect" or deed not in (*OPEN_IN_AN_EFFECT, *LETHAL):
        return {f"quarantined {kind}"}
    was_applied = not before_sending(key)
    if was_applied and not spec.keyed:
        return {"succeeded None"} | ({"unconfirmed system", f"unconfirmed {kind}"} if deed == "hangs" else set())
    if kind == "system":
        return {"quarantined system"}
    return {f"unconfirmed {kind}"} | ({"unconfirmed system"} if deed == "hangs" else set())


def checkpoints(spec: Spec, victim: forked.Victim) -> list[str]:
    """Each innocent record has one output a step, and that is its own; a guilty one those before its deed."""
    connection = looking.connect(victim.store)
    query = "SELECT r.key, c.step, c.output FROM checkpoints c JOIN records r ON r.id = c.record"
    made: dict[str, list[tuple[str, str]]] = {key: [] for key in spec.keys}
    for key, step, output in connection.execute(query):
        made[json.loads(key)].append((BEFORE if step == BEFORE else AFTER if step == AFTER else POISONED, output))
    connection.close()
    found = []
    for key in spec.innocent:
        whole = [(BEFORE, f'"{key} begun"'), (POISONED, f'"{key} done"'), (AFTER, f'"{key} ended"')]
        if sorted(made[key]) != sorted(whole):
            found.append(f"{key} has {made[key]}")
    for key in spec.poison:
        if (BEFORE, f'"{key} begun"') not in made[key]:
            found.append(f"{key} has lost what it had: {made[key]}")
    return found


def begun_again(victim: forked.Victim) -> list[str]:
    """Steps that began after a run was told that their checkpoint is durable."""
    known: dict[tuple[str, str], float] = {}
    for key, step, moment in read_acks(victim.acks):
        name = step if step in (BEFORE, AFTER) else POISONED
        known.setdefault((steplog.key_text(key), name), moment)
    entries = [entry for entry in steplog.read(victim.log) if entry.what == "start"]
    late = [one for one in entries if one.time > known.get((one.key, one.step), float("inf"))]
    return [f"{one.key} began {one.step} again" for one in late]


def applied(spec: Spec, victim: forked.Victim) -> list[str]:
    """Who was applied how often, by the far side's own record; one that knows keys applies a second request never."""
    lines = (victim.folder / "requests").read_text().splitlines() if (victim.folder / "requests").exists() else []
    requests = Counter(json.loads(line)[0] for line in lines)
    keys = Counter(name for name, _ in {tuple(json.loads(line)) for line in lines})
    found = [f"{name} was sent under {number} keys" for name, number in keys.items() if number > 1]
    for key in spec.innocent:
        if not requests[key] or (requests[key] > 1 and not spec.keyed):
            found.append(f"{key} was applied {requests[key]} times")
    return found


def campaign(runs: int, seed: int, workers: int, keep: Path | None, ledger: TextIO | None) -> list[Report]:
    reports = []
    with ProcessPoolExecutor(workers) as pool:
        for report in pool.map(try_seed, range(seed, seed + runs), [keep] * runs):
            reports.append(report)
            if ledger is not None:
                ledger.write(json.dumps(asdict(report)) + "\n")
                ledger.flush()
    return reports


def verdict(reports: list[Report]) -> list[str]:
    return [f"seed {one.seed} ({one.form}, {one.poison}): {what}" for one in reports for what in one.found]


def summary(reports: list[Report], seconds: float) -> str:
    deeds = Counter(deed for one in reports for deed in one.poison.values())
    innocent = sum(one.records - len(one.poison) for one in reports)
    return (
        f"{len(reports)} poison runs, {sum(deeds.values())} guilty and {innocent} innocent records: "
        f"{sum(one.starts for one in reports)} starts, {sum(one.deaths for one in reports)} deaths; "
        f"{sum(bool(one.found) for one in reports)} runs with findings, {seconds:.0f} s "
        f"({', '.join(f'{deed} {number}' for deed, number in deeds.most_common())})"
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=500)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--workers", type=int, default=os.cpu_count() or 2)
    parser.add_argument("--ledger", type=Path)
    parser.add_argument("--keep", type=Path, help="where folders of runs with findings are kept")
    options = parser.parse_args()
    began = time.monotonic()
    ledger = options.ledger.open("a") if options.ledger else None
    reports = campaign(options.runs, options.seed, options.workers, options.keep, ledger)
    print(summary(reports, time.monotonic() - began))
    found = verdict(reports)
    for what in found:
        print(what)
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
