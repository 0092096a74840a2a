"""The reference, the command line and a job name the same things, and a command's help begins with one line."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest

from onward.cli.flags import COMMANDS
from onward.job.job import Job
from onward.model import Retry

ROOT = Path(__file__).parents[2]
REFERENCE = (ROOT / "docs/reference.md").read_text("utf-8")
PAGES = "\n".join((REFERENCE, (ROOT / "README.md").read_text("utf-8")))
NAMED = set(re.findall(r"\bonward ([a-z]+)\b(?= (?:JOB|INPUT))", PAGES))
OPERATING = ("drain", "concurrency", "vacuum", "pause", "resume")


@pytest.mark.parametrize("name", COMMANDS)
def test_every_command_is_in_the_reference(name: str) -> None:
    assert re.search(rf"`onward {name}\b", PAGES)


def test_the_reference_names_no_others() -> None:
    assert set(COMMANDS) >= NAMED


@pytest.mark.parametrize("name", OPERATING)
def test_what_acts_on_runs_at_work_is_told_with_all_its_flags(name: str) -> None:
    shared = {flag.name for flag in COMMANDS["status"].flags}
    for flag in COMMANDS[name].flags:
        assert flag.name in PAGES or flag.name in shared, flag.name


@pytest.mark.parametrize("name", COMMANDS)
def test_help_begins_with_one_line(name: str) -> None:
    first, *rest = COMMANDS[name].help.split("\n")
    assert first.rstrip().endswith(".")
    assert len(first) <= 120
    assert not rest or not rest[0]


# What a job can say.

DECLARED = {"Job": Job, "@job.step": Job.step, "@job.effect": Job.effect}


def shown(call: str) -> inspect.Signature:
    """The signature that the reference shows, its defaults as values."""
    block = re.search(rf"```python\n{re.escape(call)}(\(.*?\))\n```", REFERENCE, re.DOTALL)
    assert block is not None, call
    names = {"Retry": Retry}
    exec(f"def declared{block[1]}: ...", names)
    return inspect.signature(names["declared"])  # type: ignore[arg-type]


@pytest.mark.parametrize("call", DECLARED)
def test_the_reference_shows_every_argument_with_its_default(call: str) -> None:
    known = inspect.signature(DECLARED[call]).parameters  # type: ignore[arg-type]
    theirs = {name: one.default for name, one in known.items() if name not in ("self", "function")}
    ours = {name: one.default for name, one in shown(call).parameters.items()}
    assert ours == theirs


def test_every_argument_of_an_effect_is_explained() -> None:
    section = REFERENCE.split("\n## Effects\n")[1].split("\nThree functions")[0]
    rows = re.findall(r"^\| (`.*?) \|", section, re.MULTILINE)
    explained = [name for row in rows for name in re.findall(r"`(\w+)`", row)]
    assert sorted(explained) == sorted(shown("@job.effect").parameters)
