"""`quintain`: the commands, each imported when it is asked for, and how errors end them."""

import sys
from importlib import import_module
from typing import Any, Final

import typer
from typer.core import TyperGroup

from quintain import __version__
from quintain.contracts.untrusted import printable
from quintain.errors import QuintainError

_COMMANDS: Final = {
    "serve": "serve:serve",
    "demo": "demo:demo",
    "init": "init:init",
    "package": "package:package",
    "doctor": "doctor:doctor",
    "prepare": "prepare:prepare",
    "episode": "episode:episode",
    "run": "run:run",
    "replay": "replay:replay",
    "reverify": "reverify:reverify",
    "validate": "validate:validate_command",
    "import": "importing:app",
    "scenarios": "scenarios:app",
    "store": "store:app",
    "tasks": "tasks:app",
}
"""Modules of this package by command, and what the command is in them: a function, or an application with its own."""


class _Commands(TyperGroup):
    """The commands. To import all of them takes a second, to import one a part of that."""

    def list_commands(self, ctx: Any) -> list[str]:
        """Their names, in the order in which the help tells them."""
        return [*_COMMANDS, *super().list_commands(ctx)]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        """A command, imported; None where there is none of that name."""
        if cmd_name not in _COMMANDS:
            return super().get_command(ctx, cmd_name)
        module, _, attribute = _COMMANDS[cmd_name].partition(":")
        found = getattr(import_module(f"quintain.cli.{module}"), attribute)
        if not isinstance(found, typer.Typer):
            made = typer.Typer(add_completion=False)
            made.command(cmd_name)(found)
            found = made
        command = typer.main.get_command(found)
        command.name = cmd_name
        return command


app = typer.Typer(
    name="quintain", cls=_Commands, no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False
)


@app.callback()
def _quintain() -> None:
    """Resettable, isolated, verifiable episodes for training tool-using language models."""


@app.command("version")
def version() -> None:
    """Print the version."""
    typer.echo(__version__)


def main() -> None:
    """Run a command. A mistake or a host's shortcoming is one line and exit 2; a bug shows its traceback."""
    try:
        app()
    except QuintainError as error:
        typer.echo(f"quintain: {printable(str(error))}", err=True)
        sys.exit(2)


if __name__ == "__main__":
    main()
