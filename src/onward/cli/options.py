"""Flags that several commands share, and how their texts are read."""

from __future__ import annotations

import re
from typing import Annotated, Any

import typer

from onward.cli import errors

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0}
_PART = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h|d)")


def seconds(text: str) -> float:
    """`55m`, `60s`, `1h30m`, `1.5h`, or plain seconds. Raises the parser's usage error."""
    plain = str(text).strip().lower()
    if re.fullmatch(r"\d+(\.\d+)?", plain):
        return float(plain)
    parts = _PART.findall(plain)
    if not parts or _PART.sub("", plain).strip():
        raise typer.BadParameter(f"{text!r} is not a duration; write 55m, 90s, 1h30m or plain seconds")
    return sum(float(number) * _UNITS[unit] for number, unit in parts)


JobWord = Annotated[
    str | None,
    typer.Argument(metavar="JOB", help="path/to/job.py[:name] or package.module:name", show_default=False),
]
Words = Annotated[
    list[str] | None,
    typer.Argument(metavar="JOB [KEY]...", help="The job, and keys as text or JSON.", show_default=False),
]
Kind = Annotated[
    str | None,
    typer.Option(
        "--kind", metavar="KIND", envvar="ONWARD_KIND", help="Those whose failure was transient, rejected, invalid, …"
    ),
]
Store = Annotated[
    str | None,
    typer.Option(
        "--store",
        metavar="URL",
        envvar="ONWARD_STORE",
        help="Path or sqlite:///…; else .onward/ by the job.",
    ),
]
JobName = Annotated[
    str | None,
    typer.Option("--job", metavar="NAME", envvar="ONWARD_JOB", help="The job's name, with --store, instead of JOB."),
]
Instance = Annotated[
    str | None, typer.Option("--instance", metavar="NAME", envvar="ONWARD_INSTANCE", help="The instance's name.")
]
Params = Annotated[
    list[str] | None,
    typer.Option("--param", "-p", metavar="NAME=VALUE", envvar="ONWARD_PARAM", help="A param of the job; repeatable."),
]
Debug = Annotated[
    bool,
    typer.Option(
        "--debug",
        envvar="ONWARD_DEBUG",
        help="Show tracebacks.",
        is_eager=True,
        callback=errors.set_debug,
        show_default=False,
    ),
]
AsJson = Annotated[bool, typer.Option("--json", envvar="ONWARD_JSON", help="JSON for programs.", show_default=False)]


def seconds_option(name: str, variable: str, words: str, default: str | bool = False) -> Any:
    return typer.Option(name, metavar="TIME", envvar=variable, help=words, parser=seconds, show_default=default)
