"""Plants each defect into a copy of the source and runs the tests that have to notice it.

    python tests/mutants/run.py [--only NAME …] [--list] [--workers 3]

A defect that survives its tests, or whose text is no longer there, makes this fail. The tests of each run in a fork of
an interpreter that has imported pytest and what onward and its tests build on, but nothing of onward; those that go on
side by side have a PostgreSQL server each.
"""

from __future__ import annotations

import argparse
import contextlib
import multiprocessing
import os
import queue
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from helpers import postgres
from mutants.defect import Defect
from mutants.defects import DEFECTS

ROOT = Path(__file__).resolve().parents[2]
PATIENCE = 180
FAILED_TESTS = 1
"""pytest's exit code when tests ran and some failed; anything else proves nothing."""
RAN = 100
"""Added to it: a fork that fails before pytest ends has an exit code of its own."""
IMPORTED_BEFORE = (
    "_hypothesis_pytestplugin",
    "anyio.pytest_plugin",
    "apsw",
    "httpx",
    "hypothesis.strategies",
    "jinja2",
    "jsonschema",
    "openai.resources",
    "orjson",
    "psycopg",
    "pydantic",
    "pytest",
    "pytest_timeout",
    "rich",
    "structlog",
    "typer",
    "xdist.plugin",
)
FORKED = multiprocessing.get_context("forkserver")
SERVERS: queue.Queue[str] = queue.Queue()
"""Addresses of PostgreSQL servers that nobody is using; empty ones where there are none."""


@dataclass(frozen=True)
class Verdict:
    defect: Defect
    killed: bool
    seconds: float
    said: str


def plant(defect: Defect, source: Path) -> None:
    """Change the copy. Raises LookupError where the text to change is not there."""
    path = source / "onward" / defect.file
    text = path.read_text("utf-8")
    for old, new in defect.changes:
        if old not in text:
            raise LookupError(f"{defect.name}: {defect.file} has no {old!r} any more")
        text = text.replace(old, new)
    path.write_text(text, "utf-8")
    for compiled in path.parent.glob(f"__pycache__/{path.stem}.*"):
        compiled.unlink()


def try_defect(defect: Defect) -> Verdict:
    began = time.monotonic()
    with tempfile.TemporaryDirectory(prefix=f"onward-{defect.name}-") as name:
        source = Path(name) / "src"
        shutil.copytree(ROOT / "src", source)  # with its bytecode, which goes by the time of each file
        try:
            plant(defect, source)
        except LookupError as error:
            return Verdict(defect, False, 0.0, str(error))
        code, said = _run_tests(defect, source)
    return Verdict(defect, code == FAILED_TESTS, time.monotonic() - began, said)


def _run_tests(defect: Defect, source: Path) -> tuple[int, str]:
    server = SERVERS.get()
    environment = {**dict(defect.environment), **({"ONWARD_TEST_POSTGRES": server} if server else {})}
    said = source.with_name("said")
    said.touch()
    try:
        tests = FORKED.Process(target=_test, args=(source, said, environment, defect.killers))
        tests.start()
        tests.join(PATIENCE)
        code = tests.exitcode
        assert tests.pid is not None
        with contextlib.suppress(ProcessLookupError):
            os.killpg(tests.pid, signal.SIGKILL)  # what they left behind, and where they did not end they themselves
        tests.join()
    finally:
        SERVERS.put(server)
    if code is None:
        return FAILED_TESTS, "the tests did not end"
    return code - RAN, said.read_text("utf-8", "replace")[-1500:]


def _test(source: Path, said: Path, environment: dict[str, str], killers: tuple[str, ...]) -> None:
    """In the fork: as a new interpreter would with the copy before all else on its path."""
    os.setpgid(0, 0)
    with said.open("wb") as file:
        os.dup2(file.fileno(), 1)
        os.dup2(file.fileno(), 2)
    os.chdir(ROOT)
    os.environ.update(environment, PYTHONPATH=str(source), PYTHONDONTWRITEBYTECODE="1")
    sys.dont_write_bytecode = True
    sys.path[:0] = [str(source), str(ROOT)]
    import pytest

    import onward

    if not str(onward.__file__).startswith(str(source)):
        raise SystemExit(f"the tests would import {onward.__file__}, not the copy with the defect")
    words = ["-x", "-q", "-p", "no:cacheprovider", "--tb=line", "-W", "ignore::pytest.PytestAssertRewriteWarning"]
    code = int(pytest.main([*words, *killers]))
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(RAN + code)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", metavar="NAME", choices=[defect.name for defect in DEFECTS])
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--workers", type=int, default=3)
    options = parser.parse_args()
    chosen = [defect for defect in DEFECTS if options.only is None or defect.name in options.only]
    if options.list:
        print("\n".join(f"{defect.name:28} {defect.breaks}" for defect in chosen))
        return 0
    began = time.monotonic()
    FORKED.set_forkserver_preload(list(IMPORTED_BEFORE))
    with contextlib.ExitStack() as stack, ThreadPoolExecutor(options.workers) as pool:
        for _ in range(options.workers):
            SERVERS.put(stack.enter_context(_server()))
        verdicts = list(pool.map(_tried_and_told, chosen))
    survived = [verdict for verdict in verdicts if not verdict.killed]
    print(f"{len(verdicts) - len(survived)} of {len(verdicts)} defects caught, {time.monotonic() - began:.0f} s")
    for verdict in survived:
        print(f"\n{verdict.defect.name} survived: {verdict.defect.breaks}\n{verdict.said}")
    return 1 if survived else 0


@contextlib.contextmanager
def _server() -> Iterator[str]:
    """The address of one for tests; none where there is none, or where the environment names one."""
    if "ONWARD_TEST_POSTGRES" in os.environ:
        yield ""
        return
    with contextlib.ExitStack() as stack:
        try:
            url = stack.enter_context(postgres.database())
        except postgres.NoServer:
            url = ""
        yield url


def _tried_and_told(defect: Defect) -> Verdict:
    verdict = try_defect(defect)
    state = "caught" if verdict.killed else "SURVIVED"
    print(f"{state:9} {verdict.seconds:5.1f} s  {defect.name:28} {defect.breaks}", flush=True)
    return verdict


if __name__ == "__main__":
    sys.exit(main())
