"""The reference and the command line name the same commands, and a command's help begins with one line."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from onward.cli.flags import COMMANDS

ROOT = Path(__file__).parents[2]
PAGES = "\n".join((ROOT / name).read_text("utf-8") for name in ("docs/reference.md", "README.md"))
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
