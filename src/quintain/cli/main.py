"""`quintain`: the commands, and how errors end them."""

import sys

import typer

from quintain import __version__
from quintain.cli import (
    demo,
    doctor,
    episode,
    importing,
    init,
    package,
    prepare,
    replay,
    reverify,
    run,
    scenarios,
    serve,
    store,
    tasks,
    validate,
)
from quintain.contracts.untrusted import printable
from quintain.errors import QuintainError

app = typer.Typer(
    name="quintain",
    help="Resettable, isolated, verifiable episodes for training tool-using language models.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
)
app.command("serve")(serve.serve)
app.command("demo")(demo.demo)
app.command("init")(init.init)
app.command("package")(package.package)
app.command("doctor")(doctor.doctor)
app.command("prepare")(prepare.prepare)
app.command("episode")(episode.episode)
app.command("run")(run.run)
app.command("replay")(replay.replay)
app.command("reverify")(reverify.reverify)
app.command("validate")(validate.validate_command)
app.add_typer(importing.app, name="import")
app.add_typer(scenarios.app, name="scenarios")
app.add_typer(store.app, name="store")
app.add_typer(tasks.app, name="tasks")


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
