"""A quick reader for command lines that are right. Whatever it does not understand it leaves to `parser`.

typer takes a fifth of a second to read one command line, which would be a third of what resuming a job takes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from onward.cli.flags import COMMANDS, Command, Flag

_YES = frozenset({"1", "true", "t", "yes", "y", "on"})
_NO = frozenset({"0", "false", "f", "no", "n", "off"})


class Call(NamedTuple):
    """A command and the arguments of its function."""

    command: Command
    arguments: dict[str, Any]


class NotUnderstood(Exception):
    """The other reader has to look at it, for help or to say what is wrong."""


def read(words: Sequence[str], environment: Mapping[str, str]) -> Call | None:
    """What the command line says; None where it needs to be explained."""
    command = COMMANDS.get(words[0]) if words else None
    if command is None:
        return None
    try:
        given, beside = _read_words(command, list(words[1:]))
        arguments = {flag.into: _value(flag, given, environment) for flag in command.flags}
    except (NotUnderstood, ValueError):
        return None
    if command.single is not None:
        if len(beside) > 1:
            return None
        return Call(command, arguments | {command.single: beside[0] if beside else None})
    return Call(command, arguments | {"words": beside})


def _read_words(command: Command, words: list[str]) -> tuple[dict[str, list[str]], list[str]]:
    """Values by flag, a switch having none; and the words beside the flags."""
    flags = {name: flag for flag in command.flags for name in (flag.name, flag.short) if name}
    given: dict[str, list[str]] = {}
    beside: list[str] = []
    rest = iter(words)
    for word in rest:
        if word == "--":
            beside.extend(rest)
        elif word == "-" or not word.startswith("-"):
            beside.append(word)
        else:
            name, equals, value = word.partition("=")
            flag = flags.get(name)
            if flag is None or (equals and (flag.is_switch or name == flag.short)):
                raise NotUnderstood
            values = given.setdefault(flag.name, [])
            if not flag.is_switch:
                values.append(value if equals else _next(rest))
    return given, beside


def _next(rest: Any) -> str:
    value: str | None = next(rest, None)
    if value is None or (value.startswith("-") and value != "-"):
        raise NotUnderstood
    return value


def _value(flag: Flag, given: Mapping[str, list[str]], environment: Mapping[str, str]) -> Any:
    """From the command line, else from the flag's variable, else the default. Raises ValueError."""
    if flag.name in given:
        if flag.is_switch:
            return True
        values = [flag.read(value) for value in given[flag.name]]
        return values if flag.many else values[-1]
    variable = environment.get(flag.variable)
    if variable is None:
        if flag.required:
            raise NotUnderstood
        return False if flag.is_switch else flag.default
    if flag.is_switch:
        if variable.lower() not in _YES | _NO:
            raise NotUnderstood
        return variable.lower() in _YES
    if not variable:
        raise NotUnderstood
    return [flag.read(value) for value in variable.split()] if flag.many else flag.read(variable)
