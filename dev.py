#!/usr/bin/env python3
"""Everything a fresh machine needs, with nothing but git and Python 3.11 or newer.

    python3 dev.py example      install onward and run the companies example to an exported file
    python3 dev.py test         install what the tests need and run every check and test
    python3 dev.py test --only PART [PART …]
    python3 dev.py parts        list the parts of `test`
    python3 dev.py bench        measure the benchmark table, beside its references (words behind `--` go to the script)

Each command works in a virtual environment of its own below `build/`. Where it may (root and apt), `test` installs the
system tools that some tests need; elsewhere those tests say what they skipped and why.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import time
import venv
from pathlib import Path

ROOT = Path(__file__).resolve().parent
OLDEST = (3, 11)
NEWEST_FOR_EXAMPLE = (3, 14)

# More than there are processors: many a test waits.
SIDE_BY_SIDE = ["pytest", "-rs", "-n", "4", "--dist", "loadfile", "--no-loadscope-reorder"]
PARTS: dict[str, list[str]] = {
    "format": ["ruff", "format", "--check", "."],
    "lint": ["ruff", "check", "."],
    "types": ["mypy"],
    "typing": ["mypy", "--strict", "tests/typing"],
    "walls": ["lint-imports"],
    "unit": [*SIDE_BY_SIDE, "tests/unit", "tests/contract"],
    "simulation": [*SIDE_BY_SIDE, "tests/simulation"],
    "acceptance": [*SIDE_BY_SIDE, "tests/acceptance"],
    "torture": ["pytest", "-rs", "tests/torture"],
    "mutants": ["python", "tests/mutants/run.py"],
}


def main() -> int:
    if sys.version_info < OLDEST:
        print(f"onward needs Python {OLDEST[0]}.{OLDEST[1]} or newer, this is {sys.version.split()[0]}")
        return 2
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("command", choices=["example", "test", "parts", "bench"])
    parser.add_argument("--fresh", action="store_true", help="remake the virtual environment first")
    parser.add_argument("--only", nargs="+", choices=list(PARTS), metavar="PART", help="some parts of `test`")
    parser.add_argument("words", nargs="*", help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.command == "parts":
        print("\n".join(f"{name:12} {' '.join(command)}" for name, command in PARTS.items()))
        return 0
    if given.command == "example":
        return example(given.fresh)
    if given.command == "bench":
        python = environment("bench", [".[parquet]", "dbos"], given.fresh)
        return subprocess.run([str(python), "benchmarks/run.py", *given.words], cwd=ROOT, check=False).returncode
    return test(given.fresh, given.only or list(PARTS))


RUN_AND_EXPORT = """
import sys
from onward.cli.main import call
job, out = sys.argv[1:]
sys.exit(call(["run", job]) or call(["export", job, "--out", out, "--flat", "--step", "classify"]))
"""


def example(fresh: bool) -> int:
    """The main job on real data, in this very process: kill it whenever you like and call again."""
    if sys.version_info >= NEWEST_FOR_EXAMPLE:
        print("the example's embedding model is packaged for Python up to 3.13; start this with such a Python")
        return 2
    folder = ROOT / "examples" / "companies"
    python = environment("example", [".", "-r", str(folder / "requirements.txt")], fresh)
    command = [str(python), "-c", RUN_AND_EXPORT, str(folder / "job.py"), str(ROOT / "sectors.csv")]
    if os.name == "nt":
        return subprocess.run(command, check=False).returncode
    sys.stdout.flush()
    return os.execv(command[0], command)


def test(fresh: bool, parts: list[str]) -> int:
    """Run the parts one after the other; all of them, also after one has failed."""
    started = time.monotonic()
    system_tools()
    python = environment("test", ["-e", ".[parquet]", *development()], fresh)
    # Thousands of processes begin with it, and where nobody may write bytecode each of them would compile it anew.
    subprocess.run([str(python), "-m", "compileall", "-q", "src", "tests"], cwd=ROOT, check=False)
    took = {"install": time.monotonic() - started}
    failed = []
    for name in parts:
        began = time.monotonic()
        print(f"\n=== {name}", flush=True)
        if subprocess.run(command_of(name, python), cwd=ROOT, env=surroundings(python), check=False).returncode:
            failed.append(name)
        took[name] = time.monotonic() - began
    print("\n" + "\n".join(f"{name:12} {seconds:7.1f} s" for name, seconds in took.items()))
    print(f"{'in all':12} {time.monotonic() - started:7.1f} s")
    passed = len(parts) - len(failed)
    print(f"failed: {', '.join(failed)}" if failed else "every part passed")
    print(f"parts: {passed} passed, {len(failed)} failed")
    return 1 if failed else 0


def command_of(name: str, python: Path) -> list[str]:
    program, *arguments = PARTS[name]
    if program == "python":
        return [str(python), *arguments]
    return [str(python.with_name(program + python.suffix)), *arguments]


def surroundings(python: Path) -> dict[str, str]:
    """The environment of the parts: the virtual one first, and no settings of the caller's onward."""
    kept = {name: value for name, value in os.environ.items() if not name.startswith("ONWARD_")}
    kept.update(PATH=f"{python.parent}{os.pathsep}{kept['PATH']}", VIRTUAL_ENV=str(python.parent.parent))
    kept.pop("PYTHONPATH", None)
    return kept


def environment(name: str, wanted: list[str], fresh: bool) -> Path:
    """The interpreter of a virtual environment in which `wanted` is installed."""
    folder = ROOT / "build" / f"env-{name}"
    if fresh and folder.exists():
        shutil.rmtree(folder)
    python = folder / ("Scripts/python.exe" if os.name == "nt" else "bin/python")
    if not python.exists():
        print(f"making {folder.relative_to(ROOT)} (a minute or two, once)", flush=True)
        venv.create(folder, with_pip=True)
    pip = [str(python), "-m", "pip", "install", "-qq", "--disable-pip-version-check"]
    if subprocess.run([*pip, *wanted], cwd=ROOT, check=False).returncode:
        raise SystemExit("installing failed: see above; is a package index within reach?")
    return python


def development() -> list[str]:
    import tomllib

    groups = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["dependency-groups"]
    return list(groups["dev"])


SYSTEM_TOOLS = {
    "strace": "kills at a system call, and power cuts",
    "pgbouncer": "PostgreSQL by way of a pooler",
    "openssl": "PostgreSQL over TLS",
}


def system_tools() -> None:
    """Programs that some tests need; what they are for is above."""
    missing = [name for name in SYSTEM_TOOLS if not shutil.which(name)]
    if not missing or not shutil.which("apt-get") or not hasattr(os, "geteuid") or os.geteuid() != 0:
        return
    # Services that come with them are not started: tests start their own.
    settings = {**os.environ, "DEBIAN_FRONTEND": "noninteractive", "RUNLEVEL": "1"}
    install = ["apt-get", "install", "-y", "-qq", "--no-install-recommends", *missing]
    for command in (["apt-get", "update", "-qq"], install):
        subprocess.run(command, check=False, stdout=subprocess.DEVNULL, env=settings)


if __name__ == "__main__":
    sys.exit(main())
