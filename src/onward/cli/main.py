"""The `onward` command. Every command imports what it needs when it is called: starting is quick."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Annotated, Any, NoReturn

import typer
from typer.main import get_command

from onward.cli import acts, errors, questions, streams
from onward.cli.export import export
from onward.cli.run import run

app = typer.Typer(
    name="onward",
    add_completion=False,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["--help", "-h"]},
)


def _version(wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

        streams.out(f"onward {version('onward')}")
        raise typer.Exit


@app.callback()
def onward(
    version: Annotated[
        bool, typer.Option("--version", help="Show the version.", callback=_version, is_eager=True, show_default=False)
    ] = False,
) -> None:
    """Write the loop body, kill it whenever you like, run it again."""


app.command("run")(run)
app.command("status")(questions.status)
app.command("instances")(questions.instances)
app.command("failures")(questions.failures)
app.command("show")(questions.show)
app.command("retry")(acts.retry)
app.command("release")(acts.release)
app.command("rerun")(acts.rerun)
app.command("export")(export)


def main(arguments: Sequence[str] | None = None) -> NoReturn:
    """Do what the command line says and end the process with its exit code."""
    streams.repair()
    code = call(list(sys.argv[1:] if arguments is None else arguments))
    streams.finish()
    sys.exit(code)


def call(arguments: list[str]) -> int:
    """The exit code of one command; whatever goes wrong is said in one line."""
    command: Any = get_command(app)
    try:
        returned = command.main(arguments, prog_name="onward", standalone_mode=False)
    except BaseException as error:
        return errors.report(error)
    return returned if isinstance(returned, int) else 0
