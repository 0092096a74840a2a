"""Measure the store on PostgreSQL, each figure beside its reference, against a private server with fsync on.

python benchmarks/postgres.py                    the figures at their full size, but for --scale
python benchmarks/postgres.py --quick            a few minutes' worth, to see that all of it works
python benchmarks/postgres.py --scale 10000000 --peers-python somewhere/bin/python --write
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from common import HERE, child, machine, median, write_records
from figures import Figure, add_flags, against, publish, say

sys.path.append(str(HERE.parent / "tests"))

from helpers.postgres import in_schema, new_schema, server

LEFT = 10
CONCURRENCY = 4
LEASE = 30.0
WARM = 1.0
RUNS = {1: (1.0, 1.0), 2: (1.9, 2.0), 4: (3.7, 4.0), 8: (7.0, 8.0)}
RAW = "reference_postgres.py"
PEERS = {
    "dbos": ("reference_dbos.py", 1, "one step, against dbos", 50, 150),
    "procrastinate": ("reference_procrastinate.py", 1, "one step, against procrastinate", 15, 40),
    "pgqueuer": ("reference_pgqueuer.py", 3, "three steps, against pgqueuer", 15, 40),
}
GROUPS = ("raw", *PEERS, "together", "death", "resume")


@dataclass
class Bench:
    """The options, the working folder and the server."""

    options: argparse.Namespace
    folder: Path
    url: str
    _choices: dict[str, list[object]] = field(default_factory=dict)

    def input(self, count: int) -> Path:
        return write_records(self.folder / f"records-{count}.jsonl", count)

    def store(self) -> str:
        return in_schema(self.url, new_schema())

    def onward(self, steps: int, records: int) -> dict[str, Any]:
        """A store of its own for each."""
        source, store = self.input(records), self.store()
        return child("measured.py", "--records", records, "--input", source, "--store", store, "--steps", steps)

    def reference(self, script: str, steps: int, records: int) -> dict[str, Any]:
        """The first call tries all settings; the later ones keep to the fastest."""
        choice = self._choices.setdefault(script, [])
        words = ("--records", records, "--input", self.input(records), "--store", self.url, "--steps", steps)
        python = sys.executable if script == RAW else self.options.peers_python
        result = child(script, *words, *choice, python=python)
        if "choice" in result:
            say(f"{script} tried {result['trials']}" if result["trials"] else f"{script}: {result['choice']}")
            choice[:] = ["--variant", result["choice"]]
        return result


# -- records a second --------------------------------------------------------------------------------------------------


def throughput(bench: Bench) -> Iterator[Figure]:
    """Rounds in which onward, with one step and with three, and every reference run once, in turn."""
    options = bench.options
    wanted = [name for name in PEERS if name in options.only and not left_out(name, options)]
    raw = "raw" in options.only
    if not wanted and not raw:
        return
    steps = sorted({1, *(PEERS[name][1] for name in wanted)})
    runners: dict[str, Callable[[], dict[str, Any]]] = {
        f"onward, {number} step(s)": lambda number=number: bench.onward(number, options.records)  # type: ignore[misc]
        for number in steps
    }
    if raw:
        runners["raw"] = lambda: bench.reference(RAW, 1, options.records)
    for name in wanted:
        script, number, *_ = PEERS[name]
        runners[name] = lambda script=script, number=number: bench.reference(  # type: ignore[misc]
            script, number, min(options.records, options.peer_records)
        )
    results: dict[str, list[dict[str, Any]]] = {name: [] for name in runners}
    for round_number in range(options.rounds):
        for name, run in runners.items():
            results[name].append(run())
            say(f"round {round_number + 1}, {name}: {results[name][-1]['rate']:,.0f} records/s")
    if raw:
        ratio, detail = against(results["onward, 1 step(s)"], results["raw"])
        yield Figure("one step, against raw PostgreSQL, unnest of 1,000", ratio, "%", 0.20, 0.40, detail=detail)
    for name in wanted:
        _script, number, measure, at_least, aim = PEERS[name]
        ratio, detail = against(results[f"onward, {number} step(s)"], results[name])
        yield Figure(measure, ratio, "×", at_least, aim, detail=detail)


def left_out(name: str, options: argparse.Namespace) -> str:
    """Why a peer cannot be measured, or nothing."""
    done = subprocess.run([options.peers_python, "-c", f"import {name}, psycopg"], capture_output=True, text=True)
    reason = done.stderr.strip().splitlines()[-1] if done.returncode else ""
    if reason:
        say(f"left out: {name} ({reason})")
    return reason


# -- several runs ------------------------------------------------------------------------------------------------------


class Together:
    """Several runs of one job at once, each with a log of its calls."""

    def __init__(self, bench: Bench, runs: int, records: int, concurrency: int = CONCURRENCY):
        self.logs = [bench.folder / f"calls-{time.time_ns()}-{number}" for number in range(runs)]
        source, store = bench.input(records), bench.store()
        words = ["--input", source, "--store", store, "--concurrency", concurrency]
        self.processes = [
            subprocess.Popen(
                [sys.executable, str(HERE / "measured_together.py"), *map(str, [*words, "--log", log])],
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
            )
            for log in self.logs
        ]

    def end(self) -> None:
        for process in self.processes:
            if process.wait() != 0:
                raise SystemExit(f"a run ended with {process.returncode}")

    def calls(self, number: int) -> list[tuple[str, float]]:
        """(key, when) of a run's calls, in order."""
        lines = self.logs[number].read_text().splitlines() if self.logs[number].exists() else []
        return [(key, float(at)) for key, at in (line.split() for line in lines if line.count(" ") == 1)]


def together(bench: Bench) -> Iterator[Figure]:
    """Calls a second while all are at work: from a second after the last has begun until the first has ended."""
    rates: dict[int, list[float]] = {runs: [] for runs in RUNS}
    for round_number in range(bench.options.rounds):
        for runs in RUNS:
            group = Together(bench, runs, runs * bench.options.together_records)
            group.end()
            calls = [[at for _key, at in group.calls(number)] for number in range(runs)]
            begin, end = max(one[0] for one in calls) + WARM, min(one[-1] for one in calls)
            rates[runs].append(sum(begin <= at < end for one in calls for at in one) / (end - begin))
            say(f"round {round_number + 1}, {runs} run(s): {rates[runs][-1]:,.0f} calls/s")
    for runs, (at_least, aim) in RUNS.items():
        if runs > 1:
            ratio = median([many / one for many, one in zip(rates[runs], rates[1], strict=True)])
            detail = f"{median(rates[runs]):,.0f}/s against {median(rates[1]):,.0f}/s"
            yield Figure(f"{runs} runs against one, a step of 20 ms", ratio, "×", at_least, aim, detail=detail)


def death(bench: Bench) -> Iterator[Figure]:
    """One of two runs is killed; what it had in progress is called again by the other."""
    took = []
    for _ in range(bench.options.rounds):
        group = Together(bench, 2, 40 * bench.options.together_records)
        try:
            while not all(len(group.calls(number)) > 100 for number in range(2)):
                time.sleep(0.1)
            group.processes[0].kill()
            killed = time.time()
            group.processes[0].wait()
            begun = {key for key, _at in group.calls(0)}
            until = killed + 3 * LEASE
            while not (again := [at for key, at in group.calls(1) if key in begun]):
                if time.time() > until:
                    raise SystemExit("nothing of the dead run was called again")
                time.sleep(0.2)
            took.append(max(again) - killed)
            say(f"called again {took[-1]:.1f} s after the death")
        finally:
            for process in group.processes:
                process.kill()
                process.wait()
    measure = f"from a run's death to its records being worked on, lease {LEASE:g} s"
    yield Figure(measure, max(took), "s", LEASE + 2, None, "lower", f"the longest of {len(took)}")


# -- resuming ----------------------------------------------------------------------------------------------------------


def resuming(bench: Bench) -> Iterator[Figure]:
    """Run all but the last records of a big input, then time runs that have LEFT records to do each."""
    options = bench.options
    source, store = bench.input(options.scale + LEFT * options.rounds), bench.store()
    words = ("--input", source, "--store", store)
    big = child("measured.py", "--records", options.scale, *words)
    say(f"{options.scale:,} records: {big['rate']:,.0f}/s, {big['memory_mb']:.0f} MB")
    runs = [child("measured.py", "--records", LEFT, *words) for _ in range(options.rounds)]
    if runs[-1]["succeeded"] != options.scale + LEFT * options.rounds:
        raise SystemExit(f"{runs[-1]['succeeded']} records are done, not all")
    seconds = median([run["first_call"] - run["spawned"] for run in runs])
    done = f"{options.scale:,} records done, {LEFT} to do"
    yield Figure(f"{done}: process start → first step called", seconds, "s", 2.0, 0.5, "lower")
    yield Figure("peak memory in that resume", max(run["memory_mb"] for run in runs), "MB", 150, 100, "lower")
    detail = f"{big['rate']:,.0f} records/s"
    yield Figure(
        f"peak memory of the run that did {options.scale:,}", big["memory_mb"], "MB", 150, 100, "lower", detail
    )


OTHERS = (("together", together), ("death", death), ("resume", resuming))


# -- the table ---------------------------------------------------------------------------------------------------------


def parse(words: Sequence[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=50_000, help="records of a throughput run")
    parser.add_argument("--peer-records", type=int, default=2_000, help="how many of them the peers do")
    parser.add_argument("--together-records", type=int, default=2_000, help="records for each of several runs")
    parser.add_argument("--scale", type=int, default=1_000_000, help="records of the resuming figures")
    parser.add_argument("--rounds", type=int, default=3, help="medians are taken over so many rounds")
    parser.add_argument("--only", choices=GROUPS, action="append", help="measure only this; may be repeated")
    add_flags(parser)
    python = os.environ.get("PEERS_PYTHON", sys.executable)
    parser.add_argument("--peers-python", default=python, help=f"interpreter that has {', '.join(PEERS)}")
    options = parser.parse_args(words)
    options.only = options.only or list(GROUPS)
    if options.quick:
        options.records, options.peer_records, options.together_records = 5_000, 300, 500
        options.scale, options.rounds = 20_000, 1
    return options


def main() -> None:
    options = parse()
    if importlib.util.find_spec("onward") is None:
        raise SystemExit("onward is not installed for this interpreter")
    if options.dir is not None:
        tempfile.tempdir = str(options.dir)
    figures: list[Figure] = []
    with tempfile.TemporaryDirectory(prefix="onward-benchmark-") as folder, server() as own:
        bench = Bench(options, Path(folder), own.url)
        figures.extend(throughput(bench))
        for name, group in OTHERS:
            if name in options.only:
                figures.extend(group(bench))
    rounds = f"{options.rounds} round{'s' if options.rounds > 1 else ''} of {options.records:,} records"
    publish(figures, f"{machine()}; PostgreSQL 18, {rounds}", "table of PostgreSQL", options)


if __name__ == "__main__":
    main()
