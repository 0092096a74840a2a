"""The typer application, made from the table of flags: it explains commands and says what is wrong with one."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Annotated, Any

import typer
from typer.main import get_command

from onward.cli import streams
from onward.cli.direct import Call
from onward.cli.flags import COMMANDS, Command, Flag

_JOB_HELP = "path/to/job.py[:name] or package.module:name"
_INPUT_HELP = "a .csv, .jsonl or .parquet file; .csv.gz, .jsonl.gz"


def read(words: list[str]) -> Call | int:
    """What the command line says, or the exit code where it only asked for help. Raises typer's errors."""
    calls: list[Call] = []
    application = _application(calls.append)
    try:
        returned: Any = get_command(application).main(words, prog_name="onward", standalone_mode=False)
    except OSError as error:
        raise streams.AnswerLost.by(error) from error
    except SystemExit:  # how rich takes it that nobody reads the help
        return 0
    if calls:
        return calls[0]
    return returned if isinstance(returned, int) else 0


def _application(call: Callable[[Call], None]) -> typer.Typer:
    application = typer.Typer(
        name="onward",
        add_completion=False,
        no_args_is_help=True,
        pretty_exceptions_enable=False,
        context_settings={"help_option_names": ["--help", "-h"]},
    )
    application.callback()(_onward)
    for command in COMMANDS.values():
        application.command(command.name, help=command.help)(_function(command, call))
    return application


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import PackageNotFoundError, version

        try:
            streams.out(f"onward {version('onward')}")
        except PackageNotFoundError:
            streams.out("onward, run from its source")
        raise typer.Exit


def _onward(
    version: Annotated[
        bool, typer.Option("--version", help="Show the version.", callback=_version, is_eager=True, show_default=False)
    ] = False,
) -> None:
    """Write the loop body, kill it whenever you like, run it again."""


def _function(command: Command, call: Callable[[Call], None]) -> Callable[..., None]:
    """A function with the signature that typer makes options from."""

    def called(**arguments: Any) -> None:
        call(Call(command, arguments))

    shown = _INPUT_HELP if command.single == "input" else _JOB_HELP
    word: Any = typer.Argument(metavar=command.words, help=shown, show_default=False)
    name, kind = ("words", list[str] | None) if command.single is None else (command.single, str | None)
    annotations: dict[str, Any] = {name: Annotated[kind, word]}
    defaults: dict[str, Any] = {name: None}
    for flag in command.flags:
        annotations[flag.into] = Annotated[_type(flag), _option(flag)]
        defaults[flag.into] = inspect.Parameter.empty if flag.required else (False if flag.is_switch else flag.default)
    called.__annotations__ = annotations
    called.__signature__ = inspect.Signature(  # type: ignore[attr-defined]
        [
            inspect.Parameter(name, inspect.Parameter.KEYWORD_ONLY, default=defaults[name], annotation=annotation)
            for name, annotation in annotations.items()
        ]
    )
    return called


def _type(flag: Flag) -> Any:
    if flag.is_switch:
        return bool
    if flag.many:
        return list[str] if flag.required else list[str] | None
    return str if flag.required else str | None


def _option(flag: Flag) -> Any:
    names = [name for name in (flag.name, flag.short) if name]
    if flag.is_switch:
        return typer.Option(*names, envvar=flag.variable, help=flag.help, show_default=False)
    shown: str | bool = flag.shown_default or False
    return typer.Option(
        *names, metavar=flag.metavar, envvar=flag.variable, help=flag.help, show_default=shown, parser=_reader(flag)
    )


def _reader(flag: Flag) -> Callable[[Any], Any]:
    def read(given: Any) -> Any:
        try:
            return flag.read(given) if isinstance(given, str) else given
        except ValueError as error:
            raise typer.BadParameter(str(error)) from None

    read.__name__ = flag.metavar
    return read
