"""`quintain init`: a pack to begin with, whose files say what is in them."""

import re
import shlex
from pathlib import Path
from typing import Annotated, Final

import typer

from quintain.errors import UsageError
from quintain.tasks import normalised
from quintain.tasks.packs.files import LEFT_OUT

TEMPLATES: Final = Path(__file__).parent / "templates" / "init"

KINDS: Final = ("mock", "simulator", "python", "database", "workspace", "mcp")
"""The kinds of environment that there is something to begin with of."""


def init(
    kind: Annotated[str, typer.Argument(help=f"Kind of the environment: {', '.join(KINDS)}.")],
    name: Annotated[str, typer.Argument(help="Name of the pack: lower-case letters, digits, - and _.")],
    into: Annotated[Path, typer.Option(help="Folder to make the pack's folder in.")] = Path(),
) -> None:
    """Make a pack with one environment and two tasks, to be changed into one of your own."""
    made = scaffold(kind, name, into)
    typer.echo(f"{made} has an environment of kind {kind} with two tasks; see whether they are sound:")
    typer.echo(f"quintain validate {shlex.quote(str(made))} --seeds 3")


def scaffold(kind: str, name: str, into: Path) -> Path:
    """Write the pack; its folder, which must not be there yet.

    Raises:
        UsageError: there is no such kind, the name is none, or the folder cannot be made.
    """
    if kind not in KINDS:
        raise UsageError(f"no kind is called {kind[:100]!r}; there are {', '.join(KINDS)}")
    if not re.fullmatch(r"[a-z][a-z0-9_-]{0,99}", name):
        raise UsageError(f"{name[:100]!r} is no name of a pack; take lower-case letters, digits, - and _")
    folder = into / name
    values = {"@NAME@": name, "@TITLE@": normalised(name).replace("_", " ").capitalize()}
    try:
        folder.mkdir(parents=True)
        _write(TEMPLATES / "pack.yaml", folder / "pack.yaml", values)
        for file in sorted((TEMPLATES / kind).rglob("*")):
            if file.is_file() and not LEFT_OUT.intersection(file.parts):
                _write(file, folder / normalised(name) / file.relative_to(TEMPLATES / kind), values)
    except FileExistsError:
        raise UsageError(f"{folder} is there already; take another name, or another folder with --into") from None
    except OSError as error:
        raise UsageError(f"{folder} cannot be written: {error.strerror or error}; name another with --into") from error
    return folder


def _write(template: Path, path: Path, values: dict[str, str]) -> None:
    text = template.read_text(encoding="utf-8")
    for mark, value in values.items():
        text = text.replace(mark, value)
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")
