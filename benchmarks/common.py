"""Shared by the benchmark scripts. It imports the standard library alone: peers run in environments of their own."""

from __future__ import annotations

import argparse
import json
import os
import platform
import sqlite3
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

HERE = Path(__file__).resolve().parent
RECORD_BYTES = 200
COMMIT_EVERY = 1_000


def arguments(description: str) -> argparse.ArgumentParser:
    """The flags that every script run as a child understands."""
    parser = argparse.ArgumentParser(description=description)
    parser.add_argument("--records", type=int, default=10_000, help="how many of the input's records to use")
    parser.add_argument("--steps", type=int, choices=(1, 3), default=1)
    parser.add_argument("--input", type=Path, required=True, help="JSONL written by write_records")
    parser.add_argument("--store", required=True, help="database file to make, or address; it must not exist")
    return parser


def write_records(path: Path, count: int) -> Path:
    """Write `count` JSON lines of exactly RECORD_BYTES bytes each, newline included, unless they are there already."""
    if path.exists() and path.stat().st_size == count * RECORD_BYTES:
        return path
    filler = "x" * (RECORD_BYTES - len('{"id":"r00000000","body":""}\n'))
    with path.open("w", encoding="ascii", newline="\n", buffering=1 << 20) as out:
        for number in range(count):
            out.write(f'{{"id":"r{number:08d}","body":"{filler}"}}\n')
    return path


def read_records(path: Path, count: int) -> Iterator[tuple[str, str]]:
    """Yield (key, line) of the first `count` records, parsed as a plain loop would parse them."""
    with path.open(encoding="utf-8") as lines:
        for _, line in zip(range(count), lines, strict=False):
            yield json.loads(line)["id"], line


def is_address(store: str) -> bool:
    """Whether it is a server's database rather than a file."""
    return "://" in store


def new_database(server: str, owner: str) -> str:
    """The address of a database that is made on the server, for one measurement of `owner`."""
    import psycopg

    name = f"{owner}_{time.time_ns()}"
    with psycopg.connect(server, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}".encode())
    return urlsplit(server)._replace(path=f"/{name}").geturl()


def set_durable(connection: Any) -> None:
    """Write-ahead log and synchronous=FULL, read back: the durability that onward has."""
    execute = connection.cursor().execute
    execute("PRAGMA journal_mode=WAL")
    execute("PRAGMA synchronous=FULL")
    if (execute("PRAGMA journal_mode").fetchone()[0], execute("PRAGMA synchronous").fetchone()[0]) != ("wal", 2):
        raise SystemExit("this database cannot be set to WAL with synchronous=FULL")


def remove_store(path: Path | str) -> None:
    for suffix in ("", "-wal", "-shm", "-journal"):
        Path(f"{path}{suffix}").unlink(missing_ok=True)


def peak_memory_mb() -> float:
    """This process's own peak resident memory. Linux's ru_maxrss would include the parent's from before exec."""
    status = Path("/proc/self/status")
    if status.exists():
        line = next(line for line in status.read_text().splitlines() if line.startswith("VmHWM:"))
        return int(line.split()[1]) / 1024
    import resource

    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak / (1 << 20 if sys.platform == "darwin" else 1024)


def report(**figures: Any) -> None:
    """A child's answer: one JSON object as the last line of standard output."""
    print(json.dumps(figures), flush=True)


def child(script: str, *words: object, python: str = sys.executable) -> dict[str, Any]:
    """Run a sibling script in a fresh process and return what it reports, with `spawned`, the time just before."""
    command = [python, str(HERE / script), *map(str, words)]
    spawned = time.time()
    done = subprocess.run(command, stdout=subprocess.PIPE, text=True)
    if done.returncode != 0:
        raise SystemExit(f"{script} ended with exit code {done.returncode}: {' '.join(command)}")
    return {**json.loads(done.stdout.splitlines()[-1]), "spawned": spawned}


def median(values: list[float]) -> float:
    return statistics.median(values)


def machine() -> str:
    """One line about where the figures come from."""
    model = ""
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.exists():
        names = [line.split(":", 1)[1].strip() for line in cpuinfo.read_text().splitlines() if "model name" in line]
        model = f"{names[0]}, " if names else ""
    return (
        f"{model}{os.cpu_count()} logical CPUs, {platform.system()} {platform.machine()}, "
        f"Python {platform.python_version()}, SQLite of the standard library {sqlite3.sqlite_version}"
    )
