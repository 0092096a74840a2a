"""Command lines are read twice: quickly where they are right, by typer where they are not. Both must agree."""

from __future__ import annotations

import inspect
from importlib import import_module
from typing import Any, get_type_hints

import pytest

from onward.cli import direct, main, parser
from onward.cli.flags import COMMANDS, RunFlags, age, count, one_of, seconds
from onward.cli.prompt import PromptFlags
from onward.cli.target import About

RIGHT: list[tuple[str, dict[str, str]]] = [
    ("run job.py", {}),
    ("run job.py --limit 5 --concurrency=7 --max-failures 5% --max-time 1h30m --wait 0 --grace=2.5", {}),
    ("run --json --source-changed --no-create --debug job.py --log-format json", {}),
    ("run job.py -p day=1 --param size=2 -p text=a=b --store x.db --instance today", {}),
    ("run job.py --limit 1 --limit 2", {}),
    ("run -- job.py", {}),
    ("run job.py --store postgresql://db/work --on ray://head:10001?num_cpus=2 --workers 8", {"ONWARD_WORKERS": "4"}),
    ("run", {}),
    ("run job.py", {"ONWARD_LIMIT": "3", "ONWARD_PARAM": "a=1 b=2", "ONWARD_JSON": "yes", "ONWARD_DEBUG": "0"}),
    ("run job.py --limit 9 -p c=3", {"ONWARD_LIMIT": "3", "ONWARD_PARAM": "a=1", "ONWARD_WAIT": "5m"}),
    ("prompt in.csv --key a --key b --template t.txt --model m --max-output-tokens 9 --budget $2 --api chat", {}),
    ("prompt in.csv --template t.txt --model m --temperature 0 --dedupe", {"ONWARD_KEY": "a b", "ONWARD_OUT": "o.csv"}),
    ("status job.py --json", {}),
    ("status --job case --store s.db", {}),
    ("instances job.py", {"ONWARD_STORE": "s.db"}),
    ("failures job.py --kind bug --state failed", {}),
    ("show job.py 7", {}),
    ("show job.py -- -7", {}),
    ("key job.py ACME-1 2024 --effect annual-report --json", {}),
    ("log job.py --json --since 2h --payloads", {"ONWARD_VERIFY": "1"}),
    ("log --store s.db --expect abc --verify", {}),
    ("retry job.py a b --from - --dry-run", {}),
    ("release job.py --all --step call --stale", {}),
    ("rerun job.py --step call", {"ONWARD_STEP": "other"}),
    ("export job.py --out - --format csv --flat --generation all --state failed", {}),
    ("drain job.py --run 7 --reason deploy", {}),
    ("concurrency job.py 8 --instance today", {}),
    ("concurrency job.py default", {"ONWARD_REASON": "done"}),
    ("concurrency --store s.db --job case", {}),
    ("vacuum job.py --older-than 30d --dry-run --json", {}),
    ("vacuum --store s.db --job case", {"ONWARD_OLDER_THAN": "1h30m"}),
    ("export job.py", {"ONWARD_OUT": "o.jsonl"}),
]
WRONG = [
    "",
    "walk job.py",
    "run job.py other.py",
    "run job.py --limit",
    "run job.py --limit 0",
    "run job.py --limit x",
    "run job.py --limit --json",
    "run job.py --json=1",
    "run job.py --lim 3",
    "run job.py --wait 5x",
    "run job.py --log-format xml",
    "run job.py -x",
    "vacuum job.py",
    "vacuum job.py --older-than old",
    "vacuum job.py --older-than 30",
    "reconcile job.py 7 --sent",
    "copy job.py",
    "prompt in.csv --template t.txt --model m",
    "prompt in.csv other.csv --key id --template t.txt --model m",
    "run --help",
    "--help",
    "--version",
]


def plain(call: direct.Call | int | None) -> Any:
    """What a call says; an empty list is as good as none."""
    assert isinstance(call, direct.Call)
    return call.command.name, {name: value or None for name, value in call.arguments.items() if name != "wait"}


@pytest.mark.parametrize("words, environment", RIGHT)
def test_both_readers_agree(words: str, environment: dict[str, str], monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    quick = direct.read(words.split(), environment)
    assert plain(quick) == plain(parser.read(words.split()))


@pytest.mark.parametrize("words", WRONG)
def test_the_quick_reader_leaves_alone_what_has_to_be_explained(words: str) -> None:
    assert direct.read(words.split(), {}) is None


def test_a_wrong_variable_is_left_to_be_explained() -> None:
    assert direct.read(["run", "job.py"], {"ONWARD_LIMIT": "few"}) is None
    assert direct.read(["run", "job.py"], {"ONWARD_JSON": "perhaps"}) is None
    assert direct.read(["run", "job.py"], {"ONWARD_STORE": ""}) is None


@pytest.mark.parametrize("name", COMMANDS)
def test_every_flag_reaches_its_command(name: str) -> None:
    """The table and the functions cannot drift apart."""
    command = COMMANDS[name]
    module, function = command.home.split(":")
    parameters = set(inspect.signature(getattr(import_module(f"onward.cli.{module}"), function)).parameters)
    given = {flag.into for flag in command.flags} - {"debug"} | {command.single or "words"}
    if "about" in parameters:
        parameters = parameters - {"about"} | set(About.__annotations__)
    if "flags" in parameters:
        flags = PromptFlags if name == "prompt" else RunFlags
        parameters = parameters - {"flags"} | set(get_type_hints(flags))
    if "rest" not in parameters:
        assert given == parameters


def test_variables_are_named_after_their_flags() -> None:
    for command in COMMANDS.values():
        for flag in command.flags:
            assert flag.variable == "ONWARD_" + flag.name[2:].upper().replace("-", "_")


@pytest.mark.parametrize(
    "given, meant",
    [
        ("55m", 3300),
        ("60s", 60),
        ("1h30m", 5400),
        ("90", 90),
        ("1.5h", 5400),
        ("0", 0),
        ("250ms", 0.25),
        ("1H 5M", 3900),
    ],
)
def test_durations(given: str, meant: float) -> None:
    assert seconds(given) == meant


@pytest.mark.parametrize("given", ["", "soon", "5x", "m5", "-3", "1h30", "5m!", "nan", "inf"])
def test_what_is_no_duration(given: str) -> None:
    with pytest.raises(ValueError, match="write 30d, 12h"):
        seconds(given)


def test_what_is_to_be_removed_is_not_told_by_a_number_alone() -> None:
    assert (age("30d"), age("90m"), age("0s")) == (30 * 86400, 5400, 0)
    for given in ("30", " 0", "1.5"):
        with pytest.raises(ValueError, match="has no unit; write 30d"):
            age(given)


@pytest.mark.parametrize("words", ["reconcile job.py 7 --sent", "run job.py --limit", "vacuum job.py --older-than"])
def test_a_flag_without_its_value_points_to_the_help_of_its_command(
    words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main.call(words.split()) == 2
    assert f"(try: onward {words.split()[0]} --help)" in capsys.readouterr().err


def test_counts_and_choices() -> None:
    assert count("12") == 12
    for wrong in ("0", "-1", "1.5", "x", ""):
        with pytest.raises(ValueError):
            count(wrong)
    assert one_of("a", "b")("a") == "a"
    with pytest.raises(ValueError, match="a, b"):
        one_of("a", "b")("c")
