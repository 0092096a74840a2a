"""Measure AI jobs against a local server with 50 ms latency, each figure beside its reference, and print the table.

python benchmarks/llm.py                    the figures at their full size: some 40 minutes
python benchmarks/llm.py --quick            a few minutes' worth, to see that all of it works
python benchmarks/llm.py --only loop --only curator --curator-python somewhere/bin/python
"""

from __future__ import annotations

import argparse
import importlib.util
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from common import HERE, child, machine, remove_store
from figures import Figure, add_flags, against, publish, say
from llm_common import CONCURRENCY, PRICES, USUAL_TOKENS, write_tickets

sys.path.append(str(HERE.parent / "tests"))

from helpers.llm import LlmServer

MEASURED = "llm_measured.py"
KILLS = 5
PER_MINUTE = 3_000
FAULTS_SEEN = 16
PEERS = {
    "loop": ("reference_llm_loop.py", "an asyncio loop of the same SDK", 0.80, 0.95),
    "curator": ("reference_curator.py", "bespokelabs-curator", 1.5, 3.0),
    "abl": ("reference_abl.py", "async-batch-llm", 1.5, 3.0),
}
GROUPS = (*PEERS, "kills", "limit", "outage", "budget")


@dataclass
class Bench:
    """The options, the working folder and what has been made in it."""

    options: argparse.Namespace
    folder: Path
    runs: int = 0

    def input(self, count: int) -> Path:
        path = self.folder / f"tickets-{count}.jsonl"
        return path if path.exists() else write_tickets(path, count)

    def store(self) -> Path:
        path = self.folder / "results.db"
        remove_store(path)
        return path

    def server(self, **switches: Any) -> LlmServer:
        """A fresh one for each run, with a log of its own."""
        self.runs += 1
        return LlmServer(self.folder / f"requests-{self.runs}.jsonl", **switches)

    def run(self, script: str, records: int, *words: object, python: str = sys.executable) -> dict[str, Any]:
        """One child over the first records, against a fresh server."""
        server, store = self.server(), self.store()
        try:
            with environment(server):
                source = self.input(self.options.records)
                return child(script, "--records", records, "--input", source, "--store", store, *words, python=python)
        finally:
            server.close()
            remove_store(store)


@contextmanager
def environment(server: LlmServer, **more: object) -> Iterator[None]:
    """What this process's children have in their environments, for the length of a block."""
    words = {**server.environment, **{f"BENCHMARK_{name}": str(value) for name, value in more.items()}}
    os.environ.update(words)
    try:
        yield
    finally:
        for name in words:
            os.environ.pop(name, None)


class Watched:
    """A run of onward that can be killed, and the log of its server as it grows."""

    def __init__(self, bench: Bench, records: int, server: LlmServer, **more: object):
        self.bench, self.records, self.server, self.more = bench, records, server, more
        self.source, self.store = bench.input(records), bench.store()
        self._read, self._lines = 0, 0

    def start(self, *words: object) -> subprocess.Popen[bytes]:
        command = ["--records", self.records, "--input", self.source, "--store", self.store, *words]
        with environment(self.server, **self.more):
            return subprocess.Popen([sys.executable, str(HERE / MEASURED), *map(str, command)], stdout=sys.stderr)

    def asked(self) -> int:
        """How many requests have been answered so far."""
        with self.server.log_file.open("rb") as log:
            log.seek(self._read)
            new = log.read()
        self._read += len(new)
        self._lines += new.count(b"\n")
        return self._lines

    def wait_for(self, requests: int, process: subprocess.Popen[bytes]) -> None:
        while self.asked() < requests:
            if process.poll() is not None:
                raise SystemExit(f"the run ended with {process.returncode} after {self._lines} requests")
            time.sleep(0.02)

    def end(self, process: subprocess.Popen[bytes]) -> None:
        if process.wait() != 0:
            raise SystemExit(f"the run ended with {process.returncode}")


# -- requests a second -------------------------------------------------------------------------------------------------


def throughput(bench: Bench) -> Iterator[Figure]:
    """Rounds in which onward and every peer run once, in turn; the bare loop always, since the killed runs need it."""
    options = bench.options
    wanted = [name for name in PEERS if name in options.only and not left_out(name, options)]
    kills = "kills" in options.only and not options.references
    names = [
        *([] if options.references else ["onward"]),
        *dict.fromkeys([*wanted, *(["loop"] if kills else [])]),
        *(["kills"] if kills else []),
    ]
    results: dict[str, list[dict[str, Any]]] = {name: [] for name in names}
    runners = {name: runner(bench, name) for name in names}
    for number in range(options.rounds):
        for name, run in runners.items():
            results[name].append(run())
            say(f"round {number + 1}, {name}: {results[name][-1]['rate']:,.0f} requests/s")
    if options.references:
        return
    for name in wanted:
        ratio, detail = against(results["onward"], results[name])
        _script, called, at_least, aim = PEERS[name]
        yield Figure(f"requests/s, against {called}", ratio, "×", at_least, aim, detail=detail)
    if kills:
        ratio, detail = against(results["kills"], results["loop"])
        again = max(result["again"] for result in results["kills"])
        detail += f"; at most {again:,} of {options.records:,} asked again"
        yield Figure("the same, killed five times on the way", ratio, "×", 0.70, 0.90, detail=detail)


def runner(bench: Bench, name: str) -> Callable[[], dict[str, Any]]:
    """How a contender runs; a reference that has several settings keeps to the fastest after its first run."""
    options, choice = bench.options, []
    if name == "kills":
        return lambda: killed(bench)
    script = PEERS[name][0] if name in PEERS else MEASURED
    records = min(options.records, getattr(options, f"{name}_records", options.records))
    python = getattr(options, f"{name}_python", sys.executable)

    def run() -> dict[str, Any]:
        result = bench.run(script, records, *choice, python=python)
        if "choice" in result:
            say(f"{name} tried {result['trials']}" if result["trials"] else f"{name} again with {result['choice']}")
            choice[:] = ["--variant", result["choice"]]
        return result

    return run


def killed(bench: Bench) -> dict[str, Any]:
    """Five times kill -9 after equal shares of the work; the time runs from the first start to the last end."""
    server = bench.server()
    try:
        watched = Watched(bench, bench.options.records, server)
        started = time.perf_counter()
        for number in range(1, KILLS + 1):
            process = watched.start()
            watched.wait_for(watched.records * number // (KILLS + 1), process)
            process.send_signal(signal.SIGKILL)
            process.wait()
        watched.end(watched.start())
        seconds = time.perf_counter() - started
    finally:
        server.close()
    times = {line["key"]: line["nth"] for line in server.log() if line["status"] == 200}
    if len(times) != watched.records:
        raise SystemExit(f"{len(times)} of {watched.records} tickets were asked about")
    return {"rate": watched.records / seconds, "again": sum(times.values()) - watched.records, "variant": ""}


def left_out(name: str, options: argparse.Namespace) -> str:
    """Why a peer cannot be measured, or nothing."""
    module = {"curator": "bespokelabs.curator", "abl": "async_batch_llm"}.get(name)
    if module is None:
        return ""
    python = getattr(options, f"{name}_python")
    done = subprocess.run([python, "-c", f"import {module}"], capture_output=True, text=True)
    reason = done.stderr.strip().splitlines()[-1] if done.returncode else ""
    if reason:
        say(f"left out: {name} ({reason})")
    return reason


# -- limits, outages, budgets ------------------------------------------------------------------------------------------


def limits(bench: Bench) -> Iterator[Figure]:
    """A limit on requests for some minutes, obeyed by both sides; counted by the server."""
    seconds, most = 60.0 * bench.options.minutes, PER_MINUTE * bench.options.minutes
    server = bench.server(requests_per_minute=PER_MINUTE, burst_seconds=bench.options.burst_seconds)
    try:
        watched = Watched(bench, most * 3 // 2, server, REQUESTS_PER_MINUTE=PER_MINUTE)
        process = watched.start("--max-time", seconds + 5, "--end", 3)
        watched.end(process)
    finally:
        server.close()
    log = server.log()
    begun = min(line["at"] for line in log)
    inside = [line for line in log if line["at"] < begun + seconds]
    share = sum(line["status"] == 200 for line in inside) / most
    throttled = [line["at"] - begun for line in log if line["status"] == 429]
    late = sum(at > 60 for at in throttled)
    name = f"use of {PER_MINUTE:,} requests/min over {bench.options.minutes} minutes"
    yield Figure(name, share, "%", 0.95, 0.99, detail=f"{len(throttled)} answered with 429, {late} of them late")
    yield Figure("429 provoked after the first minute", late, "", 0, 0, "lower")


def outages(bench: Bench) -> Iterator[Figure]:
    """Every request is answered with 503 for a while, from the moment when a quarter of the work is done."""
    seconds, records = bench.options.outage, bench.options.records
    server = bench.server()
    try:
        watched = Watched(bench, records, server)
        process = watched.start()
        watched.wait_for(records // 4, process)
        server.control(outage="503", outage_seconds=seconds)
        watched.end(process)
    finally:
        server.close()
    log = server.log()
    faults = sorted((line for line in log if line["status"] == 503), key=lambda line: line["ended"])
    if len(faults) < FAULTS_SEEN:
        raise SystemExit(f"the outage was met by {len(faults)} requests")
    seen = faults[FAULTS_SEEN - 1]["ended"]
    begun = sum(line["at"] > seen for line in faults)
    unanswered = records - len({line["key"] for line in log if line["status"] == 200})
    after = min((line["at"] for line in log if line["status"] == 200 and line["at"] > faults[-1]["at"]), default=0.0)
    detail = f"{len(faults)} in all; on again {after - faults[0]['at'] - seconds:.1f} s after its end"
    measure = f"requests begun in an outage of {seconds:g} s, after {FAULTS_SEEN} faults were seen"
    yield Figure(measure, begun, "", 60, 20, "lower", detail)
    yield Figure("records that failed in it", unanswered, "", 0, 0, "lower")


def budgets(bench: Bench) -> Iterator[Figure]:
    """Half of what the work costs; what was spent is what the server counted."""
    records = bench.options.records
    budget = round(cost({kind: records * tokens / 2 for kind, tokens in USUAL_TOKENS.items()}), 4)
    server = bench.server()
    try:
        watched = Watched(bench, records, server, BUDGET=budget)
        watched.end(watched.start("--end", 4))
    finally:
        server.close()
    log = server.log()
    spent = cost({kind: sum(line[f"{kind}_tokens"] for line in log) for kind in PRICES})
    detail = f"{spent:.4f} of {budget:.4f} USD spent, {len(log):,} requests"
    yield Figure("overrun of a budget", max(0.0, spent - budget), "USD", 0, 0, "lower", detail)


AFTERWARDS = (("limit", limits), ("outage", outages), ("budget", budgets))


def cost(tokens: dict[str, float]) -> float:
    return sum(count * PRICES[kind] for kind, count in tokens.items()) / 1e6


# -- the table ---------------------------------------------------------------------------------------------------------


def parse() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--records", type=int, default=20_000, help="tickets of a run")
    parser.add_argument("--curator-records", type=int, default=20_000, help="how many of them curator does")
    parser.add_argument("--abl-records", type=int, default=20_000, help="how many of them async-batch-llm does")
    parser.add_argument("--rounds", type=int, default=3, help="medians are taken over so many rounds")
    parser.add_argument("--minutes", type=int, default=5, help="how long a limit of requests a minute is used")
    parser.add_argument("--burst-seconds", type=float, default=60.0, help="how much of it may be used at once")
    parser.add_argument("--outage", type=float, default=90.0, help="seconds of the outage")
    parser.add_argument("--only", choices=GROUPS, action="append", help="measure only this; may be repeated")
    add_flags(parser)
    for name, package in (("curator", "bespokelabs-curator"), ("abl", "async-batch-llm")):
        python = os.environ.get(f"{name.upper()}_PYTHON", sys.executable)
        parser.add_argument(f"--{name}-python", default=python, help=f"interpreter that has {package}")
    parser.add_argument("--references", action="store_true", help="run the references alone, without onward")
    options = parser.parse_args()
    options.only = options.only or list(GROUPS)
    if options.quick:
        options.records, options.rounds, options.minutes, options.outage = 2_000, 1, 2, 10.0
    return options


def main() -> None:
    options = parse()
    if not options.references and importlib.util.find_spec("onward") is None:
        raise SystemExit("onward is not installed for this interpreter")
    figures: list[Figure] = []
    with tempfile.TemporaryDirectory(prefix="onward-benchmark-", dir=options.dir) as folder:
        bench = Bench(options, Path(folder))
        if {*PEERS, "kills"} & set(options.only):
            figures.extend(throughput(bench))
        for name, group in () if options.references else AFTERWARDS:
            if name in options.only:
                figures.extend(group(bench))
    rounds = f"{options.rounds} round{'s' if options.rounds > 1 else ''} of {options.records:,} records"
    publish(figures, f"{machine()}; {rounds}, concurrency {CONCURRENCY}", "table of AI jobs", options)


if __name__ == "__main__":
    main()
