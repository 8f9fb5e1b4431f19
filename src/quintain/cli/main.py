"""`quintain`: the commands, each imported when it is asked for, and how errors end them."""

import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from typing import Annotated, Any, Final

from quintain import __version__
from quintain.cli import INTERRUPTED
from quintain.errors import QuintainError

_INTERRUPTED: Final = "quintain: interrupted"

try:
    import typer
    from typer.core import TyperGroup
except KeyboardInterrupt:  # the one import that takes long enough for Ctrl-C, before there is anything to catch it in
    print(_INTERRUPTED, file=sys.stderr)
    sys.exit(INTERRUPTED)

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


_Misused: Final[type[Any]] = typer.BadParameter.__mro__[2]
"""What Typer raises when a command is not used as it is meant to be; it exports only what is derived of it."""


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
        with _ending_at_once():
            found = getattr(import_module(f"quintain.cli.{module}"), attribute)
        if not isinstance(found, typer.Typer):
            made = typer.Typer(add_completion=False)
            made.command(cmd_name)(found)
            found = made
        command = typer.main.get_command(found)
        command.name = cmd_name
        return command

    def make_context(self, *given: Any, **options: Any) -> Any:
        """Read the arguments that come before a command, until Ctrl-C."""
        with _interruptible():
            return super().make_context(*given, **options)

    def invoke(self, ctx: Any) -> Any:
        """Import a command and run it, until Ctrl-C."""
        with _interruptible():
            return super().invoke(ctx)


app = typer.Typer(
    name="quintain", cls=_Commands, no_args_is_help=True, add_completion=False, pretty_exceptions_enable=False
)


def _print_version(asked: bool) -> None:
    if asked:
        version()
        raise typer.Exit


@app.callback()
def _quintain(
    _: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Resettable, isolated, verifiable episodes for training tool-using language models."""


@app.command("version")
def version() -> None:
    """Print the version."""
    typer.echo(__version__)


def main() -> None:
    """Run a command. A mistake or a host's shortcoming is one line and exit 2; a bug shows its traceback."""
    try:
        status = app(prog_name="quintain", standalone_mode=False)
    except QuintainError as error:
        _tell(str(error))
        status = 2
    except _Misused as error:
        _tell(_misuse(error))
        status = error.exit_code
    except (KeyboardInterrupt, typer.Abort):
        typer.echo(_INTERRUPTED, err=True)
        status = INTERRUPTED
    sys.exit(status)


def _misuse(error: Any) -> str:
    """What was wrong with a command's arguments, on one line; empty where Typer has shown the help in its place."""
    said = " ".join(error.format_message().split()).replace("Value error, ", "").removesuffix(".")
    context = getattr(error, "ctx", None)
    if not said or context is None:
        return said
    return f"{said[:1].lower()}{said[1:]}; see `{context.command_path} --help`"


@contextmanager
def _ending_at_once() -> Iterator[None]:
    """While modules are imported Ctrl-C ends the process itself: an exception can be lost in what imports call back."""
    if signal.getsignal(signal.SIGINT) is not signal.default_int_handler:
        yield
        return
    signal.signal(signal.SIGINT, _end)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, signal.default_int_handler)


def _end(*_: object) -> None:
    os.write(2, f"{_INTERRUPTED}\n".encode())
    os._exit(INTERRUPTED)


@contextmanager
def _interruptible() -> Iterator[None]:
    """Ctrl-C, of which Typer would say nothing, is told and is the command's end."""
    try:
        yield
    except KeyboardInterrupt:
        typer.echo(_INTERRUPTED, err=True)
        raise typer.Exit(INTERRUPTED) from None


def _tell(what: str) -> None:
    """One line on standard error, unless there is nothing to say."""
    if what:
        from quintain.contracts.untrusted import printable  # importing it takes longer than all of this module

        typer.echo(f"quintain: {printable(what)}", err=True)


if __name__ == "__main__":
    main()
