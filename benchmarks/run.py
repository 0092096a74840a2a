"""Measure every figure, each beside its reference, and print the table as Markdown.

python benchmarks/run.py                    the figures at their full size, but for --scale
python benchmarks/run.py --quick            a few minutes' worth, to see that all of it works
python benchmarks/run.py --scale 10000000 --write --json figures.json
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from common import child, machine, median, remove_store, write_records
from figures import Figure, add_flags, against, publish, say

LEFT = 10
IMPORTS = 10


@dataclass
class Bench:
    """The options, the working folder and what has been made in it."""

    options: argparse.Namespace
    folder: Path

    def input(self, count: int) -> Path:
        return write_records(self.folder / f"records-{count}.jsonl", count)

    def run(self, script: str, source: Path, records: int, *words: object, **how: str) -> dict[str, Any]:
        """One child over `records` records of `source` with a store that is new and gone afterwards."""
        store = self.folder / f"{Path(script).stem}.db"
        remove_store(store)
        try:
            return child(script, "--records", records, "--input", source, "--store", store, *words, **how)
        finally:
            remove_store(store)


def contenders(bench: Bench, steps: int, wanted: list[str]) -> dict[str, Callable[[], dict[str, Any]]]:
    """What runs once a round: onward and the references that were asked for."""
    options = bench.options
    source = bench.input(options.records)
    few = min(options.records, options.loop_records)
    steps_flag = ("--steps", steps)
    all_of_them: dict[str, Callable[[], dict[str, Any]]] = {
        "onward": lambda: bench.run("measured.py", source, options.records, *steps_flag),
        "loop": lambda: bench.run("reference_loop.py", source, few, *steps_flag),
        "raw": lambda: bench.run("reference_raw.py", source, options.records, *steps_flag),
        "dbos": dbos(bench, source),
    }
    return {name: all_of_them[name] for name in ("onward", *wanted)}


def dbos(bench: Bench, source: Path) -> Callable[[], dict[str, Any]]:
    """The first call tries all variants; the later ones keep to the fastest."""
    choice: list[object] = []

    def measure() -> dict[str, Any]:
        records = min(bench.options.records, bench.options.dbos_records)
        result = bench.run("reference_dbos.py", source, records, *choice, python=bench.options.dbos_python)
        choice[:] = ["--variant", result["choice"]]
        return result

    return measure


def throughput(bench: Bench, steps: int, wanted: list[str]) -> dict[str, list[dict[str, Any]]]:
    """Rounds in which every contender runs once, in turn."""
    runners = contenders(bench, steps, wanted)
    results: dict[str, list[dict[str, Any]]] = {name: [] for name in runners}
    for number in range(bench.options.rounds):
        for name, runner in runners.items():
            results[name].append(runner())
            say(f"{steps} step(s), round {number + 1}, {name}: {results[name][-1]['rate']:,.0f} records/s")
    return results


def one_step(bench: Bench) -> Iterator[Figure]:
    wanted = [name for name in ("loop", "raw", "dbos") if name in bench.options.only]
    if "dbos" in wanted and (reason := no_dbos(bench.options.dbos_python)):
        say(f"left out: dbos ({reason})")
        wanted.remove("dbos")
    if not wanted:
        return
    results = throughput(bench, 1, wanted)
    goals = {
        "loop": ("one step, against a loop that commits each state", "×", 5, 10),
        "dbos": ("one step, against dbos on SQLite", "×", 100, 250),
        "raw": ("one step, against raw SQLite, 1,000 rows a transaction", "%", 0.10, 0.18),
    }
    for name, (measure, unit, at_least, aim) in goals.items():
        if name in wanted:
            ratio, detail = against(results["onward"], results[name])
            yield Figure(measure, ratio, unit, at_least, aim, detail=detail)


def three_steps(bench: Bench) -> Iterator[Figure]:
    results = throughput(bench, 3, ["loop"])
    ratio, detail = against(results["onward"], results["loop"])
    yield Figure("three steps, against a loop that commits each state", ratio, "×", 5, 10, detail=detail)


def effects(bench: Bench) -> Iterator[Figure]:
    """A step that is an effect, its receipt its checkpoint, beside the same step without."""
    records = bench.options.records
    source = bench.input(records)
    pairs = []
    for _ in range(bench.options.rounds):
        pairs.append([bench.run("measured.py", source, records, *words)["rate"] for words in ((), ("--effect",))])
        say(f"pure step {pairs[-1][0]:,.0f}/s, effect {pairs[-1][1]:,.0f}/s")
    rates = [median([pair[at] for pair in pairs]) for at in (0, 1)]
    detail = f"{1e6 / rates[1]:.1f} µs against {1e6 / rates[0]:.1f} µs"
    measure = "cost of an effect against a pure step"
    yield Figure(measure, median([pure / effect for pure, effect in pairs]), "×", 2.5, None, "lower", detail)


def feeding(bench: Bench) -> Iterator[Figure]:
    count = bench.options.scale
    source = bench.input(count + LEFT * bench.options.rounds)
    result = bench.run("measured.py", source, count + LEFT * bench.options.rounds, "--feed")
    yield Figure(f"feeding {count:,} JSONL records of 200 bytes", result["rate"], "/s", 80_000, 200_000)
    yield Figure("peak memory while feeding them", result["memory_mb"], "MB", 150, 100, "lower")


def resuming(bench: Bench) -> Iterator[Figure]:
    """Run all but the last records of a big input, then time runs that have LEFT records to do each."""
    options = bench.options
    smaller = [bench.run("measured.py", bench.input(options.records), options.records)]
    source, store = bench.input(options.scale + LEFT * options.rounds), bench.folder / "big.db"
    words = ("--input", source, "--store", store)
    big = child("measured.py", "--records", options.scale, *words)
    say(f"{options.scale:,} records: {big['rate']:,.0f}/s")
    smaller.append(bench.run("measured.py", bench.input(options.records), options.records))
    runs = [child("measured.py", "--records", LEFT, *words) for _ in range(options.rounds)]
    remove_store(store)
    if runs[-1]["succeeded"] != options.scale + LEFT * options.rounds:
        raise SystemExit(f"{runs[-1]['succeeded']} records are done, not all")
    seconds = median([run["first_call"] - run["spawned"] for run in runs])
    done = f"{options.scale:,} records done, {LEFT} to do"
    yield Figure(f"{done}: process start → first step called", seconds, "s", 2.0, 0.5, "lower")
    yield Figure("peak memory in that resume", max(run["memory_mb"] for run in runs), "MB", 150, 100, "lower")
    yield Figure(f"peak memory of the run that did {options.scale:,}", big["memory_mb"], "MB", 150, 100, "lower")
    small = median([run["rate"] for run in smaller])
    measure = f"cost of a record at {options.scale:,} against that at {options.records:,}"
    detail = f"{1e6 / big['rate']:.1f} µs against {1e6 / small:.1f} µs, measured before and after"
    yield Figure(measure, small / big["rate"], "×", 1.5, None, "lower", detail)


def importing(bench: Bench) -> Iterator[Figure]:
    """`import onward` loads little until a name is used; the second line is what every job file needs."""

    def seconds(code: str) -> float:
        started = time.perf_counter()
        subprocess.run([sys.executable, "-c", code], check=True)
        return time.perf_counter() - started

    codes = ("pass", "import onward", "from onward import Job, jsonl")
    rounds = [[seconds(code) for code in codes] for _ in range(IMPORTS)]
    bare, *loaded = [median([times[at] for times in rounds]) for at in range(len(codes))]
    for code, value in zip(codes[1:], loaded, strict=True):
        measure = f"`{code}` less `python -c pass`, medians of ten"
        yield Figure(measure, 1e3 * (value - bare), "ms", 150, 80, "lower")


GROUPS: dict[str, Callable[[Bench], Iterator[Figure]]] = {
    "loop": one_step, "raw": one_step, "dbos": one_step, "three": three_steps,
    "effect": effects, "feed": feeding, "resume": resuming, "import": importing,
}  # fmt: skip


def no_dbos(python: str) -> str:
    """Why dbos cannot be measured, or nothing."""
    done = subprocess.run([python, "-c", "import dbos"], capture_output=True, text=True)
    return done.stderr.strip().splitlines()[-1] if done.returncode else ""


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=100_000, help="records of a throughput run")
    parser.add_argument("--loop-records", type=int, default=20_000, help="how many of them the loop does")
    parser.add_argument("--dbos-records", type=int, default=2_000, help="how many of them dbos does")
    parser.add_argument("--scale", type=int, default=1_000_000, help="records of the feeding and resuming figures")
    parser.add_argument("--rounds", type=int, default=3, help="medians are taken over so many rounds")
    parser.add_argument("--only", choices=GROUPS, action="append", help="measure only this; may be repeated")
    add_flags(parser)
    parser.add_argument(
        "--dbos-python", default=os.environ.get("DBOS_PYTHON", sys.executable), help="interpreter that has dbos"
    )
    options = parser.parse_args()
    options.only = options.only or list(GROUPS)
    if options.quick:
        options.records, options.loop_records, options.dbos_records = 10_000, 2_000, 300
        options.scale, options.rounds = 100_000, 1
    return options


def main() -> None:
    options = parse()
    if importlib.util.find_spec("onward") is None:
        raise SystemExit("onward is not installed for this interpreter")
    figures: list[Figure] = []
    with tempfile.TemporaryDirectory(prefix="onward-benchmark-", dir=options.dir) as folder:
        bench = Bench(options, Path(folder))
        for group in dict.fromkeys(GROUPS[name] for name in GROUPS if name in options.only):
            figures.extend(group(bench))
    rounds = f"{options.rounds} round{'s' if options.rounds > 1 else ''} of {options.records:,} records"
    publish(figures, f"{machine()}; {rounds}", "table", options)


if __name__ == "__main__":
    main()
