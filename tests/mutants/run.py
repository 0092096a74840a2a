"""Plants each defect into a copy of the source and runs the tests that have to notice it.

    python tests/mutants/run.py [--only NAME …] [--list] [--workers 2]

A defect that survives its tests, or whose text is no longer there, makes this fail.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from mutants.defect import Defect
from mutants.defects import DEFECTS

ROOT = Path(__file__).resolve().parents[2]
PATIENCE = 180
FAILED_TESTS = 1
"""pytest's exit code when tests ran and some failed; anything else proves nothing."""


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
    environment = {**os.environ, **dict(defect.environment), "PYTHONPATH": str(source), "PYTHONDONTWRITEBYTECODE": "1"}
    imported = [sys.executable, "-c", "import onward; print(onward.__file__)"]
    found = subprocess.run(imported, cwd=ROOT, env=environment, capture_output=True, text=True, check=False).stdout
    if not found.startswith(str(source)):
        return 0, f"the tests would import {found.strip()}, not the copy with the defect"
    command = [sys.executable, "-m", "pytest", "-x", "-q", "-p", "no:cacheprovider", "--tb=line", *defect.killers]
    try:
        ended = subprocess.run(
            command, cwd=ROOT, env=environment, capture_output=True, text=True, timeout=PATIENCE, check=False
        )
    except subprocess.TimeoutExpired:
        return FAILED_TESTS, "the tests did not end"
    return ended.returncode, (ended.stdout + ended.stderr)[-1500:]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", nargs="+", metavar="NAME", choices=[defect.name for defect in DEFECTS])
    parser.add_argument("--list", action="store_true")
    parser.add_argument("--workers", type=int, default=2)
    options = parser.parse_args()
    chosen = [defect for defect in DEFECTS if options.only is None or defect.name in options.only]
    if options.list:
        print("\n".join(f"{defect.name:28} {defect.breaks}" for defect in chosen))
        return 0
    began = time.monotonic()
    with ThreadPoolExecutor(options.workers) as pool:
        verdicts = list(pool.map(_tried_and_told, chosen))
    survived = [verdict for verdict in verdicts if not verdict.killed]
    print(f"{len(verdicts) - len(survived)} of {len(verdicts)} defects caught, {time.monotonic() - began:.0f} s")
    for verdict in survived:
        print(f"\n{verdict.defect.name} survived: {verdict.defect.breaks}\n{verdict.said}")
    return 1 if survived else 0


def _tried_and_told(defect: Defect) -> Verdict:
    verdict = try_defect(defect)
    state = "caught" if verdict.killed else "SURVIVED"
    print(f"{state:9} {verdict.seconds:5.1f} s  {defect.name:28} {defect.breaks}", flush=True)
    return verdict


if __name__ == "__main__":
    sys.exit(main())
